# Request: Book a desk review: for each direct report of mine (manager e_3) schedule a 30 min review next week at the first common free slot, don't double book me
from datetime import date, datetime, timedelta

me = await get_employee("e_3")
reports = [e for e in await list_employees() if e["manager_id"] == "e_3"]

today = date.today()
monday = today + timedelta(days=7 - today.weekday())
week = [monday + timedelta(days=i) for i in range(5)]

scheduled, failed = [], []

for person in reports:
    done = False
    for day in week:
        slots = await find_free_slots([me["email"], person["email"]], day.isoformat(), minutes=30)
        if not slots:
            continue
        start = datetime.fromisoformat(slots[0]["start"])
        # creating the event blocks my calendar, the next search takes it into account
        await create_event(
            f"Review {person['name']}",
            start.isoformat(),
            (start + timedelta(minutes=30)).isoformat(),
            [me["email"], person["email"]],
        )
        scheduled.append((start, person["name"]))
        done = True
        break
    if not done:
        failed.append(person["name"])

scheduled.sort()
for start, name in scheduled:
    print(start.strftime("%a %d.%m. %H:%M"), name)
if failed:
    print("No slot found for:", ", ".join(failed))
