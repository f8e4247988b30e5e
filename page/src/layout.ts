// Layout in a worker. After PATIENCE milliseconds the fast layout replaces it.
import { inRows, layered, type Plan, type Spots } from "./layered";

export const PATIENCE = 2500;

export function layout(plan: Plan, done: (spots: Spots) => void): () => void {
  const worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
  const end = () => (clearTimeout(timer), worker.terminate());
  const give = (spots: Spots) => (end(), done(spots));
  const fast = () => give(layered(plan, inRows));
  const timer = setTimeout(fast, PATIENCE);
  worker.onmessage = (event: MessageEvent<Spots>) => give(event.data);
  worker.onerror = fast;
  worker.postMessage(plan);
  return end;
}
