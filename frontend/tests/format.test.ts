import { describe, expect, test } from "vitest";
import { ago, bucket, clock, count, day, moment, ms, NONE, percent, plural, span, units, usd } from "../src/lib/format";

describe("numbers", () => {
  test.each([
    [null, NONE],
    [0, "0"],
    [99_999, "99,999"],
    [1_250_000, "1.3M"],
  ])("count(%s) is %s", (value, text) => expect(count(value)).toBe(text));

  test.each([
    [undefined, NONE],
    [0, "$0.00"],
    [1_204.5, "$1,204.50"],
    [0.37, "$0.37"],
    [0.0042, "$0.0042"],
    [0.000012, "$0.000012"],
    [-2, "-$2.00"],
  ])("usd(%s) is %s", (value, text) => expect(usd(value)).toBe(text));

  test.each([
    [0.125, "0.13 ms"],
    [2.34, "2.3 ms"],
    [480.4, "480 ms"],
    [9_999.5, "10.0 s"],
    [180_000, "3.0 min"],
  ])("ms(%s) is %s", (value, text) => expect(ms(value)).toBe(text));

  test("shares, plurals and units", () => {
    expect([percent(null), percent(0), percent(1), percent(0.1234)]).toEqual([NONE, "0 %", "100 %", "12.3 %"]);
    expect([plural(1, "request"), plural(2, "request"), plural(2, "reply", "replies")]).toEqual(["1 request", "2 requests", "2 replies"]);
    expect(units(12.34, 0, "audio_seconds")).toBe("12.3 s audio");
    expect(units(1_000, 20, "tokens")).toBe("1,000 → 20 tokens");
  });
});

describe("times are UTC", () => {
  const at = Date.UTC(2026, 0, 2, 3, 4, 5) / 1_000;

  test("moments", () => {
    expect([day(at), clock(at), moment(at)]).toEqual(["2026-01-02", "03:04:05", "2026-01-02 03:04:05"]);
    expect([bucket(at, "hour"), bucket(at, "day")]).toEqual(["01-02 03:04", "01-02"]);
  });

  test("durations", () => {
    expect([ago(at, at + 59), ago(at, at + 61), ago(at, at + 7_200), ago(at, at + 200_000)]).toEqual(["59 s ago", "1 min ago", "2 h ago", "2 d ago"]);
    expect([span(5), span(3_660), span(90_000)]).toEqual(["5 s", "1 h 1 min", "1 d 1 h"]);
    expect(ago(at, at - 5)).toBe("0 s ago");
  });
});
