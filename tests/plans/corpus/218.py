# Request: Decline all meetings on Friday afternoon?? No: just tell me which ones and how long in total. ed@acme.com
from datetime import date, datetime, timedelta

friday = date.today() + timedelta(days=(4 - date.today().weekday()) % 7)
events = await list_events("ed@acme.com", str(friday), str(friday + timedelta(days=1)))

total = timedelta()
for e in events:
    start, end = datetime.fromisoformat(e["start"]), datetime.fromisoformat(e["end"])
    if end.hour < 12:
        continue
    total += end - start
    print(f"{start:%H:%M}-{end:%H:%M} {e['title']} ({len(e['attendees'])} attendees)")

print(f"Total: {total.total_seconds() / 60:.0f} minutes")
