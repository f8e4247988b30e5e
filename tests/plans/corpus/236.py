# Request: top contributors per repo this month: author with the most commits
from collections import Counter

month_start = now().strftime("%Y-%m-01")
for repo in await list_repos("acme"):
    commits = await list_commits(repo["name"], branch=repo["default_branch"], since=month_start)
    if not commits:
        continue
    author, n = Counter(c["author"] for c in commits).most_common(1)[0]
    print(f"{repo['name']}: {author} ({n}/{len(commits)})")
