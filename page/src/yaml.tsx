// A YAML document with colours. Only spans are added, so the text stays the author's own.
import { Fragment, type ReactNode } from "react";

const QUOTED = String.raw`"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'`;
const TOKENS = new RegExp([
  String.raw`(?<note>(?<=^|\s)#.*$)`,
  String.raw`(?<key>(?:${QUOTED}|[\w$][\w.$/-]*)(?=:(?:\s|$)))`,
  String.raw`(?<text>${QUOTED})`,
  String.raw`(?<number>(?<=[\s[{,]|^)-?\d+(?:\.\d+)?(?=\s*(?:[,\]}]|$|\s#)))`,
  String.raw`(?<word>(?<=[\s[{,]|^)(?:true|false|null)(?=\s*(?:[,\]}]|$|\s#)))`,
].join("|"), "g");
/** The end of a line whose value is the more indented lines after it. */
const BLOCK = /(?:^|\s)[|>][+-]?\d?(?:\s+#.*)?$/;

export function Yaml({ of }: { of: string }): ReactNode {
  let block: number | null = null; // indentation of the key of a block of text
  return of.split("\n").map((line, n) => {
    const indent = line.search(/\S/);
    if (block !== null && indent >= 0 && indent <= block) block = null;
    const shown = block === null ? coloured(line) : <span className="text">{line}</span>;
    if (block === null && BLOCK.test(line)) block = indent;
    return <Fragment key={n}>{n > 0 && "\n"}{shown}</Fragment>;
  });
}

function coloured(line: string): ReactNode[] {
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of line.matchAll(TOKENS)) {
    const [kind] = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined)!;
    parts.push(line.slice(end, match.index), <span key={match.index} className={kind}>{match[0]}</span>);
    end = match.index + match[0].length;
  }
  return [...parts, line.slice(end)];
}
