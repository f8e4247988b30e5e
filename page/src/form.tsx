// A form made from a JSON Schema, with the value as JSON in the other tab. The server checks the value in both.
import { writeJson } from "./exact";
import { useId, useMemo, useRef, useState, type ReactNode } from "react";
import { Refused, type Json, type Problem } from "./api";
import { JsonField, readJson, tabs } from "./parts";
import { Fields } from "./schema";

type Schema = { [key: string]: Json };
type Value = Json | undefined;
type Errors = { of: Map<string, string>; fields: Set<string> };

const MOST_REFERENCES = 20;
const PLAIN = /^[A-Za-z_]\w*$/;

const isObject = (value: Value): value is { [key: string]: Json } => !!value && typeof value === "object" && !Array.isArray(value);
const below = (path: string, name: string) => (PLAIN.test(name) ? `${path}.${name}` : `${path}['${name}']`);
const text = (value: Value) => (typeof value === "string" ? value : "");

const takesNull = (schema: Value): boolean => isObject(schema) && (schema.type === "null" || (Array.isArray(schema.type) && schema.type.includes("null")));

/** The schema itself: references followed, a part of `allOf` merged in, `null` of an optional value left out but noted. */
function resolved(schema: Json | undefined, root: Schema): Schema {
  let found: Value = schema === true || schema === undefined ? {} : schema;
  for (let n = 0; n < MOST_REFERENCES && isObject(found) && typeof found.$ref === "string"; n++) {
    const { $ref, ...more }: Schema = found;
    const target: Value = String($ref).replace(/^#\/?/, "").split("/").filter(Boolean)
      .reduce<Value>((at, part) => (isObject(at) ? at[part.replace(/~1/g, "/").replace(/~0/g, "~")] : undefined), root);
    found = isObject(target) ? { ...target, ...more } : more;
  }
  if (!isObject(found)) return {};
  const { allOf, anyOf, oneOf, ...more } = found;
  if (Array.isArray(allOf)) found = allOf.reduce<Schema>((all, one) => ({ ...all, ...resolved(one, root) }), more);
  const all = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) ? oneOf : [];
  const choices = all.filter((one) => !isObject(one) || one.type !== "null");
  if (choices.length === 1) return { ...resolved(choices[0], root), ...more, ...(choices.length < all.length && { nullable: true }) };
  return takesNull(found) ? { ...found, nullable: true } : found;
}

function typeOf(schema: Schema): string {
  if (Array.isArray(schema.enum) || schema.const !== undefined) return "enum";
  const named = Array.isArray(schema.type) ? schema.type.filter((one) => one !== "null") : [schema.type];
  if (named.length === 1 && typeof named[0] === "string") return named[0];
  return isObject(schema.properties) ? "object" : "any";
}

/** Whether a boolean is a checkbox, which is either true or false; one that may be left out or null is a choice of three. */
const isTick = (schema: Schema, isRequired: boolean) =>
  typeOf(schema) === "boolean" && (typeof schema.default === "boolean" || (isRequired && !schema.nullable));

/** What the form holds at first: defaults, checkboxes without a tick, and the objects that are required. */
function initial(schema: Json | undefined, root: Schema, depth = 0): Value {
  const one = resolved(schema, root);
  if (one.default !== undefined) return one.default;
  if (isTick(one, true)) return false;
  if (one.nullable) return null;
  if (one.const !== undefined) return one.const;
  if (typeOf(one) !== "object" || depth > MOST_REFERENCES) return undefined;
  const required = Array.isArray(one.required) ? one.required : [];
  const pairs = Object.entries(isObject(one.properties) ? one.properties : {}).flatMap(([name, inner]): [string, Json][] => {
    const isNeeded = required.includes(name) || resolved(inner, root).default !== undefined;
    const value = isNeeded ? initial(inner, root, depth + 1) : undefined;
    return value === undefined ? [] : [[name, value]];
  });
  return Object.fromEntries(pairs);
}

/** Which required values are missing, by path. */
function missing(schema: Json | undefined, root: Schema, value: Value, path: string): [string, string][] {
  const one = resolved(schema, root);
  if (Array.isArray(value)) return value.flatMap((item, n) => missing(one.items, root, item, `${path}[${n}]`));
  if (!isObject(value)) return [];
  const properties = isObject(one.properties) ? one.properties : {};
  const needed = (Array.isArray(one.required) ? one.required : []).filter((name) => value[String(name)] === undefined);
  return [
    ...needed.map((name): [string, string] => [below(path, String(name)), "Required"]),
    ...Object.entries(value).flatMap(([name, inner]) => missing(properties[name] ?? true, root, inner, below(path, name))),
  ];
}

/** A form for a value of this schema. `send` gives the value, and puts what the server refuses next to its field. */
export function useForm(schema: Json | undefined, label: string, path: string): {
  form: ReactNode; send: <T>(does: (value: Json) => Promise<T>) => Promise<T>;
} {
  const root = useMemo(() => (isObject(schema) ? schema : {}), [schema]);
  const hasForm = isObject(resolved(root, root).properties) && Object.keys(resolved(root, root).properties as Schema).length > 0;
  const [value, setValue] = useState<Value>(() => initial(root, root));
  const [json, setJson] = useState<string | null>(null);  // while the JSON is edited
  const [wrong, setWrong] = useState(new Map<string, string>());
  const fields = useRef(new Set<string>());
  fields.current = new Set();
  const asJson = !hasForm || json !== null;
  const shownJson = json ?? (hasForm ? writeJson(value, 2) ?? "" : "");

  const toForm = () => {
    try {
      setValue(readJson(shownJson));
      setJson(null);
    } catch {
      // The field says what is wrong; the JSON stays until it is right.
    }
  };
  const send = async <T,>(does: (value: Json) => Promise<T>) => {
    const now = asJson ? readJson(shownJson) : value;
    const absent = asJson ? [] : missing(root, root, now ?? {}, path);
    setWrong(new Map(absent));
    if (absent.length) throw new Refused(422, "Fill in the marked fields.");
    try {
      return await does(now ?? (hasForm ? {} : null));
    } catch (error) {
      if (asJson || !(error instanceof Refused) || !error.problems.length) throw error;
      const [at, rest] = sorted(error.problems, fields.current);
      setWrong(at);
      if (!at.size) throw error;
      throw new Refused(error.status, "Correct the marked fields.", rest);
    }
  };
  const errors = { of: wrong, fields: fields.current };
  const form = (
    <div className="form">
      {hasForm && (
        <div className="tabs small" role="tablist" aria-label={label} onKeyDown={tabs}>
          <button type="button" role="tab" aria-selected={!asJson} tabIndex={asJson ? -1 : 0} onClick={toForm}>Form</button>
          <button type="button" role="tab" aria-selected={asJson} tabIndex={asJson ? 0 : -1} onClick={() => setJson(shownJson)}>JSON</button>
        </div>
      )}
      {asJson
        ? <><JsonField label={`${label} (JSON)`} text={shownJson} onText={setJson} /><Fields of={schema} label={`Fields of ${label.toLowerCase()}`} /></>
        : <Properties schema={resolved(root, root)} root={root} value={value} set={setValue} path={path} errors={errors} />}
    </div>
  );
  return { form, send };
}

/** Each problem at the innermost field that it is about; the rest is about none. */
function sorted(problems: Problem[], fields: Set<string>): [Map<string, string>, Problem[]] {
  const at = new Map<string, string>(), rest: Problem[] = [];
  for (const problem of problems) {
    const found = [...fields].filter((one) => problem.path === one || problem.path.startsWith(`${one}.`) || problem.path.startsWith(`${one}[`))
      .sort((a, b) => b.length - a.length)[0];
    if (!found) rest.push(problem);
    else at.set(found, [at.get(found), problem.path === found ? problem.message : `${problem.path.slice(found.length)}: ${problem.message}`].filter(Boolean).join("; "));
  }
  return [at, rest];
}

type Part = { schema: Schema; root: Schema; value: Value; set: (value: Value) => void; path: string; errors: Errors };

function Properties({ schema, root, value, set, path, errors }: Part) {
  const object = isObject(value) ? value : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  const properties = isObject(schema.properties) ? schema.properties : {};
  const put = (name: string, now: Value) => {
    const { [name]: _, ...more } = object;
    set(now === undefined ? more : { ...object, [name]: now });
  };
  return Object.entries(properties).map(([name, inner]) => (
    <Field key={name} name={name} isRequired={required.includes(name)} schema={resolved(inner, root)} root={root}
      value={object[name]} set={(now) => put(name, now)} path={below(path, name)} errors={errors} />
  ));
}

/** A new value for an object that was left out or null. */
function made({ default: given, nullable: _, ...schema }: Schema, root: Schema): Value {
  return isObject(given) ? given : initial(schema, root) ?? {};
}

function Field({ name, isRequired, set: put, ...shared }: Part & { name: string; isRequired: boolean }) {
  const { schema, root, value, path, errors } = shared;
  const mayLack = !isRequired || schema.nullable === true;
  // Where a value is required, an empty field is null.
  const set = (now: Value) => put(now === undefined && isRequired && mayLack ? null : now);
  const part = { ...shared, set };
  const id = useId();
  errors.fields.add(path);
  const error = errors.of.get(path);
  const title = (
    <>
      <strong>{typeof schema.title === "string" ? schema.title : name}</strong>
      {isRequired && <span className="must" title="required">*<span className="unseen"> required</span></span>}
    </>
  );
  const about = (
    <>
      {typeof schema.description === "string" && <small id={`${id}-about`}>{schema.description}</small>}
      {error && <span className="wrong" role="alert" id={`${id}-wrong`}>{error}</span>}
    </>
  );
  const described = [typeof schema.description === "string" && `${id}-about`, error && `${id}-wrong`].filter(Boolean).join(" ") || undefined;
  const type = typeOf(schema);
  if (type === "object" && isObject(schema.properties)) {
    if ((value ?? null) === null && mayLack) {
      return <div className="field"><span>{title}</span>{about}<button type="button" onClick={() => set(made(schema, root))}>Add {name}</button></div>;
    }
    return (
      <fieldset>
        <legend>{title}</legend>
        {about}
        <Properties {...part} />
        {mayLack && <button type="button" className="plain" onClick={() => set(undefined)}>Remove {name}</button>}
      </fieldset>
    );
  }
  if (type === "array" && isObject(schema.items) && !Array.isArray(schema.items)) {
    return <fieldset><legend>{title}</legend>{about}<Items {...part} name={name} /></fieldset>;
  }
  if (isTick(schema, isRequired)) {
    return (
      <div className="field">
        <label className="tick">
          <input id={id} type="checkbox" checked={(value ?? schema.default) === true} aria-describedby={described} aria-invalid={!!error || undefined}
            onChange={(event) => set(event.target.checked)} />
          <span>{title}</span>
        </label>
        {about}
      </div>
    );
  }
  return (
    <div className="field">
      <label htmlFor={id}>{title} <small>{hint(schema, type)}</small></label>
      <Input id={id} described={described} isWrong={!!error} isRequired={isRequired} type={type} {...part} />
      {about}
    </div>
  );
}

const hint = (schema: Schema, type: string) => [
  type === "any" || type === "object" || type === "array" ? "JSON" : type === "integer" ? "whole number" : type === "number" ? "number" : schema.format,
  schema.minimum !== undefined && `at least ${schema.minimum}`, schema.maximum !== undefined && `at most ${schema.maximum}`,
  schema.exclusiveMinimum !== undefined && `more than ${schema.exclusiveMinimum}`,
  schema.exclusiveMaximum !== undefined && `less than ${schema.exclusiveMaximum}`,
].filter(Boolean).join(", ");

function Input({ id, described, isWrong, isRequired, type, schema, value, set }: Part & {
  id: string; described: string | undefined; isWrong: boolean; isRequired: boolean; type: string;
}) {
  const shared = { id, "aria-describedby": described, "aria-invalid": isWrong || undefined, "aria-required": isRequired || undefined };
  const [typed, setTyped] = useState(() => (value === undefined ? "" : writeJson(value, 2)));
  if (type === "enum" || type === "boolean") {
    const named = type === "boolean" ? [true, false] : Array.isArray(schema.enum) ? schema.enum : [schema.const ?? null];
    const options = schema.nullable && isRequired && !named.includes(null) ? [...named, null] : named;
    const at = options.findIndex((one) => writeJson(one) === writeJson(value));
    return (
      <select {...shared} value={at} onChange={(event) => set(options[Number(event.target.value)])}>
        {(at < 0 || !isRequired) && <option value={-1}>{isRequired ? "Choose…" : "not set"}</option>}
        {options.map((one, n) => <option key={n} value={n}>{typeof one === "string" ? one : writeJson(one)}</option>)}
      </select>
    );
  }
  if (type === "integer" || type === "number") {
    // Text that is not a number is sent as it is, and the server explains the problem.
    return <input {...shared} inputMode="decimal" value={String(value ?? "")} onChange={({ target }) => set(numberIn(target.value))} />;
  }
  if (type === "string" && (schema.format || schema.pattern)) {
    return <input {...shared} type={schema.format === "date" ? "date" : "text"} value={text(value)} onChange={(event) => set(event.target.value || undefined)} />;
  }
  if (type === "string") return <textarea {...shared} className="text" rows={1} value={text(value)} onChange={(event) => set(event.target.value || undefined)} />;
  return (
    <textarea {...shared} rows={3} spellCheck={false} value={typed} onChange={(event) => {
      setTyped(event.target.value);
      try {
        set(readJson(event.target.value));
      } catch {
        set(event.target.value);  // a text without quotes is a text
      }
    }} />
  );
}

function numberIn(typed: string): Value {
  const trimmed = typed.trim();
  if (!trimmed) return undefined;
  return String(Number(trimmed)) === trimmed ? Number(trimmed) : typed;
}

function Items({ schema, root, value, set, path, errors, name }: Part & { name: string }) {
  const items = Array.isArray(value) ? value : [];
  const inner = resolved(schema.items, root);
  return (
    <>
      {items.map((item, n) => (
        <div className="item" key={n}>
          <Field name={`${name} ${n + 1}`} isRequired schema={inner} root={root} value={item ?? undefined} path={`${path}[${n}]`} errors={errors}
            set={(now) => set(items.map((one, at) => (at === n ? now ?? null : one)))} />
          <button type="button" className="plain icon" aria-label={`Remove ${name} ${n + 1}`} onClick={() => set(items.filter((_, at) => at !== n))}>✕</button>
        </div>
      ))}
      <button type="button" onClick={() => set([...items, initial(inner, root) ?? (typeOf(inner) === "object" ? {} : null)])}>Add to {name}</button>
    </>
  );
}
