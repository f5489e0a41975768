// Client of the data plane for the playground. The dashboard's session cookie is its credential.
import { failure, get, path, type Shapes } from "./api";
import { session } from "./session.svelte";

export interface Asker {
  project: string;
  session: string;
  turn: string;
}

export interface Step<T> {
  value: T;
  /** Milliseconds measured in the browser: to the first content, and in total. */
  first_ms: number;
  total_ms: number;
  request_id: string;
}

async function ask(who: Asker, target: string, body: BodyInit, json: boolean, signal: AbortSignal): Promise<Response> {
  // The gateway accepts the session cookie only together with this header, which a page of another site cannot send.
  const headers: Record<string, string> = { "X-GW-Dashboard": "1", "X-GW-Project": who.project, "X-GW-Session": who.session, "X-GW-Turn": who.turn };
  if (json) headers["Content-Type"] = "application/json";
  const response = await fetch(target, { method: "POST", headers, body, signal, credentials: "same-origin" });
  if (response.status === 401) session.missing = true;
  if (!response.ok) throw await failure(response);
  return response;
}

const idOf = (response: Response): string => response.headers.get("x-request-id") ?? "";

export async function transcribe(who: Asker, model: string, file: File, signal: AbortSignal): Promise<Step<string>> {
  const form = new FormData();
  form.set("model", model);
  form.set("file", file, file.name);
  const began = performance.now();
  const response = await ask(who, "/v1/audio/transcriptions", form, false, signal);
  const first = performance.now() - began;
  const { text } = (await response.json()) as { text: string };
  return { value: text, first_ms: first, total_ms: performance.now() - began, request_id: idOf(response) };
}

interface Chunk {
  choices?: { delta?: { content?: string | null } }[];
  error?: { message?: string };
}

/** Calls `grew` with the text received so far. */
export async function chat(who: Asker, model: string, system: string, said: string, grew: (text: string) => void, signal: AbortSignal): Promise<Step<string>> {
  const messages = [...(system ? [{ role: "system", content: system }] : []), { role: "user", content: said }];
  const began = performance.now();
  const response = await ask(who, "/v1/chat/completions", JSON.stringify({ model, messages, stream: true }), true, signal);
  let first = 0;
  let text = "";
  for await (const data of events(response.body!)) {
    if (data === "[DONE]") break;
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error) throw new Error(chunk.error.message ?? "the answer broke off");
    const piece = chunk.choices?.[0]?.delta?.content ?? "";
    if (!piece) continue;
    first ||= performance.now() - began;
    grew((text += piece));
  }
  return { value: text, first_ms: first, total_ms: performance.now() - began, request_id: idOf(response) };
}

async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let held = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    held += decoder.decode(value, { stream: true });
    const lines = held.split(/\r?\n/);
    held = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

export async function speak(who: Asker, model: string, voice: string, format: string, text: string, signal: AbortSignal): Promise<Step<Blob>> {
  const began = performance.now();
  const body = { model, input: text, response_format: format, ...(voice ? { voice } : {}) };
  const response = await ask(who, "/v1/audio/speech", JSON.stringify(body), true, signal);
  const reader = response.body!.getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let first = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    first ||= performance.now() - began;
    parts.push(value as Uint8Array<ArrayBuffer>);
  }
  const type = response.headers.get("content-type") ?? `audio/${format}`;
  return { value: new Blob(parts, { type }), first_ms: first, total_ms: performance.now() - began, request_id: idOf(response) };
}

/** Fetch the record of a step. Records are written after the response, so this retries; null when there is none. */
export async function recorded(id: string): Promise<Shapes["RequestDetail"] | null> {
  for (let attempt = 0; attempt < 4; attempt++) {
    try {
      return await get<Shapes["RequestDetail"]>(path`/v1/requests/${id}`);
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt));
    }
  }
  return null;
}
