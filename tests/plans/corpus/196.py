# Request: who is on leave this week and who covers (same department, not on leave)?
from datetime import date, timedelta

today = date.today()
start = today - timedelta(days=today.weekday())
end = start + timedelta(days=4)

employees = await list_employees()
leaves = [l for l in await list_leave(str(start), str(end)) if l["status"] == "approved"]
away_ids = {l["employee_id"] for l in leaves}
by_id = {e["id"]: e for e in employees}

for l in leaves:
    person = by_id.get(l["employee_id"])
    if person is None:
        continue
    cover = [e["name"] for e in employees if e["department"] == person["department"] and e["id"] not in away_ids]
    print(f"{person['name']} ({l['start']} - {l['end']}): covered by {', '.join(cover) if cover else 'NOBODY'}")
