// The state of each node instance: a pure fold of the journal's steps and the live events.
import type { Event, Json, Run, Step } from "./api";

export type Attempt = {
  path: string; status: string; started: number | null; ended: number | null; value?: Json; error?: Json;
  reason?: string | null; decision?: Json; recorded?: boolean; replayed?: boolean; answered?: boolean; undone?: boolean;
  earlierStart?: number;  // it had begun before, and the result of then was not recorded
};
/** A node in one iteration or item. `base` is its path without attempts, `place` also without iterations and items. */
export type Instance = { base: string; place: string; attempts: Map<string, Attempt> };
export type States = { instances: Map<string, Instance>; places: Map<string, Instance[]> };

export const empty = (): States => ({ instances: new Map(), places: new Map() });
export const baseOf = (path: string) => path.replace(/@\d+/g, "");
/** The node of a path; for a step of a program its line and column, in any task and however often. */
export const placeOf = (path: string) =>
  baseOf(path).replace(/\[[\d.]+-(\d+:\w+)\.\d+\]\/[^/]+/g, "/$1").replace(/\[\w+\]/g, "");

function at(states: States, path: string): Attempt {
  const base = baseOf(path);
  let instance = states.instances.get(base);
  if (!instance) {
    instance = { base, place: placeOf(path), attempts: new Map() };
    states.instances.set(base, instance);
    const there = states.places.get(instance.place);
    if (there) there.push(instance);
    else states.places.set(instance.place, [instance]);
  }
  let attempt = instance.attempts.get(path);
  if (!attempt) {
    attempt = { path, status: "running", started: null, ended: null };
    instance.attempts.set(path, attempt);
  }
  return attempt;
}

const OF_EVENT: Record<string, string> = {
  "node.started": "running", "node.finished": "ok", "node.recovered": "recovered", "node.failed": "failed", "attempt.failed": "retrying",
  "node.skipped": "skipped", "wait.started": "waiting", "signal.received": "running", "items.listed": "running",
  "branch.taken": "running", "timer.set": "running",
};

export function takeEvent(states: States, event: Event) {
  const status = OF_EVENT[event.kind];
  if (!status || !event.path) return;
  let attempt = at(states, event.path);
  // The event names the node; what took over followed its last attempt.
  if (status === "recovered") attempt = last([...states.instances.values()].find((one) => one.attempts.has(event.path))!);
  const over = ["ok", "recovered", "failed", "retrying", "skipped"].includes(status);
  if (status === "retrying" && attempt.status === "failed") return;  // node.failed has said that no other attempt follows
  if (attempt.recorded && attempt.status === status) return;  // emitted again when the run was resumed, with a new time
  if (attempt.ended !== null && !over) return;  // a stream that restarts repeats past events
  attempt.status = status;
  if (event.kind === "signal.received") attempt.answered = true;
  if (over) {
    attempt.ended = event.at * 1000;
    const ms = event.data && typeof event.data === "object" && "ms" in event.data ? Number(event.data.ms) : 0;
    attempt.started ??= attempt.ended - ms;
    if (status === "failed" || status === "retrying" || status === "recovered") attempt.error = event.data;
  } else attempt.started ??= event.at * 1000;
}

function takeStep(states: States, step: Step) {
  const attempt = at(states, step.path);
  const started = Date.parse(step.started);
  if (step.status === "decided") {
    if (step.kind === "items" || step.kind === "branch") attempt.decision = step.decision;
    attempt.started ??= started;
    return;
  }
  attempt.status = step.status;
  attempt.recorded = true;
  attempt.replayed = step.replayed;
  attempt.earlierStart = step.earlierStart === undefined ? undefined : Date.parse(step.earlierStart);
  attempt.started = started;
  attempt.ended = started + step.ms;
  attempt.value = step.value;
  attempt.error = step.error;
  attempt.reason = step.reason;
}

/** Takes the recorded steps, which replace what the events said. */
export function takeRun(states: States, run: Run) {
  for (const step of run.nodes) takeStep(states, step);
  for (const { path } of run.undo?.undone ?? []) {
    // Steps of inner runs are shown in those runs.
    const attempt = states.instances.get(baseOf(path))?.attempts.get(path);
    if (attempt?.status === "ok" || attempt?.status === "recovered") attempt.status = "undone";
  }
  for (const wait of run.waitingFor) {
    const attempt = at(states, wait.path);
    if (!attempt.answered && attempt.ended === null) attempt.status = "waiting";  // events may be ahead of what was asked for before
  }
}

export function last(instance: Instance): Attempt {
  let found: Attempt | undefined;
  for (const attempt of instance.attempts.values()) {
    if (!found || (attempt.started ?? 0) >= (found.started ?? 0)) found = attempt;
  }
  return found!;
}

/** The last attempt's status. In a run that has ended, no attempt is still running. */
export function statusOf(instance: Instance, over: boolean): string {
  const { status } = last(instance);
  if (over && status === "retrying") return "failed";
  return over && (status === "running" || status === "waiting") ? "left" : status;
}

/** The status of one attempt: a failed one that another attempt followed, or that was recovered from, is no failure. */
export function attemptStatus(attempt: Attempt, instance: Instance): string {
  const isFailed = attempt.status === "failed" || attempt.status === "retrying";
  return isFailed && attempt !== last(instance) ? "retried" : attempt.status;
}

const FIRST = ["failed", "waiting", "running", "retrying", "left", "undone", "recovered", "ok", "skipped"];
export type Sum = { status: string; counts: Record<string, number>; ms: number | null; total: number; attempts: number };

/** All instances of a node (or of many) as one. */
export function sum(found: Instance[], over: boolean, nodes = 0): Sum {
  const counts: Record<string, number> = {};
  let ms: number | null = null, attempts = 0;
  for (const instance of found) {
    attempts += instance.attempts.size;
    const status = statusOf(instance, over);
    counts[status] = (counts[status] ?? 0) + 1;
    const { started, ended } = last(instance);
    if (started !== null && ended !== null) ms = Math.max(ms ?? 0, ended - started);
  }
  const begun = FIRST.find((status) => counts[status]);
  const status = begun === "ok" && nodes > found.length && !over ? "running" : begun ?? "none";
  return { status, counts, ms, total: found.length, attempts };
}
