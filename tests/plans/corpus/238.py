# Request: list everyone with more than 10 hours of meetings this week in dept "Product"
import asyncio
from datetime import date, datetime, timedelta


def hours(event):
    delta = datetime.fromisoformat(event["end"]) - datetime.fromisoformat(event["start"])
    return delta.total_seconds() / 3600


monday = date.today() - timedelta(days=date.today().weekday())
saturday = monday + timedelta(days=5)
team = await list_employees(department="Product")
calendars = await asyncio.gather(*[list_events(p["email"], str(monday), str(saturday)) for p in team])

loads = {
    p["name"]: sum(hours(e) for e in cal if e["response"] in ("accepted", "tentative"))
    for p, cal in zip(team, calendars)
}
heavy = {name: h for name, h in loads.items() if h > 10}

for name in sorted(heavy, key=heavy.get, reverse=True):
    print(f"{name}: {heavy[name]:.1f} h")
