# Request: Write a weekly summary document with commits per author for all active repos
import asyncio
from collections import Counter, defaultdict
from datetime import date, timedelta


async def main():
    end = date.today()
    start = end - timedelta(days=7)

    repos = [r for r in await list_repos("acme") if not r["archived"] and r["pushed_at"][:10] >= start.isoformat()]
    commit_lists = await asyncio.gather(
        *[list_commits(r["name"], since=start.isoformat(), until=end.isoformat()) for r in repos]
    )

    per_author = Counter()
    per_author_repo = defaultdict(Counter)
    for repo, commits in zip(repos, commit_lists):
        for c in commits:
            per_author[c["author"]] += 1
            per_author_repo[c["author"]][repo["name"]] += 1

    lines = [f"# Commits {start} to {end}", "", "| Author | Commits | Repos |", "|---|---|---|"]
    for author, n in per_author.most_common():
        repo_str = ", ".join(f"{r} ({k})" for r, k in per_author_repo[author].most_common())
        lines.append(f"| {author} | {n} | {repo_str} |")

    doc = await write_document(f"/reports/commits-{end}.md", "\n".join(lines), overwrite=True)
    return doc["path"]


path = asyncio.run(main())
print(f"Report written to {path}")
