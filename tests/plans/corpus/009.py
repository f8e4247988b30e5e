# Request: Find a 45 minute slot for anna, ben and carla this week and book a "Q3 planning" meeting
from datetime import date, datetime, timedelta

users = ["anna@acme.com", "ben@acme.com", "carla@acme.com"]
today = date.today()
friday = today + timedelta(days=(4 - today.weekday()) % 7)

booked = None
day = today
while day <= friday:
    slots = await find_free_slots(users, day.isoformat(), minutes=45)
    if slots:
        start = datetime.fromisoformat(slots[0]["start"])
        end = start + timedelta(minutes=45)
        booked = await create_event(
            title="Q3 planning",
            start=start.isoformat(),
            end=end.isoformat(),
            attendees=users,
        )
        break
    day += timedelta(days=1)

if booked:
    print(f"Booked 'Q3 planning' on {booked['start']} (id {booked['id']}).")
else:
    print("No common 45-minute slot is left this week.")
