// The approvals and events that any run waits for.
import { useState } from "react";
import { ask, type Wait } from "./api";
import { Answer } from "./answer";
import { Empty, Trouble, arrows, useAsked, useTitle } from "./parts";

export type Found = Wait & { runId: string; name: string };
const MOST_LISTED = 100;

/** Asked for by every view, as the head of the page says how many there are. */
export function useWaits() {
  const { found, error, again } = useAsked((signal) => ask<{ waiting: Found[] }>("/api/waiting", undefined, signal), [], 3000);
  return { found: found?.waiting ?? null, error, again };
}

export function Waits({ found, error, again }: ReturnType<typeof useWaits>) {
  const [most, setMost] = useState(MOST_LISTED);
  useTitle("Waiting");
  return (
    <>
      <h1>Waiting</h1>
      <Trouble error={error} />
      {!found && !error && <p className="empty" role="status">Loading…</p>}
      {found && !found.length && (
        <Empty title="No run waits for an event, an approval or an answer.">
          Approvals and events that <code>wait</code> nodes wait for appear here, and questions of MCP servers.
        </Empty>
      )}
      <div onKeyDown={arrows}>
        {found?.slice(0, most).map((wait) => (
          <Answer key={`${wait.runId} ${wait.path} ${wait.since}`} run={wait.runId} wait={wait} done={again} name={wait.name || wait.runId} isMain={found.length === 1} />
        ))}
      </div>
      {found && found.length > most && (
        <p className="more">
          <button onClick={() => setMost(most + MOST_LISTED)}>More</button>
          <small>{most.toLocaleString()} of {found.length.toLocaleString()} shown</small>
        </p>
      )}
    </>
  );
}
