# Request: Get the number of sessions per hour yesterday and draw an ASCII chart
from datetime import timedelta

yesterday = (now() - timedelta(days=1)).date().isoformat()
points = await get_metric("sessions", yesterday, yesterday, granularity="hour")

peak = max((p["value"] or 0 for p in points), default=0)
for p in points:
    value = p["value"] or 0
    width = int(value / peak * 50) if peak else 0
    print(f"{p['date'][11:16]} {'█' * width} {value:.0f}")
