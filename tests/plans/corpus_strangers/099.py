# Request: Make sure all order totals of January 2025 fit their lines: recompute, compare with the invoice amounts in the warehouse table finance.invoices, list all differences over a cent, and stop after 25.
from decimal import Decimal as D
from contextlib import aclosing, suppress

LIMIT = 25
counter = {"orders": 0, "pages": 0}


async def orders(since, until):
    page = 0
    try:
        while True:
            data = await list_orders(since=since, until=until, page=(page := page + 1))
            counter["pages"] += 1
            for order in data["items"]:
                counter["orders"] += 1
                yield order
            if not page < data["pages"]:
                return
    finally:
        await track_event("order_check", {**counter})


async def invoiced(order_id, cache={}):
    if not cache:
        for row in await run_sql("SELECT order_id, amount FROM finance.invoices WHERE issued >= ? AND issued < ?",
                                 ["2025-01-01", "2025-03-01"]):
            cache[row["order_id"]] = cache.get(row["order_id"], D()) + D(str(row["amount"]))
        cache.setdefault("", D())
    return cache[order_id]


differences = []
async with aclosing(orders("2025-01-01", "2025-01-31")) as stream:
    async for order in stream:
        if order["status"] in {"cancelled", "pending"}:
            continue
        total = D(str(order["total"]))
        lines = sum((line["quantity"] * D(str(line["unit_price"])) for line in order["lines"]), start=D())
        problems = {}
        if abs(lines - total) > D("0.01") and not (order["coupon"] and total < lines):
            problems["lines"] = lines - total
        with suppress(KeyError):
            if not D("-0.01") <= (delta := await invoiced(order["id"]) - total) <= D("0.01"):
                problems["invoice"] = delta
        if problems:
            differences.append((order["id"], problems))
            if len(differences) == LIMIT:
                break

for oid, problems in differences:
    print(oid, *(f"{k} {v:+.2f}" for k, v in problems.items()), sep="  ")
return f"{len(differences)}{'+' if len(differences) == LIMIT else ''} differences in {counter['orders']} orders"
