# Request: Please remove the tag "trial" from all contacts with a paid invoice
contacts = await search_contacts(tag="trial", limit=2000)
paid = {inv["customer_id"] for inv in await list_invoices(status="paid")}

removed = []
for c in contacts:
    if c["id"] not in paid:
        continue
    tags = [t for t in c["tags"] if t != "trial"]
    await update_contact(c["id"], {"tags": tags})
    removed.append(c["name"])

f"Removed the tag from {len(removed)} contacts: {', '.join(removed)}"
