# Request: Get the order totals per country for the last month, top 5
from collections import defaultdict

today = now().date()
last_month_year = today.year if today.month > 1 else today.year - 1
last_month = today.month - 1 or 12
since = f"{last_month_year}-{last_month:02d}-01"
until = today.replace(day=1).isoformat()

totals = defaultdict(float)
page = 1
pages = None
while pages is None or page <= pages:
    data = await list_orders(since=since, until=until, page=page, per_page=200)
    pages = data["pages"]
    for order in data["items"]:
        country = order["shipping"].get("country", "??")
        totals[country] += order["total"]
    page += 1

top5 = sorted(totals.items(), key=lambda kv: kv[1], reverse=True)[:5]
for i, (country, total) in enumerate(top5, 1):
    print(f"{i}. {country}: {total:,.2f}")
