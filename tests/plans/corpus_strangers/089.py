# Request: Follow up on proposals: deals in stage proposal not updated since 2025-04-15 get a chat message to the owner, with at most one message per owner every batch of five deals; then move deals older than 2025-01-01 to lost.
import asyncio
from collections import deque
from contextlib import asynccontextmanager

deals = sorted(await list_deals(stage="proposal"), key=lambda d: d["updated_at"])
cold = [d for d in deals if "2025-01-01" <= d["updated_at"] < "2025-04-15"]
dead = [d for d in deals if d["updated_at"] < "2025-01-01"]


def batcher(size):
    pending: dict[str, deque] = {}
    messages = 0

    async def flush(owner, everything=False):
        nonlocal messages
        box = pending[owner]
        while len(box) >= size or (everything and box):
            batch = [box.popleft() for _ in range(min(size, len(box)))]
            await post_message("@" + owner, "Please follow up: " + ", ".join(
                f"{d['name']} ({d['amount']:,.0f} {d['currency']})" for d in batch))
            messages += 1

    async def add(deal):
        pending.setdefault(deal["owner"], deque()).append(deal)
        await flush(deal["owner"])

    async def close():
        for owner in list(pending):
            await flush(owner, everything=True)
        return messages

    return add, close


@asynccontextmanager
async def batches(size, result):
    add, close = batcher(size)
    try:
        yield add
    finally:
        result.append(await close())


counts: list[int] = []
async with batches(5, counts) as remind:
    for d in cold:
        await remind(d)

lost = await asyncio.gather(*(update_deal(d["id"], stage="lost") for d in dead), return_exceptions=True)
bad = [d["id"] for d, r in zip(dead, lost) if isinstance(r, BaseException)]
value = sum(d["amount"] for d in dead if d["id"] not in bad)
return {"messages": counts[-1], "cold": len(cold), "lost": len(dead) - len(bad), "lost value": value, "failed": bad}
