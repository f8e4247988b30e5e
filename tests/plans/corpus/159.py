# Request: Double check that all won deals from this year have an invoice with the same amount for the contact
from collections import defaultdict

year = str(now().year)
won = [d for d in await list_deals(stage="won") if (d["close_date"] or "").startswith(year)]
invoices = await list_invoices(since=f"{year}-01-01")

amounts_by_customer = defaultdict(list)
for inv in invoices:
    if inv["status"] != "void":
        amounts_by_customer[inv["customer_id"]].append(inv["amount"])

missing = []
for deal in won:
    amounts = amounts_by_customer[deal["contact_id"]]
    if deal["amount"] in amounts:
        amounts.remove(deal["amount"])  # every invoice matches one deal only
    else:
        missing.append(deal)

if missing:
    print(f"{len(missing)} of {len(won)} won deals have no matching invoice:")
    for d in missing:
        print(f"- {d['name']} ({d['amount']:,.2f} {d['currency']}), owner {d['owner']}")
else:
    print(f"All {len(won)} won deals have an invoice.")
