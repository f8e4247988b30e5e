# Request: Find PRs waiting for review longer than 3 days and ping the reviewers in chat
from datetime import datetime, timezone

REPO = "acme/web"
MAX_AGE_DAYS = 3


def age_in_days(iso: str) -> int:
    created = datetime.fromisoformat(iso.replace("Z", "+00:00"))
    return (datetime.now(timezone.utc) - created).days


prs = await list_pull_requests(REPO)
pinged = {}

for pr in prs:
    if pr["draft"] or pr["approvals"] > 0:
        continue
    age = age_in_days(pr["created_at"])
    if age <= MAX_AGE_DAYS:
        continue
    for reviewer in pr["reviewers"]:
        pinged.setdefault(reviewer, []).append((pr["number"], pr["title"], age))

for reviewer, items in pinged.items():
    text = "These PRs are waiting for your review:\n"
    for number, title, age in items:
        text += f"• #{number} {title} ({age} days)\n"
    await post_message(f"@{reviewer}", text)

print({reviewer: len(items) for reviewer, items in pinged.items()})
