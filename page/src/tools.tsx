// The toolbox: list tools with what recorded runs say of them, rank and call them.
import "./duty.css";
import { useEffect, useRef, useState } from "react";
import { ask, toolId, type Json, type Tool, type ToolStat } from "./api";
import { useForm } from "./form";
import { Act, Empty, Trouble, Value, When, arrows, took, useAsked, useTitle } from "./parts";
import { Link, moved, runPlace, setQuery } from "./place";

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
  const recorded = useAsked((signal) => ask<{ tools: ToolStat[]; runs: number }>("/api/tool-stats", undefined, signal), []);
  const stats: Stats = new Map(recorded.found?.tools.map((one) => [one.tool, one]));
  const sort = query.get("sort") ?? "tool";
  const all = found?.tools ?? [];
  const by = new Map(all.map((tool) => [toolId(tool), tool]));
  const scores = new Map((asked ? selected.found?.results ?? [] : []).map((one) => [one.name, one.score]));
  const fit = asked
    ? [...scores.keys()].map((id) => by.get(id)).filter((tool) => tool !== undefined)
    : sorted(all.filter((tool) => words(tool).includes(text.toLowerCase())), sort, stats);
  useTitle(chosen ?? "Tools");
  const everything = () => (setQuery("for", null), setTyped(""), setText(""));
  const tool = chosen === undefined ? undefined : by.get(chosen);
  return (
    <>
      <h1>Tools</h1>
      <form className="tools" onSubmit={(event) => (event.preventDefault(), setQuery("for", typed.trim() || null))}>
        <input type="search" placeholder="What do you want to do?" aria-label="Search or select tools" value={typed}
          onChange={(event) => (setTyped(event.target.value), setText(event.target.value), asked && setQuery("for", null))} />
        <button title="Rank tools by how well they match (Enter)">Select</button>
        {asked && <button type="button" onClick={everything}>All tools</button>}
      </form>
      <Trouble error={error} />
      <Trouble error={selected.error} />
      <Trouble error={recorded.error} />
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
      {!asked && found && fit.length > 0 && <p className="hint" role="status">{fit.length === all.length ? "" : `${fit.length.toLocaleString()} of `}{all.length.toLocaleString()} tools{recorded.found && `. Calls are those of the newest ${recorded.found.runs.toLocaleString()} runs.`}</p>}
      {!asked && !tool && fit.length > 0 && <ToolTable of={fit.slice(0, MOST_LISTED)} stats={stats} sort={sort} />}
      <div className={`work ${tool ? "split" : ""}`}>
        <div className="list" onKeyDown={arrows}>
          {(asked || tool) && fit.slice(0, MOST_LISTED).map((one) => {
            const id = toolId(one);
            return (
              <Link key={id} data-row="" className="card" to={`/tools/${encodeURIComponent(id)}${location.search}`} aria-current={id === chosen || undefined}>
                <span className="line"><strong>{id}</strong>{scores.has(id) && <small className="score">score {scores.get(id)!.toFixed(2)}<meter min={0} max={1} value={scores.get(id)} aria-hidden="true" /></small>}</span>
                <span className="said">{one.description}</span>
                <small>{[from(one), EFFECTS[one.effect ?? ""], calls(stats.get(id)), ...one.tags ?? []].filter(Boolean).join(" · ")}</small>
              </Link>
            );
          })}
          {fit.length > MOST_LISTED && <p className="empty">{(fit.length - MOST_LISTED).toLocaleString()} more. Search to see them.</p>}
        </div>
        {tool && <ToolPanel key={chosen} tool={tool} stat={stats.get(toolId(tool))} />}
        {found && chosen !== undefined && !tool && <Empty title={`There is no tool ${chosen}.`}><Link to="/tools">All tools</Link></Empty>}
      </div>
    </>
  );
}

type Stats = Map<string, ToolStat>;
const EFFECTS: Record<string, string> = { read: "reads", write: "writes", destructive: "destroys" };
const SOURCES: Record<string, string> = { local: "Python", flow: "flow", mcp: "MCP server", provider: "HTTP" };
const COLUMNS: [string, string][] = [["tool", "Tool"], ["from", "From"], ["effect", "Effect"], ["calls", "Calls"], ["failed", "Failed"], ["p95", "p95"]];

/** Where a tool runs: the name of its server or provider, or what kind of tool it is. */
const from = (tool: Tool) => tool.sourceName ?? SOURCES[tool.source ?? ""] ?? tool.source ?? "";
const words = (tool: Tool) => `${toolId(tool)}\n${tool.description ?? ""}\n${tool.tags?.join(" ") ?? ""}\n${from(tool)}`.toLowerCase();
const calls = (stat: ToolStat | undefined) => stat && `${stat.calls.toLocaleString()} ${stat.calls === 1 ? "call" : "calls"}${stat.failed ? `, ${stat.failed.toLocaleString()} failed` : ""}`;

/** Numbers from the highest, words from A to Z; tools that are equal keep their order, which is that of their ids. */
function sorted(tools: Tool[], by: string, stats: Stats): Tool[] {
  const number = { calls: "calls", failed: "failed", p95: "p95Ms" }[by] as "calls" | "failed" | "p95Ms" | undefined;
  if (number) return tools.toSorted((a, b) => (stats.get(toolId(b))?.[number] ?? -1) - (stats.get(toolId(a))?.[number] ?? -1));
  const word = by === "from" ? from : by === "effect" ? (tool: Tool) => tool.effect ?? "" : null;
  return word ? tools.toSorted((a, b) => word(a).localeCompare(word(b))) : tools;
}

function ToolTable({ of, stats, sort }: { of: Tool[]; stats: Stats; sort: string }) {
  return (
    <table className="numbers toolbox" onKeyDown={arrows}>
      <thead>
        <tr>
          {COLUMNS.map(([name, title], i) => (
            <th key={name} scope="col" aria-sort={name === sort ? (i > 2 ? "descending" : "ascending") : undefined}>
              <button className="plain" onClick={() => setQuery("sort", name === "tool" ? null : name)}>{title}{name === sort && <span aria-hidden="true">{i > 2 ? " ↓" : " ↑"}</span>}</button>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {of.map((tool) => {
          const id = toolId(tool), stat = stats.get(id);
          return (
            <tr key={id}>
              <th scope="row">
                <Link data-row="" to={`/tools/${encodeURIComponent(id)}${location.search}`} dir="auto">{id}</Link>
                <span className="said">{tool.description}</span>
                <small className="narrow">{[from(tool), EFFECTS[tool.effect ?? ""]].filter(Boolean).join(" · ")}</small>
                {stat?.lastError && <small className="bad" dir="auto" title={stat.lastError}>{stat.lastError.split("\n")[0]}</small>}
              </th>
              <td dir="auto">{from(tool)}</td>
              <td title={tool.undo ? `undone by ${tool.undo}` : undefined}>{EFFECTS[tool.effect ?? ""]}{tool.undo && " ↶"}</td>
              <td className="number">{stat?.calls.toLocaleString() ?? "–"}</td>
              <td className={stat?.failed ? "number bad" : "number"}>{stat ? stat.failed.toLocaleString() : "–"}</td>
              <td className="number">{stat ? took(stat.p95Ms) : "–"}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** The source and the effect of a tool, and what recorded runs say of it. */
function Facts({ of, stat }: { of: Tool; stat: ToolStat | undefined }) {
  const facts: [string, string | undefined | null][] = [
    ["From", from(of)], ["Effect", EFFECTS[of.effect ?? ""]], ["Undo", of.effect === "read" ? null : of.undo ?? "none"],
    ["Calls", stat?.calls.toLocaleString()], ["Failed", stat?.failed.toLocaleString()], ["p50", stat && took(stat.p50Ms)], ["p95", stat && took(stat.p95Ms)],
  ];
  return (
    <>
      <dl className="facts">
        {facts.map(([name, value]) => value && <div key={name}><dt>{name}</dt><dd dir="auto">{value}</dd></div>)}
      </dl>
      {stat?.lastError && (
        <p className="trouble">Last error, <When at={stat.lastFailure} />{stat.lastFailedRun && <> in <Link to={runPlace(stat.lastFailedRun)}>a run</Link></>}: {stat.lastError}</p>
      )}
    </>
  );
}

function ToolPanel({ tool, stat }: { tool: Tool; stat: ToolStat | undefined }) {
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
      <Facts of={tool} stat={stat} />
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
