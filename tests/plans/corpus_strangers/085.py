# Request: I want to close the quarter: when the event "books-closed" arrives, or after 10 minutes at most, send reminders for all overdue invoices with the tone by age as of 2025-06-30, and mail the CFO a summary.
import asyncio
from bisect import bisect
from datetime import date

TODAY = date(2025, 6, 30)
AGES, TONES = [14, 45], ["friendly", "firm", "final"]

closed = asyncio.Event()
payload: dict = {}


async def listen():
    payload.update(await wait_for("books-closed"))
    closed.set()


listener = asyncio.create_task(listen())
try:
    async with asyncio.timeout(600):
        await closed.wait()
except TimeoutError:
    listener.cancel()
finally:
    await asyncio.gather(listener, return_exceptions=True)

counts = dict.fromkeys(TONES, 0)
volume: dict[str, float] = {}
failed = []


async def remind(inv):
    age = (TODAY - date.fromisoformat(inv["due"][:10])).days
    if age <= 0:
        return
    tone = TONES[bisect(AGES, age)]
    try:
        await send_invoice_reminder(inv["id"], tone=tone)
    except Exception as exc:
        failed.append(f"{inv['number']} ({exc})")
        return
    counts[tone] += 1
    volume[inv["currency"]] = volume.get(inv["currency"], 0) + inv["amount"]


await asyncio.gather(*map(remind, await list_invoices(status="overdue")))
body = "\n".join([
    f"Books closed by {payload.get('by', 'unknown')}" if closed.is_set() else "The books are NOT closed yet",
    *(f"{tone}: {n}" for tone, n in counts.items() if n),
    *(f"{cur} {amount:,.2f} outstanding" for cur, amount in sorted(volume.items())),
    *(["Failed: " + ", ".join(sorted(failed))] if failed else []),
])
await send_mail("cfo@acme.example", "Quarter end, reminders", body)
return body
