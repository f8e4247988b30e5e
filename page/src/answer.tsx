// What a run waits for, and answering it.
import { useState } from "react";
import { ask, runAt, type Json, type Question, type Wait } from "./api";
import { LaterFacts } from "./facts";
import { useForm } from "./form";
import { notify } from "./notices";
import { Act, Copy, JsonField, When, readJson } from "./parts";
import { Link, runPlace } from "./place";

const asks = (wait: Wait) => {
  if (wait.approval !== undefined) return <>asks: <strong dir="auto">{wait.approval}</strong></>;
  if (wait.question) return <>{wait.question.server} asks: <strong dir="auto">{wait.question.message}</strong></>;
  return <>waits for the event <strong>{wait.event}</strong></>;
};

const REFUSALS: Record<string, string> = { decline: "Declined", cancel: "Cancelled" };

/** The form of an MCP server, or the address that it wants somebody to open. */
function QuestionForm({ question, send, kind }: { question: Question; send: (payload: Json) => Promise<unknown>; kind: string }) {
  const { form, send: sendForm } = useForm(question.schema, "Answer", "payload");
  return (
    <form onSubmit={(event) => event.preventDefault()}>
      {question.url ? <p><code>{question.url}</code> <Copy text={question.url} label="Copy the address" /></p> : form}
      <div className="acts">
        <Act kind={kind} does={() => (question.url ? send(true) : sendForm(send))}>{question.url ? "I have opened it" : "Answer"}</Act>
        <Act kind="danger" does={() => send("decline")}>Decline</Act>
        <Act does={() => send("cancel")}>Cancel</Act>
      </div>
    </form>
  );
}

/** Of several waits in one view, none is the main one. */
export function Answer({ run, wait, done, name, isMain }: { run: string; wait: Wait; done: () => void; name?: string; isMain: boolean }) {
  const [note, setNote] = useState("");
  const [payload, setPayload] = useState("");
  const main = isMain ? "main" : "";
  const say = (what: string) => (notify(`${what} in the run ${name || run}.`), done());
  const send = (value: Json) => ask(runAt(run, "/send"), { event: wait.event!, payload: value })
    .then(() => say(wait.question ? `${REFUSALS[String(value)] ?? "Answered"} ${wait.path}` : `Sent the event ${wait.event}`));
  const approve = (approved: boolean) => ask(runAt(run, "/approve"), { node: wait.path, approved, note: note || null })
    .then(() => say(`${approved ? "Approved" : "Rejected"} ${wait.path}`));
  return (
    <section className="waiting" aria-label={`${wait.path} waits`}>
      <p>
        {name && <><Link to={runPlace(run)} data-row="" dir="auto" title={run}>{name}</Link> <small>{name !== run && run}</small>{" · "}</>}
        <code>{wait.path}</code>{" "}
        {asks(wait)}
        <small> since <When at={wait.since} />{wait.due && <>, until <When at={wait.due} /></>}</small>
      </p>
      {wait.approval !== undefined ? (
        <div className="acts">
          <input aria-label="Note" placeholder="Note (optional)" value={note} onChange={(event) => setNote(event.target.value)} />
          <Act kind={main} does={() => approve(true)}>Approve</Act>
          <Act kind="danger" does={() => approve(false)}>Reject</Act>
        </div>
      ) : wait.question ? (
        <QuestionForm question={wait.question} send={send} kind={main} />
      ) : (
        <div className="acts">
          <JsonField label="Payload (JSON)" rows={2} text={payload} onText={setPayload} />
          <Act kind={main} does={() => send(readJson(payload) ?? null)}>Send</Act>
        </div>
      )}
      {name && wait.approval !== undefined && <LaterFacts run={run} />}
    </section>
  );
}
