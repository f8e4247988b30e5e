# Request: What's the p90 of order value and how many orders are above it in the last 14 days?
import math
from datetime import date, timedelta

since = (date.today() - timedelta(days=14)).isoformat()
values = []
page = 1
while True:
    r = await list_orders(since=since, page=page, per_page=100)
    values.extend(o["total"] for o in r["items"] if o["status"] != "cancelled")
    if page >= r["pages"]:
        break
    page += 1

if values:
    values.sort()
    idx = math.ceil(0.9 * len(values)) - 1
    p90 = values[idx]
    above = sum(v > p90 for v in values)
    print(f"n={len(values)}, p90={p90:.2f}, above: {above}")
else:
    print("No orders in the last 14 days.")
