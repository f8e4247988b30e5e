# Request: Create a "what I did this week" report for user dev "hana" (commits + PRs + resolved tickets) and save it as a document
import asyncio
from datetime import date, timedelta
from textwrap import dedent


async def collect_commits(author, repos, since):
    result = []
    for repo in repos:
        for c in await list_commits(repo, since=since):
            if c["author"] == author:
                result.append((repo, c))
    return result


async def collect_prs(author, repos, since):
    result = []
    for repo in repos:
        for pr in await list_pull_requests(repo, state="all"):
            if pr["author"] == author and pr["updated_at"][:10] >= since:
                result.append((repo, pr))
    return result


async def main():
    author = "hana"
    since = (date.today() - timedelta(days=7)).isoformat()
    repos = [r["name"] for r in await list_repos("acme")]

    commits, prs, tickets = await asyncio.gather(
        collect_commits(author, repos, since),
        collect_prs(author, repos, since),
        search_tickets(status="resolved", assignee=author),
    )
    resolved = [t for t in tickets["tickets"] if t["updated_at"][:10] >= since]

    report = dedent(f"""\
        # Weekly report of {author}

        Period: {since} to {date.today()}

        - {len(commits)} commits
        - {len(prs)} pull requests
        - {len(resolved)} resolved tickets
    """)
    report += "\n## Commits\n" + "\n".join(f"- {repo}: {c['message'].splitlines()[0]}" for repo, c in commits)
    report += "\n\n## Pull requests\n" + "\n".join(f"- {repo}#{pr['number']} {pr['title']} ({pr['state']})" for repo, pr in prs)
    report += "\n\n## Tickets\n" + "\n".join(f"- {t['id']} {t['title']}" for t in resolved)

    doc = await write_document(f"/reports/{author}-{date.today()}.md", report, overwrite=True)
    print(f"Saved to {doc['path']}")


if __name__ == "__main__":
    asyncio.run(main())
