// The toolbox: what there is, what fits a request, and calling one.
import { useState } from "react";
import { ask, toolId, type Json, type Tool } from "./api";
import { Act, JsonField, Trouble, Value, arrows, readJson, useAsked } from "./parts";
import { Link, setQuery } from "./place";

type Listed = { tools: Tool[]; failures: Record<string, string> };
/** `name` is a tool's whole id here. */
type Selected = { results: { name: string; score: number }[] };
const MOST_LISTED = 300;

export function Tools({ chosen, query }: { chosen?: string; query: URLSearchParams }) {
  const asked = query.get("for") ?? "";
  const [typed, setTyped] = useState(asked);
  const [text, setText] = useState("");
  const { found, error } = useAsked((signal) => ask<Listed>("/api/tools", undefined, signal), []);
  const selected = useAsked<Selected>(
    asked ? (signal) => ask("/api/tools/select", { query: asked, limit: 20, threshold: 0 }, signal) : null, [asked],
  );
  const all = found?.tools ?? [];
  const by = new Map(all.map((tool) => [toolId(tool), tool]));
  const scores = new Map((asked ? selected.found?.results ?? [] : []).map((one) => [one.name, one.score]));
  const fit = asked
    ? [...scores.keys()].map((id) => by.get(id)).filter((tool) => tool !== undefined)
    : all.filter((tool) => `${toolId(tool)}\n${tool.description ?? ""}\n${tool.tags?.join(" ") ?? ""}`.toLowerCase().includes(text.toLowerCase()));
  const tool = chosen === undefined ? undefined : by.get(chosen);
  return (
    <>
      <h1>Tools</h1>
      <form className="tools" onSubmit={(event) => (event.preventDefault(), setQuery("for", typed.trim() || null))}>
        <input type="search" placeholder="What do you want to do? Enter selects" aria-label="Search or select tools" value={typed}
          onChange={(event) => (setTyped(event.target.value), setText(event.target.value), asked && setQuery("for", null))} />
        <button className="main">Select</button>
        {asked && <button type="button" onClick={() => (setQuery("for", null), setTyped(""), setText(""))}>All tools</button>}
      </form>
      <Trouble error={error} />
      <Trouble error={selected.error} />
      {Object.entries(found?.failures ?? {}).map(([name, why]) => <p key={name} className="trouble">{name}: {why}</p>)}
      {found && !fit.length && <p className="empty">{!all.length ? "There are no tools: ropewalk.toml names none." : asked && !selected.found ? "…" : "No tool fits."}</p>}
      <div className={`work ${tool ? "split" : ""}`}>
        <div className="list" onKeyDown={arrows}>
          {fit.slice(0, MOST_LISTED).map((one) => {
            const id = toolId(one);
            return (
              <Link key={id} data-row="" className="card" to={`/tools/${encodeURIComponent(id)}${location.search}`} aria-current={id === chosen || undefined}>
                <strong>{id}</strong>
                {scores.has(id) && <small>score {scores.get(id)!.toFixed(2)}</small>}
                <span>{one.description}</span>
              </Link>
            );
          })}
          {fit.length > MOST_LISTED && <p className="empty">{(fit.length - MOST_LISTED).toLocaleString()} more; search for them.</p>}
        </div>
        {tool && <ToolPanel key={chosen} tool={tool} />}
        {found && chosen !== undefined && !tool && <p className="empty">There is no tool {chosen}.</p>}
      </div>
    </>
  );
}

function ToolPanel({ tool }: { tool: Tool }) {
  const id = toolId(tool);
  const [text, setText] = useState(() => JSON.stringify(example(tool.inputSchema), null, 2));
  const [result, setResult] = useState<{ value: Json; ms: number } | null>(null);
  return (
    <aside className="node" aria-label={`Tool ${id}`}>
      <header><h2>{id}</h2></header>
      <p>{tool.description}</p>
      <JsonField label="Arguments (JSON)" text={text} onText={setText} />
      <div className="acts">
        <Act kind="main" does={async () => {
          const begun = performance.now();
          setResult(null);
          const { result: value } = await ask<{ result: Json }>(`/api/tools/${encodeURIComponent(id)}`, { arguments: readJson(text) ?? {} });
          setResult({ value, ms: performance.now() - begun });
        }}>Call</Act>
      </div>
      {result && <Value of={result.value} label={`Result, after ${result.ms.toFixed(0)} ms`} />}
      {tool.inputSchema && <Value of={tool.inputSchema} label="Input schema" />}
      {tool.outputSchema && <Value of={tool.outputSchema} label="Output schema" />}
      {tool.annotations && <Value of={tool.annotations} label="Annotations" />}
    </aside>
  );
}

const EMPTY: Record<string, Json> = { string: "", integer: 0, number: 0, boolean: false, array: [], object: {}, null: null };

/** The arguments that must be there, each empty. */
function example(schema: Json | undefined): Json {
  const { properties, required } = (schema ?? {}) as { properties?: Record<string, { type?: string; default?: Json }>; required?: string[] };
  return Object.fromEntries((required ?? []).map((name) => {
    const one = properties?.[name];
    return [name, one?.default ?? EMPTY[one?.type ?? "string"] ?? null];
  }));
}
