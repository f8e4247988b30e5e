# Request: Which of my contacts' companies open a deal with us in "proposal" and haven't got a mail from me in 10 days?
import asyncio
from datetime import datetime, timedelta

ME = "sven@acme.com"
ten_days_ago = (datetime.now() - timedelta(days=10)).isoformat()

deals = await list_deals(stage="proposal", owner=ME)


async def last_mail_to(deal):
    contact = await get_contact(deal["contact_id"])
    if contact is None or contact["email"] is None:
        return deal, contact, None
    sent = await search_mail(f"to:{contact['email']}", folder="sent", limit=1)
    return deal, contact, sent[0]["received_at"] if sent else None


for deal, contact, last in await asyncio.gather(*(last_mail_to(d) for d in deals)):
    if contact is None:
        continue
    if last is None or last < ten_days_ago:
        print(f"{deal['name']} ({contact['name']}, {contact['company']}): last mail {last[:10] if last else 'never'}")
