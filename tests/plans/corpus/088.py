# Request: Is anyone of the support team on leave tomorrow?
from datetime import date, timedelta

tomorrow = (date.today() + timedelta(days=1)).isoformat()
support = {e["id"]: e["name"] for e in await list_employees(department="Support")}
leaves = await list_leave(tomorrow, tomorrow)

away = [
    f"{support[l['employee_id']]} ({l['kind']}, until {l['end']})"
    for l in leaves
    if l["employee_id"] in support and l["status"] == "approved"
]

print("On leave tomorrow: " + ", ".join(away) if away else "Everybody in support is available tomorrow.")
