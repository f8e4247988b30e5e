# Request: Which of our repos have had no pushes in the last 90 days? Ignore archived ones.
from datetime import timedelta, datetime

cutoff = now() - timedelta(days=90)
repos = await list_repos("acme")

stale = [
    (datetime.fromisoformat(r["pushed_at"].replace("Z", "+00:00")), r)
    for r in repos
    if not r["archived"]
]
stale = sorted(((ts, r) for ts, r in stale if ts < cutoff), key=lambda pair: pair[0])

if not stale:
    return "Every active repository was pushed to in the last 90 days."

lines = [f"{len(stale)} stale repositories (oldest first):"]
for ts, repo in stale:
    age = (now() - ts).days
    lines.append(f"- {repo['name']:<30} last push {ts:%Y-%m-%d} ({age} days ago), {repo['open_issues']} open issues")
return "\n".join(lines)
