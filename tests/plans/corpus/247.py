# Request: Answer customers asking about their refund: mails with "refund" in the subject that mention an order number, reply with the status
import re

mails = await search_mail("subject:refund", unread_only=True)

for mail in mails:
    match = re.search(r"\b(\d{2}-\d{3,6})\b", f"{mail['subject']} {mail['body']}")
    if match is None:
        await label_mail(mail["id"], "needs-human")
        continue

    order_id = match.group(1)
    try:
        order = await get_order(order_id)
    except KeyError:
        await reply_mail(mail["id"], f"Hello,\n\nwe could not find an order with the number {order_id}. Could you please check it?")
        continue

    # never disclose data of other customers
    if order["customer_email"].lower() != mail["sender"].lower():
        await label_mail(mail["id"], "needs-human")
        continue

    if order["status"] == "refunded":
        text = "your refund was processed. It can take up to 5 days until it appears on your account."
    elif order["status"] in ("cancelled", "delivered"):
        text = "your refund is not processed yet. We will take care of it today."
        await create_ticket(f"Refund request {order_id}", f"Mail {mail['id']} from {mail['sender']}", labels=["refund"])
    else:
        text = f"your order has the status \"{order['status']}\", no refund has been requested."

    await reply_mail(mail["id"], f"Hello,\n\n{text}\n\nKind regards\nYour support team")
    print(f"{order_id}: {order['status']} -> replied to {mail['sender']}")
