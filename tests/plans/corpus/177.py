# Request: recurring meetings I (nina@acme.com) organize where more than half of the people declined - list them for the next 2 weeks
import asyncio
from datetime import date, timedelta

ME = "nina@acme.com"
start = date.today()
end = start + timedelta(days=14)

events = [e for e in await list_events(ME, start.isoformat(), end.isoformat()) if e["organizer"] == ME and e["recurring"]]

for ev in events:
    day = ev["start"][:10]
    next_day = (date.fromisoformat(day) + timedelta(days=1)).isoformat()
    others = [a for a in ev["attendees"] if a != ME]
    calendars = await asyncio.gather(*(list_events(a, day, next_day) for a in others))

    declined = 0
    for cal in calendars:
        for item in cal:
            if item["title"] == ev["title"] and item["start"] == ev["start"] and item["response"] == "declined":
                declined += 1
                break

    if others and declined / len(others) > 0.5:
        print(f"{day} {ev['title']}: {declined}/{len(others)} declined")
