// The fields of a JSON Schema as a list to read, next to JSON that is edited as text.
import { writeJson } from "./exact";
import type { Json } from "./api";

type Schema = { type?: string | string[]; default?: Json; description?: string; enum?: Json[]; format?: string };
type Whole = { properties?: Record<string, Schema>; required?: string[] };

const read = (schema: Json | undefined) => (schema && typeof schema === "object" && !Array.isArray(schema) ? (schema as Whole) : {});
const typeOf = ({ type }: Schema) => (Array.isArray(type) ? type[0] : type);

/** The properties with their types and descriptions; nothing for a schema without any. */
export function Fields({ of, label }: { of: Json | undefined; label: string }) {
  const { properties, required } = read(of);
  const all = Object.entries(properties ?? {});
  if (!all.length) return null;
  return (
    <dl className="fields" aria-label={label}>
      {all.map(([name, one]) => (
        <div key={name}>
          <dt><code>{name}</code>{required?.includes(name) && <span className="must" title="required">*<span className="unseen"> required</span></span>}</dt>
          <dd>
            <small>{one.enum ? one.enum.map((value) => writeJson(value)).join(" | ") : [typeOf(one), one.format].filter(Boolean).join(", ")}
              {one.default !== undefined && `, default ${writeJson(one.default)}`}</small>
            {one.description && <span>{one.description}</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}
