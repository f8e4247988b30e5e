# Request: Delete all merged branches older than 30 days in the "storefront" repo, but ask me first.
from datetime import datetime, timedelta

REPO = "storefront"
KEEP = {"main", "master", "develop", "staging"}
cutoff = now() - timedelta(days=30)


def parse(ts: str) -> datetime:
    return datetime.fromisoformat(ts.replace("Z", "+00:00"))


branches = await list_branches(REPO)
candidates = [
    b for b in branches
    if b["merged"] and not b["protected"] and b["name"] not in KEEP and parse(b["last_commit_at"]) < cutoff
]

if not candidates:
    print("Nothing to delete.")
    return

names = "\n".join(f"  {b['name']} (last commit {b['last_commit_at'][:10]})" for b in candidates)
decision = await approve(f"Delete these {len(candidates)} merged branches from {REPO}?\n{names}")
if not decision:
    return f"Cancelled. {decision.note or ''}".strip()

deleted, failed = [], {}
for branch in candidates:
    name = branch["name"]
    try:
        if await delete_branch(REPO, name):
            deleted.append(name)
        else:
            failed[name] = "tool reported failure"
    except PermissionError as exc:
        failed[name] = f"protected: {exc}"

print(f"Deleted {len(deleted)} of {len(candidates)} branches.")
for name, reason in failed.items():
    print(f"  could not delete {name}: {reason}")
