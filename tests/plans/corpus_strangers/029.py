# Request: Reconcile last month's bank transactions with paid invoices and list what does not match.
from datetime import timedelta
import re

first_of_month = now().date().replace(day=1)
until = first_of_month
since = (first_of_month - timedelta(days=1)).replace(day=1)

transactions = await list_transactions(since=since.isoformat(), until=until.isoformat())
invoices = {i["number"]: i for i in await list_invoices(status="paid")}

NUMBER = re.compile(r"\b(?:INV|RE)[-\s]?(\d{4,})\b", re.IGNORECASE)
unmatched, differing, seen = [], [], set()

for tx in transactions:
    if tx["amount"] <= 0 or tx["kind"] not in ("charge", "transfer"):
        continue
    m = NUMBER.search(tx["reference"])
    inv = invoices.get(f"INV-{m.group(1)}") if m else None
    if inv is None:
        unmatched.append(tx)
        continue
    seen.add(inv["number"])
    if abs(inv["amount"] - tx["amount"]) > 0.005 or inv["currency"] != tx["currency"]:
        differing.append((tx, inv))

print(f"{since:%B %Y}: {len(transactions)} transactions, {len(seen)} invoices matched")
print(f"\n{len(unmatched)} payments without invoice")
for tx in unmatched:
    print(f"  {tx['date']} {tx['amount']:>10.2f} {tx['currency']} {tx['counterparty']} | {tx['reference']}")
print(f"\n{len(differing)} payments with a different amount")
for tx, inv in differing:
    print(f"  {inv['number']}: invoiced {inv['amount']:.2f} {inv['currency']}, received {tx['amount']:.2f} {tx['currency']}")
