# Request: Post a daily standup summary for the platform team: merged PRs yesterday and tickets resolved yesterday
import asyncio
from datetime import datetime, timedelta

yesterday = (datetime.utcnow() - timedelta(days=1)).strftime("%Y-%m-%d")
REPOS = ["acme/platform", "acme/infra", "acme/deploy-tools"]

# Fetch everything in parallel
pr_lists, ticket_page = await asyncio.gather(
    asyncio.gather(*[list_pull_requests(r, state="merged") for r in REPOS]),
    search_tickets(status="resolved", label="platform"),
)

merged = []
for repo, prs in zip(REPOS, pr_lists):
    for pr in prs:
        if pr["updated_at"].startswith(yesterday):
            merged.append(f"• {repo}#{pr['number']} {pr['title']} (@{pr['author']})")

resolved = [
    f"• {t['id']} {t['title']}"
    for t in ticket_page["tickets"]
    if t["updated_at"].startswith(yesterday)
]

message = f"*Standup {yesterday}*\n\n*Merged PRs ({len(merged)})*\n"
message += "\n".join(merged) or "none"
message += f"\n\n*Resolved tickets ({len(resolved)})*\n"
message += "\n".join(resolved) or "none"

await post_message("#platform", message)
print(message)
