import { BASE } from "./base";
import { parseJson, writeJson } from "./exact";
import { reportAnswer } from "./notices";
// Types of the HTTP API, and requests to it. Nothing is sent to any other server.

export type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json };

export type RunLine = {
  runId: string; name: string; kind: string; status: string; startTime: string; endTime: string | null; duration: number | null;
  currentNode: string | null; resultCount: number; errorCount: number; executing: boolean; interrupted: boolean; queued: boolean; answered: boolean;
  errorMessage?: string | null; waiting?: boolean; undoStatus?: string | null;  // in a list
};
export type Step = {
  path: string; node: string; kind: string; status: "ok" | "recovered" | "failed" | "skipped" | "decided";
  started: string; ended: string; ms: number; value?: Json; error: Json; reason: string | null; decision: Json;
  replayed: boolean; earlierStart?: string;
};
/** A question of an MCP server: a form, or an address to open. */
export type Question = { server: string; message: string; schema?: Json; url?: string };
export type Wait = {
  path: string; node: string; event?: string; approval?: string; question?: Question; since: string; due: string | null;
};
/** How a run had ended before it was retried, with the failed steps that the retry repeated. */
export type FailedStep = { path: string; node: string; status: string; started: string; ended: string; error: Json };
export type Ending = { status: string; error: Json; endTime: string | null; spent?: number; failed: FailedStep[]; failedCount: number };
/** The facts about a flow that asks for an approval. */
export type Facts = {
  flow: string; kind: string; effect: string; maxCalls: number | null; secrets: string[];
  tools: { tool: string; effect: string; undo: string | null; isFlow: boolean; known: boolean; calls: number | null }[];
  loops: { node: string; limit: number | null }[]; waits: { node: string }[];
};
export type UndoStep = { path: string; of: string; tool: string; error?: string | null };
export type UndoReport = {
  status: string; undoRun: string | null; undone: UndoStep[]; left: UndoStep[];
  notUndoable?: { path: string; tool: string; reason: string }[];
};
export type Run = RunLine & {
  definition: { kind: string; id: string } | null; version: number | null; forkedFrom: string | null; parent: string | null;
  owner: string | null; resumed: number; input: Json; result: Json; error: Json; endings: Ending[]; waitingFor: Wait[]; nodes: Step[];
  facts: Facts[]; undo: UndoReport | null;
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
export type Definition = DefinitionLine & {
  document: Json; graph: Graph; inputSchema: Json; source: string | null; sourceName: string | null;
};
export type Tool = {
  name: string; namespace?: string; version?: string; description?: string; inputSchema?: Json; outputSchema?: Json;
  tags?: string[]; annotations?: Json;
  effect?: "read" | "write" | "destructive"; undo?: string | null; source?: string; sourceName?: string | null;
};
/** What the recorded runs say of a tool. */
export type ToolStat = {
  tool: string; calls: number; failed: number; p50Ms: number; p95Ms: number; tokens: number;
  lastError: string | null; lastFailure: string | null; lastFailedRun: string | null;
};
export type Problem = { file?: string | null; line: number | null; column: number | null; path: string; message: string; suggestion?: string | null };

export class Refused extends Error {
  /** `data` is the error of the answer, with `at` and `stack` where a tool raised an exception. */
  constructor(readonly status: number, message: string, readonly problems: Problem[] = [], readonly data: Json = null) {
    super(message);
  }
}

const GONE = "The server does not answer; is it still running? This page shows what it last knew, and asks again every few seconds.";
const ENDED_SESSION = "The session of this browser has ended. Reload this page to log in again.";

export async function ask<T>(path: string, body?: Json, signal?: AbortSignal): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(BASE + path, body === undefined ? { signal } : {
      method: "POST", body: writeJson(body), headers: { "content-type": "application/json" }, signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    reportAnswer(GONE);
    throw new Refused(0, "the server does not answer");
  }
  const text = await answer.text();
  if (answer.status === 401) {
    reportAnswer(ENDED_SESSION);
    throw new Refused(401, "the session of this browser has ended");
  }
  // A proxy answers for a server that is gone, and not in JSON.
  const isOfProxy = answer.status >= 502 && answer.status <= 504 && !answer.headers.get("content-type")?.includes("json");
  reportAnswer(isOfProxy ? GONE : "");
  if (answer.ok) return parseJson(text) as T;
  let problem: { message?: string; problems?: Problem[]; at?: string; stack?: string } = {};
  try {
    problem = (parseJson(text) as { error?: typeof problem }).error ?? {};
  } catch {
    problem = { message: `${answer.status} ${answer.statusText}` };
  }
  throw new Refused(answer.status, problem.message ?? String(answer.status), problem.problems, problem as Json);
}

/** The number of runs on one page of a list. */
export const PAGE = 100;
export const runAt = (id: string, rest = "") => `/api/runs/${encodeURIComponent(id)}${rest}`;
export const toolId = (tool: Tool) => (tool.namespace ? `${tool.namespace}:${tool.name}` : tool.name);
/** The status to show. A run is running while it is queued, answered or interrupted. */
export const standing = (run: RunLine) =>
  run.interrupted ? "interrupted" : run.answered ? "answered" : run.queued ? "queued" : run.status;
/** Whether the run waits for an answer or for somebody to resume it, without a process. */
export const parked = (run: RunLine) => (run.status === "waiting" && !run.executing) || run.answered;
export const ENDED = new Set(["completed", "partial", "failed", "stopped", "timeout", "parked"]);
export const said = (error: unknown) => (error instanceof Error ? error.message : String(error));
