# Request: What changed between v1.8 and main in "payments"? Show the biggest files and whether any migrations or lock files were touched.
from pathlib import PurePosixPath
from collections import Counter

diff = await get_diff("payments", "v1.8", "main")
if not diff:
    return "No changes."

added = sum(d["additions"] for d in diff)
removed = sum(d["deletions"] for d in diff)
by_ext = Counter()
for d in diff:
    by_ext[PurePosixPath(d["path"]).suffix or "(none)"] += d["additions"] + d["deletions"]

migrations = [d["path"] for d in diff if "migrations" in PurePosixPath(d["path"]).parts]
locks = [d["path"] for d in diff if d["path"].endswith((".lock", "package-lock.json", "go.sum"))]
todos = [
    (d["path"], line[1:].strip())
    for d in diff
    for line in d["patch"].splitlines()
    if line.startswith("+") and not line.startswith("+++") and "TODO" in line
]

print(f"{len(diff)} files, +{added} -{removed}")
print("By type:", ", ".join(f"{ext} {n}" for ext, n in by_ext.most_common(6)))
for d in sorted(diff, key=lambda d: d["additions"] + d["deletions"], reverse=True)[:10]:
    print(f"  {d['path']:<60} +{d['additions']:<5} -{d['deletions']}")
print("Migrations:", *(migrations or ["none"]), sep="\n  ")
print("Lock files:", ", ".join(locks) or "untouched")
if todos:
    print(f"New TODOs ({len(todos)}):")
    for path, text in todos:
        print(f"  {path}: {text[:80]}")
