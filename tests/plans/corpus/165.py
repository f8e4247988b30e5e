# Request: Give me the shipping carrier performance: average delivery time in days per carrier for delivered orders of last month
import asyncio
from collections import defaultdict
from datetime import datetime, timedelta

SEM = asyncio.Semaphore(8)


async def shipment_of(order):
    async with SEM:
        for attempt in range(3):
            try:
                return order, await get_shipment(order["id"])
            except TimeoutError:
                await asyncio.sleep(1 + attempt)
    return order, None


async def delivered_orders(since):
    page = 1
    while True:
        data = await list_orders(status="delivered", since=since, page=page, per_page=100)
        for o in data["items"]:
            yield o
        if page >= data["pages"]:
            return
        page += 1


since = (datetime.now() - timedelta(days=30)).strftime("%Y-%m-%d")
orders = [o async for o in delivered_orders(since)]
pairs = await asyncio.gather(*(shipment_of(o) for o in orders))

days_by_carrier = defaultdict(list)
for order, shipment in pairs:
    if shipment is None or not shipment["events"]:
        continue
    created = datetime.fromisoformat(order["created_at"].replace("Z", "+00:00"))
    arrived = datetime.fromisoformat(shipment["events"][-1]["time"].replace("Z", "+00:00"))
    days_by_carrier[shipment["carrier"]].append((arrived - created).total_seconds() / 86400)

for carrier, days in sorted(days_by_carrier.items(), key=lambda kv: sum(kv[1]) / len(kv[1])):
    print(f"{carrier:<10} {sum(days) / len(days):5.1f} days  ({len(days)} shipments)")
