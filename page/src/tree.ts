// A graph as a tree of boxes that open and close. A very large region is cut into groups in topological order, so that
// no picture has more boxes than can be laid out and read.
import type { Graph, GraphNode, Region } from "./api";

export const MOST_SHOWN = 300;
const MOST_IN_REGION = 150;

export type Box = {
  key: string; kind: "node" | "arm" | "piece"; title: string; lines: string[]; node?: GraphNode; inner: Box[];
  edges: [string, string][]; up: Box | null; places: string[];
  /** Edges (`from\nto`) that a longer path says, too. They are neither laid out nor drawn, except at the selected node. */
  implied: Set<string>;
};

export function treeOf(graph: Graph): Box {
  const root = box("", "arm", graph.name, null);
  fill(root, graph);
  gather(root);
  return root;
}

function box(key: string, kind: Box["kind"], title: string, up: Box | null): Box {
  return { key, kind, title, lines: [], inner: [], edges: [], up, places: [], implied: new Set() };
}

function fill(owner: Box, region: Region) {
  const made = new Map(region.nodes.map((node) => [node.id, nodeBox(node, owner)]));
  const edges = region.edges.map(([a, b]): [string, string] => [made.get(a)!.key, made.get(b)!.key]);
  const all = [...made.values()];
  if (all.length > MOST_SHOWN) cut(owner, sorted(all, edges), edges);
  else (owner.inner.push(...all), owner.edges.push(...edges), (owner.implied = impliedIn(all, edges)));
}

/** The edges of an acyclic region that can be left out without changing what comes before what. */
function impliedIn(all: Box[], edges: [string, string][]): Set<string> {
  const next = new Map<string, string[]>();
  for (const [a, b] of edges) next.set(a, [...(next.get(a) ?? []), b]);
  const reached = new Map<string, Set<string>>();
  for (const { key } of sorted(all, edges).reverse()) {
    const after = next.get(key) ?? [];
    reached.set(key, new Set(after.flatMap((one) => [one, ...(reached.get(one) ?? [])])));
  }
  const implied = edges.filter(([a, b]) => next.get(a)!.some((other) => other !== b && reached.get(other)?.has(b)));
  return new Set(implied.map(([a, b]) => `${a}\n${b}`));
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
  const joins = new Map(owner.edges.map(([a, b]): [string, [string, string]] => {
    const pair: [string, string] = [piece.get(a)!.key, piece.get(b)!.key];
    return [pair.join("\n"), pair];
  }));
  const implied = impliedIn(owner.inner, [...joins.values()]);
  owner.implied = new Set(owner.edges.map(([a, b]) => `${a}\n${b}`)
    .filter((edge) => implied.has(edge.split("\n").map((key) => piece.get(key)!.key).join("\n"))));
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

/** The boxes that are open at first: from the outside in, as long as the graph stays readable. */
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

/** The open boxes that fit. Where there are too many, the ones opened longest ago are closed. */
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
