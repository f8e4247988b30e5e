// Stored definitions, their graphs, and starting them; or a document that is only run.
import { useState } from "react";
import { ask, type Definition as Whole, type DefinitionLine, type Graph as Given, type Json, type Problem } from "./api";
import { Graph } from "./graph";
import { Act, JsonField, Problems, Trouble, Value, When, arrows, readJson, useAsked } from "./parts";
import { Link, definitionPlace, go, runPlace } from "./place";

export function Definitions() {
  const [text, setText] = useState("");
  const { found, error } = useAsked((signal) => ask<{ definitions: DefinitionLine[] }>("/api/definitions", undefined, signal), [], 5000);
  const all = found?.definitions ?? [];
  const fit = all.filter((one) => `${one.id}\n${one.name}\n${one.description}`.toLowerCase().includes(text.toLowerCase()));
  return (
    <>
      <h1>Definitions</h1>
      <div className="tools">
        <input type="search" placeholder="Search" aria-label="Search definitions" value={text} onChange={(event) => setText(event.target.value)} />
      </div>
      <Trouble error={error} />
      {found && !fit.length && (
        <p className="empty">{all.length ? "No definition fits." : <>None is stored. Store one with <code>ropewalk chains create FILE</code>, or run a document:</>}</p>
      )}
      <div className="cards" onKeyDown={arrows}>
        {fit.map((one) => (
          <Link key={`${one.kind} ${one.id}`} data-row="" className="card" to={definitionPlace(one.kind, one.id)}>
            <strong>{one.name || one.id}</strong>
            <small>{one.kind} · {one.id} · {one.runCount.toLocaleString()} runs</small>
            {one.description && <span>{one.description}</span>}
          </Link>
        ))}
      </div>
      <RunDocument />
    </>
  );
}

function RunDocument() {
  const [text, setText] = useState("");
  const [input, setInput] = useState("");
  const [checked, setChecked] = useState<{ valid: boolean; problems: Problem[]; warnings: Problem[]; graph?: Given } | null>(null);
  const [chosen, setChosen] = useState<string | null>(null);
  return (
    <details className="panel">
      <summary>Run a document</summary>
      <label className="field">
        <span>A chain or composition, as YAML or JSON</span>
        <textarea rows={12} spellCheck={false} value={text} onChange={(event) => (setText(event.target.value), setChecked(null))} />
      </label>
      <JsonField label="Input (JSON)" text={input} onText={setInput} rows={4} />
      <div className="acts">
        <Act does={async () => setChecked(await ask("/api/validate", { document: text }))}>Check</Act>
        <Act kind="main" does={async () => {
          const begun = await ask<{ runId: string }>("/api/runs", { document: text, input: readJson(input) ?? null });
          go(runPlace(begun.runId));
        }}>Start</Act>
      </div>
      {checked && <p role="status">{checked.valid ? "Nothing is wrong with it." : "It is wrong:"}</p>}
      {checked && <Problems of={[...checked.problems, ...checked.warnings]} />}
      {checked?.graph && <div className="work"><Graph key={JSON.stringify(checked.graph)} graph={checked.graph} chosen={chosen} choose={setChosen} /></div>}
    </details>
  );
}

export function Definition({ kind, id }: { kind: string; id: string }) {
  const at = `/api/definitions/${encodeURIComponent(kind)}/${encodeURIComponent(id)}`;
  const { found, error } = useAsked((signal) => ask<Whole>(at, undefined, signal), [at]);
  const [chosen, setChosen] = useState<string | null>(null);
  if (!found) return <><h1>{kind} {id}</h1><Trouble error={error} /></>;
  return (
    <div className="run">
      <div className="about">
        <h1>{found.name || found.id}</h1>
        <span className="facts">
          {found.kind} · <code>{found.id}</code> · <When at={found.created} /> ·{" "}
          <Link to={`/runs?definition=${encodeURIComponent(found.id)}`}>{found.runCount.toLocaleString()} runs</Link>
        </span>
      </div>
      {found.description && <p>{found.description}</p>}
      <div className="work split">
        <Graph graph={found.graph} chosen={chosen} choose={setChosen} />
        <aside className="node">
          <Start kind={kind} id={id} document={found.document} />
          <Value of={found.document} label="Document" />
        </aside>
      </div>
    </div>
  );
}

function Start({ kind, id, document }: { kind: string; id: string; document: Json }) {
  const given = document && typeof document === "object" && !Array.isArray(document) ? document : {};
  const [input, setInput] = useState("{}");
  const [variables, setVariables] = useState("");
  return (
    <form onSubmit={(event) => event.preventDefault()}>
      <h2>Start</h2>
      <JsonField label="Input (JSON)" text={input} onText={setInput} />
      {given.variables && Object.keys(given.variables).length > 0 && (
        <JsonField label={`Variables that differ from ${JSON.stringify(given.variables)}`} text={variables} onText={setVariables} rows={2} />
      )}
      <Act kind="main" does={async () => {
        const begun = await ask<{ runId: string }>("/api/runs", {
          definition: { kind, id }, input: readJson(input) ?? null, variables: readJson(variables) ?? null,
        });
        go(runPlace(begun.runId));
      }}>Start</Act>
    </form>
  );
}
