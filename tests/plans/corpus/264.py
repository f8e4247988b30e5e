# Request: find the oldest open ticket for each label
oldest = {}
cursor = None
while True:
    page = await search_tickets(status="open", cursor=cursor)
    for t in page["tickets"]:
        for label in t["labels"]:
            if label not in oldest or t["created_at"] < oldest[label]["created_at"]:
                oldest[label] = t
    if not (cursor := page["next_cursor"]):
        break

return {
    label: {"id": t["id"], "title": t["title"], "since": t["created_at"][:10]}
    for label, t in sorted(oldest.items())
}
