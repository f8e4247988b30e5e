# Request: A/B test: metric "conv_a" and "conv_b" daily for the last 14 days: mean, difference and a simple t statistic
import asyncio
import math
import statistics as st
from datetime import date, timedelta

end = date.today()
start = end - timedelta(days=14)

series_a, series_b = await asyncio.gather(
    get_metric("conv_a", start.isoformat(), end.isoformat()),
    get_metric("conv_b", start.isoformat(), end.isoformat()),
)
a = [p["value"] for p in series_a if p["value"] is not None]
b = [p["value"] for p in series_b if p["value"] is not None]

mean_a, mean_b = st.mean(a), st.mean(b)
se = math.sqrt(st.variance(a) / len(a) + st.variance(b) / len(b))
t = (mean_b - mean_a) / se if se else float("nan")

print(f"A: {mean_a:.3%} (n={len(a)})")
print(f"B: {mean_b:.3%} (n={len(b)})")
print(f"Difference: {mean_b - mean_a:+.3%}, t = {t:.2f}")
print("Looks significant" if abs(t) > 2.06 else "Not significant")
