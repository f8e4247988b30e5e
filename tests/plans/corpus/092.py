# Request: Escalate tickets: open longer than 48h and high -> urgent; comment and tell #support
from datetime import datetime, timedelta, timezone

threshold = timedelta(hours=48)
escalated = []
cursor = None

while True:
    res = await search_tickets(status="open", cursor=cursor)

    for ticket in res["tickets"]:
        if ticket["priority"] != "high":
            continue

        created_at = datetime.fromisoformat(ticket["created_at"].replace("Z", "+00:00"))
        age = datetime.now(timezone.utc) - created_at

        if age > threshold:
            await update_ticket(ticket["id"], priority="urgent")
            await add_ticket_comment(
                ticket["id"],
                f"Escalated to urgent automatically: open for {age.days} days and {age.seconds // 3600} hours.",
                internal=True,
            )
            escalated.append(ticket)

    cursor = res["next_cursor"]
    if not cursor:
        break

if escalated:
    msg = "Escalated tickets:\n" + "\n".join(f"• {t['id']}: {t['title']}" for t in escalated)
    await post_message("#support", msg)

print(f"{len(escalated)} tickets escalated.")
