# Request: I want to know our average first response time on tickets from the last 50 tickets closed
from datetime import datetime

page = await search_tickets(status="closed")
response_minutes = []

for t in page["tickets"][:50]:
    comments = await list_ticket_comments(t["id"])
    # first comment which isn't by the reporter
    first = next((c for c in comments if c["author"] != t["reporter"]), None)
    if first is None:
        continue
    opened = datetime.fromisoformat(t["created_at"].rstrip("Z"))
    answered = datetime.fromisoformat(first["created_at"].rstrip("Z"))
    response_minutes.append((answered - opened).total_seconds() / 60)

if response_minutes:
    avg = sum(response_minutes) / len(response_minutes)
    h, m = divmod(round(avg), 60)
    print(f"Average first response time: {h}h {m:02d}m (over {len(response_minutes)} tickets)")
    print(f"Fastest: {min(response_minutes):.0f} min, slowest: {max(response_minutes) / 60:.1f} h")
else:
    print("None of the tickets had a response.")
