// What models cost, out of the values that steps recorded: agents give `usage` and `cost`, experiences `cost_usd`.
import type { Json } from "./api";

export function costOf(values: Json[]): { tokens: number; dollars: number | null } | null {
  let tokens = 0, known = true, seen = false, dollars = 0;
  for (const value of values) {
    if (!value || typeof value !== "object" || Array.isArray(value)) continue;
    const { usage, cost } = value;
    if (!usage || typeof usage !== "object" || Array.isArray(usage)) continue;
    const counts = Object.values(usage).filter((one): one is number => typeof one === "number");
    if (!counts.length || !("cost" in value)) continue;
    seen = true;
    tokens += counts.reduce((a, b) => a + b, 0);
    if (typeof cost === "number") dollars += cost;
    else known = false;
  }
  return seen ? { tokens, dollars: known ? dollars : null } : null;
}
