# Request: send the sales team the list of customers in France without any order this year
this_year = f"{now().year}-01-01"

french = await search_contacts(country="FR", limit=5000)

active_emails = set()
page = 1
while True:
    data = await list_orders(since=this_year, page=page, per_page=250)
    active_emails.update(o["customer_email"].lower() for o in data["items"])
    if page >= data["pages"]:
        break
    page += 1

inactive = [c for c in french if c["email"] and c["email"].lower() not in active_emails]
inactive.sort(key=lambda c: (c["company"] or "", c["name"]))

if inactive:
    body = f"{len(inactive)} French customers have not ordered this year:\n\n"
    body += "\n".join(f"{c['company'] or '-'} | {c['name']} | {c['email']}" for c in inactive)
    await send_mail("sales@acme.com", "French customers without orders", body)

len(inactive)
