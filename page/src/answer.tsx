// What a run waits for, and answering it.
import { useState } from "react";
import { ask, runAt, type Wait } from "./api";
import { LaterFacts } from "./facts";
import { Act, JsonField, When, readJson } from "./parts";
import { Link, runPlace } from "./place";

export function Answer({ run, wait, done, name }: { run: string; wait: Wait; done: () => void; name?: string }) {
  const [note, setNote] = useState("");
  const [payload, setPayload] = useState("");
  const approve = (approved: boolean) => ask(runAt(run, "/approve"), { node: wait.path, approved, note: note || null }).then(done);
  return (
    <section className="waiting" aria-label={`${wait.path} waits`}>
      <p>
        {name && <><Link to={runPlace(run)} data-row="" dir="auto" title={run}>{name}</Link> <small>{name !== run && run}</small>{" · "}</>}
        <code>{wait.path}</code>{" "}
        {wait.approval !== undefined ? <>asks: <strong dir="auto">{wait.approval}</strong></> : <>waits for the event <strong>{wait.event}</strong></>}
        <small> since <When at={wait.since} />{wait.due && <>, until <When at={wait.due} /></>}</small>
      </p>
      {wait.approval !== undefined ? (
        <div className="acts">
          <input aria-label="Note" placeholder="Note (optional)" value={note} onChange={(event) => setNote(event.target.value)} />
          <Act kind="main" does={() => approve(true)}>Approve</Act>
          <Act kind="danger" does={() => approve(false)}>Reject</Act>
        </div>
      ) : (
        <div className="acts">
          <JsonField label="Payload (JSON)" rows={2} text={payload} onText={setPayload} />
          <Act kind="main" does={() => ask(runAt(run, "/send"), { event: wait.event!, payload: readJson(payload) ?? null }).then(done)}>Send</Act>
        </div>
      )}
      {name && wait.approval !== undefined && <LaterFacts run={run} />}
    </section>
  );
}
