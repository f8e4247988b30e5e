# Request: what's the longest meeting I had last month? max@acme.com
from datetime import date, datetime, timedelta

first_this_month = date.today().replace(day=1)
last_day_prev = first_this_month - timedelta(days=1)
first_prev = last_day_prev.replace(day=1)

events = await list_events("max@acme.com", first_prev.isoformat(), first_this_month.isoformat())

longest, longest_duration = None, timedelta(0)
for e in events:
    duration = datetime.fromisoformat(e["end"]) - datetime.fromisoformat(e["start"])
    if duration > longest_duration:
        longest, longest_duration = e, duration

if longest:
    hours, rest = divmod(int(longest_duration.total_seconds()), 3600)
    print(f"{longest['title']} on {longest['start'][:10]}: {hours}h {rest // 60}min")
else:
    print("No meetings last month.")
