# Request: Forecast next month's revenue with a linear trend over the last 12 months
from datetime import date

today = date.today()
end = today.replace(day=1)
start = end.replace(year=end.year - 1)

points = await get_metric("revenue", start.isoformat(), end.isoformat(), granularity="month")
ys = [p["value"] for p in points if p["value"] is not None]
n = len(ys)

if n < 3:
    print("Not enough data for a trend.")
else:
    xs = range(n)
    mx, my = sum(xs) / n, sum(ys) / n
    slope = sum((x - mx) * (y - my) for x, y in zip(xs, ys)) / sum((x - mx) ** 2 for x in xs)
    intercept = my - slope * mx
    forecast = intercept + slope * n
    print(f"Trend: {slope:+,.0f} per month")
    print(f"Forecast: {forecast:,.0f} (last month {ys[-1]:,.0f})")
