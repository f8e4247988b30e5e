# Request: How did signups develop over the last 4 weeks? Compare week by week.
from datetime import timedelta

end = now().date()
start = end - timedelta(weeks=4)

points = await get_metric("signups", start.isoformat(), end.isoformat(), granularity="week")

prev = None
for p in points:
    value = p["value"] or 0
    if prev is None:
        print(f"{p['date']}: {value:.0f}")
    else:
        change = (value - prev) / prev * 100 if prev else float("inf")
        arrow = "▲" if change > 0 else "▼" if change < 0 else "="
        print(f"{p['date']}: {value:.0f} {arrow} {change:+.1f}%")
    prev = value
