# Request: refund all orders that were lost by the carrier in the last 30 days (only after asking me for each)
import json
from datetime import timedelta

since = (now() - timedelta(days=30)).strftime("%Y-%m-%d")

orders = []
page = 1
while True:
    res = await list_orders(status="shipped", since=since, page=page, per_page=100)
    orders.extend(res["items"])
    if res["page"] >= res["pages"]:
        break
    page += 1

summary = {"checked": len(orders), "lost": 0, "refunded": [], "declined": []}

for order in orders:
    try:
        shipment = await get_shipment(order["id"])
    except TimeoutError:
        continue
    if not shipment or shipment["status"] != "lost":
        continue

    summary["lost"] += 1
    answer = await approve(f"Refund order {order['id']} ({order['total']:.2f} {order['currency']}, {order['customer_email']})?")
    if answer:
        refund = await refund_order(order["id"], reason="Lost by carrier")
        summary["refunded"].append({"order": order["id"], "refund_id": refund["refund_id"], "amount": refund["amount"]})
    else:
        summary["declined"].append({"order": order["id"], "note": answer.note})

print(json.dumps(summary, indent=2))
