// Saved views: a name for the filters, the period and the order of a page. They are kept in this browser.
export interface SavedView {
  name: string;
  path: string;
  /** Query of the URL, without the question mark. */
  query: string;
}

const KEY = "gw.views";
const MOST = 50;

function stored(): SavedView[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    if (!Array.isArray(found)) return [];
    return found.filter((one) => ["name", "path", "query"].every((field) => typeof one?.[field] === "string")) as SavedView[];
  } catch {
    return [];
  }
}

class Views {
  all = $state.raw<SavedView[]>(stored());

  /** Keep a view; one of the same page and name is replaced. */
  save(view: SavedView): void {
    this.#keep([view, ...this.all.filter((one) => one.path !== view.path || one.name !== view.name)].slice(0, MOST));
  }

  remove(view: SavedView): void {
    this.#keep(this.all.filter((one) => one !== view));
  }

  #keep(all: SavedView[]): void {
    this.all = all;
    localStorage.setItem(KEY, JSON.stringify(all));
  }
}

export const views = new Views();
