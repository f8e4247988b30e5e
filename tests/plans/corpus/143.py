# Request: check for conflicts: is somebody on approved leave but has accepted meetings in that time? next 2 weeks
from datetime import date, timedelta

start = date.today()
end = start + timedelta(days=14)

employees = {e["id"]: e for e in await list_employees()}
leaves = await list_leave(start.isoformat(), end.isoformat())

for leave in leaves:
    if leave["status"] != "approved" or leave["employee_id"] not in employees:
        continue
    emp = employees[leave["employee_id"]]
    from_day = max(leave["start"], start.isoformat())
    to_day = min(date.fromisoformat(leave["end"]), end) + timedelta(days=1)
    events = await list_events(emp["email"], from_day, to_day.isoformat())
    accepted = [e for e in events if e["response"] == "accepted"]
    if accepted:
        print(f"{emp['name']} is on leave {leave['start']} - {leave['end']} but has {len(accepted)} accepted meetings:")
        for e in accepted:
            print(f"   {e['start'][:16].replace('T', ' ')} {e['title']}")
