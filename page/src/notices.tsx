// What people must hear about wherever they are: whether the server answers, and what came of an answer that they gave.
import { useSyncExternalStore } from "react";

type Notices = { lost: string; text: string };
let now: Notices = { lost: "", text: "" };
const heard = new Set<() => void>();

function change(next: Partial<Notices>) {
  now = { ...now, ...next };
  heard.forEach((one) => one());
}

/** Shows what somebody did, until it is closed or replaced. */
export const notify = (text: string) => change({ text });

/** Every request reports whether the server answered it: "" if so, else what to do. */
export function reportAnswer(lost: string) {
  if (lost === now.lost) return;
  change(lost ? { lost } : { lost, text: "The server answers again." });
}

const hear = (one: () => void) => (heard.add(one), () => void heard.delete(one));

/** Always there, as screen readers hear only changes of a region that they know. */
export function Notices() {
  const { lost, text } = useSyncExternalStore(hear, () => now);
  return (
    <div className="notices" role="status" aria-live="polite">
      {lost && <p className="lost">✕ {lost}</p>}
      {!lost && text && (
        <p>
          <span dir="auto">✓ {text}</span>
          <button className="plain icon" onClick={() => notify("")} aria-label="Close the message">✕</button>
        </p>
      )}
    </div>
  );
}
