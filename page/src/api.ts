// What the server says, and how it is asked. Nothing is ever sent anywhere else.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export type RunLine = {
  id: string; name: string; kind: string; status: string; startTime: string; endTime: string | null; duration: number | null;
  currentNode: string | null; resultCount: number; errorCount: number; interrupted: boolean; queued: boolean; answered: boolean;
  errorMessage?: string | null;  // in a list
};
export type Step = {
  path: string; node: string; kind: string; status: "ok" | "recovered" | "failed" | "skipped" | "decided";
  started: string; ended: string; ms: number; value?: Json; error: Json; reason: string | null; decision: Json;
  replayed: boolean;
};
export type Wait = { path: string; node: string; event?: string; approval?: string; since: string; due: string | null };
export type Run = RunLine & {
  definition: { kind: string; id: string } | null; version: number | null; forkedFrom: string | null; parent: string | null;
  owner: string | null; input: Json; result: Json; error: Json; endings: Json[]; waitingFor: Wait[]; nodes: Step[];
};
export type Event = { runId: string; kind: string; at: number; path: string; node: string; data: Json };
export type Region = { nodes: GraphNode[]; edges: [string, string][] };
export type GraphNode = {
  path: string; id: string; kind: string; title: string; lines: string[]; groups: (Region & { label: string })[];
};
export type Graph = Region & { name: string };
export type DefinitionLine = {
  kind: string; id: string; name: string; description: string; fingerprint: string; created: string; runCount?: number;
  notation?: string;  // of a flow in a file
};
export type Definition = DefinitionLine & { document: Json; graph: Graph };
export type Tool = {
  name: string; namespace?: string; version?: string; description?: string; inputSchema?: Json; outputSchema?: Json;
  tags?: string[]; annotations?: Json;
};
export type Problem = { line: number | null; column: number | null; path: string; message: string; suggestion?: string | null };

export class Refused extends Error {
  constructor(readonly status: number, message: string, readonly problems: Problem[] = []) {
    super(message);
  }
}

export async function ask<T>(path: string, body?: Json, signal?: AbortSignal): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, body === undefined ? { signal } : {
      method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" }, signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, "the server does not answer; is `ropewalk serve` still running?");
  }
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text) as T;
  if (answer.status === 401) {
    throw new Refused(401, "this browser has no token: open the address that `ropewalk serve` printed");
  }
  let told: { message?: string; problems?: Problem[] } = {};
  try {
    told = JSON.parse(text).error ?? {};
  } catch {
    told = { message: `${answer.status} ${answer.statusText}` };
  }
  throw new Refused(answer.status, told.message ?? String(answer.status), told.problems);
}

/** Of a list that is too long to ask for at once: so many at a time. */
export const PAGE = 100;
export const runAt = (id: string, rest = "") => `/api/runs/${encodeURIComponent(id)}${rest}`;
export const toolId = (tool: Tool) => (tool.namespace ? `${tool.namespace}:${tool.name}` : tool.name);
/** What a run is at; one that is queued, has been answered or whose process is gone is running to the store. */
export const standing = (run: RunLine) =>
  run.interrupted ? "interrupted" : run.answered ? "answered" : run.queued ? "queued" : run.status;
/** Whether it waits for something, or for somebody to go on with it, and no process has it. */
export const parked = (run: RunLine) => run.status === "waiting" || run.answered;
export const ENDED = new Set(["completed", "partial", "failed", "stopped", "timeout", "parked"]);
export const said = (error: unknown) => (error instanceof Error ? error.message : String(error));
