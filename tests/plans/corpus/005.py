# Request: Send a friendly reminder for every invoice that is more than 14 days overdue
import asyncio
from datetime import date


async def main():
    invoices = await list_invoices(status="overdue")
    today = date.today()
    reminded = []

    for inv in invoices:
        due = date.fromisoformat(inv["due"][:10])
        days_late = (today - due).days
        if days_late > 14:
            await send_invoice_reminder(inv["id"], tone="friendly")
            reminded.append((inv["number"], inv["customer_email"], days_late))

    if not reminded:
        print("No invoices are more than 14 days overdue.")
        return

    print(f"Sent {len(reminded)} reminders:")
    for number, email, days_late in reminded:
        print(f"  {number}: {email} ({days_late} days late)")


asyncio.run(main())
