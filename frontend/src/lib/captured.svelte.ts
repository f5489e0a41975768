// Captured words of a session, a turn or a request. Whoever loads them is in the gateway's audit log.
import { ApiError, errorText, get, path, type Shapes, url } from "./api";
import { Resource } from "./resource.svelte";

export type Captured = Shapes["CapturedRequest"];

/** Whether anything is captured at all. Construct during component initialization. */
export class CaptureStats {
  readonly #stats = new Resource<Shapes["CaptureStats"]>(() => "/v1/capture");

  get any(): boolean {
    return (this.#stats.data?.requests ?? 0) > 0;
  }
}

export class CapturedWords {
  requests = $state.raw<Captured[] | undefined>();
  more = $state(false);
  error = $state("");
  loading = $state(false);

  /** Load what was captured under the first of these ids, and of the others what is not in it. */
  async load(ids: string[], project = ""): Promise<void> {
    this.loading = true;
    this.error = "";
    const found = new Map<string, Captured>();
    this.more = false;
    try {
      for (const id of ids) {
        if (found.has(id)) continue;
        const part = await words(id, project);
        this.more ||= part?.more ?? false;
        for (const request of part?.requests ?? []) found.set(request.request_id, request);
      }
      this.requests = [...found.values()].sort((a, b) => a.timestamp - b.timestamp);
    } catch (error) {
      this.error = errorText(error);
    }
    this.loading = false;
  }
}

async function words(id: string, project: string): Promise<Shapes["CapturedSession"] | null> {
  try {
    return await get<Shapes["CapturedSession"]>(url(path`/v1/capture/${id}`, { project }));
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}
