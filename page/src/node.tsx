// One node: its definition, and its result in each iteration or item.
import { useEffect, useMemo, useRef, useState } from "react";
import { ask, runAt, type Ending, type FailedStep, type Graph, type GraphNode, type Json, type Region } from "./api";
import { useActions } from "./actions";
import { Icon } from "./icons";
import type { Lines } from "./lines";
import { Logs } from "./logs";
import { Act, Stack, Status, Value, mark, messageOf, tabs, took, useAsked } from "./parts";
import { attemptStatus, baseOf, last, statusOf, type Instance, type States } from "./states";

const MOST_LISTED = 300, MAX_NEIGHBOURS = 12;

export function NodePanel({ run, place, choose, graph, states, version, lines, over, base, setBase, close, toIt, retry, fork, endings }: {
  run: string; place: string; choose: (place: string) => void; graph: Graph; states: States; version: number; lines: Lines; over: boolean; base: string | null;
  setBase: (base: string) => void; close: () => void; toIt: boolean; retry: (path: string) => Promise<unknown>;
  fork: (path: string) => void; endings: Ending[];
}) {
  const [node, region] = useMemo(() => find(graph, place) ?? [null, null], [graph, place]);
  const [only, setOnly] = useState("");
  const instances = states.places.get(place) ?? [];
  const listed = useMemo(() => {
    const fit = instances.filter((one) => one.base.includes(only));
    const bad = fit.filter((one) => statusOf(one, over) === "failed");
    return [...bad, ...fit.filter((one) => statusOf(one, over) !== "failed")].slice(0, MOST_LISTED);
  }, [instances, only, over, version]);
  const instance = states.instances.get(base ?? "") ?? listed[0];
  const [isLogs, setLogs] = useState(false);
  const can = useActions(run, instance?.base ?? "", instance ? `${statusOf(instance, over)} ${over}` : null);
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    const narrow = matchMedia("(max-width: 899px)").matches;
    if (narrow && toIt) panel.current?.scrollIntoView({ block: "nearest" });
  }, [place]);
  return (
    <aside className="node" aria-label={`Node ${place}`} ref={panel} onKeyDown={(event) => event.key === "Escape" && close()}>
      <header>
        <h2 dir="auto">{node?.id ?? place}</h2>
        {instance ? <Status is={statusOf(instance, over)} /> : <Status is={over ? "unrecorded" : "none"} />}
        <button className="plain icon" onClick={close} aria-label="Close the node">✕</button>
      </header>
      <p className="sub">{node && <Icon kind={node.kind} />}{node?.title}{node && place !== node.id && <> · <code>{place}</code></>}</p>
      {instances.length > 1 && (
        <div className="tools">
          {instances.length > 20 && (
            <input aria-label="Filter instances" placeholder="Filter, such as [17]" value={only} onChange={(event) => setOnly(event.target.value)} />
          )}
          <select aria-label="Instance" value={instance?.base} onChange={(event) => setBase(event.target.value)}>
            {instance && !listed.includes(instance) && <option value={instance.base}>{instance.base}</option>}
            {listed.map((one) => (
              <option key={one.base} value={one.base}>{mark(statusOf(one, over))} {one.base}</option>
            ))}
          </select>
          <small>{instances.length.toLocaleString()} instances{listed.length < instances.length && `, ${listed.length} listed`}</small>
        </div>
      )}
      {instance && (
        <div className="tabs small" role="tablist" aria-label="View of the node" onKeyDown={tabs}>
          {[[false, "Details"], [true, "Logs"]].map(([logs, title]) => (
            <button key={String(title)} role="tab" aria-selected={isLogs === logs} tabIndex={isLogs === logs ? 0 : -1} onClick={() => setLogs(!!logs)}>{title}</button>
          ))}
        </div>
      )}
      {instance && isLogs ? <Logs lines={lines} over={over} base={instance.base} /> : (
        <>
          {instance && <Ended instance={instance} />}
          {instance && (
            <div className="acts">
              {can("retry") && <Act title="Run this node and the nodes after it again" does={() => retry(instance.base)}>Retry from here</Act>}
              {can("fork") && <button title="Start a new run that repeats this node" onClick={() => fork(instance.base)}>Fork from here…</button>}
            </div>
          )}
          {instance && <Came run={run} instance={instance} states={states} calls={node?.kind === "Call"} earlier={earlierOf(instance, endings)} />}
          {!instance && (
            <p className="hint">
              {!node ? "The definition of this run has no such node."
                : over ? "The run did not reach this node, or recorded nothing for it." : "The run has not reached this node yet."}
            </p>
          )}
          {node && region && <Neighbours node={node} region={region} choose={choose} />}
          {node && node.lines.length > 0 && (
            <section className="value">
              <h4>Definition</h4>
              <ul className="lines">{node.lines.map((line, i) => <li key={i}><code>{line}</code></li>)}</ul>
            </section>
          )}
        </>
      )}
    </aside>
  );
}

/** The nodes right before and after it. */
function Neighbours({ node, region, choose }: { node: GraphNode; region: Region; choose: (place: string) => void }) {
  const path = (id: string) => region.nodes.find((one) => one.id === id)!.path;
  const sides: [string, string[]][] = [
    ["Waits for", region.edges.filter(([, b]) => b === node.id).map(([a]) => a)],
    ["Then", region.edges.filter(([a]) => a === node.id).map(([, b]) => b)],
  ];
  return (
    <dl className="neighbours">
      {sides.map(([title, ids]) => ids.length > 0 && (
        <div key={title}>
          <dt>{title}</dt>
          <dd>
            {ids.slice(0, MAX_NEIGHBOURS).map((id) => <button key={id} className="chip" title={id} onClick={() => choose(path(id))}>{id}</button>)}
            {ids.length > MAX_NEIGHBOURS && <small>and {(ids.length - MAX_NEIGHBOURS).toLocaleString()} more</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** The arguments of a call. The server works them out, because the journal keeps only their digest. */
function Input({ run, base, status }: { run: string; base: string; status: string }) {
  const { found, error } = useAsked(
    (signal) => ask<{ arguments: Record<string, Json> }>(runAt(run, `/arguments?node=${encodeURIComponent(base)}`), undefined, signal),
    [run, base, status],
  );
  const given = found?.arguments[base];
  if (!found && !error) return <div className="value"><h4>Input</h4><p className="hint" role="status">Loading…</p></div>;
  return given === undefined ? null : <Value of={given} label="Input" />;
}

/** How it ended: when, and if it failed, why. */
function Ended({ instance }: { instance: Instance }) {
  const end = last(instance);
  const about = end.error && typeof end.error === "object" && !Array.isArray(end.error) ? end.error : {};
  return (
    <>
      {end.started !== null && (
        <dl className="facts">
          <div><dt>Started</dt><dd>{clock(end.started)}</dd></div>
          {end.ended !== null && <div><dt>Ended</dt><dd>{clock(end.ended)}</dd></div>}
          {end.ended !== null && <div><dt>Took</dt><dd>{took(end.ended - end.started)}</dd></div>}
          {end.earlierStart !== undefined && <div><dt>Ran before</dt><dd>from {clock(end.earlierStart)} on, without a recorded result</dd></div>}
          {end.replayed && <div><dt>Reused</dt><dd>recorded by an earlier execution</dd></div>}
        </dl>
      )}
      {end.status === "failed" && (
        <div className="trouble">
          <h3 dir="auto">Error: {messageOf(end.error) || "no message"}</h3>
          {typeof about.kind === "string" && <small>{about.kind}{about.retryable === false && ", another attempt would not help"}</small>}
          <Stack of={end.error} />
        </div>
      )}
      {end.status === "recovered" && <div><p>Recovered from: {messageOf(end.error)}</p><Stack of={end.error} /></div>}
    </>
  );
}

/** The failed attempts of the node that earlier executions of the run made. A retry keeps them. */
const earlierOf = (instance: Instance, endings: Ending[]): FailedStep[] =>
  endings.flatMap((ending) => ending.failed.filter((step) => baseOf(step.path) === instance.base));

function Came({ run, instance, states, calls, earlier }: {
  run: string; instance: Instance; states: States; calls: boolean; earlier: FailedStep[];
}) {
  const attempts = [...instance.attempts.values()];
  const end = last(instance);
  const items = itemsOf(instance, states);
  return (
    <>
      {calls && end.status !== "skipped" && <Input run={run} base={instance.base} status={end.status} />}
      {items.map(([path, item]) => <Value key={path} of={item} label={`Item of ${path}`} />)}
      {attempts.length + earlier.length > 1 && (
        <table className="attempts">
          <caption>Attempts</caption>
          <thead><tr><th scope="col">#</th><th scope="col">Status</th><th scope="col">Took</th><th scope="col">Error</th></tr></thead>
          <tbody>
            {earlier.map((step, i) => (
              <tr key={`${step.path} ${step.ended}`}>
                <td>{i + 1}</td>
                <td><Status is={step.status} /></td>
                <td title={step.ended}>{took(Date.parse(step.ended) - Date.parse(step.started))}</td>
                <td dir="auto">{messageOf(step.error)} <em>(at {clock(Date.parse(step.ended))}, before the run was retried)</em></td>
              </tr>
            ))}
            {attempts.map((one, i) => (
              <tr key={one.path}>
                <td>{earlier.length + i + 1}</td>
                <td><Status is={attemptStatus(one, instance)} /></td>
                <td>{one.started !== null && one.ended !== null && took(one.ended - one.started)}</td>
                <td dir="auto">{i > 0 && one.error != null && messageOf(one.error) === messageOf(attempts[i - 1].error) ? <em>same error</em> : messageOf(one.error)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {end.reason && <p>Skipped: {end.reason}</p>}
      {end.decision !== undefined && end.decision !== null && <Value of={end.decision} label={Array.isArray(end.decision) ? `Items, ${end.decision.length.toLocaleString()}` : "Decision"} />}
      {["ok", "recovered", "undone"].includes(end.status) && end.value !== undefined && end.value !== null && <Value of={end.value} label="Output" />}
      {(end.status === "failed" || end.status === "recovered") && <Value of={withoutStack(end.error ?? null)} label="Recorded error" />}
    </>
  );
}

/** An error without its stack, which has a place of its own. */
const withoutStack = (error: Json): Json =>
  error !== null && typeof error === "object" && !Array.isArray(error) ? Object.fromEntries(Object.entries(error).filter(([name]) => name !== "stack")) : error;

const clock = (at: number) => CLOCK.format(at);
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

/** What each loop around an instance was at: its input from there. */
function itemsOf(instance: Instance, states: States): [string, Json][] {
  const found: [string, Json][] = [];
  for (const match of instance.base.matchAll(/\[(\d+)\]/g)) {
    const owner = instance.base.slice(0, match.index);
    const around = states.instances.get(owner);
    const items = around && last(around).decision;
    if (Array.isArray(items) && items[Number(match[1])] !== undefined) found.push([`${owner}[${match[1]}]`, items[Number(match[1])]]);
  }
  return found;
}

function find(region: Region, place: string): [GraphNode, Region] | null {
  for (const node of region.nodes) {
    if (node.path === place) return [node, region];
    for (const group of node.groups) {
      const found = find(group, place);
      if (found) return found;
    }
  }
  return null;
}
