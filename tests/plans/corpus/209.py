# Request: process the queue of leave requests: approve is not possible by tool, so write me an overview with conflicts (more than 2 people of the same department away on the same day)
from collections import defaultdict
from datetime import date, timedelta


def daterange(start: str, end: str):
    d, last = date.fromisoformat(start), date.fromisoformat(end)
    while d <= last:
        yield d
        d += timedelta(days=1)


today = date.today()
horizon = today + timedelta(days=90)
employees = {e["id"]: e for e in await list_employees()}
leave = await list_leave(today.isoformat(), horizon.isoformat())

away = defaultdict(set)  # (department, day) -> names
for req in leave:
    emp = employees.get(req["employee_id"])
    if emp is None or req["status"] == "rejected":
        continue
    for day in daterange(req["start"], req["end"]):
        if day.weekday() < 5:
            away[(emp["department"], day)].add(emp["name"])

pending = [r for r in leave if r["status"] == "pending"]
print(f"{len(pending)} pending requests\n")
for req in pending:
    emp = employees.get(req["employee_id"])
    if emp is None:
        continue
    conflicts = [d for d in daterange(req["start"], req["end"]) if len(away[(emp["department"], d)]) > 2]
    verdict = f"CONFLICT on {len(conflicts)} day(s), first {conflicts[0]}" if conflicts else "ok"
    print(f"{emp['name']:<25} {req['start']} - {req['end']} ({req['kind']}): {verdict}")
