# Request: Could you check whether Anna and Ben are both free on friday 14:00 - 15:00 and if so book "Retro"?
from datetime import date, timedelta

today = date.today()
friday = today + timedelta((4 - today.weekday()) % 7)
start, end = f"{friday}T14:00:00", f"{friday}T15:00:00"
people = ["anna@acme.com", "ben@acme.com"]

slots = await find_free_slots(people, str(friday), minutes=60)
is_free = any(s["start"] <= start and s["end"] >= end for s in slots)

if is_free:
    event = await create_event("Retro", start, end, people)
    print(f"Booked Retro on {friday} 14:00-15:00 ({event['id']})")
else:
    alternatives = ", ".join(f"{s['start'][11:16]}-{s['end'][11:16]}" for s in slots)
    print(f"They aren't both free then. Alternatives on that day: {alternatives or 'none'}")
