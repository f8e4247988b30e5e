# Request: Give all employees in Sales whose work anniversary is this month a shout-out in #general
from datetime import date

today = date.today()
employees = await list_employees(department="Sales")

anniversaries = []
for emp in employees:
    started = date.fromisoformat(emp["start_date"])
    years = today.year - started.year
    if started.month == today.month and years > 0:
        anniversaries.append((emp["name"], years, started.day))

anniversaries.sort(key=lambda a: a[2])

if anniversaries:
    lines = ["🎉 *Work anniversaries in Sales this month* 🎉"]
    for name, years, day in anniversaries:
        suffix = "year" if years == 1 else "years"
        lines.append(f"• {name}: {years} {suffix} (on the {day}.)")
    await post_message("#general", "\n".join(lines))
    print(f"Posted {len(anniversaries)} anniversaries.")
else:
    print("No anniversaries in Sales this month.")
