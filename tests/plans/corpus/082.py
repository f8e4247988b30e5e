# Request: When is the next time the whole design team is free for an hour?
from datetime import timedelta

team = await list_employees(department="Design")
emails = [m["email"] for m in team]

slot = None
day = now().date()
for _ in range(14):
    if day.weekday() < 5:
        slots = await find_free_slots(emails, day.isoformat(), minutes=60)
        if slots:
            slot = slots[0]
            break
    day += timedelta(days=1)

if slot:
    print(f"The design team ({len(emails)} people) is free on {slot['start'].replace('T', ' ')} until {slot['end'][11:16]}.")
else:
    print("No common free hour within the next two weeks.")
