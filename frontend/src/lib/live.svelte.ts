// Client of `GET /api/live`: requests as they start and finish. One connection while a page listens.
import { get, type Shapes } from "./api";
import { session } from "./session.svelte";

export type LogRecord = Shapes["LogRecord"];

/** A provider call that started. A fallback sends another one with the same id and a higher attempt. */
export interface Started {
  id: string;
  attempt: number;
  timestamp: number;
  project: string;
  modality: LogRecord["modality"];
  model_id: string;
  requested_model: string;
  stream: boolean;
  session_id: string | null;
  turn_id: string | null;
  key_id: string | null;
  endpoint: string;
}

export interface Listener {
  running?: (requests: Started[]) => void;
  started?: (request: Started) => void;
  finished?: (record: LogRecord) => void;
}

export class Feed {
  /** "gone": the gateway does not answer. The browser goes on trying. */
  state = $state<"off" | "connecting" | "on" | "gone" | "lost">("off");
  /** Events the gateway dropped because this page did not read fast enough. */
  missed = $state(0);
  #source: EventSource | undefined;

  constructor(private readonly listener: Listener) {}

  open(): void {
    if (this.#source) return;
    this.state = "connecting";
    const source = (this.#source = new EventSource("/api/live"));
    source.onopen = () => (this.state = "on");
    source.onerror = () => {
      this.state = source.readyState === EventSource.CLOSED ? "lost" : "gone";
      if (this.state === "lost") void askWhetherLoggedIn();
    };
    const on = <T>(name: string, use: ((data: T) => void) | undefined): void =>
      source.addEventListener(name, (event) => use?.(JSON.parse((event as MessageEvent<string>).data) as T));
    on<{ requests: Started[] }>("running", (data) => this.listener.running?.(data.requests));
    on("started", this.listener.started);
    on("finished", this.listener.finished);
    on<{ missed: number }>("dropped", (data) => (this.missed += data.missed));
  }

  close(): void {
    this.#source?.close();
    this.#source = undefined;
    this.state = "off";
  }
}

/** EventSource does not report the status of a refused stream, so ask separately. */
async function askWhetherLoggedIn(): Promise<void> {
  try {
    session.missing = !(await get<Shapes["SessionState"]>("/api/session")).authenticated;
  } catch {
    // the gateway is unreachable: the page already shows that the stream is lost
  }
}
