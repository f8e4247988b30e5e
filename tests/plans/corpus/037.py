# Request: who in the company has a birthday in the next 14 days?
from datetime import date, timedelta

today = date.today()
horizon = today + timedelta(days=14)

upcoming = []
for e in await list_employees():
    if not e["birthday"]:
        continue
    bday = date.fromisoformat(e["birthday"])
    try:
        nxt = bday.replace(year=today.year)
    except ValueError:  # Feb 29
        nxt = date(today.year, 3, 1)
    if nxt < today:
        nxt = nxt.replace(year=today.year + 1)
    if nxt <= horizon:
        upcoming.append((nxt, e["name"]))

for day, name in sorted(upcoming):
    print(day.strftime("%d %b"), name)
