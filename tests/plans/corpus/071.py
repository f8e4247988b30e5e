# Request: Show the org chart below Karin Holm
employees = await list_employees()

reports = {}
for e in employees:
    reports.setdefault(e["manager_id"], []).append(e)

root = next((e for e in employees if e["name"] == "Karin Holm"), None)


def show(emp, depth=0):
    print("  " * depth + f"{emp['name']} ({emp['title']})")
    for child in sorted(reports.get(emp["id"], []), key=lambda x: x["name"]):
        show(child, depth + 1)


if root:
    show(root)
else:
    print("Karin Holm not found")
