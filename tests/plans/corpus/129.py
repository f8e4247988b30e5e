# Request: is there already a ticket about the login timeout? If not create one
page = await search_tickets(query="login timeout")
open_tickets = [t for t in page["tickets"] if t["status"] not in ("resolved", "closed")]

if open_tickets:
    t = open_tickets[0]
    print(f"Yes: {t['id']} \"{t['title']}\" ({t['status']}, assigned to {t['assignee'] or 'nobody'})")
else:
    t = await create_ticket(
        "Login timeout",
        "Users report that the login times out.",
        priority="high",
        labels=["bug", "login"],
    )
    print(f"No, so I created {t['id']}.")
