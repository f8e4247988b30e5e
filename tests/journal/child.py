"""Another process that uses a store: what the tests of this folder run, watch, pause and kill.

It writes one line to stdout for each thing that happened, after it happened.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

from places import opened

from ropewalk.errors import RopewalkError
from ropewalk.journal.protocol import Entry, NewRun


def say(*words: object) -> None:
    # One write per line: a kill leaves a whole line or none.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def record(place: str) -> None:
    """Record in twenty tasks for ever, alone now and then, and say what was acknowledged."""
    store = opened(place, lease=600.0)  # which nobody waits for: a dead owner's run can be had at once
    log = await store.reopen("r")
    say("open", log.run.epoch)
    size = [10, 300, 3000, 90_000]

    async def task(number: int) -> None:
        for i in range(1_000_000):
            node = f"{log.run.epoch}/{number}[{i}]"
            await log.append(Entry(node, "call", data="x" * random.choice(size)))
            say("ack", node)
            if number:
                await asyncio.sleep(random.random() * 0.02)

    await asyncio.gather(*[task(number) for number in range(20)])


async def race(place: str, id: str) -> None:
    """Try to open a run the moment a line arrives; hold it until the next."""
    store = opened(place)
    say("ready")
    sys.stdin.readline()
    try:
        log = await store.open(NewRun(id=id, kind="chain"))
    except RopewalkError as error:
        say("lost", type(error).__name__)
    else:
        say("won", log.run.epoch)
    await asyncio.to_thread(sys.stdin.readline)


async def hold(place: str, id: str, poll: str = "0.2") -> None:
    """Own a run until it is stopped or taken over, then try to record one more entry."""
    store = opened(place, poll=float(poll))
    log = await store.open(NewRun(id=id, kind="chain"))
    await log.append(Entry("before", "call", data=1))
    stop = asyncio.Event()
    log.on_stop = stop.set
    say("open", log.run.epoch)
    await stop.wait()
    say("stop")
    try:
        await log.append(Entry("after", "call", data=2))
        say("appended", await log.finish("completed", None))
    except RopewalkError as error:
        say(type(error).__name__)


async def crowd(place: str, id: str, count: str) -> None:
    """One of several processes writing at once: alone, in company, and through sync methods."""
    store = opened(place)
    for part in range(int(count)):
        log = await store.open(NewRun(id=f"{id}.{part}", kind="chain"))
        for i in range(20):
            await log.append(Entry(f"alone[{i}]", "call", data=i))
        await asyncio.gather(*[log.append(Entry(f"all[{i}]", "call", data="x" * 2000)) for i in range(20)])
        store.request_stop(f"{id}.nothing")
        await log.finish("completed", part)
    store.close()
    say("done")


if __name__ == "__main__":
    what, place, *more = sys.argv[1:]
    asyncio.run({"record": record, "race": race, "hold": hold, "crowd": crowd}[what](place, *more))
