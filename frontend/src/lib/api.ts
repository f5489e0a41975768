// Client of the gateway's API, typed from its OpenAPI document.

import { session } from "./session.svelte";

export type { Shapes } from "./types.gen";

export type Params = Record<string, string | number | boolean | null | undefined>;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly param: string | null = null,
    readonly facts: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

export function url(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** Encode each argument as one path segment, including ids with slashes. */
export function path(strings: TemplateStringsArray, ...ids: string[]): string {
  return String.raw({ raw: strings }, ...ids.map(encodeURIComponent));
}

export async function failure(response: Response): Promise<ApiError> {
  let body: Record<string, unknown> = {};
  try {
    body = ((await response.json()) as { error?: Record<string, unknown> }).error ?? {};
  } catch {
    // not the gateway's response, but for example that of a proxy in front of it
  }
  const own = (body.gw ?? body) as Record<string, unknown>; // voice requests fail in the words of a vendor, with ours in `gw`
  const message = typeof body.message === "string" ? body.message : `HTTP ${response.status} ${response.statusText}`;
  const param = typeof body.param === "string" ? body.param : null;
  return new ApiError(response.status, String(own.code ?? "http_error"), message, param, own);
}

async function call(method: string, target: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { method, credentials: "same-origin" };
  if (signal) init.signal = signal;
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  let response: Response;
  try {
    response = await fetch(target, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The gateway does not answer. Is it running?");
  }
  if (response.ok) return response;
  const error = await failure(response);
  if (response.status === 401 && !target.startsWith("/api/login")) session.missing = true;
  throw error;
}

export async function get<T>(target: string, signal?: AbortSignal): Promise<T> {
  return (await call("GET", target, undefined, signal)).json() as Promise<T>;
}

export async function send<T>(method: "POST" | "PUT" | "PATCH" | "DELETE", target: string, body?: unknown): Promise<T> {
  return (await call(method, target, body)).json() as Promise<T>;
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
