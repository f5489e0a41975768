import { beforeEach, describe, expect, test, vi } from "vitest";

vi.stubGlobal("location", { origin: "http://gw.test", pathname: "/logs", search: "?project=shop&period=week", href: "http://gw.test/logs" });
vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => undefined, removeItem: () => undefined });
vi.stubGlobal("addEventListener", () => undefined);

const { ApiError, failure, get, path, send, url } = await import("../src/lib/api");
const { session } = await import("../src/lib/session.svelte");
const { scope } = await import("../src/lib/scope.svelte");
const { csv } = await import("../src/lib/save");
const { rates } = await import("../src/lib/prices");
const { matches, sorted } = await import("../src/lib/table.svelte");
const { asCurl, quoted } = await import("../src/lib/snippets");
const { PAGES, pageAt } = await import("../src/lib/pages");

describe("addresses", () => {
  test("url leaves empty fields out and escapes the others", () => {
    expect(url("/v1/logs", { project: "a b&c", before: "", limit: 0, model: null })).toBe("/v1/logs?project=a+b%26c&limit=0");
    expect(url("/v1/logs")).toBe("/v1/logs");
  });

  test("path keeps an id in one segment", () => {
    expect(path`/v1/providers/${"a/../b?"}`).toBe("/v1/providers/a%2F..%2Fb%3F");
  });

  test("a link carries project and period", () => {
    expect(scope.link("/costs", { model: "sim/echo", empty: "" })).toBe("/costs?project=shop&period=week&model=sim%2Fecho");
  });

  test("every page is found at its own path", () => {
    for (const page of PAGES) expect(pageAt(page.path)).toBe(page);
    expect(pageAt("/turns/abc")?.path).toBe("/turns");
    expect(pageAt("/nowhere")).toBeUndefined();
  });
});

describe("calls of the API", () => {
  const answer = (status: number, body: string) => vi.stubGlobal("fetch", async () => new Response(body, { status, statusText: "No" }));

  beforeEach(() => {
    session.missing = false;
  });

  test("an error carries status, code, message and parameter", async () => {
    answer(422, '{"error":{"code":"invalid_request","message":"limit must be a number","param":"limit"}}');
    const error = await get("/v1/logs").catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 422, code: "invalid_request", param: "limit", message: "limit must be a number" });
  });

  test("an error page of a proxy is reported by its status", async () => {
    expect(await failure(new Response("<html>", { status: 502, statusText: "Bad Gateway" }))).toMatchObject({ status: 502, message: "HTTP 502 Bad Gateway" });
  });

  test("401 asks for a login, except at the login itself", async () => {
    answer(401, "{}");
    await get("/api/login").catch(() => undefined);
    expect(session.missing).toBe(false);
    await get("/v1/costs").catch(() => undefined);
    expect(session.missing).toBe(true);
  });

  test("a body is sent as JSON", async () => {
    const calls: RequestInit[] = [];
    vi.stubGlobal("fetch", async (_: string, init: RequestInit) => {
      calls.push(init);
      return new Response('{"updated":true}');
    });
    expect(await send("PATCH", "/v1/projects/shop", { name: "Shop" })).toEqual({ updated: true });
    expect(calls).toEqual([{ method: "PATCH", credentials: "same-origin", body: '{"name":"Shop"}', headers: { "content-type": "application/json" } }]);
  });

  test("a gateway that does not answer is named", async () => {
    vi.stubGlobal("fetch", async () => Promise.reject(new TypeError("Failed to fetch")));
    await expect(get("/v1/costs")).rejects.toMatchObject({ status: 0, code: "unreachable" });
  });
});

test("csv quotes separators and defuses formulas", () => {
  const rows = [
    ["model", 'say "hi"', "=1+1"],
    [1.5, null, "-x"],
  ];
  expect(csv(rows)).toBe('model,"say ""hi""",\'=1+1\r\n1.5,,\'-x\r\n');
});

test.each([
  [{ free: true, wildcard: false, modality: "llm", rates: {} }, "free"],
  [{ free: false, wildcard: false, modality: "stt", rates: { audio_seconds: 71.6667 } }, "$0.0043/min"],
  [{ free: false, wildcard: false, modality: "llm", rates: { input_tokens: 2.5, output_tokens: 10, audio_seconds: 1 } }, "$2.50/M in · $10.00/M out"],
  [{ free: false, wildcard: false, modality: "tts", rates: { characters: 30 } }, "$30.00/M chars"],
  [{ free: false, wildcard: false, modality: "tts", rates: {} }, "unknown"],
  [{ free: false, wildcard: true, modality: "tts", rates: {} }, "by name"],
] as const)("rates of %o are %s", (row, text) => expect(rates(row)).toBe(text));

describe("curl commands", () => {
  const record = {
    endpoint: "/v1/chat/completions",
    modality: "llm",
    requested_model: "",
    model_id: "sim/echo",
    project: "it's",
    session_id: "s",
    turn_id: null,
    stream: true,
  };

  test("quotes are safe for a shell", () => {
    expect(quoted("it's")).toBe("'it'\\''s'");
    expect(asCurl(record)).toContain("X-GW-Project: it'\\''s");
  });

  test("a chat and a transcription are repeated", () => {
    expect(asCurl(record)).toContain('"model":"sim/echo"');
    expect(asCurl(record)).toContain("-H 'X-GW-Session: s'");
    expect(asCurl({ ...record, modality: "stt", endpoint: "/v1/listen" })).toContain("http://gw.test/v1/audio/transcriptions");
  });
});

describe("tables", () => {
  const rows = [
    { id: "b2", cost: 3, tags: ["night"] },
    { id: "b10", cost: null, tags: [] },
    { id: "a", cost: 20, tags: ["day", "Shop"] },
  ];
  const values = { id: (row: (typeof rows)[number]) => row.id, cost: (row: (typeof rows)[number]) => row.cost };
  const order = (by: string): string[] => sorted(rows, values, by).map((row) => row.id);

  test("are in the order of a column, rows without a value last", () => {
    expect(order("cost")).toEqual(["b2", "a", "b10"]);
    expect(order("-cost")).toEqual(["a", "b2", "b10"]);
    expect(order("id")).toEqual(["a", "b2", "b10"]);
    expect(order("-id")).toEqual(["b10", "b2", "a"]);
    expect(order("unknown")).toEqual(["b2", "b10", "a"]);
  });

  test("are found by words of their texts and numbers", () => {
    expect(rows.filter((row) => matches(row, "SHOP 20")).map((row) => row.id)).toEqual(["a"]);
    expect(rows.filter((row) => matches(row, "")).length).toBe(3);
    expect(rows.filter((row) => matches(row, "tags")).length).toBe(0);
  });
});

describe("times", () => {
  test("are UTC, or local when the reader wants", async () => {
    const { bucket, clock, useLocalTime, zoneName } = await import("../src/lib/format");
    const at = 1_769_851_800;
    const offset = -new Date(at * 1_000).getTimezoneOffset() * 60;
    const utc = clock(at);
    useLocalTime(true);
    expect([clock(at - offset), zoneName()]).toEqual([utc, "local time"]);
    expect(bucket(at, "day")).toBe("01-31");
    useLocalTime(false);
    expect([clock(at), zoneName()]).toEqual(["09:30:00", "UTC"]);
  });
});
