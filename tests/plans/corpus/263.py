# Request: Generate a unique discount code for each loyal customer and mail it (tag loyal), max 20 customers per run
contacts = await search_contacts(tag="loyal", limit=20)
codes = {}

for contact in contacts:
    if not contact["email"] or "code-sent" in contact["tags"]:
        continue
    code = "LOYAL-" + uuid().replace("-", "")[:8].upper()
    await send_mail(
        contact["email"],
        "A gift for you",
        f"Dear {contact['name']},\n\nthank you for your loyalty! Your personal discount code is {code}.",
    )
    await update_contact(contact["id"], {"tags": contact["tags"] + ["code-sent"]})
    codes[contact["email"]] = code

print(f"Sent {len(codes)} codes")
for email, code in codes.items():
    print(f"{email}: {code}")
