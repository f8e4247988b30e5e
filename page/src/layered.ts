// Where boxes stand: layers from top to bottom, inside of each open box the same again.

export type Plan = { key: string; inner: Plan[]; edges: [string, string][]; open: boolean };
export type Spot = { x: number; y: number; width: number; height: number };
export type Spots = Record<string, Spot>;
export type Size = { width: number; height: number };
/** Lays out one region: the top left corner of each of its boxes. */
export type How = (plan: Plan, sizes: Size[]) => [number, number][];

export const WIDTH = 220, HEIGHT = 60;
/** Boxes in a row. */
export const MOST_ABREAST = 12;
export const GAP_X = 28, GAP_Y = 44, PAD = 16, HEAD = 62;

/** The spot of every box relative to the box around it, and the size of each. */
export function layered(root: Plan, how: How): Spots {
  const spots: Spots = {};
  measure(root, spots, how, true);
  return spots;
}

function measure(plan: Plan, spots: Spots, how: How, root = false): { width: number; height: number } {
  let size = { width: WIDTH, height: HEIGHT };
  if ((plan.open || root) && plan.inner.length) {
    const sizes = plan.inner.map((one) => measure(one, spots, how));
    const inner = around(how(plan, sizes), sizes);
    plan.inner.forEach((one, i) => {
      spots[one.key] = { ...sizes[i], x: PAD + inner.spots[i][0], y: (root ? 0 : HEAD) + inner.spots[i][1] };
    });
    size = { width: Math.max(WIDTH, inner.width + 2 * PAD), height: inner.height + HEAD + PAD };
  }
  return size;
}

/** Layers by longest path, in the given order: linear in what there is, for whatever dagre is too slow for. */
export function inRows(plan: Plan, sizes: Size[]): [number, number][] {
  const at = new Map(plan.inner.map((one, i) => [one.key, i]));
  const next: number[][] = plan.inner.map(() => []);
  const needs = plan.inner.map(() => 0);
  for (const [a, b] of plan.edges) (next[at.get(a)!].push(at.get(b)!), needs[at.get(b)!]++);
  const layer = plan.inner.map(() => 0);
  const order = plan.inner.map((_, i) => i).filter((i) => !needs[i]);
  for (let n = 0; n < order.length; n++) {
    for (const b of next[order[n]]) {
      layer[b] = Math.max(layer[b], layer[order[n]] + 1);
      if (!--needs[b]) order.push(b);
    }
  }
  const spots: [number, number][] = plan.inner.map(() => [0, 0]);
  const rows: number[][] = [];
  order.forEach((i) => (rows[layer[i]] ??= []).push(i));
  const widths: [number[], number][] = [];
  let y = 0;
  for (const row of rows) {
    const lines = Math.ceil(row.length / MOST_ABREAST), each = Math.ceil(row.length / lines);
    for (let from = 0; from < row.length; from += each) {
      let x = 0, tall = 0;
      const line = row.slice(from, from + each);
      for (const i of line) {
        spots[i] = [x, y];
        x += sizes[i].width + GAP_X;
        tall = Math.max(tall, sizes[i].height);
      }
      widths.push([line, x - GAP_X]);
      y += tall + GAP_Y;
    }
  }
  const widest = Math.max(...widths.map(([, width]) => width));
  for (const [line, width] of widths) for (const i of line) spots[i][0] += (widest - width) / 2;
  return spots;
}

function around(spots: [number, number][], sizes: Size[]) {
  const width = Math.max(...spots.map(([x], i) => x + sizes[i].width));
  const height = Math.max(...spots.map(([, y], i) => y + sizes[i].height));
  return { spots, width, height };
}
