"""Programs that want time, memory, depth or output, and random ones, in children of the boundary."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from typing import Any

import plans_bombs
from plans.event_host import World, run_in_child
from ropewalk.plans import messages as m
from ropewalk.plans.boundary.pool import Limits, Pool


async def attack(bombs: int, count: int, seed: int) -> bool:
    """Run programs that want time, memory, depth or output, and random ones, in children; return True if all end."""
    source = plans_bombs.bombs()
    texts = [next(source) for _ in range(bombs)] + plans_bombs.random_programs(count, seed)
    pool, statuses, faults = Pool(limits=Limits()), Counter[str](), list[str]()
    delays, busy = [0.0], [0.0]

    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        return None

    async def beat() -> None:
        while True:
            begun, used = time.monotonic(), time.thread_time()
            await asyncio.sleep(0.05)
            delays.append(time.monotonic() - begun - 0.05)
            busy.append(time.thread_time() - used)

    beating, slowest = asyncio.create_task(beat()), 0.0
    for text in texts:
        begun = time.monotonic()
        outcome = await run_in_child(m.Begin(text, {}, "{}", 0), World(perform=perform), pool)
        seconds = time.monotonic() - begun
        slowest = max(slowest, seconds)
        statuses[outcome.status] += 1
        shown = f"{outcome.result} {outcome.message} {outcome.printed} {outcome.problems}"
        if seconds > plans_bombs.MOST_SECONDS or re.search(r" at 0x[0-9a-f]{6}", shown):
            faults.append(f"{seconds:.1f} s, {shown:.200}: {text!r:.300}")
        if "what no program can ask for" in shown or "it cannot be interpreted (" in shown:
            faults.append(f"{shown:.200}: {text!r:.300}")
    beating.cancel()
    pids = {child.pid for child in pool._all}
    pool.close()
    left = await asyncio.to_thread(plans_bombs.left_of, pids)
    for fault in faults[:20]:
        print(fault)
    print(f"{len(texts)} programs: {dict(statuses)}, slowest {slowest:.1f} s, processes left {left}")
    longest = f"{1000 * max(delays):.0f} ms, of which this thread computes at most {1000 * max(busy):.0f} ms"
    print(f"others wait at most {longest}; faults {len(faults)}")
    return not faults and not left and max(delays) <= plans_bombs.MOST_DELAY
