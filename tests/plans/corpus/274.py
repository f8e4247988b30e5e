# Request: send the meeting minutes (latest file in /minutes) to all attendees of today's "Steering committee" (pm@acme.com's calendar)
from datetime import timedelta

today = now().date()
events = await list_events("pm@acme.com", str(today), str(today + timedelta(days=1)))
meeting = next((e for e in events if "steering committee" in e["title"].lower()), None)
if not meeting:
    return "No 'Steering committee' meeting today."

minutes = await list_files("/minutes")
if not minutes:
    return "There are no minutes in /minutes."

latest = sorted(minutes, key=lambda f: f["modified_at"])[-1]
recipients = [a for a in meeting["attendees"] if a != "pm@acme.com"]
await send_mail(recipients, f"Minutes: {meeting['title']} {today}", "Hi all,\n\nplease find the minutes attached.\n", attachments=[latest["id"]])
return f"Sent {latest['name']} to {len(recipients)} people."
