// The overview for the person on duty: runs over time, failures by error, what waits, schedules, workers and queues.
import "./duty.css";
import { ask, type Json } from "./api";
import { Empty, Status, Trouble, When, took, useAsked, useTitle } from "./parts";
import { Link, runPlace } from "./place";
import { NextTimes, type Schedule } from "./schedules";
import type { Found } from "./waits";

type Counted = { kind: string; id: string | null; name: string; runs: number; periods: number[]; statuses: Record<string, number> };
type Failure = {
  kind: string; id: string | null; name: string; node: string | null; message: string; count: number; last: string | null; runId: string;
};
type Queue = { name: string; waiting: number; running: number; concurrency: number | null; workerConcurrency: number | null; limit: number | null; period: number | null };
type Worker = { id: string; began: number; silent: number; concurrency?: number; queues?: string[]; [more: string]: Json | undefined };
type Overview = {
  since: string; until: string; periods: string[]; runs: number; statuses: Record<string, number[]>;
  definitions: Counted[]; definitionCount: number; failures: Failure[]; failureCount: number;
  schedules: Schedule[]; queues: Queue[]; workers: Worker[] | null;
};

const RANGES: Record<string, { title: string; hours: number; periods: number; every: number }> = {
  "24h": { title: "24 hours", hours: 24, periods: 24, every: 10_000 },
  "7d": { title: "7 days", hours: 7 * 24, periods: 28, every: 30_000 },
};
/** From the bottom of a bar to its top. */
const ORDER = ["completed", "running", "queued", "waiting", "answered", "interrupted", "partial", "stopped", "parked", "timeout", "failed"];
/** What the store has as running, although no process executes it. */
const LIVENESS = ["queued", "answered", "interrupted"];
const FAILING = ["failed", "timeout", "parked"];
const SHOWN = 8;

export function Overview({ query, waits }: { query: URLSearchParams; waits: Found[] | null }) {
  const range = RANGES[query.get("range") ?? ""] ? query.get("range")! : "24h";
  const { found, error } = useAsked((signal) => ask<Overview>(`/api/overview?${times(range)}`, undefined, signal), [range], RANGES[range].every);
  useTitle("Overview");
  return (
    <>
      <div className="about overview">
        <h1>Overview</h1>
        <nav className="ranges" aria-label="Time">
          {Object.entries(RANGES).map(([name, { title }]) => (
            <Link key={name} to={`/overview?range=${name}`} aria-current={name === range ? "true" : undefined}>{title}</Link>
          ))}
        </nav>
      </div>
      <Trouble error={error} />
      {!found && !error && <p className="empty" role="status">Loading…</p>}
      {found && (
        <div className="duty">
          <div className="column">
            <Runs of={found} since={day(found.since)} />
            <Failures of={found} title={RANGES[range].title} />
            <Definitions of={found} since={day(found.since)} />
          </div>
          <div className="column">
            <Waiting waits={waits} />
            <Next schedules={found.schedules} />
            <Work queues={found.queues} workers={found.workers} />
          </div>
        </div>
      )}
    </>
  );
}

/** The parameters of a range that ends with this hour, or with this day, of this browser's time zone. */
function times(range: string): string {
  const { hours, periods } = RANGES[range];
  const end = new Date();
  if (hours > 24) end.setHours(24, 0, 0, 0);
  else end.setHours(end.getHours() + 1, 0, 0, 0);
  const until = end.getTime() / 1000;
  return new URLSearchParams({ since: String(until - hours * 3600), until: String(until), periods: String(periods) }).toString();
}

/** The day of a time in this browser's time zone, as the filter of the list of runs has it. */
function day(at: string): string {
  const date = new Date(at);
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((n) => String(n).padStart(2, "0")).join("-");
}

const runsPlace = (filters: Record<string, string>) => `/runs?${new URLSearchParams(filters)}`;
const label = (one: { name: string; id: string | null; kind: string }) => one.name || one.id || one.kind;
const sum = (numbers: number[]) => numbers.reduce((all, one) => all + one, 0);

function Runs({ of, since }: { of: Overview; since: string }) {
  const shown = ORDER.filter((status) => sum(of.statuses[status] ?? []) > 0);
  if (!of.runs) {
    return (
      <section aria-label="Runs">
        <Empty title="No run started in this time.">
          Start one from its <Link to="/definitions">definition</Link>, or look at <Link to="/runs">all runs</Link>.
        </Empty>
      </section>
    );
  }
  return (
    <section aria-label="Runs">
      <h2>{of.runs.toLocaleString()} {of.runs === 1 ? "run" : "runs"}</h2>
      <Bars of={of} shown={shown} />
      <p className="legend">
        {shown.map((status) => (
          <Link key={status} to={runsPlace({ status: LIVENESS.includes(status) ? "running" : status, since })}>
            <i className={`is-${status}`} aria-hidden="true" /> <Status is={status} /> {sum(of.statuses[status]).toLocaleString()}
          </Link>
        ))}
      </p>
    </section>
  );
}

/** One bar for each period, stacked by status. */
function Bars({ of, shown }: { of: Overview; shown: string[] }) {
  const totals = of.periods.map((_, at) => sum(shown.map((status) => of.statuses[status][at])));
  const most = Math.max(...totals, 1);
  const length = of.periods.length;
  const said = `Runs over time: ${shown.map((status) => `${sum(of.statuses[status])} ${status}`).join(", ")}; at most ${most} in one bar`;
  return (
    <div className="chart">
      <span className="most" aria-hidden="true">{most.toLocaleString()}</span>
      <svg viewBox={`0 0 ${length * 10} 100`} preserveAspectRatio="none" role="img" aria-label={said}>
        {of.periods.map((start, at) => {
          let below = 0;
          return (
            <g key={start}>
              <title>{`${hour(start)}: ${shown.filter((status) => of.statuses[status][at]).map((status) => `${of.statuses[status][at]} ${status}`).join(", ") || "no runs"}`}</title>
              <rect className="whole" x={at * 10} y={0} width={10} height={100} />
              {shown.map((status) => {
                const height = (of.statuses[status][at] / most) * 100;
                below += height;
                return height > 0 && <rect key={status} className={`is-${status}`} x={at * 10 + 1} y={100 - below} width={8} height={height} />;
              })}
            </g>
          );
        })}
      </svg>
      <p className="axis" aria-hidden="true">
        {of.periods.map((start, at) => at < length * 0.92 && isMarked(start, length) && <span key={start} style={{ left: `${(at / length) * 100}%` }}>{axis(start, length)}</span>)}
      </p>
    </div>
  );
}

/** Of a day every sixth hour has its time below, of a week every day. */
const isMarked = (at: string, periods: number) => new Date(at).getHours() % (periods > 24 ? 24 : 6) === 0;
const axis = (at: string, periods: number) =>
  new Date(at).toLocaleString(undefined, periods > 24 ? { weekday: "short" } : { hour: "numeric", minute: "2-digit" });

const hour = (at: string) => {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  return date.toLocaleString(undefined, isToday ? { hour: "numeric", minute: "2-digit" } : { weekday: "short", hour: "numeric", minute: "2-digit" });
};

function Failures({ of, title }: { of: Overview; title: string }) {
  return (
    <section aria-label="Failures">
      <h2>Failures</h2>
      {!of.failures.length && <p className="hint">No run failed in the last {title}.</p>}
      <ul className="failures">
        {of.failures.map((failure) => (
          <li key={`${label(failure)} ${failure.node} ${failure.runId}`}>
            <b className="number">{failure.count.toLocaleString()}</b>
            <span className="what">
              <Link to={runPlace(failure.runId)} dir="auto" title={`An example: ${failure.runId}`}>{failure.message || "no message"}</Link>
              <small>
                <Link to={runsPlace({ flow: label(failure), status: "failed", since: day(of.since) })}><bdi>{label(failure)}</bdi></Link>
                {failure.node && <> at <code>{failure.node}</code></>} · last <When at={failure.last} />
              </small>
            </span>
          </li>
        ))}
      </ul>
      {of.failureCount > of.failures.length && <p className="hint">{(of.failureCount - of.failures.length).toLocaleString()} more.</p>}
    </section>
  );
}

function Definitions({ of, since }: { of: Overview; since: string }) {
  if (!of.definitions.length) return null;
  return (
    <section aria-label="Definitions">
      <h2>Definitions</h2>
      <div className="scroll" tabIndex={0} role="region" aria-label="Runs by definition">
        <table className="numbers">
          <thead><tr><th scope="col">Definition</th><th scope="col">Over time</th><th scope="col">Runs</th><th scope="col">Failed</th></tr></thead>
          <tbody>
            {of.definitions.map((one) => {
              const failed = sum(FAILING.map((status) => one.statuses[status] ?? 0));
              return (
                <tr key={`${one.kind} ${one.id} ${one.name}`}>
                  <th scope="row"><Link to={runsPlace({ flow: label(one), since })} dir="auto">{label(one)}</Link> <small>{one.kind}</small></th>
                  <td><Spark of={one.periods} /></td>
                  <td className="number">{one.runs.toLocaleString()}</td>
                  <td className={failed ? "number bad" : "number"}>{failed ? failed.toLocaleString() : "–"}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {of.definitionCount > of.definitions.length && <p className="hint">{(of.definitionCount - of.definitions.length).toLocaleString()} more with fewer runs.</p>}
    </section>
  );
}

/** The numbers of a row as small bars; they add nothing that the table does not say. */
function Spark({ of }: { of: number[] }) {
  const most = Math.max(...of, 1);
  return (
    <svg className="spark" viewBox={`0 0 ${of.length * 4} 20`} preserveAspectRatio="none" aria-hidden="true">
      {of.map((n, at) => n > 0 && <rect key={at} x={at * 4} y={20 - Math.max(1, (n / most) * 20)} width={3} height={Math.max(1, (n / most) * 20)} />)}
    </svg>
  );
}

function Waiting({ waits }: { waits: Found[] | null }) {
  return (
    <section aria-label="Waiting">
      <h2>{waits?.length ? <Link to="/waiting">{waits.length.toLocaleString()} waiting</Link> : "Waiting"}</h2>
      {waits?.length === 0 && <p className="hint">No approval, event or question is open.</p>}
      <ul className="lined">
        {waits?.slice(0, SHOWN).map((wait) => (
          <li key={`${wait.runId} ${wait.path}`}>
            <Link to={runPlace(wait.runId)} dir="auto">{wait.approval ?? wait.question?.message ?? wait.event}</Link>
            <small><bdi>{wait.name || wait.runId}</bdi> · {wait.question ? "question" : wait.approval === undefined ? "event" : "approval"} since <When at={wait.since} /></small>
          </li>
        ))}
      </ul>
      {waits && waits.length > SHOWN && <p><Link to="/waiting">All {waits.length.toLocaleString()}</Link></p>}
    </section>
  );
}

function Next({ schedules }: { schedules: Schedule[] }) {
  const due = schedules.filter((one) => one.next).sort((a, b) => Date.parse(a.next!) - Date.parse(b.next!));
  if (!schedules.length) return null;
  return (
    <section aria-label="Next schedules">
      <h2><Link to="/schedules">Next schedules</Link></h2>
      {!due.length && <p className="hint">Every schedule is paused.</p>}
      <ul className="lined">
        {due.slice(0, SHOWN).map((one) => (
          <li key={one.name}>
            <span><bdi>{one.name}</bdi> <NextTimes of={one.upcoming.slice(0, 1)} zone={one.timezone} /></span>
            {one.status && <small>last run: {one.runId ? <Link to={runPlace(one.runId)}><Status is={one.status} /></Link> : <Status is={one.status} />}</small>}
            {one.error && <small className="bad" dir="auto">{one.error}</small>}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Work({ queues, workers }: { queues: Queue[]; workers: Worker[] | null }) {
  if (!queues.length && !workers) return null;
  return (
    <section aria-label="Workers and queues">
      <h2>Workers and queues</h2>
      {workers && !workers.length && <p className="wait-line">No worker is running. Start one: <code>ropewalk worker</code></p>}
      {workers?.map((worker) => (
        <p key={worker.id} className="hint"><bdi>{worker.id}</bdi>: {[
          worker.concurrency !== undefined && `${worker.concurrency} at once`, worker.queues?.length && `queues ${worker.queues.join(", ")}`,
          worker.silent > 10 && `silent for ${took(worker.silent * 1000)}`,
        ].filter(Boolean).join(", ")}</p>
      ))}
      {queues.length > 0 && (
        <table className="numbers">
          <thead><tr><th scope="col">Queue</th><th scope="col">Waiting</th><th scope="col">Running</th><th scope="col">Limit</th></tr></thead>
          <tbody>
            {queues.map((queue) => (
              <tr key={queue.name}>
                <th scope="row" dir="auto">{queue.name}</th>
                <td className="number">{queue.waiting.toLocaleString()}</td>
                <td className="number">{queue.running.toLocaleString()}</td>
                <td className="number">{limits(queue)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

const limits = (queue: Queue) => [
  queue.concurrency !== null && `${queue.concurrency} at once`,
  queue.workerConcurrency !== null && `${queue.workerConcurrency} per worker`,
  queue.limit !== null && `${queue.limit} in ${queue.period} s`,
].filter(Boolean).join(", ") || "–";
