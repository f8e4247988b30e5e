# Request: How many hours did I spend in meetings each day last week, and what share was recurring?
from collections import defaultdict
from datetime import datetime, timedelta

today = now().date()
start = today - timedelta(days=today.weekday() + 7)
end = start + timedelta(days=7)

events = await list_events("me@acme.com", start.isoformat(), end.isoformat())
hours = defaultdict(float)
recurring = 0.0

for ev in events:
    if ev["response"] == "declined" or len(ev["attendees"]) < 2:
        continue
    s, e = map(datetime.fromisoformat, (ev["start"], ev["end"]))
    duration = (e - s) / timedelta(hours=1)
    hours[s.date()] += duration
    if ev["recurring"]:
        recurring += duration

total = sum(hours.values())
for i in range(5):
    day = start + timedelta(days=i)
    bar = "█" * round(hours[day] * 2)
    print(f"{day:%a %d.%m.}  {hours[day]:4.1f} h  {bar}")
print(f"Total {total:.1f} h, recurring {recurring / total:.0%}" if total else "No meetings at all.")
