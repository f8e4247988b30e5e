"""Handlers in threads and in the loop: timeouts, cancellation, and leaving without delay."""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

from patience import BOUND
from ropewalk.errors import ExecutionFailed, ToolError, ToolTimeout
from ropewalk.tools.backends.local import Threads
from ropewalk.tools.runner import Runner
from ropewalk.tools.tool import Tool, tool
from ropewalk.tools.toolbox import Toolbox


def local(handler: Any, annotations: Any = None, **more: Any) -> Runner:
    box = Toolbox()
    box.register(Tool("t", "", {}, annotations=annotations), handler)
    return Runner(box, **more)


def failing(runner: Runner, **more: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        asyncio.run(runner.run("t", {}, **more))
    return caught.value


async def forever() -> None:
    await asyncio.Event().wait()


def test_plain_function_runs_in_a_daemon_thread_with_our_context() -> None:
    variable = contextvars.ContextVar("variable", default="unset")

    def handler() -> list[Any]:
        here = threading.current_thread()
        return [variable.get(), here.daemon, here is threading.main_thread()]

    async def case() -> Any:
        variable.set("ours")
        return (await local(handler).run("t")).structured

    assert asyncio.run(case()) == ["ours", True, False]


def test_plain_function_may_give_an_awaitable() -> None:
    async def later() -> int:
        return 7

    assert asyncio.run(local(lambda: later()).run("t")).structured == 7


@pytest.mark.parametrize(
    ("annotations", "runner_timeout", "call_timeout", "seconds"),
    [(None, 0.02, None, 0.02), ({"timeout": 0.03}, 60, None, 0.03), ({"timeout": 60}, 60, 0.04, 0.04)],
)
def test_timeout_of_the_call_wins_over_the_tools_over_the_runners(
    annotations: Any, runner_timeout: float, call_timeout: float | None, seconds: float
) -> None:
    error = failing(local(forever, annotations, timeout=runner_timeout), timeout=call_timeout)
    assert isinstance(error, ToolTimeout)
    assert error.seconds == seconds
    assert error.message == f"tool t: no answer within {seconds:g} s"


def test_every_call_has_a_timeout_of_a_minute_unless_told_otherwise() -> None:
    assert local(forever).bind("t").timeout == 60
    assert local(forever, timeout=math.inf).bind("t").timeout == math.inf
    with pytest.raises(ValueError, match="above 0"):
        Runner(timeout=0)


def test_timeout_error_of_the_tool_itself_is_no_timeout_of_ours() -> None:
    async def handler() -> None:
        raise TimeoutError("the database was slow")

    error = failing(local(handler))
    assert type(error) is ExecutionFailed
    assert str(error).endswith("the database was slow")


def test_tool_cancelled_from_inside_does_not_look_like_a_cancelled_caller() -> None:
    async def handler() -> None:
        raise asyncio.CancelledError

    error = failing(local(handler))
    assert type(error) is ExecutionFailed
    assert error.matches(asyncio.CancelledError)


def test_cancelling_the_caller_cancels_the_handler() -> None:
    ended: list[str] = []

    async def case() -> None:
        started = asyncio.Event()

        async def handler() -> None:
            started.set()
            try:
                await forever()
            finally:
                ended.append("handler")

        task = asyncio.create_task(local(handler).run("t"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(case())
    assert ended == ["handler"]


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()])
def test_tool_that_raises_what_would_end_the_loop_only_fails(raised: BaseException) -> None:
    def handler() -> None:
        raise raised

    error = failing(local(handler))
    assert type(error) is ExecutionFailed
    assert error.matches(type(raised))


def test_abandoned_thread_leaves_room_for_others() -> None:
    started, release = threading.Event(), threading.Event()
    pool = Threads(max_threads=1)

    def hang() -> None:
        started.set()
        release.wait()

    async def case() -> list[Any]:
        stuck = asyncio.create_task(pool.run(hang))
        await asyncio.to_thread(started.wait)
        waiting = asyncio.create_task(pool.run(lambda: "next"))
        never = asyncio.create_task(pool.run(lambda: pytest.fail("it was cancelled before it began")))
        await asyncio.sleep(0)
        never.cancel()
        stuck.cancel()
        async with asyncio.timeout(BOUND):
            return await asyncio.gather(waiting, stuck, never, return_exceptions=True)

    first, second, third = asyncio.run(case())
    release.set()
    assert first == "next"
    assert isinstance(second, asyncio.CancelledError)
    assert isinstance(third, asyncio.CancelledError)


def test_threads_are_bounded_and_all_calls_are_made() -> None:
    pool = Threads(max_threads=3)
    lock = threading.Lock()
    now = most = 0

    def work(number: int) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        os.sched_yield()
        with lock:
            now -= 1
        return number

    async def case() -> list[Any]:
        return await asyncio.gather(*(pool.run(lambda n=n: work(n)) for n in range(50)))  # type: ignore[misc]

    assert asyncio.run(case()) == list(range(50))
    assert most <= 3


def test_thread_that_hangs_does_not_delay_the_exit_of_the_interpreter() -> None:
    code = """
        import asyncio, threading
        from ropewalk.errors import ToolTimeout
        from ropewalk.tools.runner import Runner
        from ropewalk.tools.toolbox import Toolbox
        def hang(): threading.Event().wait()
        async def main():
            try: await Runner(Toolbox([hang])).run("hang", timeout=0.05)
            except ToolTimeout: print("timed out")
        asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "timed out\n", "")


def test_late_answer_of_an_abandoned_thread_is_thrown_away() -> None:
    release, answered = threading.Event(), threading.Event()

    @tool(timeout=1)  # long enough for the thread to have begun on a busy machine: else there is nothing to abandon
    def slow() -> int:
        release.wait()
        answered.set()
        return 1

    async def case() -> None:
        with pytest.raises(ToolTimeout):
            await Runner(Toolbox([slow])).run("slow")
        release.set()
        assert await asyncio.to_thread(answered.wait, 30)
        await asyncio.sleep(0)

    asyncio.run(case())
