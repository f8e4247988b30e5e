# Request: for every won deal this month create an invoice over the deal's amount and mark the CRM contact as customer
month = now().strftime("%Y-%m")
deals = await list_deals(stage="won")
created = []

for deal in deals:
    if not (deal["close_date"] or "").startswith(month):
        continue

    contact = await get_contact(deal["contact_id"])
    if contact is None:
        print(f"Skipping {deal['name']}: contact {deal['contact_id']} not found")
        continue

    invoice = await create_invoice(
        customer_id=contact["id"],
        items=[{"description": deal["name"], "quantity": 1, "price": deal["amount"]}],
        currency=deal["currency"],
        due_days=14,
    )
    created.append(invoice)

    if "customer" not in contact["tags"]:
        contact["tags"].append("customer")
        await update_contact(contact["id"], {"tags": contact["tags"]})

total = sum(i["amount"] for i in created)
return {"created": [i["number"] for i in created], "total": round(total, 2)}
