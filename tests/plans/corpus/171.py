# Request: How many vacation days in total will be taken in July per department? Only working days count.
from collections import defaultdict
from datetime import date, timedelta


async def vacation_days_by_department(year: int, month: int) -> dict[str, int]:
    first = date(year, month, 1)
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)

    def working_days(a: date, b: date) -> int:
        return sum(1 for n in range((b - a).days + 1) if (a + timedelta(days=n)).weekday() < 5)

    employees = await list_employees()
    department_of = {e["id"]: e["department"] for e in employees}

    totals: dict[str, int] = defaultdict(int)
    for leave in await list_leave(first.isoformat(), last.isoformat()):
        if leave["kind"] != "vacation" or leave["status"] == "rejected":
            continue
        a = max(first, date.fromisoformat(leave["start"]))
        b = min(last, date.fromisoformat(leave["end"]))
        dept = department_of.get(leave["employee_id"], "unknown")
        totals[dept] += working_days(a, b)
    return dict(totals)


days = await vacation_days_by_department(now().year, 7)
for dept, n in sorted(days.items(), key=lambda kv: kv[1], reverse=True):
    print(f"{dept}: {n} days")
