# Request: does anybody have a meeting room conflict (same location, overlapping time) today? check all employees' calendars
import asyncio
from collections import defaultdict
from datetime import date, timedelta

today = date.today()
employees = await list_employees()
calendars = await asyncio.gather(
    *[list_events(e["email"], today.isoformat(), (today + timedelta(days=1)).isoformat()) for e in employees]
)

# the same event appears in several calendars
events = {ev["id"]: ev for cal in calendars for ev in cal}

rooms = defaultdict(list)
for ev in events.values():
    if ev["location"]:
        rooms[ev["location"]].append(ev)

conflicts = 0
for room, evs in sorted(rooms.items()):
    evs.sort(key=lambda e: e["start"])
    for first, second in zip(evs, evs[1:]):
        if second["start"] < first["end"]:
            conflicts += 1
            print(f"{room}: '{first['title']}' ({first['organizer']}) until {first['end'][11:16]} "
                  f"overlaps '{second['title']}' ({second['organizer']}) from {second['start'][11:16]}")

if conflicts == 0:
    print("No room conflicts today.")
