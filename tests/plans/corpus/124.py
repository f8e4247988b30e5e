# Request: find all weekend meetings in the calendars of the leadership team in the next 30 days
from datetime import datetime, timedelta

leaders = ["ceo@acme.com", "cto@acme.com", "cfo@acme.com", "coo@acme.com"]
start = datetime.now().date()
end = start + timedelta(days=30)

seen = set()
for leader in leaders:
    events = await list_events(leader, str(start), str(end))
    for ev in events:
        if ev["id"] in seen:
            continue
        when = datetime.fromisoformat(ev["start"])
        if when.weekday() in (5, 6):
            seen.add(ev["id"])
            print(f"{when:%a %d %b %H:%M} {ev['title']} (organizer: {ev['organizer']})")

if not seen:
    print("No weekend meetings. 🎉")
