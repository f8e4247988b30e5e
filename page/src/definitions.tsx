// Definitions, stored and in files, with their graphs and start forms; and a document that is run once.
import { writeJson } from "./exact";
import { useEffect, useRef, useState } from "react";
import { ask, type Definition as Whole, type DefinitionLine, type Graph as Given, type Problem } from "./api";
import { useForm } from "./form";
import { Graph } from "./graph";
import { Act, Copy, Empty, JsonField, Problems, Text, Trouble, Value, When, arrows, readJson, useAsked, useTitle } from "./parts";
import { Link, definitionPlace, go, runPlace } from "./place";
import { Yaml } from "./yaml";

type Listed = { definitions: DefinitionLine[]; problems: Problem[]; hasFiles: boolean; keepsGood: boolean };

export function Definitions() {
  const [text, setText] = useState("");
  const { found, error } = useAsked((signal) => ask<Listed>("/api/definitions", undefined, signal), [], 5000);
  useTitle("Definitions");
  const all = found?.definitions ?? [];
  const fit = all.filter((one) => `${one.id}\n${one.name}\n${one.description}`.toLowerCase().includes(text.toLowerCase()));
  return (
    <>
      <h1>Definitions</h1>
      <div className="tools">
        <input type="search" placeholder="Search" aria-label="Search definitions" value={text} onChange={(event) => setText(event.target.value)} />
      </div>
      <Trouble error={error} />
      {found && found.problems.length > 0 && (
        <div className="panel" role="alert">
          <p>✕ These files are wrong.{found.keepsGood && " Runs use the last good version of each, if there is one:"}</p>
          <Problems of={found.problems} files />
        </div>
      )}
      {!found && !error && <p className="empty" role="status">Loading…</p>}
      {found && !fit.length && (all.length
        ? <Empty title="No matching definition."><button onClick={() => setText("")}>Show all definitions</button></Empty>
        : <Empty title="No definitions yet.">
            {found.hasFiles
              ? <>Put a definition next to <code>ropewalk.toml</code> to start it here, or run a document below.</>
              : <>This server has no project directory. Store a definition with <code>POST /api/definitions/chain</code>, or run a document below. Flows in Python are among the <Link to="/tools">tools</Link>, if the app offers them.</>}
          </Empty>)}
      <div className="cards" onKeyDown={arrows}>
        {fit.map((one) => (
          <Link key={`${one.kind} ${one.id}`} data-row="" className="card" to={definitionPlace(one.kind, one.id)}>
            <strong dir="auto">{one.name || one.id}</strong>
            <small>{one.notation ? `${one.notation} file` : one.kind} · {one.id}{one.runCount !== undefined && ` · ${countOf(one.runCount)}`}</small>
            {one.description && <span dir="auto">{one.description}</span>}
          </Link>
        ))}
      </div>
      {found && <RunDocument open={!all.length} />}
    </>
  );
}

/** The author's own text; a stored definition keeps none, so its document is shown. */
function Document({ of: { document, source, sourceName } }: { of: Whole }) {
  if (source === null) return <Value of={document} label="Document" />;
  return (
    <section className="value" aria-label="Document">
      <header>
        <h4>Document{sourceName && <> · <code>{sourceName}</code></>}</h4>
        <Copy text={source} label="Document" />
      </header>
      <Text of={source} show={/\.ya?ml$/.test(sourceName ?? "") ? (text) => <Yaml of={text} /> : undefined} />
    </section>
  );
}

const countOf = (runs: number) => `${runs.toLocaleString()} ${runs === 1 ? "run" : "runs"}`;

function RunDocument({ open }: { open: boolean }) {
  const [text, setText] = useState("");
  const [input, setInput] = useState("");
  const [checked, setChecked] = useState<{ valid: boolean; problems: Problem[]; warnings: Problem[]; graph?: Given } | null>(null);
  const [chosen, setChosen] = useState<string | null>(null);
  const verdict = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (checked) verdict.current?.scrollIntoView({ block: "nearest" });
  }, [checked]);
  return (
    <details className="panel" open={open || undefined}>
      <summary>Run a document</summary>
      <label className="field">
        <span>A chain or composition, as YAML or JSON</span>
        <textarea rows={12} spellCheck={false} placeholder={EXAMPLE} value={text} onChange={(event) => (setText(event.target.value), setChecked(null))} />
      </label>
      <JsonField label="Input (JSON)" text={input} onText={setInput} rows={4} />
      <div className="acts">
        <Act isReady={text.trim() !== ""} does={async () => setChecked(await ask("/api/validate", { document: text }))}>Check</Act>
        <Act kind="main" isReady={text.trim() !== ""} does={async () => {
          const begun = await ask<{ runId: string }>("/api/runs", { document: text, input: readJson(input) ?? null });
          go(runPlace(begun.runId));
        }}>Start</Act>
      </div>
      {checked && (
        <div className="verdict" ref={verdict}>
          <p role="status">{checked.valid ? "✓ Valid" : "✕ Not valid:"}</p>
          <Problems of={[...checked.problems, ...checked.warnings]} />
        </div>
      )}
      {checked?.graph && <div className="work"><Graph key={writeJson(checked.graph)} graph={checked.graph} chosen={chosen} choose={setChosen} /></div>}
    </details>
  );
}

export function Definition({ kind, id }: { kind: string; id: string }) {
  const at = `/api/definitions/${encodeURIComponent(kind)}/${encodeURIComponent(id)}`;
  const { found, error } = useAsked((signal) => ask<Whole>(at, undefined, signal), [at]);
  const [chosen, setChosen] = useState<string | null>(null);
  useTitle(found ? found.name || found.id : "");
  if (!found) {
    return (
      <>
        <h1 dir="auto">{kind} {id}</h1>
        <Trouble error={error} />
        {error ? <p className="empty"><Link to="/definitions">All definitions</Link></p> : <p className="empty" role="status">Loading…</p>}
      </>
    );
  }
  return (
    <div className="run fill">
      <div className="about">
        <h1 dir="auto">{found.name || found.id}</h1>
      </div>
      <p className="facts">
        <span>{found.notation ?? found.kind}</span><code>{found.id}</code>
        <span>{found.notation ? "file, changed" : "stored"} <When at={found.created} /></span>
        {found.runCount === undefined
          ? <Link to={`/runs?text=${encodeURIComponent(found.name)}`}>runs</Link>
          : <Link to={`/runs?definition=${encodeURIComponent(found.id)}`}>{countOf(found.runCount)}</Link>}
      </p>
      {found.description && <p className="said" dir="auto">{found.description}</p>}
      <div className="work split">
        <Graph graph={found.graph} chosen={chosen} choose={setChosen} />
        <aside className="node">
          <Start of={{ ...found, kind, id }} />
          <Document of={found} />
        </aside>
      </div>
    </div>
  );
}

function Start({ of: { kind, id, document, inputSchema } }: { of: Whole }) {
  const variables = document && typeof document === "object" && !Array.isArray(document) ? document.variables : null;
  const { form, send } = useForm(inputSchema, "Input", "input");
  const [changed, setChanged] = useState("");
  return (
    <form onSubmit={(event) => event.preventDefault()}>
      <h2>Start</h2>
      {form}
      {variables && typeof variables === "object" && Object.keys(variables).length > 0 && (
        <JsonField label={`Variables to change, now ${writeJson(variables)}`} text={changed} onText={setChanged} rows={2} />
      )}
      <Act kind="main" does={() => send(async (input) => {
        const begun = await ask<{ runId: string }>("/api/runs", { definition: { kind, id }, input, variables: readJson(changed) ?? null });
        go(runPlace(begun.runId));
      })}>Start</Act>
    </form>
  );
}

const EXAMPLE = `kind: chain
name: hello
nodes:
  - {id: greet, type: tool, tool: NAME, params: {}}`;
