# Request: archive all repos... can't. ok: list repos not pushed to for over a year with zero open issues as candidates
from datetime import datetime, timedelta

year_ago = (datetime.utcnow() - timedelta(days=365)).isoformat()
candidates = [
    r["name"]
    for r in await list_repos("acme")
    if r["pushed_at"] < year_ago and r["open_issues"] == 0
]
print(len(candidates), "candidates:", ", ".join(sorted(candidates)) or "none")
