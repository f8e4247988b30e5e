# Request: categorize the incoming support mails and create tickets with the right label and priority
RULES = [
    ("refund", "billing", "high"),
    ("invoice", "billing", "normal"),
    ("crash", "bug", "urgent"),
    ("error", "bug", "high"),
    ("how do i", "question", "low"),
    ("password", "account", "normal"),
]


def categorize(subject, body):
    text = f"{subject}\n{body}".lower()
    for keyword, label, priority in RULES:
        if keyword in text:
            return label, priority
    return "other", "normal"


stats = {}
for mail in await search_mail(folder="support", unread_only=True):
    label, priority = categorize(mail["subject"], mail["body"])
    ticket = await create_ticket(
        title=mail["subject"] or "(no subject)",
        description=mail["body"],
        priority=priority,
        labels=[label],
    )
    await reply_mail(mail["id"], f"Thank you for your message. Your ticket number is {ticket['id']}.")
    await label_mail(mail["id"], label)
    stats[label] = stats.get(label, 0) + 1

return {"mails": sum(stats.values()), "per_label": stats}
