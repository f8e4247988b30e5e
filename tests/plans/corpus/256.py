# Request: update phone numbers in CRM: remove spaces and dashes
contacts = await search_contacts(limit=10000)
changed = 0
for contact in contacts:
    phone = contact["phone"]
    if not phone:
        continue
    clean = "".join(ch for ch in phone if ch.isdigit() or ch == "+")
    if clean != phone:
        await update_contact(contact["id"], {"phone": clean})
        changed += 1
f"{changed} phone numbers cleaned"
