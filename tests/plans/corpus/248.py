# Request: Is invoice in_3301 paid? If it is overdue send a firm reminder, if it's still open tell me how many days are left
from datetime import date

invoice = await get_invoice("in_3301")

if invoice is None:
    return "There is no invoice in_3301."

days_left = (date.fromisoformat(invoice["due"][:10]) - date.today()).days

if invoice["status"] == "paid":
    return f"Yes, {invoice['number']} is paid."
elif invoice["status"] == "overdue" or days_left < 0:
    await send_invoice_reminder(invoice["id"], tone="firm")
    return f"{invoice['number']} is {abs(days_left)} days overdue, I sent a firm reminder to {invoice['customer_email']}."
elif invoice["status"] == "open":
    return f"{invoice['number']} is open, {days_left} days left."
else:
    return f"{invoice['number']} is {invoice['status']}."
