// One run: its graph or time line, what was chosen in it, and what can be done with it.
import { useEffect, useMemo, useRef, useState } from "react";
import { ask, ENDED, parked, runAt, standing, type Json, type Region, type Run } from "./api";
import { Answer } from "./answer";
import { costsOf, dollars, tokens, total, type Cost } from "./cost";
import { Costs } from "./costs";
import { Graph, toBox } from "./graph";
import { useRun } from "./live";
import { NodePanel } from "./node";
import { Act, Dialog, JsonField, Status, Trouble, Value, When, arrows, messageOf, readJson, tabs, took, useTitle } from "./parts";
import { Link, definitionPlace, go, runPlace, setQuery } from "./place";
import { baseOf, last, statusOf, sum, type Instance } from "./states";
import { TimeLine } from "./timeline";

type Begun = { runId: string; status: string };

export function RunView({ id, query }: { id: string; query: URLSearchParams }) {
  const { run, graph, error, states, version, again } = useRun(id);
  const [dialog, setDialog] = useState<"fork" | "compare" | null>(null);
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
  // Who opens a run that failed wants to see why: the first failure is shown, unless something was chosen.
  useEffect(() => {
    if (byHand.current || chosen || !over || !failed.length) return;
    setChosen(failed[0].place);
    setInstance(failed[0].base);
  }, [failed, over]);
  const costs = useMemo(() => costsOf(run?.nodes ?? []), [run]);
  // As long as its process lives a run that only waits is running; what one wants to know is that it waits.
  const asked = run?.waitingFor.filter((wait) => waitsStill(states.instances.get(baseOf(wait.path)))) ?? [];
  const waits = run?.status === "running" && asked.length > 0 && !works(states, over);
  const status = !run ? "" : waits && standing(run) === "running" ? "waiting" : standing(run);
  useTitle(run ? `${run.name || run.id}: ${status}` : "");
  if (!run) return <Missing id={id} error={error} />;
  const goes = !over;
  return (
    <div className={`run ${inGraph ? "fill" : ""}`}>
      <div className="about">
        <h1 dir="auto">{run.name || run.id}</h1>
        <span role="status"><Status is={status} /></span>
        <div className="acts">
          {goes && <Act kind="danger" title="What is under way is cancelled" does={() => ask(runAt(id, "/stop"), {})}>Stop</Act>}
          {(run.interrupted || parked(run)) && <Act kind="main" title="Goes on where it was left; what is recorded is not called again" does={() => act("/resume")}>Resume</Act>}
          {over && !run.interrupted && run.status !== "completed" && <Act kind="main" title="Goes on from what failed; what is recorded is not called again" does={() => act("/retry")}>Retry</Act>}
          <button title="A new run, with another input" onClick={() => (setForkAt([]), setDialog("fork"))}>Fork…</button>
          <button onClick={() => setDialog("compare")}>Compare…</button>
        </div>
      </div>
      <p className="facts">
        <span>{run.definition
          ? <Link to={definitionPlace(run.definition.kind, run.definition.id)}>{run.kind} {run.definition.id}{run.version && ` v${run.version}`}</Link>
          : run.kind}</span>
        <code>{run.id}</code>
        <span><When at={run.startTime} /></span>
        <span><Elapsed run={run} /></span>
        {run.forkedFrom && <span>forked from <Link to={runPlace(run.forkedFrom)}>{run.forkedFrom}</Link></span>}
        {run.parent && <span>part of <Link to={runPlace(run.parent)}>{run.parent}</Link></span>}
        {Object.entries(counts).map(([name, n]) => <span key={name} className={`count is-${name}`}>{n.toLocaleString()} {name === "left" ? "not finished" : name}</span>)}
        {costs.length > 0 && <Spent costs={costs} />}
      </p>
      <Trouble error={error} />
      {asked.map((wait) => <Answer key={`${wait.path} ${wait.since}`} run={run.id} wait={wait} done={again} />)}
      <Ended run={run} failed={failed} count={counts.failed ?? 0} choose={(base) => choose(placeIn(base), base)} />
      <div className="tabs" role="tablist" aria-label="View of the run" onKeyDown={tabs}>
        {[["graph", "Graph"], ["time", "Time line"], ["data", "Input and result"], ...(costs.length ? [["costs", "Costs"]] : [])].map(([name, title]) => (
          <button key={name} role="tab" aria-selected={view === name} tabIndex={view === name ? 0 : -1} onClick={() => setQuery("view", name === "graph" ? null : name)}>{title}</button>
        ))}
        {inGraph && <Find states={states} graph={graph} choose={choose} />}
      </div>
      <div className={`work ${chosen && inGraph ? "split" : ""}`}>
        {view === "costs" ? (
          <Costs of={costs} choose={(place) => (setQuery("view", null), choose(place))} />
        ) : view === "data" ? (
          <div className="data">
            <Value of={run.input} label="Input" />
            <Value of={run.result ?? null} label="Result" />
            {run.error !== null && <Value of={run.error} label="Error" />}
            {run.endings.length > 0 && <Value of={run.endings} label="How it ended before" />}
          </div>
        ) : view === "time" ? (
          <TimeLine states={states} version={version} over={over} chosen={instance} from={Date.parse(run.startTime)}
            to={run.endTime ? Date.parse(run.endTime) : null} choose={(one) => choose(one.place, one.base)} />
        ) : graph ? (
          <Graph graph={graph} states={states} over={over} version={version} chosen={chosen} choose={choose} />
        ) : <p className="empty" role="status">Loading…</p>}
        {chosen && graph && inGraph && (
          <NodePanel
            key={chosen} run={run.id} place={chosen} choose={(place) => choose(place)} graph={graph} states={states} version={version} over={over}
            base={instance} setBase={setInstance} close={() => (choose(null), toBox(chosen))}
            toIt={byHand.current} retry={over && !run.interrupted ? (path) => act("/retry", { nodes: [path] }) : null}
            fork={(path) => (setForkAt([path]), setDialog("fork"))}
          />
        )}
      </div>
      {dialog === "fork" && <Fork run={run} at={forkAt} close={() => setDialog(null)} />}
      {dialog === "compare" && <Compare run={run} close={() => setDialog(null)} />}
    </div>
  );
}

/** Whether anything goes on that is not only around a node that waits. */
function works(states: ReturnType<typeof useRun>["states"], over: boolean): boolean {
  const all = [...states.instances.values()];
  const waiting = all.filter((one) => statusOf(one, over) === "waiting").map((one) => one.base);
  return all.some((one) => statusOf(one, over) === "running" && !waiting.some((base) => base.startsWith(one.base)));
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
  if (!run.endTime && !goes) return <>{run.interrupted ? "left by its process" : "no process has it"}</>;
  const since = (run.endTime ? Date.parse(run.endTime) : now) - Date.parse(run.startTime);
  const beside = since - (run.duration ?? since);
  return <>{took(run.duration ?? since)}{beside >= 500 && `, and ${took(beside)} in line, waiting or interrupted`}</>;
}

function Spent({ costs }: { costs: Cost[] }) {
  const all = total(costs);
  return <span title="What models were asked in this run">{tokens(all).toLocaleString()} tokens · {dollars(all)}</span>;
}

function Missing({ id, error }: { id: string; error: unknown }) {
  return (
    <>
      <h1 dir="auto">Run {id}</h1>
      <Trouble error={error} />
      {error ? <p className="empty">It may have been cleared away, or be in another store. <Link to="/runs">All runs</Link></p>
        : <p className="empty" role="status">Loading…</p>}
    </>
  );
}

/** What failed, and why; of one failure alone the run's own words are enough. */
function Ended({ run, failed, count, choose }: { run: Run; failed: Instance[]; count: number; choose: (base: string) => void }) {
  if (!failed.length && run.error === null) return null;
  const message = messageOf(run.error);
  const alone = failed.length === 1 && message !== "";
  return (
    <div className="trouble">
      {message || `${count.toLocaleString()} failed${count > failed.length ? `, the first ${failed.length}` : ""}:`}
      {alone && <button className="plain" onClick={() => choose(failed[0].base)}>look at {failed[0].base}</button>}
      {!alone && failed.length > 0 && (
        <ul className="problems">
          {failed.map((one) => (
            <li key={one.base}><button className="plain" onClick={() => choose(one.base)}>look at {one.base}</button> <span dir="auto">{messageOf(last(one).error)}</span></li>
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
      {text && !found.length && <p role="status">No node is called so.</p>}
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
  const [text, setText] = useState(JSON.stringify(run.input, null, 2));
  const [nodes, setNodes] = useState(at.join(" "));
  return (
    <Dialog title="Fork this run" onClose={close}>
      <p>A new run with this input. What was recorded is used where a call would have the same arguments.</p>
      <JsonField label="Input" text={text} onText={setText} rows={8} />
      <label className="field">
        <span>Run anew in any case (ids or paths)</span>
        <input value={nodes} onChange={(event) => setNodes(event.target.value)} />
      </label>
      <Act kind="main" does={async () => {
        const begun = await ask<Begun>(runAt(run.id, "/fork"), { input: readJson(text) ?? null, nodes: nodes.split(/[\s,]+/).filter(Boolean) });
        close();
        go(runPlace(begun.runId));
      }}>Fork</Act>
    </Dialog>
  );
}

function Compare({ run, close }: { run: Run; close: () => void }) {
  const [other, setOther] = useState(run.forkedFrom ?? "");
  return (
    <Dialog title="Compare with another run" onClose={close}>
      <form onSubmit={(event) => {
        event.preventDefault();
        close();
        go(`${runPlace(run.id)}/diff?with=${encodeURIComponent(other.trim())}`);
      }}>
        <label className="field">
          <span>Its id</span>
          <input required value={other} onChange={(event) => setOther(event.target.value)} />
        </label>
        <button className="main">Compare</button>
      </form>
    </Dialog>
  );
}
