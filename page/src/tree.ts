// A graph as a tree of boxes that open and close. Regions with very many nodes are cut into pieces, in
// topological order, so that no picture ever has more boxes than can be laid out and read.
import type { Graph, GraphNode, Region } from "./api";

export const MOST_SHOWN = 300;
const MOST_IN_REGION = 150;

export type Box = {
  key: string; kind: "node" | "arm" | "piece"; title: string; lines: string[]; node?: GraphNode; inner: Box[];
  edges: [string, string][]; up: Box | null; places: string[];
};

export function treeOf(graph: Graph): Box {
  const root = box("", "arm", graph.name, null);
  fill(root, graph);
  gather(root);
  return root;
}

function box(key: string, kind: Box["kind"], title: string, up: Box | null): Box {
  return { key, kind, title, lines: [], inner: [], edges: [], up, places: [] };
}

function fill(owner: Box, region: Region) {
  const made = new Map(region.nodes.map((node) => [node.id, nodeBox(node, owner)]));
  const edges = region.edges.map(([a, b]): [string, string] => [made.get(a)!.key, made.get(b)!.key]);
  const all = [...made.values()];
  if (all.length > MOST_SHOWN) cut(owner, sorted(all, edges), edges);
  else (owner.inner.push(...all), owner.edges.push(...edges));
}

function nodeBox(node: GraphNode, up: Box): Box {
  const made = { ...box(node.path, "node", node.id, up), node, lines: [node.title, ...node.lines] };
  for (const group of node.groups) {
    if (node.groups.length === 1) fill(made, group);
    else {
      const arm = box(`${node.path}#${group.label}`, "arm", group.label, made);
      fill(arm, group);
      made.inner.push(arm);
    }
  }
  return made;
}

/** Consecutive pieces of a sorted region: their edges point forward, so they make a graph without cycles, too. */
function cut(owner: Box, all: Box[], edges: [string, string][]) {
  const size = Math.max(Math.ceil(Math.sqrt(all.length)), Math.ceil(all.length / MOST_IN_REGION));
  const piece = new Map<string, Box>();
  for (let i = 0; i < all.length; i += size) {
    const some = all.slice(i, i + size);
    const made = box(`${owner.key}~${i}`, "piece", between(some[0].title, some[some.length - 1].title), owner);
    made.lines = [`${some.length} nodes`];
    made.inner = some;
    for (const one of some) (piece.set(one.key, made), (one.up = made));
    owner.inner.push(made);
  }
  for (const [a, b] of edges) {
    const [from, to] = [piece.get(a)!, piece.get(b)!];
    if (from === to) from.edges.push([a, b]);
    else owner.edges.push([a, b]);  // drawn between what is shown of them
  }
}

/** From one name to another, what both begin with once: `step-135 … 179`. */
function between(first: string, last: string): string {
  let same = 0;
  while (same < last.length && first[same] === last[same]) same++;
  const prefix = last.slice(0, same).replace(/\d+$/, "");
  return `${first} … ${prefix.length > 2 ? last.slice(prefix.length) : last}`;
}

function sorted(all: Box[], edges: [string, string][]): Box[] {
  const by = new Map(all.map((one) => [one.key, one]));
  const needs = new Map(all.map((one) => [one.key, 0]));
  const next = new Map<string, string[]>();
  for (const [a, b] of edges) {
    needs.set(b, needs.get(b)! + 1);
    next.set(a, [...(next.get(a) ?? []), b]);
  }
  const order = all.filter((one) => !needs.get(one.key));
  for (let i = 0; i < order.length; i++) {
    for (const b of next.get(order[i].key) ?? []) {
      needs.set(b, needs.get(b)! - 1);
      if (!needs.get(b)) order.push(by.get(b)!);
    }
  }
  return order;
}

function gather(one: Box): string[] {
  const inner = one.inner.flatMap(gather);
  one.places = one.node ? [one.node.path, ...inner] : inner;
  return one.places;
}

export function boxesOf(root: Box): Map<string, Box> {
  const found = new Map<string, Box>();
  const waiting = [...root.inner];
  for (let one = waiting.pop(); one; one = waiting.pop()) {
    found.set(one.key, one);
    waiting.push(...one.inner);
  }
  return found;
}

/** What is open at first: from the outside in, as long as it stays readable. */
export function openAtFirst(root: Box): string[] {
  const open: string[] = [];
  let shown = root.inner.length;
  let level = root.inner;
  while (level.length) {
    const next: Box[] = [];
    for (const one of level) {
      if (!one.inner.length || one.kind === "piece" || shown + one.inner.length > MOST_SHOWN) continue;
      open.push(one.key);
      shown += one.inner.length;
      next.push(...one.inner);
    }
    level = next;
  }
  return open;
}

/** Opened boxes that fit; those opened longest ago are closed where it would be too much. */
export function fitting(root: Box, boxes: Map<string, Box>, open: string[]): string[] {
  let kept = open;
  const size = (keys: string[]) => {
    const set = new Set(keys);
    const count = (one: Box): number => one.inner.reduce((n, i) => n + 1 + (set.has(i.key) ? count(i) : 0), 0);
    return count(root);
  };
  while (kept.length > 1 && size(kept) > MOST_SHOWN * 1.5) {
    const [newest, ups] = [kept[kept.length - 1], new Set<string>()];
    for (let one = boxes.get(newest)?.up; one; one = one.up) ups.add(one.key);
    const close = kept.find((key) => key !== newest && !ups.has(key));
    if (close === undefined) break;
    kept = kept.filter((key) => key !== close);
  }
  return kept;
}
