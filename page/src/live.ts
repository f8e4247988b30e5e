// A live run: its journal, then its events. Without an event stream, the journal is polled.
import { BASE } from "./base";
import { parseJson } from "./exact";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { ask, ENDED, parked, runAt, type Event, type Graph, type Run } from "./api";
import { Lines } from "./lines";
import { baseOf, empty, takeEvent, takeRun, type States } from "./states";

const POLL = 2000;
const REFRESH = 1500;
/** A run that takes long to load is polled less often: the pause is this multiple of the loading time. */
const LEISURE = 5;

export function useRun(id: string) {
  const [run, setRun] = useState<Run | null>(null);
  const [graph, setGraph] = useState<Graph | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [round, setRound] = useState(0);
  const [version, setVersion] = useState(0);
  const states = useRef<States>(empty());
  const lines = useMemo(() => new Lines(id), [id, round]);  // a retry begins the lines of its steps again
  useEffect(() => () => lines.close(), [lines]);

  useEffect(() => {
    const stop = new AbortController();
    ask<Graph>(runAt(id, "/graph"), undefined, stop.signal).then(setGraph, (problem) => {
      if (!stop.signal.aborted) setError(problem);
    });
    return () => stop.abort();
  }, [id, round]);

  useEffect(() => {
    const stop = new AbortController();
    let source: EventSource | null = null;
    let timer = 0, frame = 0, refresh = 0, failed = 0, took = 0;
    let over = false;
    states.current = empty();

    const load = async () => {
      const begun = performance.now();
      try {
        const found = await ask<Run>(runAt(id, "?events=false"), undefined, stop.signal);
        if (stop.signal.aborted) return null;
        takeRun(states.current, found);
        if (!source || !goes(found)) void lines.load();
        setRun(found);
        setError(null);
        setVersion((n) => n + 1);
        took = performance.now() - begun;
        return found;
      } catch (problem) {
        if (!stop.signal.aborted) setError(problem);
        return null;
      }
    };
    const goes = (found: Run | null) => !found || !(ENDED.has(found.status) || found.interrupted || parked(found));
    const poll = async () => {
      const found = await load();
      if (!stop.signal.aborted && goes(found)) timer = window.setTimeout(poll, POLL);
    };
    const show = () => {
      frame ||= requestAnimationFrame(() => ((frame = 0), setVersion((n) => n + 1)));
      refresh ||= window.setTimeout(() => ((refresh = 0), void (over || load())), Math.max(REFRESH, LEISURE * took));
    };
    const follow = () => {
      source = new EventSource(BASE + runAt(id, "/events"));
      const take = (message: MessageEvent<string>) => {
        failed = 0;
        const event = parseJson(message.data) as Event;
        if (event.kind === "node.log") {
          lines.take(event);
          // A run that another process executes has no event for the start of a node.
          if (states.current.instances.has(baseOf(event.path))) return;
          event.kind = "node.started";
        }
        takeEvent(states.current, event);
        show();
      };
      for (const kind of KINDS) source.addEventListener(kind, take as EventListener);
      source.addEventListener("end", () => {
        over = true;
        source?.close();
        source = null;
        void load().then((found) => { if (goes(found)) void poll(); });  // what comes right before the end is recorded a moment later
      });
      source.onerror = () => {
        if (++failed < 4 && source?.readyState !== EventSource.CLOSED) return;
        source?.close();
        source = null;
        void poll();
      };
    };
    void load().then((found) => {
      if (!stop.signal.aborted && found && goes(found)) follow();
    });
    return () => {
      stop.abort();
      source?.close();
      clearTimeout(timer);
      clearTimeout(refresh);
      cancelAnimationFrame(frame);
    };
  }, [id, round]);

  const again = useCallback(() => setRound((n) => n + 1), []);
  return { run, graph, error, states: states.current, version, lines, again };
}

const KINDS = [
  "run.started", "run.resumed", "run.waiting", "run.interrupted", "run.finished", "node.started", "node.finished",
  "node.recovered", "node.failed", "node.skipped", "attempt.failed", "timer.set", "wait.started", "signal.received",
  "items.listed", "branch.taken", "node.log",
];
