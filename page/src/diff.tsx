// Two runs next to each other: only the differences.
import { writeJson } from "./exact";
import { ask, runAt, type Json } from "./api";
import { Empty, Status, Trouble, took, useAsked, useTitle } from "./parts";
import { Link, go, runPlace } from "./place";

type Head = { runId: string; name: string; status: string; ms: number | null };
type Place = { path: string; a?: Json; b?: Json; more?: number };
type Change = {
  path: string; what: string; status: string | [string, string]; ms: number | [number, number]; value?: Place[];
  error?: [Json, Json] | null;
};
type Found = {
  a: Head; b: Head; definition: { path: string; what: string; fields: string[] }[]; input: Place[]; nodes: Change[];
  nodesLeftOff: number; same: number; result: Place[]; error: [Json, Json] | null;
};

export function Diff({ a, b }: { a: string; b: string }) {
  const { found, error } = useAsked((signal) => ask<Found>(runAt(a, `/diff?with=${encodeURIComponent(b)}`), undefined, signal), [a, b]);
  useTitle(`${a} and ${b}`);
  return (
    <>
      <h1>Compare runs</h1>
      <Trouble error={error} />
      {error ? <p className="empty">Select two runs in the <Link to="/runs">list of runs</Link> to compare them.</p> : null}
      {!found && !error && <p className="empty" role="status">Loading…</p>}
      {found && (
        <>
          <table className="diff">
            <thead>
              <tr>
                <td />
                {[found.a, found.b].map((one, i) => (
                  <th key={i} scope="col">
                    {"AB"[i]}: <Link to={runPlace(one.runId)}>{one.name || one.runId}</Link><br />
                    <code>{one.runId}</code><br /><span className="ended"><Status is={one.status} /> {took(one.ms)}</span>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              <Rows title="Input" of={found.input} />
              {found.definition.map((change, i) => (
                <tr key={i}><th>{change.path || "definition"}</th><td colSpan={2}>{change.what}{change.fields.length > 0 && ` in ${change.fields.join(", ")}`}</td></tr>
              ))}
              {found.nodes.map((node) => <Node key={node.path} of={node} />)}
              <Rows title="Result" of={found.result} />
              {found.error && <tr><th>Error</th>{found.error.map((one, i) => <td key={i}>{show(one)}</td>)}</tr>}
            </tbody>
          </table>
          {!found.input.length && !found.definition.length && !found.nodes.length && !found.result.length && !found.error && (
            <Empty title="No differences.">The definition, the input, all nodes and the result are the same.</Empty>
          )}
          <p className="hint">
            {found.same.toLocaleString()} nodes are the same
            {found.nodesLeftOff > 0 && `; ${found.nodesLeftOff.toLocaleString()} more differ`}.{" "}
            <button onClick={() => go(`${runPlace(b)}/diff?with=${encodeURIComponent(a)}`)}>Swap</button>
          </p>
        </>
      )}
    </>
  );
}

function Rows({ title, of, inner }: { title: string; of: Place[]; inner?: boolean }) {
  return of.map((place, i) => (
    <tr key={i}>
      <th className={inner ? "inner" : undefined}>{title} <code>{place.path}</code></th>
      {place.more
        ? <td colSpan={2}>{place.more} more differences</td>
        : <><td>{"a" in place ? show(place.a) : <em>missing</em>}</td><td>{"b" in place ? show(place.b) : <em>missing</em>}</td></>}
    </tr>
  ));
}

function Node({ of }: { of: Change }) {
  if (of.what !== "changed") {
    const there = <td><Status is={String(of.status)} /></td>;
    const gone = <td><em>missing</em></td>;
    return <tr><th scope="row"><code>{of.path}</code></th>{of.what === "added" ? <>{gone}{there}</> : <>{there}{gone}</>}</tr>;
  }
  const status = of.status as [string, string];
  const ms = of.ms as [number, number];
  return (
    <>
      <tr>
        <th scope="row"><code>{of.path}</code></th>
        {status.map((one, i) => <td key={i}><Status is={one} /> {took(ms[i])} {of.error?.[i] != null && <>{show(of.error[i])}</>}</td>)}
      </tr>
      <Rows title="value" of={of.value ?? []} inner />
    </>
  );
}

const MOST = 4_000;

function show(value: Json | undefined) {
  const text = typeof value === "string" ? value : writeJson(value, 1) ?? "";
  return <pre dir="auto" tabIndex={text.length > 500 ? 0 : undefined}>{text.length > MOST ? `${text.slice(0, MOST)}… (${text.length.toLocaleString()} characters)` : text}</pre>;
}
