# Request: Which mails in my inbox have been unanswered for more than 2 days and are from customers in our CRM?
from datetime import datetime, timedelta

contacts = await search_contacts(limit=10000)
customer_by_mail = {c["email"].lower(): c for c in contacts if c["email"]}

inbox = await search_mail(limit=200)
sent = await search_mail(folder="sent", limit=500)
answered_threads = {}
for m in sent:
    tid = m["thread_id"]
    answered_threads[tid] = max(answered_threads.get(tid, ""), m["received_at"])

unanswered = []
limit = (datetime.now() - timedelta(days=2)).isoformat()
for mail in inbox:
    customer = customer_by_mail.get(mail["sender"].lower())
    if not customer or mail["received_at"] > limit:
        continue
    if answered_threads.get(mail["thread_id"], "") > mail["received_at"]:
        continue
    unanswered.append({
        "received": mail["received_at"][:10],
        "customer": customer["name"],
        "company": customer.get("company") or "-",
        "subject": mail["subject"],
    })

return unanswered
