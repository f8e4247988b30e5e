# Request: is the order 10-77 eligible for a return (delivered less than 14 days ago)? If so, refund it fully.
from datetime import datetime, timezone

order = await get_order("10-77")
if order["status"] != "delivered":
    print(f"Not eligible: status is {order['status']}")
else:
    shipment = await get_shipment(order["id"])
    delivered_at = None
    for ev in (shipment or {}).get("events", []):
        if ev.get("status") == "delivered":
            delivered_at = datetime.fromisoformat(ev["time"].replace("Z", "+00:00"))

    if delivered_at is None:
        print("I can't determine the delivery date.")
    elif (days := (datetime.now(timezone.utc) - delivered_at).days) >= 14:
        print(f"Not eligible: delivered {days} days ago")
    else:
        refund = await refund_order(order["id"], reason="Return within 14 days")
        print(f"Refunded {refund['amount']} {order['currency']} ({refund['refund_id']})")
