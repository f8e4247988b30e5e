# Request: Write a weekly status report (commits, merged PRs, resolved tickets, revenue) and mail it to the leadership list.
import asyncio
from datetime import timedelta

week_start = (now() - timedelta(days=7)).date().isoformat()
sections: dict[str, str] = {}
errors: list[str] = []


def section(title):
    def decorate(fn):
        async def run():
            try:
                sections[title] = await fn()
            except Exception as exc:
                errors.append(f"{title}: {type(exc).__name__}: {exc}")
        jobs.append(run)
        return fn
    return decorate


jobs = []


@section("Engineering")
async def engineering():
    repos = [r["name"] for r in await list_repos("acme")]
    commits = [c for repo in repos for c in await list_commits(repo, since=week_start)]
    merged = [pr for repo in repos for pr in await list_pull_requests(repo, "merged") if pr["updated_at"] >= week_start]
    return f"{len(commits)} commits by {len({c['author_email'] for c in commits})} people, {len(merged)} pull requests merged"


@section("Support")
async def support():
    page = await search_tickets(status="resolved")
    done = [t for t in page["tickets"] if t["updated_at"] >= week_start]
    return f"{len(done)}{'+' if page['next_cursor'] else ''} tickets resolved"


@section("Revenue")
async def revenue():
    [row] = await run_sql("SELECT SUM(total) AS total, COUNT(*) AS n FROM orders WHERE created_at >= $1", [week_start])
    return f"{row['total'] or 0:,.2f} from {row['n']} orders"


await asyncio.gather(*(job() for job in jobs))
body = "\n\n".join(f"{title}\n{'=' * len(title)}\n{text}" for title, text in sorted(sections.items()))
if errors:
    body += "\n\nIncomplete:\n" + "\n".join(errors)
await send_mail("leadership@acme.com", f"Weekly status {now():%G-W%V}", body)
return body
