# Request: Archive all newsletters in my inbox
import re

mails = await search_mail(folder="inbox", limit=200)
pattern = re.compile(r"newsletter|weekly digest|unsubscribe", re.IGNORECASE)

archived = 0
for mail in mails:
    if pattern.search(mail["subject"]) or pattern.search(mail["body"]):
        await archive_mail(mail["id"])
        archived += 1

f"Archived {archived} newsletters out of {len(mails)} mails."
