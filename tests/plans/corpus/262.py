# Request: I need to know which invoices will be due in the next 7 days and how the cash will look like then (EUR only)
import asyncio
from datetime import date, timedelta


async def main():
    today = date.today()
    week = today + timedelta(days=7)

    try:
        balances, invoices = await asyncio.wait_for(
            asyncio.gather(get_balance(), list_invoices(status="open")),
            timeout=30,
        )
    except asyncio.TimeoutError:
        return {"error": "The payment service did not answer in time"}

    balance = balances.get("EUR", 0.0)
    due_soon = sorted(
        (i for i in invoices if i["currency"] == "EUR" and str(today) <= i["due"][:10] <= str(week)),
        key=lambda i: i["due"],
    )

    running = balance
    plan = []
    for inv in due_soon:
        running += inv["amount"]
        plan.append({"due": inv["due"][:10], "invoice": inv["number"], "amount": inv["amount"], "balance": round(running, 2)})

    return {"current_balance": balance, "plan": plan, "expected_balance": round(running, 2)}


return await main()
