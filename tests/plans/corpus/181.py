# Request: Summarize the customer's history c_77 in one message to #account-team
import asyncio

CUSTOMER_ID = "c_77"

contact, invoices, deals = await asyncio.gather(
    get_contact(CUSTOMER_ID),
    list_invoices(customer_id=CUSTOMER_ID),
    list_deals(),
)

if not contact:
    raise ValueError(f"Unknown customer {CUSTOMER_ID}")

paid = sum(i["amount"] for i in invoices if i["status"] == "paid")
outstanding = sum(i["amount"] for i in invoices if i["status"] in {"open", "overdue"})
customer_deals = [d for d in deals if d["contact_id"] == CUSTOMER_ID]
won = [d for d in customer_deals if d["stage"] == "won"]
lost = [d for d in customer_deals if d["stage"] == "lost"]
win_rate = len(won) / (len(won) + len(lost)) if won or lost else None

summary = (
    f"*{contact['name']}* ({contact['company'] or 'no company'})\n"
    f"Owner: {contact['owner']}, last contact: {contact['last_contacted'] or 'never'}\n"
    f"Paid so far: {paid:,.2f} | outstanding: {outstanding:,.2f}\n"
    f"Deals: {len(won)} won, {len(lost)} lost, {len(customer_deals) - len(won) - len(lost)} open"
)
if win_rate is not None:
    summary += f" (win rate {win_rate:.0%})"

await post_message("#account-team", summary)
print(summary)
