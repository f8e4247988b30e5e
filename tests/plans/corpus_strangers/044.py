# Request: How much vacation does each person in Sales still have, and who will lose days at the end of the year if more than 5 are left?
import asyncio
from typing import NamedTuple


class Row(NamedTuple):
    name: str
    left: float
    planned: int

    @property
    def at_risk(self) -> float:
        return max(0.0, self.left - 5)


year_end = f"{now().year}-12-31"
people = await list_employees("Sales")
balances = await asyncio.gather(*[get_leave_balance(p["id"]) for p in people])
leave = await list_leave(now().strftime("%Y-%m-%d"), year_end)
pending = [l for l in leave if l["status"] == "pending" and l["kind"] == "vacation"]

rows = [
    Row(p["name"], b.get("vacation", 0.0), sum(l["employee_id"] == p["id"] for l in pending))
    for p, b in zip(people, balances)
]
for r in sorted(rows, key=lambda r: (-r.at_risk, r.name)):
    warn = f"  ⚠ loses {r.at_risk:g} days" if r.at_risk else ""
    req = f", {r.planned} request(s) pending" if r.planned else ""
    print(f"{r.name:<25} {r.left:>5.1f} days left{req}{warn}")
print(f"Average: {sum(r.left for r in rows) / (len(rows) or 1):.1f} days")
