# Request: Create a burndown: for the last 10 days, how many tickets with label "sprint-42" were still open at each day's end?
from datetime import date, timedelta

tickets = []
cursor = None
while True:
    page = await search_tickets(label="sprint-42", cursor=cursor)
    tickets.extend(page["tickets"])
    cursor = page["next_cursor"]
    if cursor is None:
        break

days = [date.today() - timedelta(days=n) for n in range(9, -1, -1)]
remaining = []
for day in days:
    end_of_day = day.isoformat() + "T23:59:59"
    n = 0
    for t in tickets:
        if t["created_at"] > end_of_day:
            continue
        finished = t["status"] in ("resolved", "closed") and t["updated_at"] <= end_of_day
        if not finished:
            n += 1
    remaining.append(n)

link = await create_chart("Burndown sprint-42", "line", [d.strftime("%d.%m.") for d in days], remaining)

for d, n in zip(days, remaining):
    print(f"{d}  {n:3d}  {'#' * n}")
print(link)
