# Request: Assign unassigned open tickets round robin to Ana, Bo and Chi
from itertools import cycle

team = cycle(["ana", "bo", "chi"])
cursor = None
assigned = []

while True:
    page = await search_tickets(status="open", cursor=cursor)
    for ticket in page["tickets"]:
        if ticket["assignee"] is None:
            person = next(team)
            await update_ticket(ticket["id"], assignee=person)
            assigned.append((ticket["id"], person))
    cursor = page["next_cursor"]
    if not cursor:
        break

print(f"Assigned {len(assigned)} tickets")
for tid, person in assigned:
    print(f"{tid} -> {person}")
