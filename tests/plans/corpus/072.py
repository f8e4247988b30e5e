# Request: Clean up my calendar: find overlapping meetings next week (mia@acme.com)
from datetime import date, datetime, timedelta

today = date.today()
next_monday = today + timedelta(days=7 - today.weekday())
events = await list_events("mia@acme.com", next_monday.isoformat(), (next_monday + timedelta(days=5)).isoformat())
events = [e for e in events if e["response"] != "declined"]

conflicts = []
for i in range(len(events)):
    for j in range(i + 1, len(events)):
        a, b = events[i], events[j]
        a_end = datetime.fromisoformat(a["end"])
        b_start = datetime.fromisoformat(b["start"])
        if b_start < a_end:
            conflicts.append((a, b))
        else:
            # events are sorted by start
            break

if conflicts:
    print(f"{len(conflicts)} conflicts next week:")
    for a, b in conflicts:
        print(f"- {a['start'][:16]} '{a['title']}' overlaps with {b['start'][11:16]} '{b['title']}'")
else:
    print("No overlapping meetings next week.")
