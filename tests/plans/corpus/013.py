# Request: find the contact for "Globex" and log that we had a call today
contacts = await search_contacts("Globex")

if not contacts:
    return "No contact found for Globex."

if len(contacts) > 1:
    options = "\n".join(f"- {c['name']} <{c['email']}> ({c['id']})" for c in contacts)
    return f"There are several matches, please tell me which one you mean:\n{options}"

contact = contacts[0]
today = now().strftime("%Y-%m-%d")
await add_crm_note(contact["id"], f"Call on {today}")
await update_contact(contact["id"], {"last_contacted": today})
return f"Logged the call with {contact['name']}."
