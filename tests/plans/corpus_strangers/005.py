# Request: Find a 45 minute slot next week for me, Ben and Carla and book a "Roadmap sync".
from datetime import timedelta, datetime

people = ["me@acme.com", "ben@acme.com", "carla@acme.com"]
today = now().date()
monday = today + timedelta(days=7 - today.weekday())

for offset in range(5):
    day = monday + timedelta(days=offset)
    slots = await find_free_slots(people, day.isoformat(), minutes=45)
    if slots:
        slot = slots[0]
        break
else:
    return "No common 45 minute slot next week."

start = datetime.fromisoformat(slot["start"])
end = start + timedelta(minutes=45)

event = await create_event(
    title="Roadmap sync",
    start=start.isoformat(),
    end=end.isoformat(),
    attendees=people,
    description="Booked automatically: first common slot of the week.",
)
return f"Booked '{event['title']}' on {start:%A, %d %B} from {start:%H:%M} to {end:%H:%M} (id {event['id']})."
