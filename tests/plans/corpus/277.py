# Request: what do we know about domain "contoso.com"? people in CRM, mails in the last 30 days, invoices
import asyncio
import json
from datetime import datetime, timedelta

DOMAIN = "contoso.com"


async def get_people():
    contacts = await search_contacts(DOMAIN)
    return [c for c in contacts if (c["email"] or "").endswith("@" + DOMAIN)]


async def get_recent_mails():
    since = (datetime.now() - timedelta(days=30)).isoformat()
    mails = await search_mail(f"from:{DOMAIN}", limit=100)
    return [m for m in mails if m["received_at"] >= since]


async def main():
    people, mails = await asyncio.gather(get_people(), get_recent_mails())
    invoice_lists = await asyncio.gather(*[list_invoices(customer_id=p["id"]) for p in people])

    result = {
        "people": [{"name": p["name"], "email": p["email"], "owner": p["owner"]} for p in people],
        "mails_last_30_days": len(mails),
        "latest_subjects": [m["subject"] for m in mails[:5]],
        "invoiced_total": round(sum(inv["amount"] for invs in invoice_lists for inv in invs), 2),
    }
    print(json.dumps(result, indent=2, ensure_ascii=False))


asyncio.run(main())
