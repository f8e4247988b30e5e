# Request: Generate release notes for the api repo from the commits since v2.3.0 was released on 2025-02-10, grouped by conventional commit type.
import re
from collections import defaultdict

PATTERN = re.compile(r"^(?P<type>\w+)(?:\((?P<scope>[^)]+)\))?(?P<bang>!)?:\s*(?P<text>.+)$")
HEADINGS = {"feat": "Features", "fix": "Bug fixes", "perf": "Performance", "docs": "Documentation"}

commits = await list_commits("api", since="2025-02-10", limit=500)
groups = defaultdict(list)
breaking = []

for c in commits:
    subject, *rest = c["message"].splitlines()
    if (m := PATTERN.match(subject)) is None:
        groups["Other"].append(f"{subject} ({c['sha'][:7]})")
        continue
    scope = f"**{m['scope']}**: " if m["scope"] else ""
    entry = f"{scope}{m['text']} ({c['sha'][:7]})"
    groups[HEADINGS.get(m["type"], "Other")].append(entry)
    if m["bang"] or any(line.startswith("BREAKING CHANGE") for line in rest):
        breaking.append(entry)

out = ["# Release notes", f"_{len(commits)} commits since v2.3.0_", ""]
if breaking:
    out += ["## ⚠ Breaking changes", *(f"- {e}" for e in breaking), ""]
for heading in [*HEADINGS.values(), "Other"]:
    if entries := groups.get(heading):
        out.append(f"## {heading}")
        out.extend(f"- {e}" for e in sorted(entries, key=str.lower))
        out.append("")

notes = "\n".join(out)
info = await write_document("/releases/api-next.md", notes, overwrite=True)
return f"Wrote {info['path']}\n\n{notes}"
