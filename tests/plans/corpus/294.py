# Request: who are the attendees of my next meeting and what do we know about the external ones? (I'm tess@acme.com)
from datetime import timedelta

ME = "tess@acme.com"
today = now().date()
events = await list_events(ME, today.isoformat(), (today + timedelta(days=7)).isoformat())
now_str = now().strftime("%Y-%m-%dT%H:%M:%S")
upcoming = [e for e in events if e["start"] > now_str]

if not upcoming:
    print("No meetings in the next 7 days.")
else:
    meeting = upcoming[0]
    print(f"{meeting['title']} at {meeting['start'].replace('T', ' ')[:16]}")
    for address in meeting["attendees"]:
        if address == ME:
            continue
        if address.endswith("@acme.com"):
            colleague = await get_employee(address)
            print(f"- {colleague['name']}, {colleague['title']}" if colleague else f"- {address}")
            continue
        contacts = await search_contacts(address, limit=1)
        if contacts:
            c = contacts[0]
            print(f"- {c['name']} from {c['company'] or 'unknown company'} (external), tags: {', '.join(c['tags']) or 'none'}")
        else:
            print(f"- {address} (external, not in the CRM)")
