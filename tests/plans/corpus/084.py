# Request: Wait for the "payment_received" event and then ship notification: mail the customer and mark in crm
payload = await wait_for("payment_received")

customer_id = payload["customer_id"]
contact = await get_contact(customer_id)

if contact is None or not contact["email"]:
    print(f"Payment received for {customer_id}, but there is no contact with a mail address.")
else:
    await send_mail(
        contact["email"],
        "We received your payment",
        f"Dear {contact['name']},\n\nthank you, we received your payment of {payload.get('amount')} {payload.get('currency', 'EUR')}. Your order ships soon.",
    )
    await add_crm_note(contact["id"], f"Payment received: {payload.get('amount')} (event {payload.get('id', uuid())})")
    print("Customer notified.")
