// The lines that the tools of a run print: those in the record, and those that events have brought since.
import { ask, runAt, type Event } from "./api";
import { placeOf } from "./states";

/** A line of a step, or in its place the number of lines that are not kept. */
export type Line = { path: string; number: number; at: number; stream?: string; level?: string; text?: string; leftOut?: number | null };

/** Lines that the page keeps while a run runs. The record has fewer. */
const MOST_KEPT = 100_000;

const before = (a: Line, b: Line) => a.at - b.at || (a.path < b.path ? -1 : a.path > b.path ? 1 : a.number - b.number);

export class Lines {
  all: Line[] = [];
  /** The number of lines that made room for newer ones. */
  dropped = 0;
  version = 0;
  isLoaded = false;
  error: unknown = null;
  private last = new Map<string, number>();  // the number of the last line, by path
  private views = new Set<() => void>();
  private frame = 0;
  private stop = new AbortController();

  constructor(private run: string) {}

  /** Keeps the lines loaded and up to date for a view, until the returned function is called. */
  watch = (view: () => void) => {
    this.views.add(view);
    if (this.views.size === 1) void this.load();
    return () => void this.views.delete(view);
  };

  /** Takes the recorded lines, and keeps those that are newer than the record. */
  load = async () => {
    if (!this.views.size) return;
    try {
      const { lines } = await ask<{ lines: Line[] }>(runAt(this.run, "/logs"), undefined, this.stop.signal);
      const recorded = new Map<string, number>();
      for (const line of lines) recorded.set(line.path, Math.max(recorded.get(line.path) ?? 0, line.number));
      const newer = this.all.filter((line) => line.number > (recorded.get(line.path) ?? 0));
      for (const [path, number] of recorded) this.last.set(path, Math.max(number, this.last.get(path) ?? 0));
      this.all = lines;
      this.dropped = 0;
      this.add(newer);
      this.isLoaded = true;
      this.error = null;
    } catch (problem) {
      if (this.stop.signal.aborted) return;
      this.error = problem;
    }
    this.show();
  };

  take({ path, data }: Event) {
    const { lines } = data as unknown as { lines: Line[] };
    const known = this.last.get(path) ?? 0;
    const fresh: Line[] = [];
    let end = known;
    for (const line of lines) {
      if (line.number <= known) continue;
      if (line.number > end + 1) fresh.push({ path, number: line.number - 1, at: line.at, leftOut: line.number - end - 1 });
      fresh.push({ ...line, path });
      end = line.number;
    }
    this.last.set(path, end);
    this.add(fresh);
    this.show();
  }

  /** Events of several steps come in turns, so only the end of the list is put in order. */
  private add(fresh: Line[]) {
    if (!fresh.length) return;
    const first = fresh.reduce((least, line) => Math.min(least, line.at), Infinity);
    let end = this.all.length;
    while (end > 0 && this.all[end - 1].at > first) end--;
    this.all = [...this.all.slice(0, end), ...[...this.all.slice(end), ...fresh].sort(before)];
    if (this.all.length <= MOST_KEPT) return;
    const least = this.all.length - Math.floor(0.9 * MOST_KEPT);
    this.dropped += least;
    this.all = this.all.slice(least);
  }

  private show() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.version++;
      for (const view of this.views) view();
    });
  }

  close() {
    this.stop.abort();
    cancelAnimationFrame(this.frame);
  }
}

const places = new Map<string, string>();
/** The node of a line, whatever the iteration and the attempt. */
export function placeOfLine({ path }: Line): string {
  let place = places.get(path);
  if (place === undefined) places.set(path, (place = placeOf(path)));
  return place;
}

/** Whether a path is that of a node or of something inside it. */
export const isWithin = (path: string, node: string) => path.startsWith(node) && (path.length === node.length || /[@[/]/.test(path[node.length]));

/** What printed a line: a stream, the level of a logger, or the server that did it during the call. */
export const sourceOf = ({ stream, level }: Line) => (stream === "log" ? level || "log" : [stream, level].filter(Boolean).join(" "));
