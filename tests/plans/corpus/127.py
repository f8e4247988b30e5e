# Request: Mark all urgent tickets of reporter "bigcorp" as in_progress and assign to me (kim)
import asyncio

updated = []
failed = []
cursor = None

while True:
    page = await search_tickets(query="bigcorp", status="open", cursor=cursor)
    urgent = [t for t in page["tickets"] if t["reporter"] == "bigcorp" and t["priority"] == "urgent"]

    results = await asyncio.gather(
        *[update_ticket(t["id"], status="in_progress", assignee="kim") for t in urgent],
        return_exceptions=True,
    )
    for t, r in zip(urgent, results):
        if isinstance(r, Exception):
            failed.append({"id": t["id"], "error": str(r)})
        else:
            updated.append(t["id"])

    if not page["next_cursor"]:
        break
    cursor = page["next_cursor"]

return {"updated": updated, "failed": failed}
