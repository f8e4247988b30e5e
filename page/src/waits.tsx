// Everything that somebody is waited for.
import { ask, type Wait } from "./api";
import { Answer } from "./answer";
import { Empty, Trouble, arrows, useAsked, useTitle } from "./parts";

type Found = Wait & { runId: string; name: string };

export function Waits() {
  const { found, error, again } = useAsked((signal) => ask<{ waiting: Found[] }>("/api/waiting", undefined, signal), [], 3000);
  useTitle("Waiting");
  return (
    <>
      <h1>Waiting</h1>
      <Trouble error={error} />
      {!found && !error && <p className="empty" role="status">Loading…</p>}
      {found && !found.waiting.length && (
        <Empty title="No run waits for an event or an approval.">
          What a <code>wait</code> node asks for is answered here, as soon as a run comes to one.
        </Empty>
      )}
      <div onKeyDown={arrows}>
        {found?.waiting.map((wait) => (
          <Answer key={`${wait.runId} ${wait.path} ${wait.since}`} run={wait.runId} wait={wait} done={again} name={wait.name || wait.runId} />
        ))}
      </div>
    </>
  );
}
