# Request: Give me the total revenue by country for all orders since the start of this month.
from collections import defaultdict

since = now().replace(day=1).strftime("%Y-%m-%d")
revenue: dict[tuple[str, str], float] = defaultdict(float)
counts: dict[tuple[str, str], int] = defaultdict(int)

page = 1
while True:
    result = await list_orders(since=since, page=page, per_page=100)
    for order in result["items"]:
        if order["status"] in ("cancelled", "refunded"):
            continue
        key = (order["shipping"].get("country", "unknown"), order["currency"])
        revenue[key] += order["total"]
        counts[key] += 1
    if page >= result["pages"]:
        break
    page += 1

ranking = sorted(revenue.items(), key=lambda kv: kv[1], reverse=True)
print(f"Revenue since {since}")
for (country, currency), amount in ranking:
    n = counts[country, currency]
    print(f"{country:<10} {amount:>12,.2f} {currency}  ({n} order{'s' if n != 1 else ''}, avg {amount / n:,.2f})")
