# Request: invoice all the billable hours in table time_entries of last month: per customer, 120 EUR/h, one item per project
from collections import defaultdict
from datetime import date, timedelta

RATE = 120
first_of_this = date.today().replace(day=1)
last_of_prev = first_of_this - timedelta(days=1)
month = last_of_prev.strftime("%Y-%m")

rows = await run_sql(
    "SELECT customer_id, project, SUM(hours) AS hours FROM time_entries "
    "WHERE billable AND to_char(day, 'YYYY-MM') = %s GROUP BY customer_id, project",
    [month],
)

items_by_customer = defaultdict(list)
for r in rows:
    hours = float(r["hours"])
    if hours > 0:
        items_by_customer[r["customer_id"]].append({
            "description": f"{r['project']}: {hours:g} h in {last_of_prev:%B %Y}",
            "quantity": hours,
            "price": RATE,
        })

total = sum(i["quantity"] * i["price"] for items in items_by_customer.values() for i in items)
approval = await approve(f"Create {len(items_by_customer)} invoices for {month}, {total:,.2f} EUR in total?")

if not approval:
    print(f"Not created. {approval.note or ''}".strip())
else:
    for customer_id, items in items_by_customer.items():
        inv = await create_invoice(customer_id, items)
        print(f"{inv['number']}: {inv['customer_email']} {inv['amount']:,.2f} {inv['currency']}")
