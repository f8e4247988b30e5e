# Request: compare our metrics sessions, signups and revenue today against the same weekday last week
import asyncio
from datetime import timedelta

today = now().date()
last_week = today - timedelta(days=7)
metrics = ["sessions", "signups", "revenue"]


async def value_on(metric, day):
    points = await get_metric(metric, day.isoformat(), day.isoformat())
    if not points:
        return None
    return points[0]["value"]


for metric in metrics:
    current, previous = await asyncio.gather(value_on(metric, today), value_on(metric, last_week))
    if current is None or not previous:
        print(f"{metric}: no data")
        continue
    delta = (current / previous - 1) * 100
    print(f"{metric}: {current:,.0f} vs {previous:,.0f} ({delta:+.1f}%)")
