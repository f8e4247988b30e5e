# Request: Email each manager a list of their reports' pending expenses
from collections import defaultdict

employees = {e["id"]: e for e in await list_employees()}
pending = await list_expenses(status="submitted")

by_manager = defaultdict(lambda: defaultdict(list))
for exp in pending:
    emp = employees.get(exp["employee_id"])
    if emp and emp["manager_id"]:
        by_manager[emp["manager_id"]][emp["name"]].append(exp)

for manager_id, per_employee in by_manager.items():
    manager = employees.get(manager_id)
    if manager is None:
        print(f"Manager {manager_id} not found, skipping")
        continue

    body = f"Hi {manager['name'].split()[0]},\n\nthese expenses are waiting for your decision:\n"
    count = 0
    for name, exps in sorted(per_employee.items()):
        body += f"\n{name}\n"
        for x in sorted(exps, key=lambda x: x["date"]):
            body += f"  {x['date']}  {x['amount']:>9.2f} {x['currency']}  {x['category']}: {x['description']}\n"
            count += 1

    await send_mail(manager["email"], f"{count} pending expenses", body)
    print(f"{manager['name']}: {count} expenses of {len(per_employee)} employees")
