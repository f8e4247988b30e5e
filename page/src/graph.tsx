// The graph of a definition or a run. Closed boxes have no content, so that large graphs stay fast.
import { memo, useEffect, useMemo, useRef, useState } from "react";
import {
  Background, BaseEdge, Controls, Handle, MarkerType, MiniMap, Position, ReactFlow, ReactFlowProvider, useReactFlow,
  type Edge, type EdgeProps, type Node, type NodeProps,
} from "@xyflow/react";
import type { Graph as Given } from "./api";
import { Icon } from "./icons";
import { HEIGHT, PAD, WIDTH, type Bend, type Plan, type Spots } from "./layered";
import { layout } from "./layout";
import { mark, took } from "./parts";
import { plain } from "./shown/jsx-runtime";
import { sum, type States, type Sum } from "./states";
import { boxesOf, fitting, openAtFirst, treeOf, type Box } from "./tree";

type Data = {
  box: Box; open: boolean; sum: Sum | null; toggle: (key: string) => void; [key: string]: unknown;
};
type Shown = Node<Data, "box">;
type Joined = Edge<{ bends: Bend[] }, "joined">;

const BoxNode = memo(function BoxNode({ data, selected }: NodeProps<Shown>) {
  const { box, open, sum: found } = data;
  const status = found?.status ?? "plain";
  const many = found && found.total > 1;
  const kinds = many ? Object.entries(found.counts).map(([name, n]) => `${mark(name)} ${n}`).join("  ") : "";
  return (
    <div className={`box is-${status} ${box.kind} ${open ? "open" : ""} ${selected ? "selected" : ""}`}>
      <Handle type="target" position={Position.Top} isConnectable={false} />
      <div className="title">
        {found && <span aria-hidden="true" className="mark">{mark(status)}</span>}
        <span className="id" title={box.title}>{box.title || "all"}</span>
        {box.inner.length > 0 && (
          <button
            className="fold nodrag"
            aria-expanded={open}
            aria-label={`${open ? "Close" : "Open"} ${box.title}`}
            onClick={(event) => (event.stopPropagation(), data.toggle(box.key))}
          >
            {open ? "−" : box.kind === "piece" ? "+" : `+${box.places.length - (box.node ? 1 : 0)}`}
          </button>
        )}
      </div>
      <div className="sub" title={box.lines.join("\n")}>
        <span className="line">{box.node && <Icon kind={box.node.kind} />}{box.lines[0] ?? ""}</span>
        <span className="line">
          {found && found.attempts > found.total && <span className="tries" title={`${found.attempts} attempts`}>↻ {found.attempts} </span>}
          {kinds || (found && found.ms !== null ? took(found.ms) : "")}
        </span>
      </div>
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </div>
  );
});

const LEAST = 0.3, LEGIBLE = 0.6, READABLE = 0.85;  // zooms: states can be told apart, text can just be read, is read well
const LEGIBLE_ON_PHONE = 0.45, PHONE = 500;  // a phone is held closer, and two fingers enlarge
const MARGIN = 16, CONTROLS = 72;  // on a phone the buttons stay clear of the graph
/** Up to this number of nodes all stay drawn, and moving the picture moves one layer. */
const MOST_KEPT = 120;
const TYPES = { box: BoxNode };

/** An edge that passes other rows goes between their boxes. */
const JoinedEdge = memo(function JoinedEdge({ sourceX, sourceY, targetX, targetY, data, markerEnd }: EdgeProps<Joined>) {
  let path = `M${sourceX},${sourceY}`, x = sourceX, y = sourceY;
  for (const one of [...(data?.bends ?? []), { x: targetX, top: targetY, bottom: targetY }]) {
    const half = (y + one.top) / 2;
    path += ` C${x},${half} ${one.x},${half} ${one.x},${one.top}`;
    if (one.bottom > one.top) path += ` V${one.bottom}`;
    [x, y] = [one.x, one.bottom];
  }
  return <BaseEdge path={path} markerEnd={markerEnd} />;
});
const EDGES = { joined: JoinedEdge };

export type GraphProps = {
  graph: Given; states?: States; over?: boolean; version?: number; chosen: string | null;
  choose: (path: string | null) => void;
};

export function Graph(props: GraphProps) {
  return (
    <ReactFlowProvider>
      <Flow {...props} />
    </ReactFlowProvider>
  );
}

/** Move the focus to the box of a node whose panel was closed, or to the box that contains it. */
export function toBox(key: string) {
  const drawn = `.react-flow__node[data-id="${CSS.escape(key)}"]`;
  requestAnimationFrame(() => {
    for (const place of [drawn, ".graph", "[role=tab][aria-selected=true]"]) {
      const found = document.querySelector<HTMLElement>(place);
      if (found) return found.focus({ preventScroll: true });
    }
  });
}

function Flow({ graph, states, over = true, version = 0, chosen, choose }: GraphProps) {
  const root = useMemo(() => treeOf(graph), [graph]);
  const boxes = useMemo(() => boxesOf(root), [root]);
  const [open, setOpen] = useState<string[]>(() => openAtFirst(root));
  const [spots, setSpots] = useState<{ of: string[]; spots: Spots } | null>(null);
  const flow = useReactFlow();
  const toggle = useRef((key: string) => {
    setOpen((now) => (now.includes(key) ? now.filter((one) => one !== key) : fitting(root, boxes, [...now, key])));
  }).current;

  useEffect(() => layout(planOf(root, new Set(open), boxes), (found) => setSpots({ of: open, spots: found })), [root, open]);

  // A node that is chosen elsewhere (in the time line, by search) is brought into view.
  useEffect(() => {
    if (!chosen) return;
    const ups: string[] = [];
    for (let one = boxes.get(chosen)?.up; one && one.key; one = one.up) ups.unshift(one.key);
    if (ups.some((key) => !open.includes(key))) {
      setOpen((now) => fitting(root, boxes, [...now.filter((key) => !ups.includes(key)), ...ups]));
    }
  }, [chosen]);

  const { nodes, edges } = useMemo(() => {
    if (!spots) return { nodes: [] as Shown[], edges: [] as Joined[] };
    return shown(root, new Set(spots.of), spots.spots, boxes, states, over, chosen, toggle);
  }, [spots, states, version, over, chosen]);

  const box = useRef<HTMLDivElement>(null);
  const movedByHand = useRef(false);
  // The whole graph; one whose text could not be read that way shows its selected node, one beyond that its beginning.
  const fit = () => {
    const view = box.current?.getBoundingClientRect();
    const outer = nodes.filter((node) => !node.parentId);
    if (!view?.width || !outer.length) return;
    const wide = Math.max(...outer.map((node) => node.position.x + (node.width ?? 0))) + PAD;
    const tall = Math.max(...outer.map((node) => node.position.y + (node.height ?? 0)));
    const legible = view.width < PHONE ? LEGIBLE_ON_PHONE : LEGIBLE;
    const across = (view.width - 2 * MARGIN) / wide, zoom = Math.min(1, across, (view.height - MARGIN - (view.width < PHONE ? CONTROLS : MARGIN)) / tall);
    if (zoom < legible && chosen && nodes.some((node) => node.id === chosen)) {
      void flow.fitView({ nodes: [{ id: chosen }], maxZoom: 1, minZoom: LEGIBLE, duration: 0 });
      return;
    }
    const kept = zoom >= LEAST ? zoom : across >= legible ? Math.min(1, Math.max(READABLE, zoom), across) : READABLE;
    const x = wide * kept > view.width ? middle(nodes, view.width, kept) : (view.width - wide * kept) / 2;
    void flow.setViewport({ x, y: MARGIN, zoom: kept });
  };
  const fitNow = useRef(fit);
  fitNow.current = fit;
  const fitted = useRef(false);
  useEffect(() => {
    if (!spots || !nodes.length) return;
    const isThere = nodes.some((node) => node.id === chosen);
    if (fitted.current && !isThere) return;  // a group was opened or closed: nothing moves below the pointer
    fitted.current = true;
    requestAnimationFrame(() => fitNow.current());
  }, [spots]);

  // A panel that opens, or a phone that is turned, leaves the graph another size.
  useEffect(() => {
    let size = "";
    const watch = new ResizeObserver(([entry]) => {
      const now = `${Math.round(entry.contentRect.width)} ${Math.round(entry.contentRect.height)}`;
      if (size && size !== now && !movedByHand.current) requestAnimationFrame(() => fitNow.current());
      size = now;
    });
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);

  const choice = useRef(choose);
  choice.current = choose;
  return (
    <div className="graph" ref={box} tabIndex={-1} onKeyDownCapture={(event) => {
      if (event.key !== "Escape" || !(event.target as HTMLElement).closest(".react-flow__node")) return;
      event.stopPropagation();  // React Flow would take the focus away from the node
      choose(null);
    }} data-shown={nodes.length} data-ready={spots !== null || undefined}>
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={TYPES}
        edgeTypes={EDGES}
        minZoom={0.05}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        onlyRenderVisibleElements={nodes.length > MOST_KEPT}
        zoomOnDoubleClick={false}
        proOptions={{ hideAttribution: true }}
        onNodesChange={(changes) => {
          // By mouse and by keyboard; everything else about nodes is decided here.
          const selected = changes.filter((change) => change.type === "select");
          const one = selected.find((change) => change.selected);
          if (one) choice.current(one.id);
          else if (selected.some((change) => change.id === chosen)) choice.current(null);
        }}
        onMoveStart={() => box.current?.classList.add("moving")}
        onMove={(event) => event && (movedByHand.current = true)}
        onMoveEnd={() => box.current?.classList.remove("moving")}
        aria-label="Graph"
      >
        <Background gap={24} />
        <Controls orientation="horizontal" showInteractive={false} onFitView={() => (movedByHand.current = false)} />
        {nodes.length > 40 && <MiniMap ariaLabel="The whole graph" pannable zoomable nodeClassName={(node) => `is-${(node.data as Data).sum?.status ?? "plain"}`} />}
      </ReactFlow>
      {!spots && <p className="wait" role="status">Laying out {boxes.size.toLocaleString()} nodes…</p>}
    </div>
  );
}

/** The left edge of a view that has the first node in its middle, or the beginning of one that is wider. */
function middle(nodes: Shown[], width: number, zoom: number): number {
  const first = nodes.reduce((a, b) => (!b.parentId && b.position.y < a.position.y ? b : a));
  const wide = first.width ?? WIDTH;
  return wide * zoom > width - 32 ? 16 - first.position.x * zoom : width / 2 - (first.position.x + wide / 2) * zoom;
}

function planOf(box: Box, open: Set<string>, boxes: Map<string, Box>): Plan {
  const top = box.key === "";
  if (!top && !open.has(box.key)) return { key: box.key, inner: [], edges: [], open: false };
  const seen = new Set<string>();
  const edges: [string, string][] = [];
  for (const [a, b] of box.edges) {
    if (box.implied.has(`${a}\n${b}`)) continue;
    const [from, to] = [within(boxes.get(a)!, box), within(boxes.get(b)!, box)];
    if (from !== to && !seen.has(`${from}\n${to}`)) (seen.add(`${from}\n${to}`), edges.push([from, to]));
  }
  return { key: box.key, inner: box.inner.map((one) => planOf(one, open, boxes)), edges, open: true };
}

/** The box right inside `owner` that `box` is in. */
function within(box: Box, owner: Box): string {
  let one = box;
  while (one.up && one.up !== owner) one = one.up;
  return one.key;
}

function shown(
  root: Box, open: Set<string>, spots: Spots, boxes: Map<string, Box>, states: States | undefined, over: boolean,
  chosen: string | null, toggle: (key: string) => void,
) {
  const nodes: Shown[] = [];
  const visible = new Set<string>();
  const origins = new Map([["", [0, 0]]]);
  const walk = (owner: Box) => {
    const [left, top] = origins.get(owner.key)!;
    for (const box of owner.inner) {
      const spot = spots.boxes[box.key];
      if (!spot) continue;
      const isOpen = open.has(box.key) && box.inner.length > 0;
      visible.add(box.key);
      origins.set(box.key, [left + spot.x, top + spot.y]);
      nodes.push({
        id: box.key, type: "box", position: { x: spot.x, y: spot.y }, parentId: owner.key || undefined,
        width: isOpen ? spot.width : WIDTH, height: isOpen ? spot.height : HEIGHT, selected: box.key === chosen,
        data: { box, open: isOpen, sum: states ? summed(box, states, over) : null, toggle },
        ariaLabel: plain([box.title, box.lines[0], states && summed(box, states, over).status].filter(Boolean).join(", ")),
      });
      if (isOpen) walk(box);
    }
  };
  walk(root);
  const edges: Joined[] = [];
  const seen = new Set<string>();
  const join = (owner: Box) => {
    const pieces = owner.inner[0]?.kind === "piece";
    for (const [a, b] of owner.edges) {
      // Between pieces, also open ones, one line; only those of the chosen node are drawn to their very ends.
      const mine = a === chosen || b === chosen;
      if (!mine && owner.implied.has(`${a}\n${b}`)) continue;
      const end = (key: string) => (pieces && !mine ? within(boxes.get(key)!, owner) : seenAs(boxes.get(key)!, visible));
      const [source, target] = [end(a), end(b)];
      const id = `${source}→${target}`;
      if (!source || !target || source === target || seen.has(id)) continue;
      seen.add(id);
      const [left, top] = origins.get(owner.key) ?? [0, 0];
      const bends = (spots.bends[`${source}\n${target}`] ?? []).map((one) => ({ x: left + one.x, top: top + one.top, bottom: top + one.bottom }));
      edges.push({ id, type: "joined", data: { bends }, source, target, focusable: false, className: mine ? "mine" : undefined, zIndex: mine ? 1 : 0, markerEnd: { type: MarkerType.ArrowClosed, color: mine ? "var(--link)" : "var(--edge)" } });
    }
    for (const one of owner.inner) if (open.has(one.key)) join(one);
  };
  join(root);
  return { nodes, edges };
}

/** A box, or the closed one around it that is shown instead. */
function seenAs(box: Box, visible: Set<string>): string | null {
  for (let one: Box | null = box; one; one = one.up) if (visible.has(one.key)) return one.key;
  return null;
}

function summed(box: Box, states: States, over: boolean): Sum {
  const own = box.node && states.places.get(box.node.path);
  // A branch, loop or group of a program has no record of its own; it shows that of the calls inside of it.
  if (own || !box.inner.length) return sum(own ?? [], over);
  const inside = box.places.flatMap((place) => states.places.get(place) ?? []);
  return sum(inside, over, box.node ? 0 : box.places.length);
}
