// Parts that all views use. Text is only ever given to React as text.
import { parseJson, writeJson } from "./exact";
import { useCallback, useEffect, useRef, useState, useSyncExternalStore, type KeyboardEvent, type ReactNode } from "react";
import { said, type Json, type Problem, Refused } from "./api";
import { JsonTree } from "./json";
import { plain } from "./shown/jsx-runtime";

const MARKS: Record<string, string> = {
  ok: "✓", recovered: "~", completed: "✓", partial: "~", failed: "✕", timeout: "✕", stopped: "■", parked: "■", running: "●",
  waiting: "‖", skipped: "–", interrupted: "!", answered: "!", queued: "…", decided: "●", none: "○", left: "■",
  retrying: "↻", retried: "↻", undone: "↶",
};

const WORDS: Record<string, string> = { none: "not started", left: "not finished", unrecorded: "not recorded", retried: "failed, retried" };

export function Status({ is }: { is: string }) {
  return (
    <span className={`status is-${is}`}>
      <span aria-hidden="true">{MARKS[is] ?? "○"}</span> {WORDS[is] ?? is}
    </span>
  );
}

export const mark = (status: string) => MARKS[status] ?? "○";

export function took(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "";
  if (ms < 0.01) return "< 1 ms";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

const TICK = 5000;
const clock = { now: Date.now(), timer: 0, views: new Set<() => void>() };
const tick = () => ((clock.now = Date.now()), clock.views.forEach((view) => view()));

/** One clock for all relative times, which runs while one is shown. */
function watchClock(view: () => void) {
  clock.views.add(view);
  if (clock.views.size === 1) (tick(), (clock.timer = window.setInterval(tick, TICK)));
  return () => {
    clock.views.delete(view);
    if (!clock.views.size) clearInterval(clock.timer);
  };
}

const DAY = 86_400_000, MOST_DAYS = 14;
/** How long ago a time is, or how far ahead; after two weeks its date. */
function relative(date: Date, now: number): string {
  const ms = Math.abs(now - date.getTime());
  if (ms < TICK) return "just now";
  if (ms > MOST_DAYS * DAY) {
    const year = date.getFullYear() === new Date(now).getFullYear() ? undefined : "numeric";
    return date.toLocaleDateString(undefined, { year, month: "short", day: "numeric" });
  }
  const [size, unit] = ms < 60_000 ? [1000, "s"] : ms < 3_600_000 ? [60_000, "min"] : ms < DAY ? [3_600_000, "h"] : [DAY, "d"];
  const count = `${Math.floor(ms / size)} ${unit}`;
  return now < date.getTime() ? `in ${count}` : `${count} ago`;
}

/** A time as people say it in a list, or with `isExact` as a clock shows it; the other form is its title. */
export function When({ at, isExact = false }: { at: string | null; isExact?: boolean }) {
  const now = useSyncExternalStore(watchClock, () => clock.now);
  if (!at) return null;
  const date = new Date(at);
  const [shown, title] = [relative(date, now), date.toLocaleString()];
  return <time dateTime={at} title={isExact ? shown : title}>{isExact ? title : shown}</time>;
}

/** The message of an empty view, with the next step. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p><strong>{title}</strong></p>
      {children && <p>{children}</p>}
    </div>
  );
}

/** Sets the title of the browser tab. */
export function useTitle(title: string) {
  useEffect(() => {
    document.title = title ? `${plain(title)} · Ropewalk` : "Ropewalk";
    return () => void (document.title = "Ropewalk");
  }, [title]);
}

const SHORT = 12_000;

/** Any JSON. A long text is cut until its end is asked for. */
export function Value({ of, label }: { of: Json | undefined; label: string }) {
  const text = typeof of === "string" ? of : writeJson(of, 2) ?? "";
  return (
    <section className="value" aria-label={label}>
      <header>
        <h4>{label}</h4>
        <Copy text={text} label={label} />
      </header>
      {of !== undefined && of !== null && typeof of === "object" ? <JsonTree of={of} /> : <Text of={text} />}
    </section>
  );
}

export function Copy({ text, label }: { text: string | (() => string); label: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <button type="button" className="plain" aria-label={`Copy: ${label}`}
      onClick={() => void navigator.clipboard?.writeText(typeof text === "string" ? text : text()).then(() => setCopied(true))}>{copied ? "Copied" : "Copy"}</button>
  );
}

/** A text as it is; `show` may add colours. */
export function Text({ of, show }: { of: string; show?: (text: string) => ReactNode }) {
  const [isWhole, setWhole] = useState(false);
  const isCut = !isWhole && of.length > SHORT;
  return (
    <>
      <pre tabIndex={0} dir="auto">{(show ?? String)(isCut ? of.slice(0, SHORT) : of)}</pre>
      {isCut && <button type="button" onClick={() => setWhole(true)}>Show all {of.length.toLocaleString()} characters</button>}
    </>
  );
}

/** What an error says, as tools, nodes and runs record theirs. */
export const messageOf = (error: Json | undefined) =>
  error && typeof error === "object" && "message" in error ? String(error.message) : error ? String(error) : "";

const fieldsOf = (error: Json | undefined) => (error && typeof error === "object" && !Array.isArray(error) ? error : {});

/** Where a failure is from: the line that defines the node, and the place in the user's own code. */
export function Place({ of }: { of: Json | undefined }) {
  const { place, at } = fieldsOf(of);
  return (
    <>
      {typeof place === "string" && place !== at && <small>defined at <code dir="auto">{place}</code></small>}{" "}
      {typeof at === "string" && <small>at <code dir="auto">{at}</code></small>}
    </>
  );
}

/** The place of a failure, and its whole stack when it is opened. */
export function Stack({ of }: { of: Json | undefined }) {
  const { place, at, stack } = fieldsOf(of);
  if (typeof stack !== "string") return <Place of={of} />;
  return (
    <>
      {place !== at && <Place of={{ place }} />}
      <details className="stack">
        <summary>{typeof at === "string" ? <>at <code dir="auto">{at}</code></> : "Stack"}</summary>
        <Text of={stack} />
      </details>
    </>
  );
}

export function Trouble({ error }: { error: unknown }) {
  if (!error) return null;
  const problems: Problem[] = error instanceof Refused ? error.problems : [];
  return (
    <div className="trouble" role="alert">
      {problems.length ? <Problems of={problems} /> : said(error)}
      {error instanceof Refused && <Stack of={error.data} />}
    </div>
  );
}

export function Problems({ of, files }: { of: Problem[]; files?: boolean }) {
  return (
    <ul className="problems">
      {of.map((problem, i) => (
        <li key={i}>
          <code className="at">{[problem.line && (files ? `${problem.file}:${problem.line}` : `line ${problem.line}`), problem.path].filter(Boolean).join(" · ")}</code>{" "}
          {problem.message}
          {problem.suggestion && <>; did you mean <code>{problem.suggestion}</code>?</>}
        </li>
      ))}
    </ul>
  );
}

/** Requests again every `every` ms while the page is visible. The last answer stays until the next one arrives. */
export function useAsked<T>(get: ((signal: AbortSignal) => Promise<T>) | null, about: unknown[], every = 0) {
  const [found, setFound] = useState<T | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [round, setRound] = useState(0);
  const fresh = useRef(get);
  fresh.current = get;
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const once = async () => {
      if (fresh.current && (!document.hidden || !every)) {
        try {
          const value = await fresh.current(stop.signal);
          if (stop.signal.aborted) return;
          setFound(value);
          setError(null);
        } catch (problem) {
          if (stop.signal.aborted) return;
          setError(problem);
        }
      }
      if (every) timer = window.setTimeout(once, every);
    };
    void once();
    return () => (stop.abort(), clearTimeout(timer));
  }, [...about, every, round]);
  const again = useCallback(() => setRound((n) => n + 1), []);
  return { found, error, again };
}

/** A button that does something on the server, and says what went wrong. */
export function Act({ does, children, kind = "", label, title, isReady = true }: {
  does: () => Promise<unknown>; children: ReactNode; kind?: string; label?: string; title?: string; isReady?: boolean;
}) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  return (
    <>
      <button
        className={kind}
        disabled={busy || !isReady}
        aria-label={label}
        title={title}
        onClick={async () => {
          setBusy(true);
          setError(null);
          try {
            await does();
          } catch (problem) {
            setError(problem);
          } finally {
            setBusy(false);
          }
        }}
      >
        {children}
      </button>
      <Trouble error={error} />
    </>
  );
}

/** JSON that somebody writes: `read` gives it, or says where it is wrong. */
export function JsonField({ label, text, onText, rows = 6 }: {
  label: string; text: string; onText: (text: string) => void; rows?: number;
}) {
  let wrong = "";
  try {
    if (text.trim()) parseJson(text);
  } catch (error) {
    wrong = said(error);
  }
  return (
    <label className="field">
      <span>{label}</span>
      <textarea
        rows={rows}
        spellCheck={false}
        aria-label={label}
        value={text}
        aria-invalid={wrong !== ""}
        onChange={(event) => onText(event.target.value)}
      />
      {wrong && <span className="wrong">{wrong}</span>}
    </label>
  );
}

export const readJson = (text: string): Json | undefined => (text.trim() ? (parseJson(text) as Json) : undefined);

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ReactNode }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  return (
    <dialog ref={box} onClose={onClose} aria-label={title}>
      <header>
        <h2>{title}</h2>
        <button className="plain icon" onClick={onClose} aria-label="Close">✕</button>
      </header>
      {children}
    </dialog>
  );
}

/** The arrows of the keyboard go through the tabs of a list of them. */
export function tabs(event: KeyboardEvent<HTMLElement>) {
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 }[event.key];
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>("[role=tab]")];
  const at = all.indexOf(event.target as HTMLElement);
  if (!step || at < 0) return;
  event.preventDefault();
  const next = all[Math.max(0, Math.min(all.length - 1, Math.abs(step) > 1 ? (step < 0 ? 0 : all.length - 1) : (at + step + all.length) % all.length))];
  next.focus();
  next.click();
}

/** Up and down, Home and End move between the links of a list. */
export function arrows(event: KeyboardEvent<HTMLElement>) {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, Home: -1e9, End: 1e9 }[event.key];
  const target = event.target as HTMLElement;
  if (!step || target.matches("input, textarea, select")) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-row]")];
  const at = links.findIndex((link) => link.contains(target));
  event.preventDefault();
  links[Math.max(0, Math.min(links.length - 1, at + step))]?.focus();
}
