# Request: Watch for the event "build_finished" and post the result to #dev, at most 10 minutes
import asyncio

try:
    event = await asyncio.wait_for(wait_for("build_finished"), timeout=600)
except asyncio.TimeoutError:
    await post_message("#dev", "The build did not finish within 10 minutes.")
    print("timed out")
else:
    icon = "✅" if event.get("success") else "❌"
    await post_message("#dev", f"{icon} Build {event.get('id', '?')} finished: {event.get('message', '')}")
    print("posted")
