# Request: Show all customers who have both an open ticket and an overdue invoice
import asyncio


async def fetch_all_open_tickets() -> list[dict]:
    tickets: list[dict] = []
    cursor: str | None = None
    while True:
        page = await search_tickets(status="open", cursor=cursor)
        tickets.extend(page["tickets"])
        if not page["next_cursor"]:
            return tickets
        cursor = page["next_cursor"]


async def main():
    # Run both lookups concurrently
    tickets_task = asyncio.create_task(fetch_all_open_tickets())
    invoices_task = asyncio.create_task(list_invoices(status="overdue"))

    tickets = await tickets_task
    invoices = await invoices_task

    reporters = {t["reporter"].lower() for t in tickets}
    debtors = {i["customer_email"].lower() for i in invoices}

    both = sorted(reporters & debtors)
    for email in both:
        n_tickets = sum(1 for t in tickets if t["reporter"].lower() == email)
        owed = sum(i["amount"] for i in invoices if i["customer_email"].lower() == email)
        print(f"{email}: {n_tickets} open ticket(s), {owed:.2f} overdue")

    if not both:
        print("No customer has both.")


await main()
