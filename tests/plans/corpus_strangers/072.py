# Request: Export all tables of the "sales" schema as documentation in one Markdown file, columns sorted as they are, with foreign-key-like columns linked to the table they point to.
import asyncio
import re

tables = sorted(await list_tables("sales"))
columns = dict(zip(tables, await asyncio.gather(*(describe_table(t) for t in tables))))


def singulars(name):
    base = name.rsplit(".", 1)[-1]
    yield base
    for pattern, repl in ((r"ies$", "y"), (r"(ss|x|ch|sh)es$", r"\1"), (r"s$", "")):
        if (s := re.sub(pattern, repl, base)) != base:
            yield s


lookup: dict[str, str] = {}
for t in tables:
    for s in singulars(t):
        lookup.setdefault(s, t)


def link(table, column):
    stem, sep, tail = column.rpartition("_")
    while sep and tail == "id":
        if (target := lookup.get(stem)) and target != table:
            return f"[{column}](#{target.replace('.', '')})"
        _, sep2, stem = stem.partition("_")
        if not sep2:
            break
    return column


out, refs = ["# Sales schema", ""], 0
for t, cols in columns.items():
    out += [f"## {t}", "", "| column | type | null |", "|---|---|---|"]
    for c in cols:
        text = link(t, c["name"])
        refs += text != c["name"]
        out.append(f"| {text} | `{c['type']}` | {'✓' if c['nullable'] == 'yes' else ''} |")
    out.append("")
info = await write_document("/docs/sales-schema.md", "\n".join(out), overwrite=True)
return f"{info['path']}: {len(tables)} tables, {sum(map(len, columns.values()))} columns, {refs} links"
