// Prices of models as people read them.
import type { Shapes } from "./api";
import { usd } from "./format";

export const MODALITIES = ["stt", "llm", "tts"] as const;
export type Modality = (typeof MODALITIES)[number];

/** Unit of usage → how a price for it is labelled, and the factor from USD per million units to that label's unit. */
const UNITS: Record<string, [string, number]> = {
  audio_seconds: ["min", 60e-6],
  characters: ["M chars", 1],
  input_tokens: ["M in", 1],
  output_tokens: ["M out", 1],
  cached_input_tokens: ["M cached", 1],
};

function applies(unit: string, modality: Modality, rates: Record<string, number>): boolean {
  if (modality === "llm") return unit !== "audio_seconds" && unit !== "characters";
  if (unit.includes("token")) return true;
  if (modality === "stt") return unit === "audio_seconds";
  return unit === "characters" || !("characters" in rates);
}

/** The rates of a model that its modality uses: "$0.26/min", "$2.50/M in · $10.00/M out", "free", "by name" (any name of a provider) or "unknown". */
export function rates(row: Pick<Shapes["ModelRow"], "free" | "modality" | "rates" | "wildcard">): string {
  if (row.wildcard) return "by name";
  if (row.free) return "free";
  const parts = Object.entries(row.rates)
    .filter(([unit]) => applies(unit, row.modality, row.rates))
    .map(([unit, rate]) => (UNITS[unit] ? `${usd(Number((rate * UNITS[unit][1]).toPrecision(4)))}/${UNITS[unit][0]}` : ""));
  return parts.filter(Boolean).join(" · ") || "unknown";
}
