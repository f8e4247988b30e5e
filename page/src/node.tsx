// What is known of one node: as it is written, and in each round or item what came of it.
import { useEffect, useMemo, useRef, useState } from "react";
import { ask, runAt, type Graph, type GraphNode, type Json, type Region } from "./api";
import { Act, Status, Value, mark, messageOf, took, useAsked } from "./parts";
import { last, statusOf, type Instance, type States } from "./states";

const MOST_LISTED = 300, MOST_BESIDE = 12;

export function NodePanel({ run, place, choose, graph, states, version, over, base, setBase, close, toIt, retry, fork }: {
  run: string; place: string; choose: (place: string) => void; graph: Graph; states: States; version: number; over: boolean; base: string | null;
  setBase: (base: string) => void; close: () => void; toIt: boolean; retry: ((path: string) => Promise<unknown>) | null;
  fork: (path: string) => void;
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
      <p className="sub">{node?.title}{node && place !== node.id && <> · <code>{place}</code></>}</p>
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
      {instance && <Ended instance={instance} />}
      {instance && (
        <div className="acts">
          {retry && <Act title="This node and what comes behind it are run anew" does={() => retry(instance.base)}>Retry from here</Act>}
          <button title="A new run, in which this node is run anew" onClick={() => fork(instance.base)}>Fork from here…</button>
        </div>
      )}
      {instance && <Came run={run} instance={instance} states={states} calls={node?.kind === "Call"} />}
      {!instance && (
        <p className="hint">
          {!node ? "The definition of this run has no such node."
            : over ? "The run did not come to this node, or nothing was recorded of it." : "The run has not come to this node yet."}
        </p>
      )}
      {node && region && <Beside node={node} region={region} choose={choose} />}
      {node && node.lines.length > 0 && (
        <section className="value">
          <h4>As it is written</h4>
          <ul className="lines">{node.lines.map((line, i) => <li key={i}><code>{line}</code></li>)}</ul>
        </section>
      )}
    </aside>
  );
}

/** The nodes right before and after it. */
function Beside({ node, region, choose }: { node: GraphNode; region: Region; choose: (place: string) => void }) {
  const path = (id: string) => region.nodes.find((one) => one.id === id)!.path;
  const sides: [string, string[]][] = [
    ["Waits for", region.edges.filter(([, b]) => b === node.id).map(([a]) => a)],
    ["Then", region.edges.filter(([a]) => a === node.id).map(([, b]) => b)],
  ];
  return (
    <dl className="beside">
      {sides.map(([title, ids]) => ids.length > 0 && (
        <div key={title}>
          <dt>{title}</dt>
          <dd>
            {ids.slice(0, MOST_BESIDE).map((id) => <button key={id} className="chip" title={id} onClick={() => choose(path(id))}>{id}</button>)}
            {ids.length > MOST_BESIDE && <small>and {(ids.length - MOST_BESIDE).toLocaleString()} more</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** What a call was given: the server finds it out, as a journal keeps only its digest. */
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
          <div><dt>Began</dt><dd>{clock(end.started)}</dd></div>
          {end.ended !== null && <div><dt>Ended</dt><dd>{clock(end.ended)}</dd></div>}
          {end.ended !== null && <div><dt>Took</dt><dd>{took(end.ended - end.started)}</dd></div>}
          {end.replayed && <div><dt>Called</dt><dd>not again: it was recorded before</dd></div>}
        </dl>
      )}
      {end.status === "failed" && (
        <div className="trouble">
          <h3 dir="auto">Error: {messageOf(end.error) || "nothing is said of it"}</h3>
          {typeof about.kind === "string" && <small>{about.kind}{about.retryable === false && ", which another try would not mend"}</small>}
        </div>
      )}
    </>
  );
}

function Came({ run, instance, states, calls }: { run: string; instance: Instance; states: States; calls: boolean }) {
  const attempts = [...instance.attempts.values()];
  const end = last(instance);
  const items = itemsOf(instance, states);
  return (
    <>
      {calls && end.status !== "skipped" && <Input run={run} base={instance.base} status={end.status} />}
      {items.map(([path, item]) => <Value key={path} of={item} label={`Item of ${path}`} />)}
      {attempts.length > 1 && (
        <table className="attempts">
          <caption>Attempts</caption>
          <thead><tr><th scope="col">#</th><th scope="col">Status</th><th scope="col">Took</th><th scope="col">Error</th></tr></thead>
          <tbody>
            {attempts.map((one, i) => (
              <tr key={one.path}>
                <td>{i + 1}</td>
                <td><Status is={one.status} /></td>
                <td>{one.started !== null && one.ended !== null && took(one.ended - one.started)}</td>
                <td dir="auto">{i > 0 && one.error != null && messageOf(one.error) === messageOf(attempts[i - 1].error) ? <em>the same</em> : messageOf(one.error)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {end.reason && <p>Skipped: {end.reason}</p>}
      {end.decision !== undefined && end.decision !== null && <Value of={end.decision} label={Array.isArray(end.decision) ? `Items, ${end.decision.length.toLocaleString()}` : "Decision"} />}
      {end.status === "recovered" && <p>Recovered from: {messageOf(end.error)}</p>}
      {(end.status === "ok" || end.status === "recovered") && end.value !== undefined && end.value !== null && <Value of={end.value} label="Output" />}
      {(end.status === "failed" || end.status === "recovered") && <Value of={end.error ?? null} label="Error, as it is recorded" />}
    </>
  );
}

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
  const [id] = place.split("/");
  for (const node of region.nodes) {
    if (node.path === place) return [node, region];
    if (place.startsWith(`${node.path}/`) || node.id === id) {
      for (const group of node.groups) {
        const found = find(group, place);
        if (found) return found;
      }
    }
  }
  return null;
}
