# Request: what's the status of ticket T-55, and the last two comments?
ticket = await get_ticket("T-55")
if not ticket:
    print("Ticket T-55 doesn't exist.")
else:
    print(f"{ticket['title']}: {ticket['status']} ({ticket['priority']}), assignee {ticket['assignee']}")
    comments = await list_ticket_comments("T-55")
    for c in comments[-2:]:
        print(f"\n{c['author']} at {c['created_at']}:\n{c['text']}")
