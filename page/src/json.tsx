// JSON to read: keys, texts and numbers in colours, objects and lists that fold, and no more of it drawn than is open.
import { writeJson } from "./exact";
import { useState, type ReactNode } from "react";
import type { Json } from "./api";

const MOST_ITEMS = 100, MOST_CHARACTERS = 4_000;
/** A value of up to this number of lines is open as a whole; of a longer one the outer levels are. */
const MOST_OPEN = 60, OUTER_LEVELS = 2;

export function JsonTree({ of }: { of: Json }) {
  const isShort = lines(of, MOST_OPEN + 1) <= MOST_OPEN;
  return <div className="json"><Part of={of} depth={0} isShort={isShort} after="" /></div>;
}

/** How many lines a value takes; counting ends at `most`. */
function lines(of: Json, most: number): number {
  if (!of || typeof of !== "object") return 1;
  let count = 2;
  for (const one of Object.values(of)) {
    count += lines(one, most - count);
    if (count >= most) return most;
  }
  return count;
}

function Part({ of, name, depth, isShort, after }: { of: Json; name?: string; depth: number; isShort: boolean; after: string }) {
  const [isOpen, setOpen] = useState(isShort || depth < OUTER_LEVELS);
  const [shown, setShown] = useState(MOST_ITEMS);
  const key = name === undefined ? null : <><span className="key">{writeJson(name)}</span>: </>;
  if (!of || typeof of !== "object") return <div className="line">{key}<Scalar of={of} />{after}</div>;
  const isList = Array.isArray(of);
  const [begin, end] = isList ? ["[", "]"] : ["{", "}"];
  const entries = Object.entries(of);
  if (!entries.length) return <div className="line">{key}{begin}{end}{after}</div>;
  const count = `${entries.length.toLocaleString()} ${isList ? (entries.length === 1 ? "item" : "items") : entries.length === 1 ? "key" : "keys"}`;
  return (
    <div>
      <button type="button" className="line" aria-expanded={isOpen} aria-label={`${isOpen ? "Collapse" : "Expand"} ${name ?? "value"}, ${count}`} onClick={() => setOpen(!isOpen)}>
        <span className="turn" aria-hidden="true">{isOpen ? "▾" : "▸"}</span>{key}{begin}{!isOpen && <> <i>{count}</i> {end}{after}</>}
      </button>
      {isOpen && (
        <>
          <div className="inner">
            {entries.slice(0, shown).map(([one, value], n) => (
              <Part key={one} of={value} name={isList ? undefined : one} depth={depth + 1} isShort={isShort} after={n < entries.length - 1 ? "," : ""} />
            ))}
            {shown < entries.length && (
              <button type="button" onClick={() => setShown(shown + 10 * MOST_ITEMS)}>Show more of {count}</button>
            )}
          </div>
          <div className="line">{end}{after}</div>
        </>
      )}
    </div>
  );
}

function Scalar({ of }: { of: Json }): ReactNode {
  const [isWhole, setWhole] = useState(false);
  const text = writeJson(of);
  const kind = typeof of === "string" ? "text" : typeof of === "number" || typeof of === "bigint" ? "number" : "word";
  if (isWhole || text.length <= MOST_CHARACTERS) return <span className={kind}>{text}</span>;
  return (
    <>
      <span className={kind}>{text.slice(0, MOST_CHARACTERS)}</span>{" "}
      <button type="button" onClick={() => setWhole(true)}>Show all {text.length.toLocaleString()} characters</button>
    </>
  );
}
