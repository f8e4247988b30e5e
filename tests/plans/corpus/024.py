# Request: get all unread mails from my boss (k.meyer@acme.com) and create a ticket for each one that looks like a task
unread = await search_mail("from:k.meyer@acme.com", unread_only=True)

KEYWORDS = ("please", "could you", "can you", "todo", "deadline", "until")
created = []

for mail in unread:
    text = (mail["subject"] + " " + mail["body"]).lower()
    if any(kw in text for kw in KEYWORDS):
        priority = "high" if "urgent" in text or "asap" in text else "normal"
        ticket = await create_ticket(
            title=mail["subject"],
            description=f"From mail {mail['id']}:\n\n{mail['body']}",
            priority=priority,
            labels=["from-mail"],
        )
        await label_mail(mail["id"], "ticket-created")
        created.append(ticket)

print(f"Created {len(created)} tickets:")
for i, t in enumerate(created, 1):
    print(f"{i}. {t['id']}: {t['title']} ({t['priority']})")
