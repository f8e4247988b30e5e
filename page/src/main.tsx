import { StrictMode, useEffect, useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import "@xyflow/react/dist/base.css";
import "./style.css";
import { ask } from "./api";
import { Definition, Definitions } from "./definitions";
import { Diff } from "./diff";
import { Overview } from "./overview";
import { Notices } from "./notices";
import { Dialog, Empty } from "./parts";
import { Link, go, usePlace } from "./place";
import { RunView } from "./run";
import { Runs } from "./runs";
import { Schedules } from "./schedules";
import { useTheme } from "./theme";
import { Tools } from "./tools";
import { useWaits, Waits } from "./waits";

const VIEWS = [
  ["overview", "Overview"], ["runs", "Runs"], ["waiting", "Waiting"], ["definitions", "Definitions"], ["schedules", "Schedules"], ["tools", "Tools"],
];
const KEYS = [
  ["/", "search this view"], ["↓ ↑ j k", "move in a list; ↓ leaves the search field"], ["Enter", "open, or select in a graph"],
  ["Tab", "next control, including graph nodes"], ["← →", "switch tabs"],
  ["g o", "overview"], ["g r", "runs"], ["g w", "waiting"], ["g d", "definitions"], ["g s", "schedules"], ["g t", "tools"],
  ["Esc", "close"], ["?", "show this list"],
];

/** Without a token there is no session to end; the server says so in the page. */
const hasSession = !("sessionless" in document.documentElement.dataset);

function View({ parts, query, waits }: ReturnType<typeof usePlace> & { waits: ReturnType<typeof useWaits> }) {
  const [view = "runs", first, second] = parts;
  if (view === "runs" && first && second === "diff") return <Diff a={first} b={query.get("with") ?? ""} />;
  if (view === "runs" && first) return <RunView key={first} id={first} query={query} />;
  if (view === "runs") return <Runs query={query} waits={waits.found} />;
  if (view === "overview") return <Overview query={query} waits={waits.found} />;
  if (view === "schedules") return <Schedules />;
  if (view === "waiting") return <Waits {...waits} />;
  if (view === "definitions" && first && second) return <Definition kind={first} id={second} />;
  if (view === "definitions") return <Definitions />;
  if (view === "tools") return <Tools chosen={first} query={query} />;
  return <Empty title={`Page not found: ${view}`}>Check the address. <Link to="/runs">All runs</Link></Empty>;
}

function Page() {
  const place = usePlace();
  const [theme, turn] = useTheme();
  const [help, setHelp] = useState(false);
  const [left, setLeft] = useState("");  // what came of logging out
  const logOut = () => ask("/api/logout", {}).then(
    () => setLeft("You are logged out."),
    (error: Error) => setLeft(error.message),
  );
  const first = useRef("");
  const waits = useWaits();
  const count = waits.found?.length ?? 0;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.matches("input, textarea, select")) {
        if (event.key === "Escape") target.blur();
        const row = target.matches("[type=search]") && event.key === "ArrowDown" && document.querySelector<HTMLElement>("[data-row]");
        if (row) (event.preventDefault(), row.focus());
        if (event.key !== "/" || !target.matches("select, [type=checkbox]")) return;
      }
      if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("[type=search]");
        if (search) (event.preventDefault(), search.focus(), search.select());
      } else if (event.key === "?") setHelp(true);
      else if (first.current === "g") {
        const view = VIEWS.find(([name]) => name[0] === event.key);
        if (view) go(`/${view[0]}`);
      }
      first.current = event.key;
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  const view = place.parts[0] ?? "runs";
  // On a phone the menu scrolls sideways. New browsers return a promise, which is no cleanup function.
  useEffect(() => void document.querySelector(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [view, count]);
  return (
    <>
      <a className="skip" href="#main">Skip to content</a>
      <header className="top">
        <Link to="/runs" className="name">Ropewalk</Link>
        <nav aria-label="Views">
          {VIEWS.map(([name, title]) => (
            <Link key={name} to={`/${name}`} aria-current={view === name ? "page" : undefined}>
              {title}{name === "waiting" && count > 0 && <span className="badge">{count > 99 ? "99+" : count}</span>}
            </Link>
          ))}
        </nav>
        <button className="plain icon" onClick={turn} title={`Theme: ${theme}`} aria-label="Dark or light">◐</button>
        <button className="plain icon" onClick={() => setHelp(true)} title="Keys" aria-label="Keys">?</button>
        {hasSession && <button className="plain" onClick={logOut}>Log out</button>}
      </header>
      {!left && <Notices />}
      <main id="main">
        {left ? <Empty title={left}>Reload this page to log in again.</Empty> : <View {...place} waits={waits} />}
      </main>
      {help && (
        <Dialog title="Keys" onClose={() => setHelp(false)}>
          <dl className="keys">
            {KEYS.map(([key, does]) => <div key={key}><dt>{key.split(" ").map((one) => <kbd key={one}>{one}</kbd>)}</dt><dd>{does}</dd></div>)}
          </dl>
        </Dialog>
      )}
    </>
  );
}

createRoot(document.getElementById("page")!).render(<StrictMode><Page /></StrictMode>);
