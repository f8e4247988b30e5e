# Request: Plan my week: list each day with the number of meetings and free hours (9-17). I'm olaf@acme.com
from datetime import date, datetime, timedelta

monday = date.today() - timedelta(days=date.today().weekday())

for offset in range(5):
    day = monday + timedelta(days=offset)
    events = await list_events("olaf@acme.com", day.isoformat(), (day + timedelta(days=1)).isoformat())
    busy = 0.0
    for e in events:
        s = datetime.fromisoformat(e["start"])
        t = datetime.fromisoformat(e["end"])
        busy += (t - s).total_seconds() / 3600
    free = max(0.0, 8 - busy)
    bar = "█" * round(busy) + "░" * round(free)
    print(f"{day:%a %d.%m}  {bar}  {len(events)} meetings, {free:.1f} h free")
