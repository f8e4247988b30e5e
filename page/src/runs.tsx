// Every run in the store, newest first, page by page.
import { memo, useCallback, useEffect, useRef, useState } from "react";
import { ask, PAGE, parked, standing, type DefinitionLine, type RunLine } from "./api";
import { Empty, Status, Trouble, When, arrows, took, useAsked, useTitle } from "./parts";
import { Link, go, runPlace, setQuery } from "./place";
import { undoWord } from "./undo";
import type { Found } from "./waits";

const STATUSES = ["running", "waiting", "completed", "partial", "failed", "stopped", "timeout", "parked"];
const COLUMNS = ["", "Status", "Run", "Started", "Took", "Errors"];

export function Runs({ query, waits }: { query: URLSearchParams; waits: Found[] | null }) {
  const status = query.get("status") ?? "";
  const text = query.get("text") ?? "";
  const definition = query.get("definition") ?? "";
  const flow = query.get("flow") ?? "";
  const since = query.get("since") ?? "", until = query.get("until") ?? "";
  const filtered = status || text || definition || flow || since || until;
  const [typed, setTyped] = useState(text);
  const [two, setTwo] = useState<string[]>([]);
  useTitle("Runs");
  useEffect(() => {
    const timer = setTimeout(() => setQuery("text", typed.trim()), 200);
    return () => clearTimeout(timer);
  }, [typed]);
  const { runs, error, more, busy } = useRuns({ status, text, definition, flow, since: midnight(since), until: midnight(until, 1) });
  // Up to a power of two, so that rows are rendered again only when the scale changes.
  const longest = 2 ** Math.ceil(Math.log2((runs ?? []).reduce((most, run) => Math.max(most, durationOf(run)), 1)));
  const waiting = new Set(waits?.map((wait) => `${wait.runId}\n${wait.node}`));
  const choose = useCallback(
    (id: string) => setTwo((two) => (two.includes(id) ? two.filter((one) => one !== id) : [...two, id].slice(-2))), [],
  );
  return (
    <>
      <h1>Runs</h1>
      <div className="tools filters">
        <input type="search" placeholder="Search: id, name, error" aria-label="Search runs" value={typed}
          onChange={(event) => setTyped(event.target.value)} />
        <select aria-label="Status" value={status} onChange={(event) => setQuery("status", event.target.value)}>
          <option value="">all statuses</option>
          {STATUSES.map((one) => <option key={one}>{one}</option>)}
        </select>
        <OfDefinition definition={definition} flow={flow} />
        <label className="date">From <input type="date" value={since} max={until || undefined} onChange={(event) => setQuery("since", event.target.value)} /></label>
        <label className="date">To <input type="date" value={until} min={since || undefined} onChange={(event) => setQuery("until", event.target.value)} /></label>
        {two.length > 0 && <button disabled={two.length !== 2} title={two.length === 2 ? undefined : "Select two runs to compare them"}
          onClick={() => go(`${runPlace(two[0])}/diff?with=${encodeURIComponent(two[1])}`)}>
          Compare ({two.length} of 2)
        </button>}
      </div>
      <Trouble error={error} />
      {!runs && !error && <p className="empty" role="status">Loading…</p>}
      {runs?.length === 0 && (filtered
        ? <Empty title="No matching run.">
            <button onClick={() => (setTyped(""), go("/runs"))}>Show all runs</button>
          </Empty>
        : <Empty title="No runs yet.">
            Start one from its <Link to="/definitions">definition</Link>, or from the command line: <code>ropewalk run FILE</code>.
            You can watch it here.
          </Empty>)}
      {runs !== null && runs.length > 0 && (
        <div className="table" role="table" aria-label="Runs" onKeyDown={arrows}>
          <div className="row head" role="row">
            {COLUMNS.map((name, i) => (
              <span key={name} role="columnheader" className={i > 4 ? "number" : undefined}>{name || <span className="unseen">Compare</span>}</span>
            ))}
          </div>
          {runs.map((run) => 
            <Row key={run.runId} run={run} longest={longest} chosen={two.includes(run.runId)} choose={choose} waits={waiting.has(`${run.runId}\n${run.currentNode}`)} />
          )}
        </div>
      )}
      {more && <More busy={busy} more={more} shown={runs?.length ?? 0} />}
    </>
  );
}

/** The start of a day of this browser's time zone, or of the day `days` later, in seconds since the epoch. */
function midnight(day: string, days = 0): string {
  const [year, month, date] = day.split("-").map(Number);
  const at = new Date(year, month - 1, date + days).getTime() / 1000;
  return day && Number.isFinite(at) ? String(at) : "";
}

/** The filter by definition: a stored one by its id, a file by the name of its flow. */
function OfDefinition({ definition, flow }: { definition: string; flow: string }) {
  const { found } = useAsked((signal) => ask<{ definitions: DefinitionLine[] }>("/api/definitions", undefined, signal), []);
  const options = new Map((found?.definitions ?? []).map((one) => {
    const isStored = one.notation === undefined;
    return [isStored ? `definition ${one.id}` : `flow ${one.name}`, one.name ? `${one.name} (${one.id})` : one.id];
  }));
  const chosen = definition ? `definition ${definition}` : flow ? `flow ${flow}` : "";
  if (chosen && !options.has(chosen)) options.set(chosen, definition || flow);
  return (
    <select aria-label="Definition" value={chosen} onChange={(event) => {
      const [name, ...value] = event.target.value.split(" ");
      setQuery("definition", name === "definition" ? value.join(" ") : null);
      setQuery("flow", name === "flow" ? value.join(" ") : null);
    }}>
      <option value="">all definitions</option>
      {[...options].map(([value, title]) => <option key={value} value={value}>{title}</option>)}
    </select>
  );
}

/** The first page, requested again and again, and the pages below it, requested once. */
function useRuns(filters: Record<string, string>) {
  const about = Object.values(filters);
  const [older, setOlder] = useState<{ of: string; runs: RunLine[]; end: boolean } | null>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const of = about.join("\n");
  const get = (after: string | null, signal?: AbortSignal) => {
    const query = new URLSearchParams({ limit: String(PAGE) });
    for (const [name, value] of Object.entries({ ...filters, after })) if (value) query.set(name, value);
    return ask<{ runs: RunLine[] }>(`/api/runs?${query}`, undefined, signal);
  };
  const { found, error } = useAsked((signal) => get(null, signal), about, 2000);
  const first = found?.runs ?? null;
  const kept = older?.of === of ? older : null;
  // What was begun since pushes runs from the first page; the pages behind it follow what was its end.
  const seen = new Set(first?.map((run) => run.runId));
  const runs = first && [...first, ...(kept?.runs.filter((run) => !seen.has(run.runId)) ?? [])];
  const last = kept?.runs.at(-1)?.runId ?? first?.at(-1)?.runId ?? null;
  const full = kept ? !kept.end : (first?.length ?? 0) === PAGE;
  const more = useCallback(async () => {
    setBusy(true);
    try {
      const next = (await get(last)).runs;
      setOlder({ of, runs: [...(kept?.runs ?? first ?? []), ...next], end: next.length < PAGE });
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    } finally {
      setBusy(false);
    }
  }, [of, last, kept, first]);
  return { runs, error: error ?? problem, more: full ? more : null, busy };
}

/** Requests the next page at the end of the list. It is a button, so that the keyboard reaches it. */
function More({ busy, more, shown }: { busy: boolean; more: () => Promise<void>; shown: number }) {
  const button = useRef<HTMLButtonElement>(null);
  const does = useRef(more);
  does.current = more;
  useEffect(() => {
    if (busy || !button.current) return;
    const watch = new IntersectionObserver(([entry]) => entry.isIntersecting && void does.current(), { rootMargin: "300px" });
    watch.observe(button.current);
    return () => watch.disconnect();
  }, [busy]);
  return (
    <p className="more">
      <button ref={button} disabled={busy} onClick={() => void more()}>{busy ? "Loading…" : "Older runs"}</button>
      <small>{shown.toLocaleString()} shown</small>
    </p>
  );
}

/** Milliseconds that a run took, or has taken until now. */
const durationOf = (run: RunLine) => run.duration ?? (run.interrupted || parked(run) ? 0 : Date.now() - Date.parse(run.startTime));

/** A bar for a duration. Runs take milliseconds or hours, so its scale is logarithmic. */
function Duration({ ms, longest, status }: { ms: number; longest: number; status: string }) {
  return (
    <span className={`duration is-${status}`} title={`${took(ms)}. The bar is logarithmic: a full one is ${took(longest)}.`}>
      {took(ms)}
      <span className="bar" style={{ width: `${(100 * Math.log1p(ms)) / Math.log1p(longest)}%` }} />
    </span>
  );
}

/** A row of an older page is not rendered again when the first page is polled. */
const Row = memo(function Row({ run, chosen, choose, waits, longest }: {
  run: RunLine; chosen: boolean; choose: (id: string) => void; waits: boolean; longest: number;
}) {
  const isBad = ["failed", "timeout", "stopped", "interrupted"].includes(standing(run));
  const ms = durationOf(run);
  return (
    <div className="row" role="row">
      <span role="cell">
        <label className="check">
          <input type="checkbox" checked={chosen} aria-label={`Compare ${run.runId}`} onChange={() => choose(run.runId)} />
        </label>
      </span>
      <span role="cell"><Status is={standing(run)} />{run.undoStatus && <small> ↶ {undoWord(run.undoStatus)}</small>}</span>
      <span role="cell" className="what">
        <Link to={runPlace(run.runId)} data-row="" dir="auto" title={run.name}>{run.name || run.runId}</Link>
        <small title={run.runId}>{run.kind} · {run.runId}{run.currentNode && <> · {waits ? <b className="count is-waiting">waiting at {run.currentNode}</b> : `at ${run.currentNode}`}</>}</small>
        {run.errorMessage && <small className={isBad ? "bad" : undefined} dir="auto" title={run.errorMessage}>{run.errorMessage}</small>}
      </span>
      <span role="cell"><When at={run.startTime} /></span>
      <span role="cell" className="number">{ms > 0 && <Duration ms={ms} longest={longest} status={standing(run)} />}</span>
      <span role="cell" className={`number ${run.errorCount && isBad ? "bad" : ""}`}>
        {run.errorCount ? <>{run.errorCount.toLocaleString()}<span className="unseen"> {run.errorCount === 1 ? "error" : "errors"}</span></> : ""}
      </span>
    </div>
  );
});
