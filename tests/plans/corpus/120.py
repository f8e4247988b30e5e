# Request: Which customers with a "premium" tag have overdue invoices? Give name, total overdue and the oldest due date.
premium = await search_contacts(tag="premium", limit=1000)
overdue = await list_invoices(status="overdue")

by_customer = {}
for inv in overdue:
    by_customer.setdefault(inv["customer_id"], []).append(inv)

report = []
for c in premium:
    invs = by_customer.get(c["id"])
    if not invs:
        continue
    report.append({
        "name": c["name"],
        "overdue_total": round(sum(i["amount"] for i in invs), 2),
        "oldest_due": min(i["due"] for i in invs),
        "count": len(invs),
    })

sorted(report, key=lambda r: r["overdue_total"], reverse=True)
