# Request: Which products are running low, what would it cost to reorder them up to twice the reorder level, and how many days will the stock last at the sales of April 2025?
from collections import Counter
from functools import reduce
from operator import itemgetter
import math

products = {p["sku"]: p for p in await list_products()}
low = [p for p in products.values() if p["stock"] <= p["reorder_level"]]


async def order_lines(since, until):
    page, pages = 1, math.inf
    while page <= pages:
        data = await list_orders(since=since, until=until, page=page)
        pages = data["pages"]
        for order in data["items"]:
            if order["status"] in ("cancelled", "refunded"):
                continue
            for line in order["lines"]:
                yield line["sku"], line["quantity"]
        page += 1


sold = Counter()
async for sku, quantity in order_lines("2025-04-01", "2025-04-30"):
    sold[sku] += quantity

table = []
for p in low:
    need = max(2 * p["reorder_level"] - p["stock"], 0)
    per_day = sold[p["sku"]] / 30
    days = math.floor(p["stock"] / per_day) if per_day else None
    table.append({"sku": p["sku"], "need": need, "cost": round(need * p["cost"], 2), "days": days})

table.sort(key=itemgetter("sku"))
table.sort(key=lambda row: math.inf if row["days"] is None else row["days"])
total = reduce(lambda acc, row: acc + row["cost"], table, 0.0)
for sku, need, cost, days in map(itemgetter("sku", "need", "cost", "days"), table):
    print(f"{sku:<12} order {need:>5} = {cost:>10,.2f}  {'no sales' if days is None else f'{days} days left'}")
print(f"{'total':<12} {total:>24,.2f}")
return table[:5]
