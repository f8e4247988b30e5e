# Request: Is our conversion rate correlated with page load time? Use daily data of the last 90 days.
import asyncio
import math
from datetime import timedelta

end = now().date()
start = end - timedelta(days=90)

try:
    conv, load = await asyncio.gather(
        get_metric("conversion_rate", str(start), str(end)),
        get_metric("page_load_ms", str(start), str(end)),
    )
except KeyError as missing:
    return f"Metric not found: {missing}"

a = {p["date"]: p["value"] for p in conv}
b = {p["date"]: p["value"] for p in load}
pairs = [(a[d], b[d]) for d in sorted(a.keys() & b.keys()) if None not in (a[d], b[d])]
if len(pairs) < 10:
    return f"Only {len(pairs)} common days, not enough."

xs, ys = zip(*pairs)
n = len(pairs)
mx, my = sum(xs) / n, sum(ys) / n
sxy = sum((x - mx) * (y - my) for x, y in pairs)
sxx = sum((x - mx) ** 2 for x in xs)
syy = sum((y - my) ** 2 for y in ys)
if not (sxx and syy):
    return "One of the metrics is constant."

r = sxy / math.sqrt(sxx * syy)
t = r * math.sqrt((n - 2) / (1 - r * r)) if abs(r) < 1 else math.inf
strength = next(word for bound, word in ((0.7, "strong"), (0.4, "moderate"), (0.2, "weak"), (0, "no")) if abs(r) >= bound)
return f"{strength} {'negative' if r < 0 else 'positive'} correlation: r = {r:.3f}, t = {t:.2f} over {n} days"
