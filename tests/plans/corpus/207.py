# Request: Add a "needs-info" label to open tickets with a description shorter than 40 characters and ask the reporter for details
cursor = None
touched = 0

while True:
    page = await search_tickets(status="open", cursor=cursor)

    for t in page["tickets"]:
        if len(t["description"].strip()) >= 40:
            continue
        if "needs-info" in t["labels"]:
            continue
        await update_ticket(t["id"], status="waiting", labels=[*t["labels"], "needs-info"])
        await add_ticket_comment(
            t["id"],
            f"Hi @{t['reporter']}, could you please describe the problem in more detail "
            "(what did you do, what did you expect, what happened)?",
        )
        touched += 1

    if page["next_cursor"] is None:
        break
    cursor = page["next_cursor"]

return f"Asked for details in {touched} tickets."
