# Request: List upcoming work anniversaries and birthdays in the next 30 days for everyone.
from datetime import date, timedelta

today = now().date()
horizon = today + timedelta(days=30)


def next_occurrence(d: date) -> date:
    for year in (today.year, today.year + 1):
        try:
            candidate = d.replace(year=year)
        except ValueError:  # Feb 29
            candidate = date(year, 3, 1)
        if candidate >= today:
            return candidate
    raise AssertionError("unreachable")


events = []
for e in await list_employees():
    if e["birthday"]:
        when = next_occurrence(date.fromisoformat(e["birthday"]))
        events.append((when, e["name"], "birthday 🎂"))
    started = date.fromisoformat(e["start_date"])
    when = next_occurrence(started)
    years = when.year - started.year
    if years > 0:
        events.append((when, e["name"], f"{years} year{'s'[:years ^ 1]} at the company"))

upcoming = sorted(ev for ev in events if ev[0] <= horizon)
for when, name, what in upcoming:
    delta = (when - today).days
    rel = {0: "today", 1: "tomorrow"}.get(delta, f"in {delta} days")
    print(f"{when:%d %b} ({rel}): {name}, {what}")
if not upcoming:
    print("Nothing coming up.")
