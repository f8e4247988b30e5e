# Request: Label my mails: anything with an attachment over 10MB gets "large", mails from acme.com "internal", rest older than 60 days gets archived
from datetime import datetime, timedelta

mails = await search_mail(limit=300)
threshold = datetime.now() - timedelta(days=60)
counts = {"large": 0, "internal": 0, "archived": 0}

for mail in mails:
    labelled = False
    if any(a["size"] > 10 * 1024 * 1024 for a in mail["attachments"]):
        await label_mail(mail["id"], "large")
        counts["large"] += 1
        labelled = True
    if mail["sender"].endswith("@acme.com"):
        await label_mail(mail["id"], "internal")
        counts["internal"] += 1
        labelled = True
    if not labelled:
        received = datetime.fromisoformat(mail["received_at"].replace("Z", ""))
        if received < threshold:
            await archive_mail(mail["id"])
            counts["archived"] += 1

counts
