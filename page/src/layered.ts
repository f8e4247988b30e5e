// The places of boxes: rows from top to bottom, and the same inside each open box.

export type Plan = { key: string; inner: Plan[]; edges: [string, string][]; open: boolean };
export type Spot = { x: number; y: number; width: number; height: number };
/** Where an edge passes a row on its way to a later one: vertically, at this x. */
export type Bend = { x: number; top: number; bottom: number };
/** The spots of boxes by key, and the bends of edges by `from\nto`, relative to the box around them. */
export type Spots = { boxes: Record<string, Spot>; bends: Record<string, Bend[]> };
export type Size = { width: number; height: number };
/** Lays out one region: the top left corner of each of its boxes, and the bends of its long edges. */
export type How = (plan: Plan, sizes: Size[]) => { corners: [number, number][]; bends: Record<string, Bend[]> };

export const WIDTH = 220, HEIGHT = 60;
/** Boxes in a row. */
export const MOST_ABREAST = 12;
export const GAP_X = 28, GAP_Y = 44, PAD = 16, HEAD = 62;

/** The spot of every box relative to the box around it, and the size of each. */
export function layered(root: Plan, how: How): Spots {
  const spots: Spots = { boxes: {}, bends: {} };
  measure(root, spots, how, true);
  return spots;
}

function measure(plan: Plan, spots: Spots, how: How, root = false): { width: number; height: number } {
  let size = { width: WIDTH, height: HEIGHT };
  if ((plan.open || root) && plan.inner.length) {
    const sizes = plan.inner.map((one) => measure(one, spots, how));
    const { corners, bends } = how(plan, sizes);
    const inner = around(corners, sizes, Object.values(bends).flat());
    const down = root ? 0 : HEAD;
    plan.inner.forEach((one, i) => {
      spots.boxes[one.key] = { ...sizes[i], x: PAD + corners[i][0], y: down + corners[i][1] };
    });
    for (const [edge, of] of Object.entries(bends)) {
      spots.bends[edge] = of.map(({ x, top, bottom }) => ({ x: PAD + x, top: down + top, bottom: down + bottom }));
    }
    size = { width: Math.max(WIDTH, inner.width + 2 * PAD), height: inner.height + HEAD + PAD };
  }
  return size;
}

/** The row of each box: right below the last of those it comes after. Also all boxes in a topological order. */
export function ranked(plan: Plan): { ranks: number[]; order: number[] } {
  const at = new Map(plan.inner.map((one, i) => [one.key, i]));
  const next: number[][] = plan.inner.map(() => []);
  const needs = plan.inner.map(() => 0);
  for (const [a, b] of plan.edges) (next[at.get(a)!].push(at.get(b)!), needs[at.get(b)!]++);
  const ranks = plan.inner.map(() => 0);
  const order = plan.inner.map((_, i) => i).filter((i) => !needs[i]);
  for (let n = 0; n < order.length; n++) {
    for (const b of next[order[n]]) {
      ranks[b] = Math.max(ranks[b], ranks[order[n]] + 1);
      if (!--needs[b]) order.push(b);
    }
  }
  return { ranks, order };
}

/** Rows in the given order, in linear time, for graphs that are too large for dagre. */
export function inRows(plan: Plan, sizes: Size[]): ReturnType<How> {
  const { ranks, order } = ranked(plan);
  const corners: [number, number][] = plan.inner.map(() => [0, 0]);
  const rows: number[][] = [];
  order.forEach((i) => (rows[ranks[i]] ??= []).push(i));
  const widths: [number[], number][] = [];
  let y = 0;
  for (const row of rows) {
    const lines = Math.ceil(row.length / MOST_ABREAST), each = Math.ceil(row.length / lines);
    for (let from = 0; from < row.length; from += each) {
      let x = 0, tall = 0;
      const line = row.slice(from, from + each);
      for (const i of line) {
        corners[i] = [x, y];
        x += sizes[i].width + GAP_X;
        tall = Math.max(tall, sizes[i].height);
      }
      widths.push([line, x - GAP_X]);
      y += tall + GAP_Y;
    }
  }
  const widest = Math.max(...widths.map(([, width]) => width));
  for (const [line, width] of widths) for (const i of line) corners[i][0] += (widest - width) / 2;
  return { corners, bends: {} };
}

function around(corners: [number, number][], sizes: Size[], bends: Bend[]) {
  const width = Math.max(...corners.map(([x], i) => x + sizes[i].width), ...bends.map(({ x }) => x));
  const height = Math.max(...corners.map(([, y], i) => y + sizes[i].height));
  return { width, height };
}

const SWEEPS = 6;
/** An item of a row: a box, or an edge that passes the row. */
export type Item = { x: number; width: number; above: Item[]; below: Item[] };

/** Moves the items of each row next to their neighbours in the rows above and below, in the order that they have. */
export function together(rows: Item[][]) {
  const mean = (of: Item[]) => of.reduce((sum, one) => sum + one.x + one.width / 2, 0) / of.length;
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isDown = sweep % 2 === 1;  // the last one is: children are centred below their parents
    for (const row of isDown ? rows : [...rows].reverse()) {
      pack(row, row.map((one) => {
        const near = isDown ? one.above : one.below;
        return near.length ? mean(near) - one.width / 2 : one.x;
      }));
    }
  }
}

/** Places a row as near to the wanted places as its order and the gaps allow (pool adjacent violators). */
function pack(row: Item[], wanted: number[]) {
  const groups: { from: number; sum: number; count: number }[] = [];
  const offsets: number[] = [];
  let offset = 0;
  row.forEach((one, n) => {
    offsets.push(offset);
    groups.push({ from: n, sum: wanted[n] - offset, count: 1 });
    offset += one.width + GAP_X;
    while (groups.length > 1) {
      const [before, last] = groups.slice(-2);
      if (before.sum / before.count <= last.sum / last.count) break;
      groups.splice(-2, 2, { from: before.from, sum: before.sum + last.sum, count: before.count + last.count });
    }
  });
  for (const { from, sum, count } of groups) {
    for (let n = from; n < from + count; n++) row[n].x = sum / count + offsets[n];
  }
}
