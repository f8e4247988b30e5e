import * as dagre from "@dagrejs/dagre";
import {
  GAP_X, GAP_Y, MOST_ABREAST, inRows, layered, ranked, together, type Bend, type How, type Item, type Plan, type Size,
} from "./layered";

const EDGE = 1;  // the width that a row leaves for an edge that passes it

onmessage = (event: MessageEvent<Plan>) => postMessage(layered(event.data, byDagre));

/** Dagre decides the order in each row and so which edges cross. The rows, and the places in them, are decided here. */
function byDagre(plan: Plan, sizes: Size[]): ReturnType<How> {
  const { ranks } = ranked(plan);
  const at = new Map(plan.inner.map((one, i) => [one.key, i]));
  const count = Math.max(...ranks) + 1;
  const abreast = new Array<number>(count).fill(0);
  for (const rank of ranks) abreast[rank]++;
  if (Math.max(...abreast) > MOST_ABREAST) return inRows(plan, sizes);  // far wider than any screen

  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: GAP_X, ranksep: GAP_Y, marginx: 0, marginy: 0 });
  graph.setDefaultEdgeLabel(() => ({}));
  plan.inner.forEach((one, i) => graph.setNode(one.key, { ...sizes[i] }));
  for (const [a, b] of plan.edges) graph.setEdge(a, b, { minlen: ranks[at.get(b)!] - ranks[at.get(a)!] });
  dagre.layout(graph);

  const rows: Item[][] = Array.from({ length: count }, () => []);
  const items = plan.inner.map((one, i): Item => {
    const item = { x: graph.node(one.key).x! - sizes[i].width / 2, width: sizes[i].width, above: [], below: [] };
    rows[ranks[i]].push(item);
    return item;
  });
  const passes: [string, Item[]][] = plan.edges.map(([a, b]) => {
    const [from, to] = [at.get(a)!, at.get(b)!];
    const points = graph.edge(a, b).points as { x: number; y: number }[];
    const between: Item[] = [];
    for (let rank = ranks[from] + 1; rank < ranks[to]; rank++) {
      const share = (rank - ranks[from]) / (ranks[to] - ranks[from]);
      const { x } = points[Math.round(share * (points.length - 1))];
      const item: Item = { x, width: EDGE, above: [], below: [] };
      rows[rank].push(item);
      between.push(item);
    }
    const way = [items[from], ...between, items[to]];
    for (let n = 1; n < way.length; n++) (way[n].above.push(way[n - 1]), way[n - 1].below.push(way[n]));
    return [`${a}\n${b}`, between];
  });
  const middle = ({ x, width }: Item) => x + width / 2;
  // A picture and its mirror image are the same to dagre: take the one that keeps more of the author's order.
  let inOrder = 0;
  for (const row of rows) for (let n = 1; n < row.length; n++) inOrder += Math.sign(middle(row[n]) - middle(row[n - 1]));
  if (inOrder < 0) for (const one of rows.flat()) one.x = -one.x - one.width;
  for (const row of rows) row.sort((a, b) => middle(a) - middle(b));
  together(rows);
  return placed(plan, sizes, ranks, rows, items, passes);
}

function placed(
  plan: Plan, sizes: Size[], ranks: number[], rows: Item[][], items: Item[], passes: [string, Item[]][],
): ReturnType<How> {
  const tall = rows.map((_, rank) => Math.max(0, ...sizes.filter((_, i) => ranks[i] === rank).map(({ height }) => height)));
  const tops = tall.map((_, rank) => tall.slice(0, rank).reduce((sum, height) => sum + height + GAP_Y, 0));
  const least = Math.min(...rows.flat().map(({ x }) => x));
  const corners = plan.inner.map((_, i): [number, number] => [items[i].x - least, tops[ranks[i]]]);
  const bends: Record<string, Bend[]> = {};
  for (const [edge, between] of passes) {
    if (!between.length) continue;
    const first = ranks[plan.inner.findIndex(({ key }) => edge.startsWith(`${key}\n`))] + 1;
    bends[edge] = between.map(({ x }, n) => ({ x: x - least, top: tops[first + n], bottom: tops[first + n] + tall[first + n] }));
  }
  return { corners, bends };
}
