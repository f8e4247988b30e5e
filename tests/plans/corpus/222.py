# Request: Gather the numbers for the monthly KPI mail: revenue, orders, avg order value, refund rate, open tickets. Format nicely and send to management@acme.com after I approve.
import asyncio
from datetime import date, timedelta


async def all_orders(since: str, until: str) -> list[dict]:
    first = await list_orders(since=since, until=until, page=1, per_page=100)
    items = first["items"]
    if first["pages"] > 1:
        others = await asyncio.gather(
            *(list_orders(since=since, until=until, page=p, per_page=100) for p in range(2, first["pages"] + 1))
        )
        for o in others:
            items.extend(o["items"])
    return items


async def count_open_tickets() -> int:
    n, cursor = 0, None
    while True:
        page = await search_tickets(status="open", cursor=cursor)
        n += len(page["tickets"])
        cursor = page["next_cursor"]
        if cursor is None:
            return n


async def main():
    until = date.today().replace(day=1)
    since = (until - timedelta(days=1)).replace(day=1)

    orders, open_tickets = await asyncio.gather(
        all_orders(since.isoformat(), until.isoformat()),
        count_open_tickets(),
    )

    valid = [o for o in orders if o["status"] not in ("cancelled", "pending")]
    refunded = [o for o in valid if o["status"] == "refunded"]
    revenue = sum(o["total"] for o in valid) - sum(o["total"] for o in refunded)
    aov = revenue / len(valid) if valid else 0.0
    refund_rate = len(refunded) / len(valid) if valid else 0.0

    text = (
        f"KPIs for {since:%B %Y}\n"
        f"{'=' * 30}\n"
        f"Revenue:          {revenue:>12,.2f}\n"
        f"Orders:           {len(valid):>12,}\n"
        f"Avg. order value: {aov:>12,.2f}\n"
        f"Refund rate:      {refund_rate:>12.1%}\n"
        f"Open tickets:     {open_tickets:>12,}\n"
    )
    print(text)

    if await approve(f"Send this to management@acme.com?\n\n{text}"):
        await send_mail("management@acme.com", f"KPIs {since:%B %Y}", text)
        print("Sent.")


await main()
