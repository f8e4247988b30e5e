"""Programs of models run in children that hold nothing, end at their limits, and never outlive their parent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from patience import wait_until
from ropewalk import App, tool
from ropewalk.errors import InvalidFlow
from ropewalk.notations.plan.readers import judged, with_origin
from ropewalk.plans import messages as m
from ropewalk.plans.boundary import frames
from ropewalk.plans.boundary.pool import MOST_PROGRAMS, Limits, Pool, ProgramStopped, _finished

pytestmark = [
    pytest.mark.process,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox of a child is that of Linux"),
]
BURN = "import re\nwhile True:\n    re.sub('a+b', 'c', 'a' * 3000)"  # some tenths of a second, up to its most steps


def eventually(condition: Callable[[], bool]) -> bool:
    return wait_until(condition)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def document(code: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "plan", "name": "p", "code": code, "tools": {}, "origin": "model", **fields}


def playing(code: str) -> dict[str, Any]:
    return {"service": "play", "begin": m.to_json(m.Begin(code, {}, "{}", 1))}


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(limits=Limits(cpu=0.1, wall=600))
    yield pool
    pool.close()


async def test_a_child_holds_nothing_but_its_connection(pool: Pool) -> None:
    async with pool.lease() as child:
        assert await child.request({"service": "echo", "value": {"a": [1]}}) == {"a": [1]}
        home = Path(f"/proc/{child.pid}")
        assert [os.readlink(link)[:6] for link in (home / "fd").iterdir()] == ["socket"]
        assert (home / "environ").read_bytes() == b""
        assert os.readlink(home / "cwd") == "/"
        limits = (home / "limits").read_text().splitlines()
    for name in ("Max core file size", "Max file size", "Max open files", "Max processes"):
        [line] = [line for line in limits if line.startswith(name)]
        assert line.removeprefix(name).split()[:2] == ["0", "0"]


async def test_the_loop_goes_on_while_a_program_burns_until_its_limit(pool: Pool) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1

    beating = asyncio.create_task(beat())
    with pytest.raises(ProgramStopped, match=r"more than 0\.1 seconds of processor time") as stopped:
        async with pool.lease() as child:
            await child.request(playing(BURN))
    beating.cancel()
    assert stopped.value.reason == "cpu"
    assert beats > 1000
    assert eventually(lambda: not is_alive(child.pid))


async def test_the_wall_limit_counts_where_no_processor_time_is_used(pool: Pool) -> None:
    pool.limits = Limits(cpu=60, wall=0.2)
    async with pool.lease() as child:
        await child.send({"service": "types", "document": document("x = await f()", tools={"f": {"id": "s:f"}})})
        assert (await child.receive())["type"] == "schemas"
        await asyncio.sleep(0.5)  # the child waits for its parent, which does not count
        await child.send({"schemas": None})
        assert (await child.receive())["value"][:2] == [[], []]
        # Nobody sends the next message, so the child never answers.
        with pytest.raises(ProgramStopped, match=r"longer than 0\.2 seconds"):
            await child.receive()


async def test_a_cancelled_request_kills_its_child_and_the_next_one_works(pool: Pool) -> None:
    pool.limits = Limits(cpu=600, wall=600)
    pids: list[int] = []
    has_begun = asyncio.Event()

    async def burn() -> None:
        async with pool.lease() as child:
            pids.append(child.pid)
            has_begun.set()
            await child.request(playing(BURN))

    burning = asyncio.create_task(burn())
    await has_begun.wait()
    await asyncio.sleep(0)
    burning.cancel()
    assert isinstance((await asyncio.gather(burning, return_exceptions=True))[0], asyncio.CancelledError)
    assert eventually(lambda: not is_alive(pids[0]))
    async with pool.lease() as child:
        assert await child.request({"service": "echo", "value": 1}) == 1


async def test_a_crash_ends_the_program_alone(pool: Pool) -> None:
    async with pool.lease() as child:
        await child.send(playing(BURN))
        os.kill(child.pid, signal.SIGSEGV)
        with pytest.raises(ProgramStopped) as stopped:
            await child.receive()
    assert stopped.value.reason == "died"
    async with pool.lease() as child:
        assert await child.request({"service": "echo", "value": 1}) == 1


async def test_a_message_has_at_most_16_megabytes_in_both_directions(pool: Pool) -> None:
    pool.limits = Limits(cpu=60, wall=600)
    text = "x" * (frames.MOST_BYTES - 100)
    with pytest.raises(ProgramStopped, match="its input"):
        async with pool.lease() as child:
            await child.request({"service": "echo", "value": text + text})
    with pytest.raises(ProgramStopped, match="its answer"):
        async with pool.lease() as child:
            await child.request(playing("x = 'a' * 9_000_000\nreturn [x, x]"))


async def test_memory_is_limited(pool: Pool) -> None:
    pool.limits = Limits(cpu=60, wall=600)
    async with pool.lease() as child:
        with suppress(ProgramStopped):
            [end] = await child.request(playing("z = [list(range(900_000)) for i in range(1000)]"))
            assert end["status"] == "stopped"


async def test_a_child_is_renewed_after_100_programs(pool: Pool) -> None:
    pids = []
    for number in range(MOST_PROGRAMS + 1):
        async with pool.lease() as child:
            assert await child.request({"service": "echo", "value": number}) == number
            pids.append(child.pid)
    assert len(set(pids[:-1])) == 1
    assert pids[-1] != pids[0]
    assert eventually(lambda: not is_alive(pids[0]))


async def test_a_child_that_died_while_it_was_idle_is_replaced(pool: Pool) -> None:
    async with pool.lease() as child:
        pid = child.pid
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not is_alive(pid))
    async with pool.lease() as child:
        assert await child.request({"service": "echo", "value": 1}) == 1


async def test_no_more_programs_compute_at_once_than_the_pool_allows() -> None:
    pool, active, most = Pool(most=2, limits=Limits(cpu=60, wall=600)), 0, 0

    async def program() -> None:
        nonlocal active, most
        async with pool.lease() as child:
            active += 1
            most = max(most, active)
            await child.request({"service": "echo", "value": 1})
            await asyncio.sleep(0.01)
            active -= 1

    programs = [asyncio.create_task(program()) for _ in range(8)]
    programs[5].cancel()
    await asyncio.gather(*programs, return_exceptions=True)
    assert (most, active) == (2, 0)
    await program()
    pool.close()


async def test_a_question_that_blocks_a_loop_waits_for_no_program_of_this_loop() -> None:
    pool = Pool(most=1, limits=Limits(cpu=60, wall=600))
    async with pool.lease():
        with pool.lease_sync() as child:
            assert child.converse_sync(iter([{"service": "echo", "value": 1}])) == 1  # type: ignore[arg-type]
        assert pool.leases == 1
    assert pool.leases == 0
    pool.close()


def test_threads_with_loops_of_their_own_share_the_pool() -> None:
    results: list[Any] = []

    def work(number: int) -> None:
        with_own_loop = App("memory").run_sync({"kind": "plan", "code": f"return {number}", "origin": "model"})
        results.append(with_own_loop.value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 1, 2, 3]


PARENT = """
import asyncio, os, sys
from ropewalk.plans.boundary.pool import Limits, pool
pool().limits = Limits(cpu=600, wall=600)
async def main():
    async with pool().lease() as child:
        await child.request({"service": "echo", "value": 1})
        print(child.pid, pool()._forks._forker.pid, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_no_child_outlives_its_parent_even_where_it_runs_no_code_of_its_own(sign: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    assert all(map(is_alive, pids))
    os.kill(pids[0], signal.SIGSTOP)  # as in C code, nothing of Python runs
    parent.send_signal(sign)
    parent.wait(60)
    parent.stdout.close()
    assert eventually(lambda: not any(map(is_alive, pids)))


FORKED = """
import asyncio, os
from ropewalk.plans.boundary.pool import pool
async def echo(value):
    async with pool().lease() as child:
        return await child.request({"service": "echo", "value": value}), child.pid
first = asyncio.run(echo(1))
pid = os.fork()
if pid == 0:
    second = asyncio.run(echo(2))
    os._exit(0 if second[0] == 2 and second[1] != first[1] else 1)
assert os.waitpid(pid, 0)[1] == 0
assert asyncio.run(echo(3)) == (3, first[1])
print("ok")
"""


@pytest.mark.process
def test_a_forked_process_has_a_pool_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ok\n", "")


# --- what the parent judges --------------------------------------------------------------------


async def test_a_plan_from_outside_is_read_and_computed_in_children() -> None:
    for document in ({"kind": "plan", "code": "x = 1"}, {"code": "x = 1"}):
        assert with_origin(document) == {**document, "origin": "model"}


PROBLEM = {"path": "code", "message": "x"}
FORGED: list[tuple[str, Any]] = [
    ("names", {"names": [1], "values": []}),
    ("names", ["search"]),
    ("compile", {"problems": [{"message": "x"}]}),
    ("compile", {"problems": ["x"]}),
    ("compile", {"input": 3, "outline": {}}),
    ("compile", {}),
    ("compile", None),
    ("types", [[PROBLEM], {}]),
    ("types", [[PROBLEM], [{}], None]),
]


@pytest.mark.parametrize(("service", "answer"), FORGED)
def test_the_parent_refuses_answers_that_no_child_gives(service: str, answer: Any) -> None:
    with pytest.raises(ProgramStopped, match="what no program can ask for"):
        judged({"service": service}, answer)


# --- no raw exception leaves a check -----------------------------------------------------------

DEEP = {
    "2,500 elif": "x = 1\nif x == 0:\n    y = 0\n"
    + "".join(f"elif x == {i}:\n    y = {i}\n" for i in range(1, 2500))
    + "return x",
    "a sum of 5,000": "x = " + "+".join(["1"] * 5000),
    "a chain of lambdas": "x = " + "lambda: " * 3000 + "1",
    "parentheses": "x = " + "(" * 3000 + "1" + ")" * 3000,
    "conditional expressions": "x = " + "1 if await f(x=1) else " * 900 + "1\nreturn x",
}
WIDE = {
    "800 awaits in one and": "r = " + " and ".join(f"await f(x={i + 1})" for i in range(800)) + "\nreturn r",
    "1,200 closures": "def g0():\n    return 1\n"
    + "".join(f"def g{i}():\n    return g{i - 1}()\n" for i in range(1, 1200))
    + "x = await f(x=g50())\nreturn x",
}


@tool
async def f(x: int) -> int:
    """Give the number back."""
    return x


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("is_of_model", [True, False])
async def test_what_nests_too_deeply_is_a_problem_with_a_line(name: str, is_of_model: bool) -> None:
    async with App("memory") as app:
        app.toolbox.register(f)
        if is_of_model:
            result: Any = await app.plans.check_plan(DEEP[name])
            assert not result["ok"]
            assert all(isinstance(problem["line"], int) for problem in result["problems"]), result
        else:
            with pytest.raises(InvalidFlow) as wrong:
                await app.run({"kind": "plan", "code": DEEP[name]})
            assert all(problem.column is not None for problem in wrong.value.problems)


@pytest.mark.parametrize(("name", "result"), [*zip(WIDE, (800, 1), strict=True)])
@pytest.mark.parametrize("is_of_model", [True, False])
async def test_what_is_wide_and_not_deep_runs(name: str, result: int, is_of_model: bool) -> None:
    async with App("memory") as app:
        app.toolbox.register(f)
        origin = {"origin": "model"} if is_of_model else {}
        assert (await app.run({"kind": "plan", "code": WIDE[name], **origin})).value == result


async def test_work_that_is_cancelled_after_its_requester_is_discarded_silently() -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    work = asyncio.ensure_future(asyncio.Event().wait())
    request = asyncio.ensure_future(_finished(work, complaints.append))
    await asyncio.sleep(0)
    request.cancel()
    await asyncio.wait([request])
    work.cancel()
    await asyncio.wait([work])
    await asyncio.sleep(0)
    assert complaints == []
