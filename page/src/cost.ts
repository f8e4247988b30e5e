// The cost of models, from the recorded values of steps: each model turn has `usage` and `cost`.
import type { Json, Step } from "./api";
import { placeOf } from "./states";

export type Cost = { place: string; turns: number; input: number; cached: number; output: number; dollars: number | null };

/** By node, the dearest first; `dollars` is null where a price is not known. */
export function costsOf(steps: Step[]): Cost[] {
  const by = new Map<string, Cost>();
  for (const { path, value } of steps) {
    const usage = usageOf(value ?? null);
    if (!usage) continue;
    const place = placeOf(path);
    const cost = by.get(place) ?? { place, turns: 0, input: 0, cached: 0, output: 0, dollars: 0 };
    cost.turns += 1;
    cost.output += usage.counts.output_tokens ?? 0;
    cost.cached += usage.counts.cache_read_input_tokens ?? 0;
    cost.input += (usage.counts.input_tokens ?? 0) + (usage.counts.cache_creation_input_tokens ?? 0);
    cost.dollars = cost.dollars === null || usage.dollars === null ? null : cost.dollars + usage.dollars;
    by.set(place, cost);
  }
  return [...by.values()].sort((a, b) => (b.dollars ?? 0) - (a.dollars ?? 0));
}

export const total = (costs: Cost[]): Cost => costs.reduce((all, one) => ({
  place: "", turns: all.turns + one.turns, input: all.input + one.input, cached: all.cached + one.cached,
  output: all.output + one.output, dollars: all.dollars === null || one.dollars === null ? null : all.dollars + one.dollars,
}), { place: "", turns: 0, input: 0, cached: 0, output: 0, dollars: 0 });

export const tokens = (cost: Cost) => cost.input + cost.cached + cost.output;
export const dollars = (cost: Cost) => (cost.dollars === null ? "price not known" : `$${cost.dollars.toFixed(4)}`);

function usageOf(value: Json): { counts: Record<string, number>; dollars: number | null } | null {
  if (!value || typeof value !== "object" || Array.isArray(value) || !("cost" in value)) return null;
  const { usage, cost } = value;
  if (!usage || typeof usage !== "object" || Array.isArray(usage)) return null;
  const counts = Object.fromEntries(Object.entries(usage).filter((pair): pair is [string, number] => typeof pair[1] === "number"));
  return Object.keys(counts).length ? { counts, dollars: typeof cost === "number" ? cost : null } : null;
}
