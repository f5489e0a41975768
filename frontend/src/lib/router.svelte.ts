// Router on the history API. State that a link should carry is kept in the query.
class Router {
  path = $state(location.pathname);
  search = $state(location.search);
  query = $derived(new URLSearchParams(this.search));

  constructor() {
    addEventListener("popstate", () => this.#read());
  }

  #read(): void {
    this.path = location.pathname;
    this.search = location.search;
  }

  go(href: string, replace = false): void {
    const next = new URL(href, location.href);
    if (next.href !== location.href) history[replace ? "replaceState" : "pushState"](null, "", next);
    this.#read();
  }

  get(name: string): string {
    return this.query.get(name) ?? "";
  }

  /** Set query fields; an empty value removes one. */
  set(fields: Record<string, string>, replace = false): void {
    const query = new URLSearchParams(this.search);
    for (const [name, value] of Object.entries(fields)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    const text = query.toString();
    this.go(text ? `${this.path}?${text}` : this.path, replace);
  }

  /** Handle clicks on the app's own links, except those for another tab or a download. */
  click = (event: MouseEvent): void => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const anchor = (event.target as Element).closest("a");
    if (!anchor || anchor.origin !== location.origin || anchor.target || anchor.hasAttribute("download")) return;
    if (/^\/(api|v1)\//.test(anchor.pathname)) return;
    event.preventDefault();
    this.go(anchor.href);
    scrollTo(0, 0);
  };
}

export const router = new Router();
