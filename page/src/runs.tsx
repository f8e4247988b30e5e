// Every run in the store, newest first.
import { useEffect, useState } from "react";
import { ask, type RunLine } from "./api";
import { Status, Trouble, When, arrows, took, useAsked } from "./parts";
import { Link, go, runPlace, setQuery } from "./place";

const STATUSES = ["running", "waiting", "completed", "partial", "failed", "stopped", "timeout", "parked"];

export function Runs({ query }: { query: URLSearchParams }) {
  const status = query.get("status") ?? "";
  const text = query.get("text") ?? "";
  const definition = query.get("definition") ?? "";
  const [typed, setTyped] = useState(text);
  const [limit, setLimit] = useState(50);
  const [two, setTwo] = useState<string[]>([]);
  useEffect(() => {
    const timer = setTimeout(() => setQuery("text", typed.trim()), 200);
    return () => clearTimeout(timer);
  }, [typed]);
  const { found, error } = useAsked(
    (signal) => {
      const given = new URLSearchParams({ limit: String(limit) });
      for (const [name, value] of [["status", status], ["text", text], ["definition", definition]]) {
        if (value) given.set(name, value);
      }
      return ask<{ runs: RunLine[] }>(`/api/runs?${given}`, undefined, signal);
    },
    [status, text, definition, limit],
    2000,
  );
  const runs = found?.runs ?? [];
  const choose = (id: string) => setTwo(two.includes(id) ? two.filter((one) => one !== id) : [...two, id].slice(-2));
  return (
    <>
      <h1>Runs</h1>
      <div className="tools">
        <input type="search" placeholder="Search: id, name, error" aria-label="Search runs" value={typed}
          onChange={(event) => setTyped(event.target.value)} />
        <select aria-label="Status" value={status} onChange={(event) => setQuery("status", event.target.value)}>
          <option value="">every status</option>
          {STATUSES.map((one) => <option key={one}>{one}</option>)}
        </select>
        {definition && (
          <button onClick={() => setQuery("definition", null)}>of {definition} ✕</button>
        )}
        <button disabled={two.length !== 2}
          onClick={() => go(`${runPlace(two[0])}/diff?with=${encodeURIComponent(two[1])}`)}>
          Compare{two.length ? ` (${two.length} of 2)` : ""}
        </button>
      </div>
      <Trouble error={error} />
      {found && !runs.length && (
        <p className="empty">
          {status || text || definition ? "No run fits." : "No runs yet. Start one: "}
          {!(status || text || definition) && <Link to="/definitions">definitions</Link>}
        </p>
      )}
      {runs.length > 0 && (
        <div className="table" role="table" aria-label="Runs" onKeyDown={arrows}>
          <div className="row head" role="row">
            {["", "Status", "Run", "Started", "Took", "Errors"].map((name) => (
              <span key={name} role="columnheader">{name || <span className="unseen">Compare</span>}</span>
            ))}
          </div>
          {runs.map((run) => <Row key={run.id} run={run} chosen={two.includes(run.id)} choose={choose} />)}
        </div>
      )}
      {runs.length === limit && limit < 1000 && (
        <button onClick={() => setLimit(Math.min(1000, limit + 150))}>More</button>
      )}
    </>
  );
}

function Row({ run, chosen, choose }: { run: RunLine; chosen: boolean; choose: (id: string) => void }) {
  const ms = run.endTime ? Date.parse(run.endTime) - Date.parse(run.startTime) : Date.now() - Date.parse(run.startTime);
  return (
    <div className="row" role="row">
      <span role="cell">
        <input type="checkbox" checked={chosen} aria-label={`Compare ${run.id}`} onChange={() => choose(run.id)} />
      </span>
      <span role="cell"><Status is={run.interrupted ? "interrupted" : run.status} /></span>
      <span role="cell" className="what">
        <Link to={runPlace(run.id)} data-row="">{run.name || run.id}</Link>
        <small>{run.kind} · {run.id}{run.currentNode && ` · at ${run.currentNode}`}</small>
      </span>
      <span role="cell"><When at={run.startTime} /></span>
      <span role="cell" className="number">{run.interrupted || run.status === "waiting" ? "" : took(ms)}</span>
      <span role="cell" className={`number ${run.errorCount ? "bad" : ""}`}>{run.errorCount || ""}</span>
    </div>
  );
}
