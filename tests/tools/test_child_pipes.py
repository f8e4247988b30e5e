"""What becomes of the pipes of a child that ends before its time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from typing import Any

from ropewalk.tools.child_process import inherited_environment, start


def test_a_child_that_ends_while_it_is_written_to_leaves_nothing_unsaid_behind() -> None:
    told: list[Any] = []

    async def write(stdin: asyncio.StreamWriter) -> None:
        while True:
            stdin.write(b"x" * 2**20)
            await stdin.drain()

    async def case() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context))
        child = await start([sys.executable, "-c", "import time; time.sleep(60)"], inherited_environment())
        writing = loop.create_task(write(child.stdin))
        await asyncio.sleep(0)  # it waits for room in the pipe now
        child.kill()
        with contextlib.suppress(OSError):
            await writing
        await child.stop()

    asyncio.run(case())
    gc.collect()  # a future whose exception nobody saw says so when it goes
    assert told == []
