// When each node instance ran. Only the visible rows exist, so that tens of thousands of rows scroll.
import { useEffect, useMemo, useRef, useState } from "react";
import { arrows, mark, took } from "./parts";
import { attemptStatus, last, statusOf, type Instance, type States } from "./states";

const ROW = 26;

export function TimeLine({ states, version, over, from, to, chosen, choose }: {
  states: States; version: number; over: boolean; from: number; to: number | null; chosen: string | null;
  choose: (instance: Instance) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [tall, setTall] = useState(600);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setTall(entry.contentRect.height));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (over) return;
    const timer = setInterval(() => setNow(Date.now()), 300);
    return () => clearInterval(timer);
  }, [over]);
  const rows = useMemo(
    () => [...states.instances.values()].filter((one) => last(one).started !== null && statusOf(one, true) !== "skipped")
      .sort((a, b) => begun(a) - begun(b)),
    [states, version],
  );
  const begin = Math.min(from, rows.length ? begun(rows[0]) : from);
  const seen = rows.reduce((most, one) => Math.max(most, last(one).ended ?? 0), to ?? 0);
  const end = Math.max(over ? seen : Math.max(now, seen), begin + 1);
  const first = Math.max(0, Math.floor(top / ROW) - 10);
  const view = rows.slice(first, first + Math.ceil(tall / ROW) + 20);
  const share = (at: number) => `${(100 * (at - begin)) / (end - begin)}%`;
  return (
    <div className="time" ref={box} role="region" aria-label="Timeline" onKeyDown={arrows} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
      <div className="scale" aria-hidden="true">
        {[0, 0.25, 0.5, 0.75, 1].map((part) => <span key={part} style={{ left: `${part * 100}%` }}>{part ? took((end - begin) * part) : "0"}</span>)}
      </div>
      {!rows.length && <p className="empty">Nothing has started yet.</p>}
      <div className="bars" style={{ height: rows.length * ROW }}>
        {view.map((one, i) => {
          const { started, ended } = last(one);
          const status = statusOf(one, over);
          const until = ended ?? (over ? started! : now);
          return (
            <button
              data-row=""
              key={one.base}
              className={`bar-row is-${status}`}
              style={{ top: (first + i) * ROW }}
              aria-pressed={chosen === one.base}
              onClick={() => choose(one)}
              title={`${one.base}: ${took(until - started!)}${status === "undone" ? ", undone" : ""}`}
            >
              <span className="label"><span className="mark" aria-hidden="true">{mark(status)}</span> <bdi>{one.base}</bdi></span>
              <span className="track">
                {[...one.attempts.values()].map((attempt) => attempt.started !== null && (
                  <span key={attempt.path} className={`bar is-${attemptStatus(attempt, one)}`} style={{
                    left: share(attempt.started), width: `max(3px, ${(100 * ((attempt.ended ?? until) - attempt.started)) / (end - begin)}%)`,
                  }} />
                ))}
              </span>
              <span className="took">{took(until - started!)}</span>
            </button>
          );
        })}
      </div>
    </div>
  );
}

function begun(instance: Instance): number {
  let first = Infinity;
  for (const { started } of instance.attempts.values()) if (started !== null) first = Math.min(first, started);
  return first;
}
