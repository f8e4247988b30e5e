# Request: Which customers haven't paid 3 or more invoices? Put their accounts on hold: tag "on-hold" and create a ticket for finance
from collections import defaultdict

unpaid = defaultdict(list)
for inv in await list_invoices(status="overdue"):
    unpaid[inv["customer_id"]].append(inv)

bad = {cid: invs for cid, invs in unpaid.items() if len(invs) >= 3}
held = []

for cid, invs in bad.items():
    contact = await get_contact(cid)
    if contact is None:
        print(f"No contact for {cid}")
        continue
    if "on-hold" in contact["tags"]:
        continue

    total = sum(i["amount"] for i in invs)
    ok = await approve(f"Put {contact['name']} on hold? {len(invs)} overdue invoices, {total:,.2f} in total.")
    if not ok:
        continue

    await update_contact(cid, {"tags": contact["tags"] + ["on-hold"]})
    note = "; ".join(f"{i['number']} ({i['amount']:.2f}, due {i['due'][:10]})" for i in sorted(invs, key=lambda i: i["due"]))
    await add_crm_note(cid, f"Account on hold. Overdue: {note}")
    await create_ticket(f"Account on hold: {contact['name']}", note, priority="high", labels=["finance"])
    held.append(contact["name"])

print(f"{len(bad)} candidates, put on hold: {', '.join(held) or 'nobody'}")
