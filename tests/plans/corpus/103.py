# Request: tell me about customer Hooli: contact, deals, open invoices, tickets
import asyncio
import json

contacts = await search_contacts("Hooli")
if not contacts:
    print("No contact found.")
else:
    contact = contacts[0]
    deals, invoices, tickets = await asyncio.gather(
        list_deals(),
        list_invoices(customer_id=contact["id"]),
        search_tickets(query="Hooli"),
    )

    overview = {
        "contact": {
            "name": contact["name"],
            "email": contact["email"],
            "city": contact.get("address", {}).get("city"),
        },
        "deals": [
            {"name": d["name"], "stage": d["stage"], "amount": d["amount"]}
            for d in deals
            if d["contact_id"] == contact["id"]
        ],
        "open_invoices": [
            {"number": i["number"], "amount": i["amount"], "due": i["due"]}
            for i in invoices
            if i["status"] in ("open", "overdue")
        ],
        "tickets": [f"{t['id']}: {t['title']}" for t in tickets["tickets"]],
    }
    print(json.dumps(overview, indent=2))
