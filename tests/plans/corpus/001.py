# Request: How many open pull requests does acme/web have, and who opened the most?
from collections import Counter

prs = await list_pull_requests("acme/web", state="open")
counts = Counter(pr["author"] for pr in prs)

if counts:
    top_author, top_count = counts.most_common(1)[0]
    print(f"{len(prs)} open PRs. Most opened by {top_author} ({top_count}).")
else:
    print("There are no open PRs in acme/web.")
