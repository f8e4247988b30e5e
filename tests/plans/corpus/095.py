# Request: Which repo had the most lines changed in the past week?
import asyncio
from datetime import date, timedelta


async def churn(repo: dict, since: str) -> tuple[str, int]:
    commits = await list_commits(repo["name"], branch=repo["default_branch"], since=since, limit=500)
    return repo["name"], sum(c["additions"] + c["deletions"] for c in commits)


async def main() -> None:
    since = (date.today() - timedelta(days=7)).isoformat()
    repos = await list_repos("acme")
    results = await asyncio.gather(*(churn(r, since) for r in repos))
    ranking = sorted(results, key=lambda x: x[1], reverse=True)
    for name, lines in ranking[:5]:
        print(f"{name}: {lines} lines changed")


asyncio.run(main())
