# Request: Refund the shipping delay: every delivered order from May 2025 that arrived more than 5 days after its ETA gets 10 % back, capped at 20 EUR, but ask me first.
import asyncio
from datetime import datetime
from itertools import count


async def all_orders(**kw):
    for page in count(1):
        chunk = await list_orders(page=page, **kw)
        for order in chunk["items"]:
            yield order
        if page >= chunk["pages"]:
            break


def day(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).date()


async def delay(order):
    try:
        shipment = await get_shipment(order["id"])
    except TimeoutError:
        return order, None
    if not shipment or shipment["status"] != "delivered" or not shipment["eta"] or not shipment["events"]:
        return order, None
    *_, last = shipment["events"]
    when = last.get("date") or last.get("time") or last.get("at")
    return order, (day(when) - day(shipment["eta"])).days if when else None


orders = [o async for o in all_orders(status="delivered", since="2025-05-01", until="2025-05-31")]
late = [
    (o, days, min(round(o["total"] * 0.1, 2), 20.0))
    for o, days in await asyncio.gather(*[delay(o) for o in orders])
    if days is not None and days > 5
]
if not late:
    return "No order was that late"
total = sum(amount for *_, amount in late)
if not (answer := await approve(f"Refund {len(late)} orders, {total:.2f} in total?")):
    return f"Not approved: {answer.note or 'no remark'}"

refunds, problems = {}, {}
for order, days, amount in late:
    try:
        refunds[order["id"]] = (await refund_order(order["id"], amount, reason=f"{days} days late"))["amount"]
    except ValueError as exc:
        problems[order["id"]] = str(exc)
return {"refunded": round(sum(refunds.values()), 2), "orders": list(refunds), "problems": problems}
