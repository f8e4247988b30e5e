# Request: Extract all order numbers (format 10-NNNN) mentioned in unread support mails and give me their status
import re

mails = await search_mail(folder="support", unread_only=True)
order_ids = set()
for m in mails:
    order_ids.update(re.findall(r"\b10-\d{3,5}\b", m["subject"] + "\n" + m["body"]))

statuses = {}
for oid in sorted(order_ids):
    try:
        statuses[oid] = (await get_order(oid))["status"]
    except KeyError:
        statuses[oid] = "not found"

statuses
