# Request: Who is on vacation in the engineering department over the next two weeks?
from datetime import timedelta
import asyncio

start = now().date()
end = start + timedelta(days=14)

employees, leave = await asyncio.gather(
    list_employees(department="Engineering"),
    list_leave(start.isoformat(), end.isoformat()),
)
by_id = {e["id"]: e for e in employees}

rows = [
    {
        "name": by_id[l["employee_id"]]["name"],
        "from": max(l["start"], start.isoformat()),
        "to": min(l["end"], end.isoformat()),
        "status": l["status"],
    }
    for l in leave
    if l["employee_id"] in by_id and l["kind"] == "vacation" and l["status"] != "rejected"
]
rows.sort(key=lambda r: (r["from"], r["name"]))
return rows or "Nobody in Engineering is on vacation in the next two weeks."
