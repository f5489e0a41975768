// Filters shared by all pages: one project or all, and a period. Both are kept in the URL and in every link.
import { router } from "./router.svelte";

export type Period = "today" | "week" | "month";
export const PERIODS: readonly { id: Period; name: string; short: string }[] = [
  { id: "today", name: "Today", short: "1 d" },
  { id: "week", name: "7 days", short: "7 d" },
  { id: "month", name: "30 days", short: "30 d" },
];

class Scope {
  project = $derived(router.get("project"));
  period = $derived(PERIODS.find((one) => one.id === router.get("period"))?.id ?? "today");
  name = $derived(PERIODS.find((one) => one.id === this.period)?.name ?? "");

  /** Add the current project and period to `target`. */
  link(target: string, fields: Record<string, string> = {}): string {
    const query = new URLSearchParams();
    if (this.project) query.set("project", this.project);
    if (this.period !== "today") query.set("period", this.period);
    for (const [name, value] of Object.entries(fields)) if (value) query.set(name, value);
    const text = query.toString();
    return text ? `${target}?${text}` : target;
  }
}

export const scope = new Scope();
