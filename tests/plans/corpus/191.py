# Request: Are there orders stuck in "pending" for more than 24 hours? Cancel them after approval and inform the customer.
from datetime import datetime, timedelta, timezone

cutoff = datetime.now(timezone.utc) - timedelta(hours=24)

stuck = []
page = 1
while True:
    resp = await list_orders(status="pending", page=page)
    for o in resp["items"]:
        created = datetime.fromisoformat(o["created_at"].replace("Z", "+00:00"))
        if created < cutoff:
            stuck.append(o)
    if page >= resp["pages"]:
        break
    page += 1

if not stuck:
    print("No stuck orders.")
else:
    value = sum(o["total"] for o in stuck)
    approved = await approve(f"Cancel {len(stuck)} pending orders older than 24h (total value {value:.2f})?")
    if approved:
        cancelled = 0
        for o in stuck:
            try:
                await cancel_order(o["id"], "Payment not received within 24 hours")
            except ValueError as e:
                print(f"{o['id']}: {e}")
                continue
            cancelled += 1
            await send_mail(
                o["customer_email"],
                f"Your order {o['id']} was cancelled",
                "Hello,\n\nwe did not receive your payment within 24 hours, so we cancelled the order.\n",
            )
        print(f"Cancelled {cancelled} orders.")
    else:
        print(f"{len(stuck)} stuck orders were left unchanged.")
