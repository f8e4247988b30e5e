# Request: Show expense totals by category for the engineering department since January
import asyncio
from collections import defaultdict

employees = await list_employees(department="Engineering")
start_of_year = f"{now().year}-01-01"

expense_lists = await asyncio.gather(
    *(list_expenses(employee_id=e["id"], since=start_of_year) for e in employees)
)

# Normalise everything to EUR
rates = {"EUR": 1.0}
totals = defaultdict(float)
for expenses in expense_lists:
    for exp in expenses:
        if exp["status"] == "rejected":
            continue
        cur = exp["currency"]
        if cur not in rates:
            rates[cur] = await get_exchange_rate(cur, "EUR")
        totals[exp["category"]] += exp["amount"] * rates[cur]

for category, amount in sorted(totals.items(), key=lambda x: x[1], reverse=True):
    print(f"{category:<20} {amount:>12,.2f} EUR")
print("-" * 37)
print(f"{'Total':<20} {sum(totals.values()):>12,.2f} EUR")
