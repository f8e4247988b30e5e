# Request: Summarize the open urgent tickets by assignee
import asyncio
from collections import defaultdict


async def fetch_open_tickets():
    """Fetch all open tickets, following the cursor."""
    tickets = []
    cursor = None
    while True:
        page = await search_tickets(status="open", cursor=cursor)
        tickets.extend(page["tickets"])
        cursor = page["next_cursor"]
        if cursor is None:
            break
    return tickets


async def main():
    # Step 1: fetch all tickets
    tickets = await fetch_open_tickets()

    # Step 2: group the urgent ones by assignee
    by_assignee = defaultdict(list)
    for ticket in tickets:
        if ticket["priority"] == "urgent":
            by_assignee[ticket["assignee"] or "unassigned"].append(ticket)

    # Step 3: print the summary
    if not by_assignee:
        print("No urgent open tickets.")
        return

    for assignee, items in sorted(by_assignee.items(), key=lambda kv: len(kv[1]), reverse=True):
        print(f"{assignee}: {len(items)}")
        for t in items:
            print(f"    [{t['id']}] {t['title']}")


if __name__ == "__main__":
    asyncio.run(main())
