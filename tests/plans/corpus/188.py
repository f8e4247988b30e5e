# Request: Alert me about suspicious expenses: weekend dates, round amounts over 200, duplicates of the same employee/amount/category
from collections import defaultdict
from datetime import date

expenses = await list_expenses(status="submitted")
flags = defaultdict(list)
seen = {}

for exp in expenses:
    day = date.fromisoformat(exp["date"][:10])
    if day.weekday() >= 5:
        flags[exp["id"]].append(f"weekend ({day:%A})")
    if exp["amount"] > 200 and exp["amount"] % 10 == 0:
        flags[exp["id"]].append("round amount")

    key = (exp["employee_id"], exp["amount"], exp["category"])
    if key in seen:
        flags[exp["id"]].append(f"duplicate of {seen[key]}")
    else:
        seen[key] = exp["id"]

by_id = {e["id"]: e for e in expenses}
for exp_id, reasons in flags.items():
    e = by_id[exp_id]
    print(f"{exp_id}: {e['amount']:.2f} {e['currency']} {e['category']} -> {', '.join(reasons)}")

print(f"\n{len(flags)} of {len(expenses)} expenses flagged")
