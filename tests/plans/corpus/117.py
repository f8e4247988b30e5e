# Request: Check for every employee who started in the last 30 days if they have a "Welcome" event in their calendar; create one if not
from datetime import date, datetime, timedelta

today = date.today()
month_ago = today - timedelta(days=30)

new_joiners = [e for e in await list_employees() if date.fromisoformat(e["start_date"][:10]) >= month_ago]
print(f"{len(new_joiners)} new joiners")

for emp in new_joiners:
    events = await list_events(emp["email"], emp["start_date"][:10], (today + timedelta(days=30)).isoformat())
    has_welcome = any("welcome" in ev["title"].lower() for ev in events)
    if has_welcome:
        print(f"  {emp['name']}: ok")
        continue

    day = today + timedelta(days=1)
    while day.weekday() >= 5:
        day += timedelta(days=1)
    slots = await find_free_slots([emp["email"], "hr@acme.com"], day.isoformat(), 30)
    if not slots:
        print(f"  {emp['name']}: no free slot on {day}")
        continue
    start = slots[0]["start"]
    end = (datetime.fromisoformat(start) + timedelta(minutes=30)).isoformat()
    await create_event(f"Welcome {emp['name']}", start, end, [emp["email"], "hr@acme.com"])
    print(f"  {emp['name']}: created on {start}")
