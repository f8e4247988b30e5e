// One run: its graph or timeline, the selected node, and the actions on the run.
import { writeJson } from "./exact";
import { useEffect, useMemo, useRef, useState } from "react";
import { ask, ENDED, parked, runAt, standing, type Json, type Region, type Run, type RunLine } from "./api";
import { Answer } from "./answer";
import { costsOf, dollars, tokens, total, type Cost } from "./cost";
import { Costs } from "./costs";
import { Graph, toBox } from "./graph";
import { Facts } from "./facts";
import { useRun } from "./live";
import { Logs } from "./logs";
import { NodePanel } from "./node";
import { Act, Dialog, JsonField, Place, Stack, Status, Trouble, Value, When, arrows, messageOf, readJson, tabs, took, useAsked, useTitle } from "./parts";
import { Link, definitionPlace, go, runPlace, setQuery } from "./place";
import { baseOf, last, statusOf, sum, type Instance } from "./states";
import { TimeLine } from "./timeline";
import { useActions } from "./actions";
import { UndoDialog, Undone } from "./undo";

type Begun = { runId: string; status: string };

export function RunView({ id, query }: { id: string; query: URLSearchParams }) {
  const { run, graph, error, states, version, lines, again } = useRun(id);
  const [dialog, setDialog] = useState<"fork" | "compare" | "undo" | null>(null);
  const [forkAt, setForkAt] = useState<string[]>([]);
  const [chosen, setChosen] = useState<string | null>(query.get("node"));
  const [instance, setInstance] = useState<string | null>(null);
  const byHand = useRef(false);
  const view = query.get("view") ?? "graph";
  const inGraph = view !== "data" && view !== "costs";
  const over = run !== null && (ENDED.has(run.status) || run.interrupted);
  const choose = (place: string | null, base: string | null = null) => {
    byHand.current = true;
    setChosen(place);
    setInstance(base);
    setQuery("node", place);
  };
  const act = (what: string, body: Json = {}) => ask<Begun>(runAt(id, what), body).then(again);
  const counts = useMemo(() => sum([...states.instances.values()], over).counts, [states, version, over]);
  const failed = useMemo(
    () => [...states.instances.values()].filter((one) => statusOf(one, over) === "failed").slice(0, 5),
    [states, version, over],
  );
  // A failed run opens at its first failure, unless a node is selected.
  useEffect(() => {
    if (byHand.current || chosen || !over || !failed.length) return;
    setChosen(failed[0].place);
    setInstance(failed[0].base);
  }, [failed, over]);
  const costs = useMemo(() => costsOf(run?.nodes ?? []), [run]);
  const asked = run?.waitingFor.filter((wait) => waitsStill(states.instances.get(baseOf(wait.path)))) ?? [];
  const can = useActions(id, null, run && `${run.status} ${run.interrupted} ${run.answered} ${run.executing} ${run.undo?.status}`);
  const status = run ? standing({ ...run, waiting: asked.length > 0 }) : "";
  useTitle(run ? `${run.name || run.runId}: ${status}` : "");
  if (!run) return <Missing id={id} error={error} />;
  if (run.kind === "schedule") return <NotBegun run={run} />;
  const details = detailsOf(run), isAsked = asked.length > 0;
  return (
    <div className={`run ${inGraph ? "fill" : ""}`}>
      <div className="about">
        <h1 dir="auto">{run.name || run.runId}</h1>
        <span role="status"><Status is={status} /></span>
        <div className="acts">
          {can("stop") && <Act kind="danger" title="Cancel the steps that are running" does={() => ask(runAt(id, "/stop"), {}).then(() => over && again())}>Stop</Act>}
          {can("resume") && <Act kind={isAsked ? "" : "main"} title="Continue where the run stopped. Recorded steps are not repeated." does={() => act("/resume")}>Resume</Act>}
          {can("retry") && <Act kind="main" title="Run the failed steps again. Recorded steps are not repeated." does={() => act("/retry")}>Retry</Act>}
          {can("undo") && <button title="Take back the finished steps, the last one first" onClick={() => setDialog("undo")}>{run.undo?.undoRun ? "Continue undo…" : "Undo…"}</button>}
          {can("fork") && <button title="Start a new run with different input" onClick={() => (setForkAt([]), setDialog("fork"))}>Fork…</button>}
          <button onClick={() => setDialog("compare")}>Compare…</button>
        </div>
      </div>
      <p className="facts">
        <span>{run.definition
          ? <Link to={definitionPlace(run.definition.kind, run.definition.id)}>{run.kind} {run.definition.id}{run.version && ` v${run.version}`}</Link>
          : run.kind}</span>
        <code>{run.runId}</code>
        <span><When at={run.startTime} isExact /></span>
        <span><Elapsed run={run} /></span>
        {run.forkedFrom && <span>forked from <Link to={runPlace(run.forkedFrom)}>{run.forkedFrom}</Link></span>}
        {run.resumed > 0 && <span>resumed {run.resumed} {run.resumed === 1 ? "time" : "times"}{run.owner && <>, last by <bdi>{run.owner}</bdi></>}</span>}
        {run.parent && <span>part of <Link to={runPlace(run.parent)}>{run.parent}</Link></span>}
        {Object.entries(counts).map(([name, n]) => <span key={name} className={`count is-${name}`}>{n.toLocaleString()} {name === "left" ? "not finished" : name}</span>)}
        {costs.length > 0 && <Spent costs={costs} />}
      </p>
      <Trouble error={error} />
      {asked.map((wait) => <Answer key={`${wait.path} ${wait.since}`} run={run.runId} wait={wait} done={again} isMain={asked.length === 1} />)}
      <Facts of={asked.length > 0 ? run.facts : []} />
      {run.undo && <Undone of={run.undo} />}
      <Ended run={run} failed={failed} count={counts.failed ?? 0} choose={(base) => choose(placeIn(base), base)} />
      <div className="tabs" role="tablist" aria-label="View of the run" onKeyDown={tabs}>
        {[["graph", "Graph"], ["time", "Timeline"], ["logs", "Logs"], ["data", "Result and input"], ...(costs.length ? [["costs", "Costs"]] : [])].map(([name, title]) => (
          <button key={name} role="tab" aria-selected={view === name} tabIndex={view === name ? 0 : -1} onClick={() => setQuery("view", name === "graph" ? null : name)}>{title}</button>
        ))}
        {inGraph && <Find states={states} graph={graph} choose={choose} />}
      </div>
      <div className={`work ${chosen && inGraph ? "split" : ""}`}>
        {view === "costs" ? (
          <Costs of={costs} choose={(place) => (setQuery("view", null), choose(place))} />
        ) : view === "data" ? (
          <div className="data">
            <Value of={run.result} label="Result" />
            <Value of={run.input} label="Input" />
            {run.error !== null && <Value of={run.error} label="Error" />}
            {details !== null && <Value of={details} label="Details of the result" />}
            {run.endings.length > 0 && <Value of={run.endings} label="How the run had ended before each retry" />}
          </div>
        ) : view === "logs" ? (
          <Logs lines={lines} over={over} only={query.get("of") ?? ""} choose={(place) => setQuery("of", place)} />
        ) : view === "time" ? (
          <TimeLine states={states} version={version} over={over} chosen={instance} from={Date.parse(run.startTime)}
            to={run.endTime ? Date.parse(run.endTime) : null} choose={(one) => choose(one.place, one.base)} />
        ) : graph ? (
          <Graph graph={graph} states={states} over={over} version={version} chosen={chosen} choose={choose} />
        ) : <p className="empty" role="status">Loading…</p>}
        {chosen && graph && inGraph && (
          <NodePanel
            key={chosen} run={run.runId} place={chosen} choose={(place) => choose(place)} graph={graph} states={states} version={version} lines={lines} over={over}
            base={instance} setBase={setInstance} close={() => (choose(null), toBox(chosen))}
            endings={run.endings} toIt={byHand.current} retry={(path) => act("/retry", { nodes: [path] })}
            fork={(path) => (setForkAt([path]), setDialog("fork"))}
          />
        )}
      </div>
      {dialog === "fork" && <Fork run={run} at={forkAt} close={() => setDialog(null)} />}
      {dialog === "undo" && <UndoDialog run={run} close={() => setDialog(null)} done={again} />}
      {dialog === "compare" && <Compare run={run} close={() => setDialog(null)} />}
    </div>
  );
}

/** The fields that only the result of this kind of definition has, such as the variables of a chain. */
const COMMON = new Set([
  "runId", "name", "kind", "status", "startTime", "endTime", "duration", "elapsed", "currentNode", "resultCount", "errorCount",
  "interrupted", "queued", "answered", "definition", "definitionId", "version", "fingerprint", "forkedFrom", "parent", "undo",
  "budgets", "owner", "resumed", "input", "result", "error", "endings", "waitingFor", "facts", "nodes", "next", "events",
]);

function detailsOf(run: Run): Json {
  const fields = Object.entries(run).filter(([name]) => !COMMON.has(name));
  return fields.length ? Object.fromEntries(fields) as Json : null;
}

const waitsStill = (instance: Instance | undefined) => !instance || last(instance).status === "waiting";
const placeIn = (base: string) => base.replace(/\[\w+\]/g, "");

function Elapsed({ run }: { run: Run }) {
  const [now, setNow] = useState(Date.now());
  const goes = !run.endTime && !run.interrupted && !parked(run);
  useEffect(() => {
    if (!goes) return;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [goes]);
  if (!run.endTime && !goes) return <>{run.interrupted ? "interrupted" : "no process runs it"}</>;
  const since = (run.endTime ? Date.parse(run.endTime) : now) - Date.parse(run.startTime);
  // A retried run was also executed before each retry.
  const executed = run.duration === null ? since : run.endings.reduce((sum, ending) => sum + 1000 * (ending.spent ?? 0), run.duration);
  const idle = since - executed;
  const reason = run.endings.length ? "queued, waiting, interrupted or not yet retried" : "queued, waiting or interrupted";
  return <>{took(executed)}{idle >= 500 && `, plus ${took(idle)} ${reason}`}</>;
}

function Spent({ costs }: { costs: Cost[] }) {
  const all = total(costs);
  return <span title="Model tokens and cost of this run">{tokens(all).toLocaleString()} tokens · {dollars(all)}</span>;
}

function Missing({ id, error }: { id: string; error: unknown }) {
  return (
    <>
      <h1 dir="auto">Run {id}</h1>
      <Trouble error={error} />
      {error ? <p className="empty">It may have been pruned, or it is in another store. <Link to="/runs">All runs</Link></p>
        : <p className="empty" role="status">Loading…</p>}
    </>
  );
}

/** The record of a schedule whose run could not begin: why, when, and what to do. It has no definition and no steps. */
function NotBegun({ run }: { run: Run }) {
  const due = run.runId.split("/").at(-1)!;  // the id ends with the due time
  return (
    <>
      <div className="about">
        <h1 dir="auto">{run.name}</h1>
        <span role="status"><Status is={run.status} /></span>
      </div>
      <p className="facts">
        <span>schedule <Link to="/schedules"><bdi>{run.name}</bdi></Link></span>
        {!Number.isNaN(Date.parse(due)) && <span>due <When at={due} isExact /></span>}
        <span>recorded <When at={run.startTime} isExact /></span>
        <code>{run.runId}</code>
      </p>
      <div className="trouble">
        <h3>The run could not begin</h3>
        <span dir="auto">{messageOf(run.error) || "no message"}</span>
        <Stack of={run.error} />
      </div>
      <p>Correct the cause, then start the schedule again. Its next run uses the corrected files.</p>
      <div className="acts">
        <Act kind="main" label={`Run ${run.name} now`} does={async () => {
          const begun = await ask<Begun>(`/api/schedules/${encodeURIComponent(run.name)}/run`, {});
          go(runPlace(begun.runId));
        }}>Run now</Act>
      </div>
      {run.input !== null && <Value of={run.input} label="Input" />}
    </>
  );
}

/** The failures of a run, each with its error. For a single one, the error of the run is enough. */
function Ended({ run, failed, count, choose }: { run: Run; failed: Instance[]; count: number; choose: (base: string) => void }) {
  if (!failed.length && run.error === null) return null;
  const message = messageOf(run.error);
  const alone = failed.length === 1 && message !== "";
  return (
    <div className="trouble">
      {message || `${count.toLocaleString()} failed${count > failed.length ? `; the first ${failed.length}` : ""}:`}
      {alone && <button className="plain" onClick={() => choose(failed[0].base)}>Show {failed[0].base}</button>}
      {(alone || !failed.length) && <Stack of={alone ? last(failed[0]).error : run.error} />}
      {!alone && failed.length > 0 && (
        <ul className="problems">
          {failed.map((one) => (
            <li key={one.base}><button className="plain" onClick={() => choose(one.base)}>Show {one.base}</button> <span dir="auto">{messageOf(last(one).error)}</span> <Place of={last(one).error} /></li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Find({ states, graph, choose }: { states: ReturnType<typeof useRun>["states"]; graph: Region | null; choose: (place: string, base: string | null) => void }) {
  const [text, setText] = useState("");
  const fits = (path: string) => path.toLowerCase().includes(text.toLowerCase());
  const found: { place: string; base: string | null }[] = [];
  if (text) {
    found.push(...[...states.instances.values()].filter((one) => fits(one.base)));
    found.push(...placesOf(graph).filter((place) => fits(place) && !states.places.has(place)).map((place) => ({ place, base: null })));
    found.splice(8);
  }
  const take = (one: (typeof found)[0]) => (choose(one.place, one.base), setText(""));
  return (
    <div className="find">
      <input type="search" placeholder="Find a node" aria-label="Find a node" value={text} onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && found[0]) take(found[0]);
          if (event.key === "Escape") setText("");
        }} />
      {text && !found.length && <p role="status">No matching node.</p>}
      {found.length > 0 && (
        <ul onKeyDown={arrows}>
          {found.map((one) => <li key={one.base ?? one.place}><button className="plain" data-row="" onClick={() => take(one)}>{one.base ?? one.place}</button></li>)}
        </ul>
      )}
    </div>
  );
}

function placesOf(region: Region | null): string[] {
  return region?.nodes.flatMap((node) => [node.path, ...node.groups.flatMap(placesOf)]) ?? [];
}

function Fork({ run, at, close }: { run: Run; at: string[]; close: () => void }) {
  const shown = writeJson(run.input, 2);
  const [text, setText] = useState(shown);
  const [nodes, setNodes] = useState(at.join(" "));
  return (
    <Dialog title="Fork this run" onClose={close}>
      <p>Start a new run with this input. A recorded result is reused where a call has the same arguments.</p>
      <JsonField label="Input" text={text} onText={setText} rows={8} />
      <label className="field">
        <span>Always rerun these nodes (ids or paths)</span>
        <input value={nodes} onChange={(event) => setNodes(event.target.value)} />
      </label>
      <Act kind="main" does={async () => {
        // Secrets in the shown input are masked, so an unchanged one is left to the server.
        const body: { [key: string]: Json } = { nodes: nodes.split(/[\s,]+/).filter(Boolean) };
        if (text !== shown) body.input = readJson(text) ?? null;
        const begun = await ask<Begun>(runAt(run.runId, "/fork"), body);
        close();
        go(runPlace(begun.runId));
      }}>Fork</Act>
    </Dialog>
  );
}

const MOST_LISTED = 50;

/** The runs that this one can be compared with: those of its definition first, or all that a search finds. */
function Compare({ run, close }: { run: Run; close: () => void }) {
  const [typed, setTyped] = useState("");
  const [isOfAll, setOfAll] = useState(false);
  const filters = new URLSearchParams({ limit: String(MOST_LISTED + 1) });
  if (typed.trim()) filters.set("text", typed.trim());
  if (!isOfAll) filters.set("flow", run.definition?.kind === "file" ? run.name : run.definition?.id ?? run.name);
  const { found, error } = useAsked((signal) => ask<{ runs: RunLine[] }>(`/api/runs?${filters}`, undefined, signal), [String(filters)]);
  const others = found?.runs.filter((one) => one.runId !== run.runId).slice(0, MOST_LISTED) ?? [];
  return (
    <Dialog title="Compare with another run" onClose={close}>
      <div className="tools">
        <input type="search" aria-label="Search the other run" placeholder="Search: id, name, error" value={typed} onChange={(event) => setTyped(event.target.value)} />
        <label className="tick"><input type="checkbox" checked={isOfAll} onChange={(event) => setOfAll(event.target.checked)} /> All definitions</label>
      </div>
      <Trouble error={error} />
      {!found && !error && <p role="status">Loading…</p>}
      {found && !others.length && <p className="empty">No other run matches{!isOfAll && " in this definition"}.</p>}
      <ul className="pick" aria-label="Runs to compare with" onKeyDown={arrows}>
        {others.map((one) => (
          <li key={one.runId}>
            <button data-row="" onClick={() => (close(), go(`${runPlace(run.runId)}/diff?with=${encodeURIComponent(one.runId)}`))}>
              <span dir="auto">{one.name || one.runId}{one.runId === run.forkedFrom && " (this run is its fork)"}</span>
              <Status is={standing(one)} />
              <small>{one.runId}</small>
              <When at={one.startTime} />
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
