# Request: Close all tickets which are in status "waiting" without any comment for 30 days
from datetime import datetime, timedelta, timezone

cutoff = datetime.now(timezone.utc) - timedelta(days=30)


def parse(ts):
    return datetime.fromisoformat(ts.replace("Z", "+00:00"))


async def all_waiting_tickets():
    result = []
    cursor = None
    while True:
        page = await search_tickets(status="waiting", cursor=cursor)
        result += page["tickets"]
        cursor = page["next_cursor"]
        if not cursor:
            return result


closed = []
for ticket in await all_waiting_tickets():
    comments = await list_ticket_comments(ticket["id"])
    last_activity = parse(comments[-1]["created_at"]) if comments else parse(ticket["created_at"])
    if last_activity < cutoff:
        await add_ticket_comment(
            ticket["id"],
            "Closing because we did not hear back for 30 days. Please reopen if this is still an issue.",
        )
        await update_ticket(ticket["id"], status="closed")
        closed.append(ticket["id"])

print(f"Closed {len(closed)} tickets: {', '.join(closed) or '-'}")
