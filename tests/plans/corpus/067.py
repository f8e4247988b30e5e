# Request: How long does it take us on average to resolve a ticket, per priority?
from collections import defaultdict
from datetime import datetime
from statistics import mean


def hours_between(a: str, b: str) -> float:
    t0 = datetime.fromisoformat(a.replace("Z", "+00:00"))
    t1 = datetime.fromisoformat(b.replace("Z", "+00:00"))
    return (t1 - t0).total_seconds() / 3600


durations = defaultdict(list)
for status in ("resolved", "closed"):
    cursor = None
    while True:
        page = await search_tickets(status=status, cursor=cursor)
        for t in page["tickets"]:
            durations[t["priority"]].append(hours_between(t["created_at"], t["updated_at"]))
        cursor = page.get("next_cursor")
        if not cursor:
            break

for priority in ["urgent", "high", "normal", "low"]:
    if durations[priority]:
        print(f"{priority:<8} {mean(durations[priority]):8.1f} h  (n={len(durations[priority])})")
