# Request: Find the first two-hour slot in the week of 2025-06-02 in which the whole Design team is free, and book a workshop there.
from datetime import date, datetime, timedelta

team = await list_employees("Design")
users = sorted({p["email"] for p in team})
monday = date(2025, 6, 2)
away = {
    (leave["employee_id"], day)
    for leave in await list_leave(str(monday), str(monday + timedelta(days=5)))
    if leave["status"] == "approved"
    for day in (monday + timedelta(days=n) for n in range(5))
    if leave["start"][:10] <= day.isoformat() <= leave["end"][:10]
}
ids = {p["id"] for p in team}

for offset in range(5):
    day = monday + timedelta(days=offset)
    if ids & {who for who, when in away if when == day}:
        continue
    for slot in await find_free_slots(users, day.isoformat(), minutes=120):
        start = datetime.fromisoformat(slot["start"])
        end = start + timedelta(hours=2)
        if start.hour < 12 < end.hour:  # not across lunch
            start, end = (t := start.replace(hour=13, minute=0)), t + timedelta(hours=2)
        if end > datetime.fromisoformat(slot["end"]):
            continue
        break
    else:
        continue
    break
else:
    return "No common slot in that week"

event = await create_event("Design workshop", start.isoformat(), end.isoformat(), users, description="Booked automatically")
return f"{event['title']} on {start:%A %d %B}, {start:%H:%M}-{end:%H:%M} for {len(users)} people"
