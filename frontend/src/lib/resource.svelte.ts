// One thing read from the API, again whenever its address changes. What was read last stays on show meanwhile.
import { get, told } from "./api";

export class Resource<T> {
  data = $state.raw<T | undefined>();
  error = $state("");
  loading = $state(true);
  #target: () => string;
  #running: AbortController | undefined;

  /** To be made while a component is set up. An empty address reads nothing. */
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
      this.error = told(error);
    }
    this.loading = false;
  }
}

/** Call `what` every `ms` while the page is looked at. To be used while a component is set up. */
export function every(ms: number, what: () => void): void {
  $effect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) what();
    }, ms);
    return () => clearInterval(timer);
  });
}
