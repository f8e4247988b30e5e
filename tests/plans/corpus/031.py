# Request: Reconcile yesterday's bank transactions with our open invoices and tell me which invoices got paid
import re
from datetime import date, timedelta

yesterday = date.today() - timedelta(days=1)

transactions = await list_transactions(since=yesterday.isoformat(), until=date.today().isoformat())
invoices = await list_invoices(status="open")

# Index open invoices by number for quick lookup
by_number = {inv["number"]: inv for inv in invoices}

matched = []
unmatched = []

for tx in transactions:
    if tx["amount"] <= 0:
        continue
    m = re.search(r"(INV-\d{4}-\d+)", tx["reference"])
    if m and (inv := by_number.get(m.group(1))):
        diff = round(tx["amount"] - inv["amount"], 2)
        matched.append((inv["number"], tx["amount"], diff))
    else:
        unmatched.append(tx)

print(f"Matched {len(matched)} payments:")
for number, amount, diff in matched:
    note = "" if diff == 0 else f"  (difference {diff:+.2f})"
    print(f"  {number}: {amount:.2f}{note}")

if unmatched:
    print(f"\n{len(unmatched)} incoming payments without a match:")
    for tx in unmatched:
        print(f"  {tx['date']} {tx['counterparty']}: {tx['amount']:.2f} {tx['currency']} - {tx['reference']!r}")
