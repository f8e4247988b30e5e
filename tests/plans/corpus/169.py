# Request: reply to all unread mails from recruiting agencies with a polite no
AGENCY_WORDS = {"recruiting", "recruitment", "headhunter", "talent", "opportunity"}

mails = await search_mail(unread_only=True, limit=100)
declined = []
for mail in mails:
    words = set(mail["subject"].lower().split()) | set(mail["body"].lower().split())
    if len(words & AGENCY_WORDS) >= 2:
        await reply_mail(mail["id"], "Hello,\n\nthank you for reaching out. I'm not interested at the moment.\n\nKind regards")
        await archive_mail(mail["id"])
        declined.append(mail["sender"])

print(f"Declined {len(declined)}: {', '.join(declined)}")
