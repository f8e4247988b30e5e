# Request: Collect all open tickets labelled "billing" and show the average age per priority.
from collections import defaultdict
from datetime import datetime
from statistics import mean


async def iter_tickets(**filters):
    cursor = None
    while True:
        page = await search_tickets(cursor=cursor, **filters)
        for t in page["tickets"]:
            yield t
        cursor = page["next_cursor"]
        if not cursor:
            return


ages = defaultdict(list)
async for ticket in iter_tickets(status="open", label="billing"):
    created = datetime.fromisoformat(ticket["created_at"].replace("Z", "+00:00"))
    ages[ticket["priority"]].append((now() - created).total_seconds() / 86400)

order = ["urgent", "high", "normal", "low"]
return {
    prio: {"count": len(ages[prio]), "avg_age_days": round(mean(ages[prio]), 1), "oldest_days": round(max(ages[prio]), 1)}
    for prio in order
    if prio in ages
}
