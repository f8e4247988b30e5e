# Request: rename event ev_12 to "Kickoff Phoenix" and move it one hour later, same day same length
from datetime import date, datetime, timedelta

USER = "me@acme.com"
today = date.today()
events = await list_events(USER, today.isoformat(), (today + timedelta(days=60)).isoformat())
event = next((e for e in events if e["id"] == "ev_12"), None)

if event is None:
    print("Event ev_12 not found in the next 60 days.")
else:
    shift = timedelta(hours=1)
    new_start = datetime.fromisoformat(event["start"]) + shift
    new_end = datetime.fromisoformat(event["end"]) + shift
    updated = await update_event(
        "ev_12",
        title="Kickoff Phoenix",
        start=new_start.isoformat(),
        end=new_end.isoformat(),
    )
    print(f"{updated['title']}: {updated['start']} - {updated['end']}")
