# Request: Ping all our shops' shipping statuses for shipped orders and report failures separately
import asyncio


async def get_all_shipped():
    page, items = 1, []
    while True:
        resp = await list_orders(status="shipped", page=page)
        items.extend(resp["items"])
        if page >= resp["pages"]:
            return items
        page += 1


async def main():
    orders = await get_all_shipped()
    results = await asyncio.gather(
        *[get_shipment(o["id"]) for o in orders],
        return_exceptions=True,
    )

    by_status = {}
    errors = []
    for order, res in zip(orders, results):
        if isinstance(res, Exception):
            errors.append(f"{order['id']}: {type(res).__name__}: {res}")
            continue
        status = res["status"] if res else "no shipment"
        by_status.setdefault(status, []).append(order["id"])

    for status, ids in sorted(by_status.items()):
        print(f"{status}: {len(ids)}")
    if errors:
        print(f"\n{len(errors)} lookups failed:")
        for err in errors:
            print("  ", err)


if __name__ == "__main__":
    asyncio.run(main())
