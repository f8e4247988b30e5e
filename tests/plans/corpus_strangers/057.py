# Request: Get the shipment status of all shipped orders; a carrier that takes longer than 5 seconds counts as "no answer". Summarise by carrier.
import asyncio
from collections import Counter, defaultdict

orders = []
page = pages = 1
while page <= pages:
    chunk = await list_orders(status="shipped", page=page, per_page=100)
    orders += chunk["items"]
    pages, page = chunk["pages"], page + 1

limit = asyncio.BoundedSemaphore(8)


async def track(order):
    carrier = order["shipping"].get("carrier") or "unknown"
    async with limit:
        try:
            async with asyncio.timeout(5):
                shipment = await get_shipment(order["id"])
        except TimeoutError:
            return carrier, "no answer"
    return (shipment["carrier"], shipment["status"]) if shipment else (carrier, "not handed over")


stats: dict[str, Counter] = defaultdict(Counter)
tasks = {asyncio.create_task(track(o), name=o["id"]): o for o in orders}
lost = []
for task in list(tasks):
    carrier, status = await task
    stats[carrier][status] += 1
    if status in ("lost", "returned"):
        lost.append((task.get_name(), tasks[task]["customer_email"], status))

width = max(map(len, stats), default=0)
for carrier in sorted(stats, key=lambda c: (-stats[c].total(), c)):
    print(f"{carrier:>{width}}: " + ", ".join(f"{n} {s}" for s, n in sorted(stats[carrier].items())))
if lost:
    print("Needs attention:", *(f"{oid} ({status}) -> {mail}" for oid, mail, status in sorted(lost)), sep="\n  ")
return {c: dict(cnt) for c, cnt in sorted(stats.items())}
