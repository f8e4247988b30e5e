// The address is the only state that is kept, so every view can be opened, reloaded and shared.
import { BASE } from "./base";
import { useSyncExternalStore, type AnchorHTMLAttributes } from "react";

const heard = new Set<() => void>();
addEventListener("popstate", () => heard.forEach((hear) => hear()));

/** Whether one has gone anywhere since the page was opened: only then it may scroll to what is chosen. */
export let moved = false;

/** The address of this view below the path of the page. */
const here = () => location.pathname.slice(BASE.length) + location.search;

export function go(to: string, replace = false) {
  if (to === here()) return;
  history[replace ? "replaceState" : "pushState"](null, "", BASE + to);
  moved = true;
  heard.forEach((hear) => hear());
  if (!replace) scrollTo(0, 0);
}

export function usePlace(): { parts: string[]; query: URLSearchParams } {
  const now = useSyncExternalStore(
    (hear) => (heard.add(hear), () => heard.delete(hear)),
    here,
  );
  const [path, query] = now.split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(part: string) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A query value of the address, set without a new entry in the history. */
export function setQuery(name: string, value: string | null) {
  const query = new URLSearchParams(location.search);
  if (value) query.set(name, value);
  else query.delete(name);
  go(here().split("?")[0] + (query.size ? `?${query}` : ""), true);
}

export function Link({ to, ...more }: { to: string } & AnchorHTMLAttributes<HTMLAnchorElement>) {
  return (
    <a
      {...more}
      href={BASE + to}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
        event.preventDefault();
        go(to);
      }}
    />
  );
}

export const runPlace = (id: string) => `/runs/${encodeURIComponent(id)}`;
export const definitionPlace = (kind: string, id: string) =>
  `/definitions/${encodeURIComponent(kind)}/${encodeURIComponent(id)}`;
