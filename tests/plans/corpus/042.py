# Request: Which customers ordered more than 3 times in the last 60 days? Tag them as "loyal" in the CRM.
import asyncio
from collections import Counter
from datetime import timedelta

since = (now() - timedelta(days=60)).date().isoformat()

first = await list_orders(since=since, page=1, per_page=100)
orders = list(first["items"])

if first["pages"] > 1:
    rest = await asyncio.gather(*[
        list_orders(since=since, page=n, per_page=100) for n in range(2, first["pages"] + 1)
    ])
    for page in rest:
        orders.extend(page["items"])

counts = Counter(o["customer_email"] for o in orders if o["status"] not in {"cancelled", "refunded"})
loyal = {email: n for email, n in counts.items() if n > 3}

tagged = 0
for email, n in loyal.items():
    contacts = await search_contacts(email)
    for contact in contacts:
        if contact["email"] == email and "loyal" not in contact["tags"]:
            await update_contact(contact["id"], {"tags": contact["tags"] + ["loyal"]})
            tagged += 1

{"loyal_customers": len(loyal), "newly_tagged": tagged}
