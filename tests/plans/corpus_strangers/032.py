# Request: Wait for the "deploy.finished" event and then check error rate for an hour window; if it went up by more than half, open an urgent ticket and alert #ops.
import asyncio
from datetime import datetime, timedelta
from statistics import mean

payload = await wait_for("deploy.finished")
deployed_at = now()
version = payload.get("version", "unknown")

await asyncio.sleep(3600)

before_start = deployed_at - timedelta(hours=24)
points = await get_metric("error_rate", before_start.isoformat(), now().isoformat(), granularity="hour")


def ts(p):
    d = datetime.fromisoformat(p["date"].replace("Z", "+00:00"))
    return d if d.tzinfo else d.replace(tzinfo=deployed_at.tzinfo)


before = [p["value"] for p in points if p["value"] is not None and ts(p) < deployed_at]
after = [p["value"] for p in points if p["value"] is not None and ts(p) >= deployed_at]
if not before or not after:
    return "Not enough data points to compare."

base, current = mean(before), mean(after)
if current <= base * 1.5:
    return f"Deploy of {version} looks fine: error rate {base:.3%} before, {current:.3%} after."

ticket = await create_ticket(
    f"Error rate up after deploy of {version}",
    f"Before: {base:.3%}\nAfter: {current:.3%}\nDeployed at {deployed_at:%Y-%m-%d %H:%M} UTC\nPayload: {payload}",
    priority="urgent",
    labels=["incident", "deploy"],
)
await post_message("#ops", f"🚨 Error rate rose from {base:.3%} to {current:.3%} after deploying {version}, see {ticket['id']}")
return ticket["id"]
