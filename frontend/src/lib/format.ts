// Format numbers and times for people. Times are UTC, as days and budgets are, or local if the reader wants (`zone.svelte.ts`).
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const NONE = "–";

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return Math.abs(value) < 100_000 ? whole.format(value) : short.format(value);
}

/** Dollars with as many digits as the amount needs: $1,204.50, $0.37, $0.0042, $0.000012. */
export function usd(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  const size = Math.abs(value);
  if (size === 0) return "$0.00";
  const digits = size >= 0.1 ? 2 : Math.min(9, 1 - Math.floor(Math.log10(size)));
  return `${value < 0 ? "-" : ""}$${size.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: digits })}`;
}

export function ms(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value < 1) return `${value.toFixed(2)} ms`;
  if (value < 10) return `${value.toFixed(1)} ms`;
  if (value < 9_999.5) return `${whole.format(value)} ms`;
  return value < 120_000 ? `${(value / 1_000).toFixed(1)} s` : `${(value / 60_000).toFixed(1)} min`;
}

export function percent(share: number | null | undefined, digits = 1): string {
  return share === null || share === undefined ? NONE : `${(share * 100).toFixed(share === 0 || share === 1 ? 0 : digits)} %`;
}

const two = (value: number): string => String(value).padStart(2, "0");

let local = false;
/** Show times in the browser's time zone from now on, or in UTC. */
export function useLocalTime(on: boolean): void {
  local = on;
}
export const zoneName = (): string => (local ? "local time" : "UTC");
export const localTime = (): boolean => local;

/** The time in the zone in use, as if it were UTC. */
const shifted = (seconds: number): Date => {
  const at = new Date(seconds * 1_000);
  return local ? new Date(at.getTime() - at.getTimezoneOffset() * 60_000) : at;
};

export function clock(seconds: number): string {
  const at = shifted(seconds);
  return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
}

export function day(seconds: number): string {
  return dayOf(shifted(seconds));
}

const dayOf = (at: Date): string => `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;

export function moment(seconds: number): string {
  return `${day(seconds)} ${clock(seconds)}`;
}

/** Unit of the time between two points. */
export type Grain = "second" | "minute" | "hour" | "day";

/** Format the start of a point: its day, with the time of day unless the points are days. */
export function bucket(seconds: number, grain: Grain): string {
  if (grain === "day") return dayOf(new Date(seconds * 1_000)).slice(5); // points of days are UTC days
  return `${day(seconds).slice(5)} ${clock(seconds).slice(0, grain === "second" ? 8 : 5)}`;
}

/** Format the start of a point for an axis: without the day, unless the points are days. */
export function tick(seconds: number, grain: Grain): string {
  return grain === "day" ? bucket(seconds, grain) : clock(seconds).slice(0, 5);
}

export function ago(seconds: number, now: number): string {
  const past = Math.max(0, now - seconds);
  if (past < 60) return `${Math.floor(past)} s ago`;
  if (past < 3_600) return `${Math.floor(past / 60)} min ago`;
  if (past < 86_400) return `${Math.floor(past / 3_600)} h ago`;
  return `${Math.floor(past / 86_400)} d ago`;
}

export function span(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3_600)} h`;
}

const UNITS: Record<string, string> = { audio_seconds: "s audio", characters: "chars", tokens: "tokens" };

export function units(input: number, output: number, unit: string): string {
  const first = unit === "audio_seconds" ? input.toFixed(1) : count(input);
  return unit === "tokens" ? `${first} → ${count(output)} tokens` : `${first} ${UNITS[unit] ?? unit}`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A change from one figure to another: in percent, and whether it is good news; a small one is neither. */
export function change(now: number | null | undefined, before: number | null | undefined, lessIsBetter: boolean | null = null) {
  if (!now || !before) return {};
  const by = now / before - 1;
  const text = Math.abs(by) < 0.005 ? "±0 %" : `${by > 0 ? "+" : "−"}${Math.abs(by * 100).toFixed(by > 9.99 ? 0 : Math.abs(by) < 0.1 ? 1 : 0)} %`;
  const tone: "good" | "bad" | "soft" = lessIsBetter === null || Math.abs(by) < 0.05 ? "soft" : by < 0 === lessIsBetter ? "good" : "bad";
  return { change: text, tone };
}
