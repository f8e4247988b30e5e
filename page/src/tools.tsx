// The toolbox: list, rank and call tools.
import { useEffect, useRef, useState } from "react";
import { ask, toolId, type Json, type Tool } from "./api";
import { useForm } from "./form";
import { Act, Empty, Trouble, Value, arrows, useAsked, useTitle } from "./parts";
import { Link, moved, setQuery } from "./place";

type Listed = { tools: Tool[]; failures: Record<string, string>; next?: string | null };
/** `name` is a tool's whole id here. */
type Selected = { results: { name: string; score: number }[] };
const MOST_LISTED = 300;
/** From this score on find_tools and `ropewalk tools select` give a tool. */
const FITS = 0.3;

const MOST_READ = 20_000;

/** Every tool, read page by page; of very many the first MOST_READ. */
async function everyTool(signal: AbortSignal): Promise<Listed> {
  const found = await ask<Listed>("/api/tools", undefined, signal);
  let next = found.next;
  while (next && found.tools.length < MOST_READ) {
    const page: Listed = await ask<Listed>(`/api/tools?after=${encodeURIComponent(next)}`, undefined, signal);
    found.tools.push(...page.tools);
    next = page.next;
  }
  return found;
}

export function Tools({ chosen, query }: { chosen?: string; query: URLSearchParams }) {
  const asked = query.get("for") ?? "";
  const [typed, setTyped] = useState(asked);
  const [text, setText] = useState("");
  const { found, error } = useAsked((signal) => everyTool(signal), []);
  const selected = useAsked<Selected>(
    asked ? (signal) => ask("/api/tools/select", { query: asked, limit: 20, threshold: 0 }, signal) : null, [asked],
  );
  const all = found?.tools ?? [];
  const by = new Map(all.map((tool) => [toolId(tool), tool]));
  const scores = new Map((asked ? selected.found?.results ?? [] : []).map((one) => [one.name, one.score]));
  const fit = asked
    ? [...scores.keys()].map((id) => by.get(id)).filter((tool) => tool !== undefined)
    : all.filter((tool) => `${toolId(tool)}\n${tool.description ?? ""}\n${tool.tags?.join(" ") ?? ""}`.toLowerCase().includes(text.toLowerCase()));
  useTitle(chosen ?? "Tools");
  const everything = () => (setQuery("for", null), setTyped(""), setText(""));
  const tool = chosen === undefined ? undefined : by.get(chosen);
  return (
    <>
      <h1>Tools</h1>
      <form className="tools" onSubmit={(event) => (event.preventDefault(), setQuery("for", typed.trim() || null))}>
        <input type="search" placeholder="What do you want to do?" aria-label="Search or select tools" value={typed}
          onChange={(event) => (setTyped(event.target.value), setText(event.target.value), asked && setQuery("for", null))} />
        <button className="main" title="Rank tools by how well they match (Enter)">Select</button>
        {asked && <button type="button" onClick={everything}>All tools</button>}
      </form>
      <Trouble error={error} />
      <Trouble error={selected.error} />
      {Object.entries(found?.failures ?? {}).map(([name, why]) => <p key={name} className="trouble">{name}: {why}</p>)}
      {(asked ? !selected.found && !selected.error : !found && !error) && <p className="empty" role="status">{asked ? "Selecting…" : "Loading…"}</p>}
      {found && !all.length && (
        <Empty title="There are no tools.">
          Name Python modules or MCP servers in <code>ropewalk.toml</code>, such as <code>[tools] modules = ["mytools"]</code>, and
          start <code>ropewalk serve</code> again.
        </Empty>
      )}
      {found && all.length > 0 && !fit.length && (!asked || selected.found) && (
        <Empty title={asked ? "No tool matches this request." : "No tool name or description contains this text."}>
          {!asked && typed && <>Press Enter to select by meaning, or </>}<button onClick={everything}>show all {all.length.toLocaleString()}</button>
        </Empty>
      )}
      {asked && fit.length > 0 && <p className="hint" role="status">
        {Math.max(...scores.values()) < FITS && <><strong>No tool matches well.</strong>{" "}</>}
        The {fit.length} best matches, best first.
      </p>}
      {!asked && found && fit.length > 0 && <p className="hint" role="status">{fit.length === all.length ? "" : `${fit.length.toLocaleString()} of `}{all.length.toLocaleString()} tools</p>}
      <div className={`work ${tool ? "split" : ""}`}>
        <div className={`list ${tool || asked ? "" : "wide"}`} onKeyDown={arrows}>
          {fit.slice(0, MOST_LISTED).map((one) => {
            const id = toolId(one);
            return (
              <Link key={id} data-row="" className="card" to={`/tools/${encodeURIComponent(id)}${location.search}`} aria-current={id === chosen || undefined}>
                <span className="line"><strong>{id}</strong>{scores.has(id) && <small className="score">score {scores.get(id)!.toFixed(2)}<meter min={0} max={1} value={scores.get(id)} aria-hidden="true" /></small>}</span>
                <span className="said">{one.description}</span>
                {!!one.tags?.length && <small>{one.tags.join(" · ")}</small>}
              </Link>
            );
          })}
          {fit.length > MOST_LISTED && <p className="empty">{(fit.length - MOST_LISTED).toLocaleString()} more. Search to see them.</p>}
        </div>
        {tool && <ToolPanel key={chosen} tool={tool} />}
        {found && chosen !== undefined && !tool && <Empty title={`There is no tool ${chosen}.`}><Link to="/tools">All tools</Link></Empty>}
      </div>
    </>
  );
}

function ToolPanel({ tool }: { tool: Tool }) {
  const id = toolId(tool);
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    if (moved && matchMedia("(max-width: 899px)").matches) panel.current?.scrollIntoView({ block: "nearest" });
  }, []);
  const { form, send } = useForm(tool.inputSchema, "Arguments", "args");
  const [result, setResult] = useState<{ value: Json; ms: number } | null>(null);
  return (
    <aside className="node" aria-label={`Tool ${id}`} ref={panel}>
      <header><h2>{id}</h2><Link to={`/tools${location.search}`} className="icon" aria-label="Close the tool">✕</Link></header>
      <p className="said">{tool.description}</p>
      {form}
      <div className="acts">
        <Act kind="main" does={() => send(async (args) => {
          const started = performance.now();
          setResult(null);
          const { result: value } = await ask<{ result: Json }>(`/api/tools/${encodeURIComponent(id)}`, { arguments: args ?? {} });
          setResult({ value, ms: performance.now() - started });
        })}>Call</Act>
      </div>
      {result && <Value of={result.value} label={`Result, after ${result.ms.toFixed(0)} ms`} />}
      {tool.inputSchema && <Value of={tool.inputSchema} label="Input schema" />}
      {tool.outputSchema && <Value of={tool.outputSchema} label="Output schema" />}
      {tool.annotations && <Value of={tool.annotations} label="Annotations" />}
    </aside>
  );
}
