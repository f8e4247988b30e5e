# Request: close the loop: for every resolved ticket labelled "customer-request" from this week, send the reporter a mail that it's done, then close the ticket
import asyncio
from datetime import datetime, timedelta

monday = (datetime.now() - timedelta(days=datetime.now().weekday())).date().isoformat()


async def iter_tickets(**filters):
    cursor = None
    while True:
        page = await search_tickets(cursor=cursor, **filters)
        for t in page["tickets"]:
            yield t
        cursor = page["next_cursor"]
        if cursor is None:
            break


count = 0
async for t in iter_tickets(status="resolved", label="customer-request"):
    if t["updated_at"][:10] < monday:
        continue
    try:
        await send_mail(t["reporter"], f"Done: {t['title']}", f"Good news, your request {t['id']} is implemented.")
    except ValueError:
        print(f"{t['id']}: reporter {t['reporter']!r} has no valid mail address")
        continue
    await update_ticket(t["id"], status="closed")
    count += 1

print(f"{count} tickets closed.")
