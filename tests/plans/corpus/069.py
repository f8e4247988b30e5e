# Request: Which weekday has the most orders on average? Use the orders of the last 8 weeks.
from collections import Counter
from datetime import date, datetime, timedelta

since = date.today() - timedelta(weeks=8)
weekday_counts = Counter()

page = 1
while (result := await list_orders(since=since.isoformat(), page=page, per_page=100))["items"]:
    weekday_counts.update(
        datetime.fromisoformat(o["created_at"].replace("Z", "+00:00")).strftime("%A")
        for o in result["items"]
    )
    if page == result["pages"]:
        break
    page += 1

for day, count in weekday_counts.most_common():
    print(f"{day}: {count / 8:.1f} orders on average")
