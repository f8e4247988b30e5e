# Request: Write the release notes for acme/web since v2.3.0 and save them in /releases
from datetime import date

commits = await list_commits("acme/web", since="2025-01-15", limit=300)

sections = {"feat": [], "fix": [], "perf": [], "other": []}
for c in commits:
    first_line = c["message"].split("\n", 1)[0].strip()
    prefix, sep, rest = first_line.partition(":")
    kind = prefix.split("(")[0].strip().lower()
    if sep and kind in sections:
        sections[kind].append((rest.strip(), c["author"], c["sha"][:7]))
    else:
        sections["other"].append((first_line, c["author"], c["sha"][:7]))

headings = {
    "feat": "New features",
    "fix": "Bug fixes",
    "perf": "Performance",
    "other": "Other changes",
}

md = [f"# Release notes ({date.today():%Y-%m-%d})", ""]
for key, heading in headings.items():
    entries = sections[key]
    if not entries:
        continue
    md.append(f"## {heading}")
    md.extend(f"- {text} ({author}, {sha})" for text, author, sha in entries)
    md.append("")

doc = await write_document("/releases/web-notes.md", "\n".join(md), overwrite=True)
print(f"Saved {doc['path']} ({len(commits)} commits)")
