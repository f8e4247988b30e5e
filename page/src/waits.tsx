// Everything that somebody is waited for.
import { ask, type Wait } from "./api";
import { Answer } from "./answer";
import { Trouble, arrows, useAsked } from "./parts";

type Found = Wait & { runId: string };

export function Waits() {
  const { found, error, again } = useAsked((signal) => ask<{ waiting: Found[] }>("/api/waiting", undefined, signal), [], 3000);
  return (
    <>
      <h1>Waiting</h1>
      <Trouble error={error} />
      {found && !found.waiting.length && <p className="empty">No run waits for an event or an approval.</p>}
      <div onKeyDown={arrows}>
        {found?.waiting.map((wait) => (
          <Answer key={`${wait.runId} ${wait.path} ${wait.since}`} run={wait.runId} wait={wait} done={again} named />
        ))}
      </div>
    </>
  );
}
