# Request: Find out if a customer's complaint (ticket T-900) is related to a recent deployment: list the tags... well the commits merged in the 24h before the ticket was created in all repos
import asyncio
from datetime import datetime, timedelta

ticket = await get_ticket("T-900")
if ticket is None:
    print("T-900 does not exist.")
else:
    created = datetime.fromisoformat(ticket["created_at"].replace("Z", "+00:00"))
    since = created - timedelta(hours=24)

    repos = [r for r in await list_repos("acme") if not r["archived"]]
    results = await asyncio.gather(
        *(list_commits(r["name"], branch=r["default_branch"], since=since.isoformat(), until=created.isoformat()) for r in repos),
        return_exceptions=True,
    )

    print(f"{ticket['id']} '{ticket['title']}' was created {created:%Y-%m-%d %H:%M}")
    for repo, commits in zip(repos, results):
        if isinstance(commits, Exception) or not commits:
            continue
        print(f"\n{repo['name']}:")
        for c in commits:
            print(f"  {c['date'][11:16]} {c['sha'][:7]} {c['author']}: {c['message'].splitlines()[0][:70]}")
