// The undo of a run: how far it is, and the dialog that starts or continues it.
import { ask, runAt, type Run, type UndoReport } from "./api";
import { Act, Dialog } from "./parts";
import { Link, runPlace } from "./place";

/** Seconds that the request waits for the undo to end. */
const PATIENCE = 60;
const MOST_LISTED = 20;

export function UndoDialog({ run, close, done }: { run: Run; close: () => void; done: () => void }) {
  return (
    <Dialog title="Undo this run" onClose={close}>
      <p>Each finished step whose tool has an undo is undone, the last one first. Afterwards the run cannot be retried, only forked.</p>
      <Act kind="danger" does={() => ask(runAt(run.runId, "/undo"), { wait: PATIENCE }).then(() => (close(), done()))}>Undo</Act>
    </Dialog>
  );
}

/** The status of an undo in words. */
const WORDS: Record<string, string> = { undoing: "being undone", incomplete: "undo incomplete" };
export const undoWord = (status: string) => WORDS[status] ?? status;

/** The calls of a run that the undo of another run takes back. */
function Elsewhere({ calls }: { calls: NonNullable<UndoReport["notUndoable"]> }) {
  return (
    <section className="undo" aria-label="Undo">
      <p><strong>undone with another run</strong></p>
      <ul className="lines">
        {calls.slice(0, MOST_LISTED).map((call) => <li key={call.path}><code>{call.path}</code> {call.tool}: {call.reason}</li>)}
      </ul>
    </section>
  );
}

export function Undone({ of: report }: { of: UndoReport }) {
  if (report.status === "none") return report.notUndoable ? <Elsewhere calls={report.notUndoable} /> : null;
  const left = report.left.filter((step) => step.error);
  const count = report.undone.length + report.left.length;
  return (
    <section className="undo" aria-label="Undo">
      <p>
        <strong>{undoWord(report.status)}</strong>: {report.undone.length.toLocaleString()} of {count.toLocaleString()} step{count === 1 ? "" : "s"}
        {report.undoRun && <>, by <Link to={runPlace(report.undoRun)}>{report.undoRun}</Link></>}
      </p>
      {left.length > 0 && (
        <ul className="lines">
          {left.slice(0, MOST_LISTED).map((step) => <li key={step.path}><code>{step.path}</code> {step.tool}: <span dir="auto">{step.error}</span></li>)}
        </ul>
      )}
    </section>
  );
}
