# Request: Find meetings without agenda-like title ("sync", "catch up", "chat") that take more than 3 hours per week of my team (dept "Data") and sum up the cost with average hourly salary
import re
from datetime import date, datetime, timedelta

VAGUE = re.compile(r"\b(sync|catch[- ]?up|chat|touch base)\b", re.I)
HOURS_PER_YEAR = 1720

today = date.today()
start = today - timedelta(days=today.weekday())
end = start + timedelta(days=7)

team = await list_employees("Data")
total_hours = 0.0
total_cost = 0.0

for member in team:
    hourly = member["salary"] / HOURS_PER_YEAR
    hours = 0.0
    for ev in await list_events(member["email"], start.isoformat(), end.isoformat()):
        if ev["response"] == "declined" or not VAGUE.search(ev["title"]):
            continue
        delta = datetime.fromisoformat(ev["end"]) - datetime.fromisoformat(ev["start"])
        hours += delta.total_seconds() / 3600
    total_hours += hours
    total_cost += hours * hourly
    if hours > 3:
        print(f"{member['name']}: {hours:.1f} h in vague meetings")

print(f"\nTeam total: {total_hours:.1f} h, about {total_cost:,.0f} EUR this week")
