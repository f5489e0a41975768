export type Theme = "system" | "light" | "dark";
const KEY = "gw.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

class Look {
  theme = $state<Theme>(read());
  #system = $state(dark.matches);
  /** Theme in effect. Charts are redrawn when it changes. */
  dark = $derived(this.theme === "system" ? this.#system : this.theme === "dark");

  constructor() {
    dark.addEventListener("change", () => (this.#system = dark.matches));
    this.#apply();
  }

  set(theme: Theme): void {
    this.theme = theme;
    localStorage.setItem(KEY, theme);
    this.#apply();
  }

  next(): void {
    this.set(this.theme === "system" ? "light" : this.theme === "light" ? "dark" : "system");
  }

  #apply(): void {
    if (this.theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.theme;
  }
}

function read(): Theme {
  const found = localStorage.getItem(KEY);
  return found === "light" || found === "dark" ? found : "system";
}

export const look = new Look();

/** Resolve a CSS custom property to a color for a canvas, in the current theme. */
export function colour(name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
