import * as dagre from "@dagrejs/dagre";
import { GAP_X, GAP_Y, MOST_ABREAST, inRows, layered, type Plan, type Size } from "./layered";

onmessage = (event: MessageEvent<Plan>) => postMessage(layered(event.data, byDagre));

function byDagre(plan: Plan, sizes: Size[]): [number, number][] {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: GAP_X, ranksep: GAP_Y, marginx: 0, marginy: 0 });
  graph.setDefaultEdgeLabel(() => ({}));
  plan.inner.forEach((one, i) => graph.setNode(one.key, { ...sizes[i] }));
  for (const [a, b] of plan.edges) graph.setEdge(a, b);
  dagre.layout(graph);
  // What stands side by side far beyond any screen is broken into rows.
  const abreast = new Map<number, number>();
  for (const one of plan.inner) abreast.set(graph.node(one.key).rank!, (abreast.get(graph.node(one.key).rank!) ?? 0) + 1);
  if (Math.max(...abreast.values()) > MOST_ABREAST) return inRows(plan, sizes);
  return plan.inner.map((one, i): [number, number] => {
    const { x, y } = graph.node(one.key) as { x: number; y: number };
    return [x - sizes[i].width / 2, y - sizes[i].height / 2];
  });
}
