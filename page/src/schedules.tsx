// The schedules: when they start runs, what came of the last ones, and what they missed.
import "./duty.css";
import { ask, type Json } from "./api";
import { useState } from "react";
import { Act, Empty, Status, Trouble, When, arrows, useAsked, useTitle } from "./parts";
import { Link, go, runPlace } from "./place";

export type Schedule = {
  name: string; cron: string; times: string | null; timezone: string; flow: string; input: Json; paused: boolean;
  last: string | null; status: string | null; error: string | null; runId: string | null; next: string | null; upcoming: string[]; catchUp: string;
  missed: { due: string; became: string; runId: string | null }[];
};
type Listed = { schedules: Schedule[]; idle: string[]; unavailable: string | null };
type Changed = { runId: string | null; unattended: string | null };

export function Schedules() {
  // A run that no worker takes: what is missing is said here, not at the run.
  const [left, setLeft] = useState<Changed | null>(null);
  const { found, error, again } = useAsked((signal) => ask<Listed>("/api/schedules", undefined, signal), [], 5000);
  useTitle("Schedules");
  const change = (name: string, what: string) => ask<Changed>(`/api/schedules/${encodeURIComponent(name)}/${what}`, {});
  return (
    <>
      <h1>Schedules</h1>
      <Trouble error={error} />
      {!found && !error && <p className="empty" role="status">Loading…</p>}
      {found && !found.schedules.length && (
        <Empty title="There are no schedules.">
          {found.unavailable ?? <>Write <code>[schedules.NAME]</code> with <code>cron</code> and <code>flow</code> in <code>ropewalk.toml</code>.</>}
        </Empty>
      )}
      {found && found.schedules.length > 0 && found.unavailable && <p className="hint">{found.unavailable}</p>}
      {left?.runId && <p className="wait-line" role="status">Started <Link to={runPlace(left.runId)}>{left.runId}</Link>. It is {left.unattended}.</p>}
      {found && found.idle.length > 0 && (
        <p className="wait-line">
          No worker executes {found.idle.length === 1 ? "this schedule" : "these schedules"} of <code>ropewalk.toml</code>: <bdi>{found.idle.join(", ")}</bdi>.
          {!found.unavailable && <> Start one: <code>ropewalk worker</code></>}
        </p>
      )}
      <div className="schedules" onKeyDown={arrows}>
        {found?.schedules.map((one) => (
          <section key={one.name} className="panel" aria-label={`Schedule ${one.name}`}>
            <header>
              <h2 dir="auto">{one.name}</h2>
              {one.paused && <span className="badge">paused</span>}
            </header>
            <dl>
              <div><dt>Runs</dt><dd><bdi>{one.flow}</bdi></dd></div>
              <div><dt>When</dt><dd>{one.times ?? <code>{one.cron}</code>} <small>{one.times && <code>{one.cron}</code>} {one.timezone}</small></dd></div>
              <div><dt>Next</dt><dd>{one.upcoming.length ? <NextTimes of={one.upcoming} zone={one.timezone} /> : one.paused ? "none while it is paused" : "–"}</dd></div>
              <div><dt>Last</dt><dd>{one.last ? <><When at={one.last} /> {one.status
                ? one.runId ? <Link data-row="" to={runPlace(one.runId)}><Status is={one.status} /></Link> : <Status is={one.status} />
                : <small>its run was deleted</small>}{one.error && <small className="bad" dir="auto">{one.error}</small>}</> : "never"}</dd></div>
              {one.missed.length > 0 && <div><dt>Missed</dt><dd><Missed of={one.missed} /></dd></div>}
            </dl>
            {!found.unavailable && (
              <div className="acts">
                <Act label={`Run ${one.name} now`} does={async () => {
                  const started = await change(one.name, "run");
                  if (started.unattended) setLeft(started);
                  else go(runPlace(started.runId!));
                }}>Run now</Act>
                {one.paused
                  ? <Act label={`Resume ${one.name}`} does={() => change(one.name, "resume").then(again)}>Resume</Act>
                  : <Act label={`Pause ${one.name}`} does={() => change(one.name, "pause").then(again)}>Pause</Act>}
              </div>
            )}
          </section>
        ))}
      </div>
    </>
  );
}

/** Due times in this browser's zone; their own zone is in the title. */
export function NextTimes({ of, zone }: { of: string[]; zone: string }) {
  return (
    <>
      {of.map((at, i) => (
        <span key={at} title={`${at.replace("T", " ")} ${zone}`}>{i > 0 && " · "}<When at={at} /></span>
      ))}
    </>
  );
}

const BECAME: Record<string, string> = { late: "started late", merged: "merged into a later one", skipped: "skipped" };

function Missed({ of }: { of: Schedule["missed"] }) {
  const last = of.at(-1)!;
  return (
    <details>
      <summary>{of.length.toLocaleString()}, the last at <When at={last.due} /></summary>
      <ul className="lines">
        {of.toReversed().slice(0, 20).map((one) => (
          <li key={one.due}><When at={one.due} />: {one.runId ? <Link to={runPlace(one.runId)}>{BECAME[one.became] ?? one.became}</Link> : BECAME[one.became] ?? one.became}</li>
        ))}
      </ul>
    </details>
  );
}
