# Request: Calculate the median and 95th percentile of our daily page_load_ms in the last 30 days
import statistics
from datetime import date, timedelta

end = date.today()
start = end - timedelta(days=30)
series = await get_metric("page_load_ms", str(start), str(end))
values = [p["value"] for p in series if p["value"] is not None]

if len(values) < 2:
    print("Not enough data.")
else:
    median = statistics.median(values)
    p95 = statistics.quantiles(values, n=20)[-1]
    worst = max(series, key=lambda p: p["value"] or 0)
    print(f"Median: {median:.0f} ms")
    print(f"p95:    {p95:.0f} ms")
    print(f"Worst day: {worst['date']} with {worst['value']:.0f} ms")
