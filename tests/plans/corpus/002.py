# Request: Cancel all my meetings tomorrow afternoon. I'm anna@acme.com
from datetime import date, timedelta

tomorrow = date.today() + timedelta(days=1)
day_after = tomorrow + timedelta(days=1)

events = await list_events("anna@acme.com", tomorrow.isoformat(), day_after.isoformat())
afternoon = [e for e in events if int(e["start"][11:13]) >= 12]

if not afternoon:
    return "You have no meetings tomorrow afternoon."

titles = "\n".join(f"- {e['start'][11:16]} {e['title']}" for e in afternoon)
ok = await approve(f"Cancel these {len(afternoon)} meetings?\n{titles}")
if not ok:
    return "Nothing was cancelled."

for e in afternoon:
    await delete_event(e["id"])

return f"Cancelled {len(afternoon)} meetings:\n{titles}"
