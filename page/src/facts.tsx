// What the flows that ask for an approval may do: tools with effect and undo, the most calls, loops, secrets, waits.
import { useState } from "react";
import { ask, runAt, type Facts as FlowFacts } from "./api";
import { Trouble } from "./parts";

export function Facts({ of }: { of: FlowFacts[] }) {
  return (
    <>
      {of.map((flow) => (
        <details key={`${flow.kind} ${flow.flow}`} className="flow-facts" open>
          <summary>Facts about <bdi>{flow.flow}</bdi> ({flow.kind}): {calls(flow.maxCalls)}</summary>
          <table>
            <thead><tr><th>Tool</th><th>Effect</th><th>Undo</th><th>Calls</th></tr></thead>
            <tbody>
              {flow.tools.map((tool) => (
                <tr key={tool.tool}>
                  <td><code>{tool.tool}</code></td>
                  <td>{tool.effect === "destructive" ? <strong>{tool.effect}</strong> : tool.effect}{!tool.known && " (tool not known here)"}</td>
                  <td>{tool.undo ?? (tool.effect === "read" ? "" : tool.isFlow ? "of its steps" : tool.known ? "none" : "")}</td>
                  <td>{tool.calls === null ? "no limit" : `at most ${tool.calls.toLocaleString()}`}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {flow.loops.length > 0 && <p>Loops without a fixed bound: {flow.loops.map((loop) => loop.node).join(", ")}</p>}
          {flow.secrets.length > 0 && <p>Secrets: {flow.secrets.join(", ")}</p>}
          {flow.waits.length > 1 && <p>Waits: {flow.waits.map((wait) => wait.node).join(", ")}</p>}
        </details>
      ))}
    </>
  );
}

/** The facts of a run in a list of waits: they are loaded when somebody opens them. */
export function LaterFacts({ run }: { run: string }) {
  const [found, setFound] = useState<FlowFacts[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const load = () => found ?? ask<{ facts: FlowFacts[] }>(runAt(run, "/waiting")).then(({ facts }) => setFound(facts), setError);
  return (
    <details className="flow-facts" onToggle={(event) => event.currentTarget === event.target && void load()}>
      <summary>Facts</summary>
      <Trouble error={error} />
      {found && <Facts of={found} />}
    </details>
  );
}

const calls = (most: number | null) => (most === null ? "calls without a static bound" : `at most ${most.toLocaleString()} call${most === 1 ? "" : "s"}`);
