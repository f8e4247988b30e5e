# Request: find the ticket with the most comments among those in progress
import asyncio

page = await search_tickets(status="in_progress")
tickets = page["tickets"]
comment_lists = await asyncio.gather(*[list_ticket_comments(t["id"]) for t in tickets])

ticket, comments = max(zip(tickets, comment_lists), key=lambda pair: len(pair[1]), default=(None, []))
if ticket:
    print(f"{ticket['id']} {ticket['title']}: {len(comments)} comments")
