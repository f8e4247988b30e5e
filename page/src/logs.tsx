// What the tools of a run, or of one of its nodes, have printed and logged. Only the visible rows exist.
import { useDeferredValue, useEffect, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { isWithin, placeOfLine, sourceOf, type Line, type Lines } from "./lines";
import { Copy, Trouble } from "./parts";

const ROW = 20, BEYOND = 20;
const TIME = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });
const TINTS: Record<string, string> = { stderr: "is-waiting", warning: "is-waiting", error: "is-failed", critical: "is-failed", server: "is-running" };

const clock = (line: Line) => TIME.format(line.at * 1000);
const cut = (line: Line) => `… ${line.leftOut!.toLocaleString()} line${line.leftOut === 1 ? " is" : "s are"} not kept`;
const asText = (lines: Line[]) => lines.map((line) => `${clock(line)}  ${line.path}  ${line.leftOut ? cut(line) : `${sourceOf(line)}: ${line.text}`}`).join("\n");

/** With `base`, the lines of this instance of a node; else those of `only`, a node that can be chosen, or all. */
export function Logs({ lines, over, base, only = "", choose }: {
  lines: Lines; over: boolean; base?: string; only?: string; choose?: (place: string | null) => void;
}) {
  const version = useSyncExternalStore(lines.watch, () => lines.version);
  const [typed, setTyped] = useState("");
  const text = useDeferredValue(typed.trim().toLowerCase());
  const nodes = useMemo(() => {
    const counts = new Map<string, number>();
    if (choose) for (const line of lines.all) counts.set(placeOfLine(line), (counts.get(placeOfLine(line)) ?? 0) + 1);
    return counts;
  }, [lines, version]);
  const shown = useMemo(() => lines.all.filter((line) =>
    (!base || isWithin(line.path, base)) && (!only || isWithin(placeOfLine(line), only)) && (!text || line.text?.toLowerCase().includes(text)),
  ), [lines, version, base, only, text]);
  const left = shown.reduce((sum, line) => sum + (line.leftOut ?? 0), 0);
  const count = shown.reduce((sum, line) => sum + (line.leftOut ? 0 : 1), 0);
  const isFiltered = text !== "" || only !== "";
  return (
    <section className="logs" aria-label="Logs">
      <div className="tools">
        {choose && (
          <select aria-label="Node of the lines" value={only} onChange={(event) => choose(event.target.value || null)}>
            <option value="">all nodes</option>
            {only && !nodes.has(only) && <option value={only}>{only}</option>}
            {[...nodes].map(([place, count]) => <option key={place} value={place}>{place} ({count.toLocaleString()})</option>)}
          </select>
        )}
        <input type="search" aria-label="Search the lines" placeholder="Search the lines" value={typed} onChange={(event) => setTyped(event.target.value)} />
        {shown.length > 0 && <Copy text={() => asText(shown)} label="Lines" />}
        <small role="status">{count > 0 && `${count.toLocaleString()} line${count === 1 ? "" : "s"}`}</small>
      </div>
      <Trouble error={lines.error} />
      {lines.dropped > 0 && <p className="hint">The first {lines.dropped.toLocaleString()} lines made room for newer ones.</p>}
      {left > 0 && (
        <p className="hint">
          {left.toLocaleString()} line{left === 1 ? " is" : "s are"} not kept: a step keeps its first and its last lines
          (<code>log_lines</code> and <code>log_characters</code> in <code>[limits]</code>).
        </p>
      )}
      {shown.length > 0 ? <Rows of={shown} version={version} isLive={!over} withPath={!base} />
        : lines.isLoaded ? <p className="empty">{isFiltered ? "No matching line." : `Nothing was printed or logged${over ? "." : " yet."}`}</p>
          : !lines.error && <p className="empty" role="status">Loading…</p>}
    </section>
  );
}

function Rows({ of, version, isLive, withPath }: { of: Line[]; version: number; isLive: boolean; withPath: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const [top, setTop] = useState(0);
  const [tall, setTall] = useState(600);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setTall(entry.contentRect.height));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  // Somebody who has scrolled up reads on; at the end, new lines push the others up.
  useLayoutEffect(() => {
    if (atEnd.current) box.current!.scrollTop = box.current!.scrollHeight;
  }, [of, version, tall]);
  const widest = useMemo(() => of.reduce((most, line) => Math.max(most, line.text?.length ?? 0), 0), [of]);
  const first = Math.max(0, Math.floor(top / ROW) - BEYOND);
  return (
    <div className="rows" ref={box} tabIndex={0} role="region" aria-label={isLive ? "Lines, live" : "Lines"} onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
      atEnd.current = scrollTop + clientHeight >= scrollHeight - ROW;
      setTop(scrollTop);
    }}>
      <div style={{ height: of.length * ROW, minWidth: `calc(${widest}ch + ${withPath ? 40 : 26}ch)` }}>
        {of.slice(first, first + Math.ceil(tall / ROW) + 2 * BEYOND).map((line, i) => (
          <div className="log" key={`${line.path} ${line.number}${line.leftOut ? " cut" : ""}`} style={{ top: (first + i) * ROW }}>
            <time dateTime={new Date(line.at * 1000).toISOString()}>{clock(line)}</time>
            {withPath && <span className="path" title={line.path}><bdi>{line.path}</bdi></span>}
            {line.leftOut ? <em>{cut(line)}</em> : (
              <>
                <span className={`source ${TINTS[line.level || line.stream || ""] ?? ""}`}>{sourceOf(line)}</span>
                <span className="text" dir="auto">{line.text}</span>
              </>
            )}
          </div>
        ))}
      </div>
    </div>
  );
}
