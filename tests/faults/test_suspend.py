"""A machine that sleeps: leases count the time, so a process that wakes up calls nothing for runs that others took."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = '''
import asyncio, sqlite3, sys, time

real, asleep = time.clock_gettime, 0.0
time.clock_gettime = lambda which: real(which) + (asleep if which == time.CLOCK_BOOTTIME else 0.0)

from ropewalk import App
from ropewalk.journal.sqlite.store import SqliteStore

begun = asyncio.Event()

async def first() -> str:
    """A call before the sleep."""
    begun.set()
    return "first"

async def after() -> str:
    """What must not happen when others have the run."""
    print("called", flush=True)
    return "after"

CHAIN = {"kind": "chain", "nodes": [
    {"id": "a", "type": "tool", "tool": "first"},
    {"id": "b", "type": "delay", "delay": 300},
    {"id": "c", "type": "tool", "tool": "after"},
]}

async def main() -> None:
    """During the delay the machine sleeps for an hour; meanwhile another host takes the run over, if it is taken."""
    global asleep
    # It does not look for news of its own in all this time: only the lease can tell.
    store = SqliteStore(sys.argv[1], poll=60.0)
    async with App(store, tools=[first, after]) as app:
        running = asyncio.ensure_future(app.run(CHAIN, run_id="r"))
        await begun.wait()
        while not any(entry.kind == "timer" for entry in store.history("r")):
            await asyncio.sleep(0.001)
        asleep += 3600.0
        if sys.argv[2] == "taken":
            with sqlite3.connect(sys.argv[1], timeout=30) as store:
                store.execute("UPDATE lease SET epoch = epoch + 1")
        try:
            print((await running)["status"], flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)

asyncio.run(main())
'''


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="needs a clock that counts suspended time")
@pytest.mark.parametrize(("how", "said"), [("taken", ["Fenced"]), ("kept", ["called", "completed"])])
def test_after_a_sleep_the_lease_is_asked_for_before_the_next_call(tmp_path: Path, how: str, said: list[str]) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "store.db"), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == said, done.stderr
