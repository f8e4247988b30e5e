# Request: Which shipped orders are late? Check the carrier for each and list those past their ETA.
import asyncio
from datetime import date


async def all_orders(status):
    page, pages = 1, 1
    while page <= pages:
        res = await list_orders(status=status, page=page)
        pages = res["pages"]
        for order in res["items"]:
            yield order
        page += 1


sem = asyncio.Semaphore(8)


async def check(order):
    async with sem:
        for attempt in range(3):
            try:
                return order, await get_shipment(order["id"])
            except TimeoutError:
                if attempt == 2:
                    return order, None
                await asyncio.sleep(2 ** attempt)


orders = [o async for o in all_orders("shipped")]
results = await asyncio.gather(*(check(o) for o in orders))

today = now().date()
late, unknown = [], []
for order, shipment in results:
    if shipment is None:
        unknown.append(order["id"])
    elif shipment["status"] != "delivered" and shipment["eta"]:
        eta = date.fromisoformat(shipment["eta"][:10])
        if eta < today:
            late.append({"order": order["id"], "email": order["customer_email"], "days_late": (today - eta).days, "carrier": shipment["carrier"]})

late.sort(key=lambda r: -r["days_late"])
return {"late": late, "no_answer_from_carrier": unknown}
