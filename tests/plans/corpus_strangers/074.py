# Request: Look through the last 200 mails for calendar requests like "can we meet on 2025-06-12 at 14:30", check whether I (me@acme.example) am free and answer accordingly.
import re
from datetime import datetime, timedelta

ME = "me@acme.example"
ASK = re.compile(r"meet\s+on\s+(\d{4}-\d{2}-\d{2})\s+at\s+(\d{1,2}):(\d{2})(?:\s+for\s+(\d+)\s*min)?", re.I)
busy_cache: dict[str, list[tuple[datetime, datetime]]] = {}


async def busy(day: str):
    if day not in busy_cache:
        nxt = (datetime.fromisoformat(day) + timedelta(days=1)).strftime("%Y-%m-%d")
        busy_cache[day] = [
            (datetime.fromisoformat(e["start"]), datetime.fromisoformat(e["end"]))
            for e in await list_events(ME, day, nxt)
            if e["response"] != "declined"
        ]
    return busy_cache[day]


accepted, refused, odd = [], [], []
for mail in await search_mail("meet", unread_only=True, limit=200):
    if (m := ASK.search(mail["body"])) is None:
        continue
    day, hour, minute, length = m.groups(default="30")
    try:
        start = datetime.fromisoformat(f"{day}T{int(hour):02}:{minute}:00")
        taken = await busy(day)
    except ValueError:
        odd.append((mail["id"], m[0]))
        continue
    end = start + timedelta(minutes=int(length))
    clash = next(((a, b) for a, b in taken if a < end and start < b), None)
    if clash is None and 9 <= start.hour < 18:
        event = await create_event(mail["subject"], start.isoformat(), end.isoformat(), [ME, mail["sender"]])
        taken.append((start, end))
        await reply_mail(mail["id"], f"Gladly! See you on {start:%d.%m. at %H:%M}.")
        accepted.append(event["id"])
    else:
        free = await find_free_slots([ME, mail["sender"]], day, minutes=int(length))
        offer = ", ".join(s["start"][11:16] for s in free[:3]) or "another day"
        await reply_mail(mail["id"], f"Sorry, that does not work for me. How about {offer}?")
        refused.append(mail["sender"])
    await label_mail(mail["id"], "meeting")
return {"accepted": accepted, "refused": refused, "not understood": odd}
