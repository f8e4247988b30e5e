# Request: Deal hygiene: which open deals have no close date, a close date in the past or an amount of zero? Group by owner and message them
from collections import defaultdict

today = now().date().isoformat()
issues = defaultdict(list)

for deal in await list_deals():
    if deal["stage"] in ("won", "lost"):
        continue
    reasons = []
    if not deal["close_date"]:
        reasons.append("no close date")
    elif deal["close_date"] < today:
        reasons.append(f"close date {deal['close_date']} is in the past")
    if not deal["amount"]:
        reasons.append("amount is zero")
    if reasons:
        issues[deal["owner"]].append(f"• {deal['name']}: {' and '.join(reasons)}")

for owner, lines in issues.items():
    handle = "@" + owner.split("@")[0]
    await post_message(handle, "Please fix these deals:\n" + "\n".join(lines))

{o: len(l) for o, l in issues.items()}
