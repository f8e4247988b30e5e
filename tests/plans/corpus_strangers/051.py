# Request: Approve submitted travel expenses, but never more than 2000 EUR per department; reject nothing, just list what is left over.
import asyncio
from collections import defaultdict

CAP = 2000.0
spent: defaultdict[str, float] = defaultdict(float)
locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
rates: dict[str, asyncio.Task] = {"EUR": None}
leftover: list[tuple[str, str, float]] = []


async def rate(currency):
    if currency == "EUR":
        return 1.0
    if (task := rates.get(currency)) is None:
        task = rates[currency] = asyncio.create_task(get_exchange_rate(currency, "EUR"))
    return await task


async def handle(exp):
    person = await get_employee(exp["employee_id"])
    dept = person["department"] if person else "?"
    euros = round(exp["amount"] * await rate(exp["currency"]), 2)
    async with locks[dept]:
        if not 0 < spent[dept] + euros <= CAP:
            leftover.append((dept, exp["id"], euros))
            return None
        try:
            await decide_expense(exp["id"], "approved", comment=f"auto, {euros:.2f} EUR")
        except ValueError:
            return None
        spent[dept] += euros
    return exp["id"]


claims = sorted(
    (e for e in await list_expenses(status="submitted") if e["category"].lower() == "travel"),
    key=lambda e: (e["date"], e["id"]),
)
results = await asyncio.gather(*map(handle, claims))
print(f"{sum(r is not None for r in results)} of {len(results)} approved")
for dept, total in sorted(spent.items()):
    print(f"  {dept:<20} {total:>9.2f}")
return {"approved": [r for r in results if r], "leftover": sorted(leftover)}
