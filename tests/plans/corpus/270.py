# Request: move all my 1:1s of next Tuesday (title contains "1:1") to Wednesday same time if both are free. I'm zoe@acme.com
from datetime import date, timedelta

ME = "zoe@acme.com"
today = date.today()
tuesday = today + timedelta(days=(1 - today.weekday()) % 7 or 7)
wednesday = tuesday + timedelta(days=1)

events = await list_events(ME, tuesday.isoformat(), wednesday.isoformat())
one_on_ones = [e for e in events if "1:1" in e["title"]]

moved, kept = [], []
for ev in one_on_ones:
    new_start = ev["start"].replace(tuesday.isoformat(), wednesday.isoformat())
    new_end = ev["end"].replace(tuesday.isoformat(), wednesday.isoformat())

    slots = await find_free_slots(list({ME, *ev["attendees"]}), wednesday.isoformat(), minutes=15)
    fits = any(s["start"] <= new_start and new_end <= s["end"] for s in slots)

    if fits:
        await update_event(ev["id"], start=new_start, end=new_end)
        moved.append(ev["title"])
    else:
        kept.append(ev["title"])

print("Moved:", ", ".join(moved) or "none")
print("Not possible:", ", ".join(kept) or "none")
