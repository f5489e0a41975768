// Filters shared by all pages: one project or all, and a period. Both are kept in the URL and in every link.
import { moment } from "./format";
import { router } from "./router.svelte";

export const PERIODS = [
  { id: "today", name: "Today" },
  { id: "15m", name: "15 min" },
  { id: "1h", name: "1 h" },
  { id: "24h", name: "24 h" },
  { id: "7d", name: "7 d" },
  { id: "30d", name: "30 d" },
] as const;

const NAMES: Record<string, string> = {
  today: "Today (UTC)",
  week: "7 UTC days",
  month: "30 UTC days",
  "15m": "The last 15 minutes",
  "1h": "The last hour",
  "24h": "The last 24 hours",
  "7d": "The last 7 days",
  "30d": "The last 30 days",
};
const BEFORE: Record<string, string> = {
  today: "yesterday until this time",
  week: "the 7 days before, until this time",
  month: "the 30 days before, until this time",
  "15m": "the 15 minutes before",
  "1h": "the hour before",
  "24h": "the 24 hours before",
  "7d": "the 7 days before",
  "30d": "the 30 days before",
};

class Scope {
  project = $derived(router.get("project"));
  from = $derived(router.get("from"));
  to = $derived(router.get("to"));
  /** Name of the period; "" = none was chosen. */
  chosen = $derived(this.from ? "custom" : router.get("period") in NAMES ? router.get("period") : "");
  period = $derived(this.chosen || "today");
  name = $derived(this.period === "custom" ? `${when(this.from)} to ${this.to ? when(this.to) : "now"}` : (NAMES[this.period] ?? ""));
  before = $derived(BEFORE[this.period] ?? "the time before, equally long");
  /** Query fields of the API for the period; those of a log without a chosen one are empty. */
  fields = $derived(this.from ? { from: this.from, to: this.to } : { period: this.period });
  filter = $derived(this.chosen ? this.fields : {});
  /** The period ends now and is short, so a page reads it again from time to time. */
  live = $derived(["15m", "1h"].includes(this.period));

  /** Add the current project and period to `target`. */
  link(target: string, fields: Record<string, string> = {}): string {
    const query = new URLSearchParams();
    if (this.project) query.set("project", this.project);
    if (this.from) {
      query.set("from", this.from);
      if (this.to) query.set("to", this.to);
    } else if (this.chosen && this.chosen !== "today") query.set("period", this.chosen);
    for (const [name, value] of Object.entries(fields)) if (value) query.set(name, value);
    const text = query.toString();
    return text ? `${target}?${text}` : target;
  }
}

function when(text: string): string {
  const at = Date.parse(text);
  return Number.isNaN(at) ? text : moment(at / 1_000).slice(0, 16);
}

export const scope = new Scope();
