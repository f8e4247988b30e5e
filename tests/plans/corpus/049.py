# Request: Order status overview: how many orders per status in the last 7 days and the average order value?
from collections import defaultdict
from datetime import datetime, timedelta


async def fetch_orders(since: str) -> list:
    """Fetch all orders since a date, following pagination."""
    orders = []
    page = 1
    pages = 1
    while page <= pages:
        data = await list_orders(since=since, page=page)
        orders.extend(data["items"])
        pages = data["pages"]
        page += 1
    return orders


since = (datetime.now() - timedelta(days=7)).strftime("%Y-%m-%d")
orders = await fetch_orders(since)

stats = defaultdict(lambda: {"count": 0, "sum": 0.0})
for o in orders:
    stats[o["status"]]["count"] += 1
    stats[o["status"]]["sum"] += o["total"]

for status, s in stats.items():
    avg = s["sum"] / s["count"]
    print(f"{status:<10} {s['count']:>5}  avg {avg:.2f}")

overall = sum(o["total"] for o in orders) / len(orders) if orders else 0
print(f"overall average: {overall:.2f}")
