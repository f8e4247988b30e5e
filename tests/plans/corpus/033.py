# Request: What's on my calendar today? (joe@acme.com)
from datetime import timedelta

today = now().date()
events = await list_events("joe@acme.com", today.isoformat(), (today + timedelta(days=1)).isoformat())

if not events:
    print("Nothing on your calendar today.")

for event in events:
    start = event["start"][11:16]
    end = event["end"][11:16]
    where = f" @ {event['location']}" if event["location"] else ""
    print(f"{start}-{end}  {event['title']}{where}")
