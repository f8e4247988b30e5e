// One run: its graph or time line, what was chosen in it, and what can be done with it.
import { useEffect, useMemo, useState } from "react";
import { ask, ENDED, runAt, type Json, type Run } from "./api";
import { Answer } from "./answer";
import { costOf } from "./cost";
import { Graph } from "./graph";
import { useRun } from "./live";
import { NodePanel } from "./node";
import { Act, Dialog, JsonField, Status, Trouble, Value, When, readJson, took } from "./parts";
import { Link, definitionPlace, go, runPlace, setQuery } from "./place";
import { statusOf, sum } from "./states";
import { TimeLine } from "./timeline";

type Begun = { runId: string; status: string };

export function RunView({ id, query }: { id: string; query: URLSearchParams }) {
  const { run, graph, error, states, version, again } = useRun(id);
  const [dialog, setDialog] = useState<"fork" | "compare" | null>(null);
  const [forkAt, setForkAt] = useState<string[]>([]);
  const [chosen, setChosen] = useState<string | null>(query.get("node"));
  const [instance, setInstance] = useState<string | null>(null);
  const view = query.get("view") ?? "graph";
  const over = run !== null && (ENDED.has(run.status) || run.interrupted);
  const choose = (place: string | null, base: string | null = null) => {
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
  if (!run) return <><h1>Run {id}</h1><Trouble error={error} />{!error && <p className="empty" role="status">Loading…</p>}</>;
  const goes = !over;
  return (
    <div className="run">
      <div className="about">
        <h1>{run.name || run.id}</h1>
        <Status is={run.interrupted ? "interrupted" : run.status} />
        <span className="facts">
          {run.definitionId
            ? <Link to={definitionPlace(run.kind, run.definitionId)}>{run.kind} {run.definitionId}{run.version && ` v${run.version}`}</Link>
            : run.kind}
          {" · "}<code>{run.id}</code> · <When at={run.startTime} /> · <Elapsed run={run} />
          {run.forkedFrom && <> · forked from <Link to={runPlace(run.forkedFrom)}>{run.forkedFrom}</Link></>}
          {run.parent && <> · part of <Link to={runPlace(run.parent)}>{run.parent}</Link></>}
          {Object.entries(counts).map(([name, n]) => <span key={name} className={`count is-${name}`}>{n.toLocaleString()} {name === "left" ? "not finished" : name}</span>)}
        </span>
        <Cost run={run} />
        <div className="acts">
          {goes && <Act kind="danger" does={() => ask(runAt(id, "/stop"), {})}>Stop</Act>}
          {(run.interrupted || run.status === "waiting") && <Act kind="main" does={() => act("/resume")}>Resume</Act>}
          {over && !run.interrupted && run.status !== "completed" && <Act kind="main" does={() => act("/retry")}>Retry</Act>}
          <button onClick={() => (setForkAt([]), setDialog("fork"))}>Fork…</button>
          <button onClick={() => setDialog("compare")}>Compare…</button>
        </div>
      </div>
      <Trouble error={error} />
      {run.waitingFor.map((wait) => <Answer key={`${wait.path} ${wait.since}`} run={run.id} wait={wait} done={again} />)}
      <Ended run={run} failed={failed.map((one) => one.base)} choose={(base) => choose(placeIn(base), base)} />
      <div className="tabs" role="tablist" aria-label="View of the run">
        {[["graph", "Graph"], ["time", "Time line"], ["data", "Input and result"]].map(([name, title]) => (
          <button key={name} role="tab" aria-selected={view === name} onClick={() => setQuery("view", name === "graph" ? null : name)}>{title}</button>
        ))}
        {view !== "data" && <Find states={states} choose={choose} />}
      </div>
      <div className={`work ${chosen ? "split" : ""}`}>
        {view === "data" ? (
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
        {chosen && graph && view !== "data" && (
          <NodePanel
            key={chosen} place={chosen} graph={graph} states={states} version={version} over={over}
            base={instance} setBase={setInstance} close={() => choose(null)}
            retry={over && !run.interrupted ? (path) => act("/retry", { nodes: [path] }) : null}
            fork={(path) => (setForkAt([path]), setDialog("fork"))}
          />
        )}
      </div>
      {dialog === "fork" && <Fork run={run} at={forkAt} close={() => setDialog(null)} />}
      {dialog === "compare" && <Compare run={run} close={() => setDialog(null)} />}
    </div>
  );
}

const placeIn = (base: string) => base.replace(/\[\w+\]/g, "");

function Elapsed({ run }: { run: Run }) {
  const [now, setNow] = useState(Date.now());
  const goes = !run.endTime && !run.interrupted;
  useEffect(() => {
    if (!goes) return;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [goes]);
  if (!run.endTime && !goes) return <>left by its process</>;
  return <>{took((run.endTime ? Date.parse(run.endTime) : now) - Date.parse(run.startTime))}</>;
}

function Cost({ run }: { run: Run }) {
  const found = useMemo(() => costOf(run.nodes.map((step) => step.value)), [run]);
  if (!found) return null;
  return (
    <span className="facts" title="What models were asked in this run">
      {found.tokens.toLocaleString()} tokens{found.dollars === null ? ", price not known" : ` · $${found.dollars.toFixed(4)}`}
    </span>
  );
}

function Ended({ run, failed, choose }: { run: Run; failed: string[]; choose: (base: string) => void }) {
  if (!failed.length && run.error === null) return null;
  const error = run.error;
  const message = error && typeof error === "object" && "message" in error ? String(error.message) : error ? String(error) : "";
  return (
    <div className="trouble">
      {message}{" "}
      {failed.map((base) => (
        <button key={base} className="plain" onClick={() => choose(base)}>look at {base}</button>
      ))}
    </div>
  );
}

function Find({ states, choose }: { states: ReturnType<typeof useRun>["states"]; choose: (place: string, base: string | null) => void }) {
  const [text, setText] = useState("");
  const found = text.length > 0
    ? [...states.instances.values()].filter((one) => one.base.toLowerCase().includes(text.toLowerCase())).slice(0, 8)
    : [];
  const take = (one: (typeof found)[0]) => (choose(one.place, one.base), setText(""));
  return (
    <div className="find">
      <input type="search" placeholder="Find a node" aria-label="Find a node" value={text} onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && found[0]) take(found[0]);
        }} />
      {found.length > 0 && (
        <ul>
          {found.map((one) => <li key={one.base}><button className="plain" onClick={() => take(one)}>{one.base}</button></li>)}
        </ul>
      )}
    </div>
  );
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
