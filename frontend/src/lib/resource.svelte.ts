// A value loaded from the API, and loaded again when its URL changes. The previous value stays visible meanwhile.
import { errorText, get } from "./api";

export class Resource<T> {
  data = $state.raw<T | undefined>();
  error = $state("");
  loading = $state(true);
  #target: () => string;
  #running: AbortController | undefined;

  /** Construct during component initialization. An empty URL loads nothing. */
  constructor(target: () => string) {
    this.#target = target;
    $effect(() => {
      void this.#read(target());
      return () => this.#running?.abort();
    });
  }

  refresh = (): Promise<void> => this.#read(this.#target());

  async #read(target: string): Promise<void> {
    this.#running?.abort();
    const running = (this.#running = new AbortController());
    if (!target) {
      this.loading = false;
      this.data = undefined;
      return;
    }
    this.loading = true;
    try {
      const found = await get<T>(target, running.signal);
      if (running.signal.aborted) return;
      this.data = found;
      this.error = "";
    } catch (error) {
      if (running.signal.aborted) return;
      this.error = errorText(error);
    }
    this.loading = false;
  }
}

/** Call `what` every `ms` while the page is visible. Use during component initialization. */
export function every(ms: number, what: () => void): void {
  $effect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) what();
    }, ms);
    return () => clearInterval(timer);
  });
}
