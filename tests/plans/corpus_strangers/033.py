# Request: Who in the company approves too few reviews? Count for the five most active repos how many open PRs each reviewer has pending, oldest first.
import asyncio
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime


@dataclass(order=True, frozen=True)
class Pending:
    age_days: int
    repo: str
    number: int
    title: str

    def __str__(self):
        return f"{self.repo}#{self.number} ({self.age_days}d) {self.title}"


def age(ts: str) -> int:
    return (now() - datetime.fromisoformat(ts.replace("Z", "+00:00"))).days


repos = sorted(await list_repos("acme"), key=lambda r: r["pushed_at"], reverse=True)[:5]
pulls = await asyncio.gather(*(list_pull_requests(r["name"]) for r in repos))

queue: defaultdict[str, list[Pending]] = defaultdict(list)
for repo, prs in zip(repos, pulls):
    for pr in prs:
        if pr["draft"] or pr["approvals"]:
            continue
        item = Pending(age(pr["created_at"]), repo["name"], pr["number"], pr["title"])
        for reviewer in pr["reviewers"]:
            queue[reviewer].append(item)

for reviewer, items in sorted(queue.items(), key=lambda kv: len(kv[1]), reverse=True):
    print(f"{reviewer}: {len(items)} pending, {sum(i.age_days for i in items)} days in total")
    for item in sorted(items, reverse=True):
        print(f"    {item}")
