# Request: Compute mean, median and 95th percentile of daily signups over the last 60 days, and flag outlier days.
import statistics
from datetime import timedelta

end = now().date()
start = end - timedelta(days=60)

try:
    points = await get_metric("signups", start.isoformat(), end.isoformat())
except KeyError:
    return "There is no metric named 'signups'."

series = {p["date"]: p["value"] for p in points if p["value"] is not None}
if len(series) < 2:
    return "Not enough data."

values = list(series.values())
mean = statistics.fmean(values)
median = statistics.median(values)
sd = statistics.stdev(values)
p95 = statistics.quantiles(values, n=20)[-1]

outliers = {
    d: round((v - mean) / sd, 2)
    for d, v in series.items()
    if sd and abs(v - mean) > 2 * sd
}

print(f"Days with data: {len(values)} of {len(points)}")
print(f"mean {mean:.1f} | median {median:.1f} | stdev {sd:.1f} | p95 {p95:.1f}")
print("Outliers (z-score):" if outliers else "No outliers beyond 2 standard deviations.")
for d, z in sorted(outliers.items()):
    print(f"  {d}: {series[d]:.0f} ({z:+})")
