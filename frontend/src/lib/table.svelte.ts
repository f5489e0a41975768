// Order and text filter of a table whose rows are all here. Both are kept in the URL.
import { router } from "./router.svelte";

type Value = string | number | null | undefined;

/** Rows in the order of one of their values; `-` before its name = descending. Rows without the value come last. */
export function sorted<T>(rows: readonly T[], values: Record<string, (row: T) => Value>, order: string): T[] {
  const value = values[order.replace(/^-/, "")];
  if (!value) return [...rows];
  const sign = order.startsWith("-") ? -1 : 1;
  return [...rows].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    const [none, nothing] = [a === null || a === undefined || a === "", b === null || b === undefined || b === ""];
    if (none || nothing) return Number(none) - Number(nothing);
    return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  });
}

/** Whether one of the row's texts and numbers contains every word of `find`. */
export function matches(row: unknown, find: string): boolean {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const text = texts(row).join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function texts(value: unknown): string[] {
  if (typeof value === "string" || typeof value === "number") return [String(value)];
  if (Array.isArray(value)) return value.flatMap(texts);
  return value && typeof value === "object" ? Object.values(value).flatMap(texts) : [];
}

/** Order of a list that the gateway sorts: by a figure, the largest first, then the smallest, then the newest again. */
export const listOrder = {
  get order(): string {
    return router.get("sort");
  },
  by(name: string): void {
    router.set({ sort: this.order === `-${name}` ? name : this.order === name ? "" : `-${name}`, before: "" });
  },
};

export class Table<T> {
  order = $derived(router.get("sort"));
  find = $derived(router.get("find"));

  /** `values`: what each column that can be sorted is sorted by. */
  constructor(readonly values: Record<string, (row: T) => Value>) {}

  rows(all: readonly T[]): T[] {
    return sorted(
      all.filter((row) => matches(row, this.find)),
      this.values,
      this.order,
    );
  }

  /** Sort by a column, in the other direction if it is sorted by it already. */
  by(name: string, descendingFirst: boolean): void {
    const first = descendingFirst ? `-${name}` : name;
    const second = descendingFirst ? name : `-${name}`;
    router.set({ sort: this.order === first ? second : this.order === second ? "" : first }, true);
  }
}
