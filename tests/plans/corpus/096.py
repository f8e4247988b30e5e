# Request: Check my mail for meeting requests "Can we meet on YYYY-MM-DD" and answer whether I'm free that day (lena@acme.com)
import re
from datetime import date, timedelta

ME = "lena@acme.com"
mails = await search_mail("meet", unread_only=True)

for mail in mails:
    m = re.search(r"can we meet on (\d{4}-\d{2}-\d{2})", mail["body"], re.IGNORECASE)
    if not m:
        continue

    day = m.group(1)
    try:
        nxt = date.fromisoformat(day) + timedelta(days=1)
    except ValueError:
        print(f"Invalid date {day} in mail from {mail['sender']}")
        continue

    slots = await find_free_slots([ME], day, minutes=60)
    if slots:
        options = ", ".join(f"{s['start'][11:16]}-{s['end'][11:16]}" for s in slots[:4])
        body = f"Hi,\n\non {day} I'm free at: {options}.\n\nBest, Lena"
    else:
        body = f"Hi,\n\nunfortunately I'm fully booked on {day}. Would another day work?\n\nBest, Lena"
    await reply_mail(mail["id"], body)
    print(f"Answered {mail['sender']} about {day}: {'free' if slots else 'busy'}")
