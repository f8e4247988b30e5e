# Request: Detect anomalies in daily orders of the last 60 days: days deviating more than 3 sigma from a trailing 7-day mean
import statistics
from collections import deque
from datetime import date, timedelta

end = date.today()
points = await get_metric("orders", (end - timedelta(days=60)).isoformat(), end.isoformat())

window = deque(maxlen=7)
anomalies = []
for p in points:
    value = p["value"]
    if value is None:
        continue
    if len(window) == window.maxlen:
        mean = statistics.mean(window)
        sd = statistics.pstdev(window)
        if sd > 0 and abs(value - mean) > 3 * sd:
            anomalies.append((p["date"], value, mean))
    window.append(value)

for day, value, mean in anomalies:
    direction = "above" if value > mean else "below"
    print(f"{day}: {value:.0f} orders, far {direction} the trailing mean {mean:.0f}")
print(f"{len(anomalies)} anomalies")
