# Request: monitor the error rate: poll the metric "error_rate" every 30 seconds for 5 minutes, alert #ops as soon as it is above 5%
import asyncio

CHECKS = 10
alerted = False

for i in range(CHECKS):
    day = now().date().isoformat()
    points = await get_metric("error_rate", day, day, granularity="hour")
    latest = points[-1]["value"] if points else None

    if latest is not None and latest > 0.05:
        await post_message("#ops", f"🚨 Error rate is {latest:.1%}")
        alerted = True
        break

    if i < CHECKS - 1:
        await asyncio.sleep(30)

print("Alert sent" if alerted else "Error rate stayed below 5%")
