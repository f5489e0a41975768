// The gateway's API: typed by its own OpenAPI document, errors as it tells them.
import type { components } from "./types.gen";
import { session } from "./session.svelte";

export type Shapes = components["schemas"];
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

/** A path segment per argument, so that ids with slashes and other signs stay one segment. */
export function path(strings: TemplateStringsArray, ...ids: string[]): string {
  return String.raw({ raw: strings }, ...ids.map(encodeURIComponent));
}

export async function failure(response: Response): Promise<ApiError> {
  let told: Record<string, unknown> = {};
  try {
    told = ((await response.json()) as { error?: Record<string, unknown> }).error ?? {};
  } catch {
    // an answer of somebody else's, such as a proxy before the gateway
  }
  const message = typeof told.message === "string" ? told.message : `HTTP ${response.status} ${response.statusText}`;
  const param = typeof told.param === "string" ? told.param : null;
  return new ApiError(response.status, String(told.code ?? "http_error"), message, param, told);
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

export function told(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
