# Request: the intern accidentally created many tickets titled "test" today, close them
today = now().date().isoformat()
page = await search_tickets(query="test", status="open")
test_tickets = [t for t in page["tickets"] if t["title"].strip().lower() == "test" and t["created_at"][:10] == today]

if test_tickets and await approve(f"Close {len(test_tickets)} tickets titled 'test'?"):
    for t in test_tickets:
        await update_ticket(t["id"], status="closed")
    print("Closed:", [t["id"] for t in test_tickets])
else:
    print("Nothing closed.")
