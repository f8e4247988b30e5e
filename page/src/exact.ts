// JSON whose integers are exact: those beyond 2^53 are bigints, because a number would change their last digits.

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
const MARK = "\u0000integer:"; // no value of Ropewalk has a NUL character

export function parseJson(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const marked = text.replace(TOKEN, (token) =>
    /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? JSON.stringify(MARK + token) : token);
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value);
}

export function writeJson(value: unknown, space?: number): string {
  const text = JSON.stringify(value, (_, item) => (typeof item === "bigint" ? MARK + item : item), space);
  return text?.replace(/"\\u0000integer:(-?\d+)"/g, "$1");
}
