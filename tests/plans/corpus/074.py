# Request: Create invoices for all orders that were delivered yesterday and don't have one yet
from datetime import date, timedelta

yesterday = (date.today() - timedelta(days=1)).isoformat()

delivered = []
page_no = 1
while True:
    page = await list_orders(status="delivered", since=yesterday, page=page_no)
    delivered += page["items"]
    if page_no * 50 >= page["total"]:
        break
    page_no += 1

existing_invoices = await list_invoices(since=yesterday)
invoiced_orders = set()
for inv in existing_invoices:
    for item in inv["items"]:
        desc = item.get("description", "")
        if desc.startswith("Order "):
            invoiced_orders.add(desc.split()[1].rstrip(":"))

created, errors = [], []
for order in delivered:
    if order["id"] in invoiced_orders:
        continue
    items = [
        {
            "description": f"Order {order['id']}: {line['title']}",
            "quantity": line["quantity"],
            "price": line["unit_price"],
        }
        for line in order["lines"]
    ]
    try:
        inv = await create_invoice(order["customer_id"], items, currency=order["currency"])
        created.append(inv["number"])
    except ValueError as exc:
        errors.append((order["id"], str(exc)))

print(f"{len(created)} invoices created: {created}")
if errors:
    print("Problems:", errors)
