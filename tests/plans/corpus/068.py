# Request: Forward all invoices I received by mail this week to accounting@acme.com
from datetime import datetime, timedelta

start_of_week = datetime.now() - timedelta(days=datetime.now().weekday())
start_str = start_of_week.strftime("%Y-%m-%d")

mails = await search_mail("invoice", limit=100)
forwarded = 0

for mail in mails:
    if mail["received_at"][:10] < start_str:
        continue
    pdfs = [a for a in mail["attachments"] if a["name"].lower().endswith(".pdf")]
    if not pdfs:
        continue
    await send_mail(
        "accounting@acme.com",
        f"Fwd: {mail['subject']}",
        f"---------- Forwarded message ----------\nFrom: {mail['sender']}\nDate: {mail['received_at']}\n\n{mail['body']}",
        attachments=[a["document_id"] for a in pdfs],
    )
    await label_mail(mail["id"], "forwarded")
    forwarded += 1

f"Forwarded {forwarded} mails."
