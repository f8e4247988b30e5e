# Request: Which SLA was breached? urgent: 4h, high: 24h, normal: 72h until resolved. Look at the tickets resolved in the last 7 days
from datetime import datetime, timedelta, timezone

SLA_HOURS = {"urgent": 4, "high": 24, "normal": 72}
week_ago = datetime.now(timezone.utc) - timedelta(days=7)


def to_dt(value: str) -> datetime:
    return datetime.fromisoformat(value.replace("Z", "+00:00"))


breaches = []
checked = 0
cursor = None

while True:
    page = await search_tickets(status="resolved", cursor=cursor)
    for t in page["tickets"]:
        resolved_at = to_dt(t["updated_at"])
        if resolved_at < week_ago:
            continue
        limit = SLA_HOURS.get(t["priority"])
        if limit is None:
            continue
        checked += 1
        took = (resolved_at - to_dt(t["created_at"])).total_seconds() / 3600
        if took > limit:
            breaches.append({"id": t["id"], "priority": t["priority"], "took": took, "limit": limit, "over": took - limit})
    cursor = page["next_cursor"]
    if cursor is None:
        break

breaches.sort(key=lambda b: b["over"], reverse=True)
rate = 1 - len(breaches) / checked if checked else 1.0
print(f"SLA compliance: {rate:.1%} ({checked - len(breaches)}/{checked})")
for b in breaches:
    print(f"  {b['id']} [{b['priority']}] took {b['took']:.1f}h, allowed {b['limit']}h")
