# Request: please find all "draft" invoices older than 2 months and list them by customer
from datetime import date, timedelta


def is_older_than(invoice, days):
    return date.fromisoformat(invoice["issued"][:10]) < date.today() - timedelta(days=days)


def group_by(items, key):
    groups = {}
    for item in items:
        groups.setdefault(item[key], []).append(item)
    return groups


drafts = await list_invoices(status="draft")
old_drafts = list(filter(lambda inv: is_older_than(inv, 61), drafts))

for customer, invs in sorted(group_by(old_drafts, "customer_email").items()):
    total = sum(inv["amount"] for inv in invs)
    print(f"{customer} ({len(invs)} drafts, {total:.2f})")
    for inv in sorted(invs, key=lambda i: i["issued"]):
        print(f"   {inv['number']}  {inv['issued'][:10]}  {inv['amount']:>10.2f} {inv['currency']}")

if not old_drafts:
    print("No draft invoices older than 2 months.")
