# Request: Which day of the week and hour do we get the most orders? Use the last 4 weeks.
from collections import Counter
from datetime import datetime, timedelta
from calendar import day_name

since = (now() - timedelta(weeks=4)).date().isoformat()
heat = Counter()
page, total = 1, None

while total is None or page <= total:
    batch = await list_orders(since=since, page=page, per_page=200)
    total = batch["pages"]
    heat.update(
        (dt.weekday(), dt.hour)
        for dt in (datetime.fromisoformat(o["created_at"].replace("Z", "+00:00")) for o in batch["items"])
    )
    page += 1

if not heat:
    return "No orders in the last four weeks."

days = Counter()
hours = Counter()
for (wd, hr), n in heat.items():
    days[wd] += n
    hours[hr] += n

(best_wd, best_hr), peak = heat.most_common(1)[0]
print(f"{heat.total()} orders since {since}")
print(f"Busiest slot: {day_name[best_wd]} {best_hr:02d}:00–{(best_hr + 1) % 24:02d}:00 UTC with {peak} orders")
for wd, n in days.most_common():
    print(f"  {day_name[wd]:<10} {n:>5}  {n / heat.total():6.1%}")
print("Top hours:", ", ".join(f"{h:02d}h ({n})" for h, n in hours.most_common(5)))
