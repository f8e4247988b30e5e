# Request: Renew: all customers whose subscription (invoice item "Annual subscription") was issued 11 months ago should get a deal in stage proposal... there's no tool to create a deal, so create a ticket for the owner of the contact
from datetime import date

today = date.today()
# the month eleven months ago
month_index = today.year * 12 + (today.month - 1) - 11
target = f"{month_index // 12}-{month_index % 12 + 1:02d}"

invoices = await list_invoices(since=f"{target}-01")
renewals = [
    inv for inv in invoices
    if inv["issued"].startswith(target)
    and any("annual subscription" in item["description"].lower() for item in inv["items"])
]

created = []
for inv in renewals:
    contact = await get_contact(inv["customer_id"])
    owner = contact["owner"] if contact else None
    name = contact["name"] if contact else inv["customer_email"]
    ticket = await create_ticket(
        f"Renewal: {name}",
        f"Invoice {inv['number']} of {inv['issued'][:10]} over {inv['amount']:.2f} {inv['currency']} renews next month.",
        labels=["renewal"],
        assignee=owner,
    )
    created.append(ticket["id"])

return {"renewals": len(renewals), "tickets": created}
