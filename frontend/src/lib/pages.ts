// The pages: path, name, and how their code is loaded.
import type { Component } from "svelte";

export interface Page {
  path: string;
  name: string;
  icon: string;
  group: "watch" | "manage" | "more";
  /** What the header offers; `times`: a project and a period, without which all times are shown; `anytime`: such a period. */
  scoped: "both" | "project" | "period" | "times" | "anytime" | "none";
  load: () => Promise<{ default: Component }>;
}

export const PAGES: readonly Page[] = [
  { path: "/", name: "Overview", icon: "home", group: "watch", scoped: "both", load: () => import("../pages/Overview.svelte") },
  { path: "/live", name: "Live", icon: "live", group: "watch", scoped: "project", load: () => import("../pages/Live.svelte") },
  { path: "/sessions", name: "Conversations", icon: "sessions", group: "watch", scoped: "times", load: () => import("../pages/Sessions.svelte") },
  { path: "/turns", name: "Turns", icon: "turns", group: "watch", scoped: "times", load: () => import("../pages/Turns.svelte") },
  { path: "/logs", name: "Logs", icon: "logs", group: "watch", scoped: "times", load: () => import("../pages/Logs.svelte") },
  { path: "/latency", name: "Latency", icon: "latency", group: "watch", scoped: "both", load: () => import("../pages/Latency.svelte") },
  { path: "/costs", name: "Costs", icon: "costs", group: "watch", scoped: "both", load: () => import("../pages/Costs.svelte") },
  { path: "/reliability", name: "Reliability", icon: "reliability", group: "watch", scoped: "period", load: () => import("../pages/Reliability.svelte") },
  { path: "/alerts", name: "Alerts", icon: "alerts", group: "watch", scoped: "none", load: () => import("../pages/Alerts.svelte") },
  { path: "/providers", name: "Providers", icon: "providers", group: "manage", scoped: "none", load: () => import("../pages/Providers.svelte") },
  { path: "/models", name: "Models", icon: "models", group: "manage", scoped: "none", load: () => import("../pages/Models.svelte") },
  { path: "/projects", name: "Projects", icon: "projects", group: "manage", scoped: "none", load: () => import("../pages/Projects.svelte") },
  { path: "/keys", name: "Keys", icon: "keys", group: "manage", scoped: "none", load: () => import("../pages/Keys.svelte") },
  { path: "/playground", name: "Playground", icon: "playground", group: "more", scoped: "none", load: () => import("../pages/Playground.svelte") },
  { path: "/audit", name: "Audit", icon: "audit", group: "more", scoped: "anytime", load: () => import("../pages/Audit.svelte") },
  { path: "/people", name: "People", icon: "people", group: "more", scoped: "none", load: () => import("../pages/People.svelte") },
  { path: "/settings", name: "Settings", icon: "settings", group: "more", scoped: "none", load: () => import("../pages/Settings.svelte") },
];

export const GROUPS = [
  { id: "watch", name: "" },
  { id: "manage", name: "Manage" },
  { id: "more", name: "Use" },
] as const;

/** Find the page of a path; `/turns/abc` belongs to `/turns`. */
export function pageAt(path: string): Page | undefined {
  return PAGES.find((page) => page.path === path || (page.path !== "/" && path.startsWith(`${page.path}/`)));
}
