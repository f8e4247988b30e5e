"""Compiled programs: kept while flow and tools are the same, quick to make, linear, and nothing of
a run stays behind."""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counting import count_calls
from engine.lab import block, call, compute, each, every_way, flow, graph, job, line, lit, obj, once, out
from ropewalk.app.app import App
from ropewalk.check import check
from ropewalk.engine.compile.program import Program, compile_flow
from ropewalk.engine.engine import PROGRAMS, Engine, run_program
from ropewalk.engine.run import Run
from ropewalk.expr.ast import Arr, Ref
from ropewalk.ir import Channel, Flow
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.testing import ScriptedTools, fails, hangs
from ropewalk.tools.runner import ExecutorCaller, Runner
from ropewalk.tools.tool import tool
from ropewalk.tools.toolbox import Toolbox
from tiers import Scale, sampled

BODY = line(call("a", "t"), call("b", "t"))


# --- the cache -----------------------------------------------------------------------------------


def test_the_same_flow_with_the_same_tools_is_compiled_once() -> None:
    engine, tools = Engine(MemoryStore()), ScriptedTools(t=1)

    async def test() -> None:
        first = engine.program(job(BODY, tools))
        assert engine.program(job(BODY, tools, "another run")) is first
        assert engine.program(job(BODY, tools, fingerprint="two")) is not first
        assert engine.program(job(BODY, ScriptedTools(t=1))) is not first
        assert engine.program(job(BODY, tools, watcher=print)) is not first

    asyncio.run(test())


def test_a_changed_toolbox_makes_a_new_program_that_calls_the_new_tool() -> None:
    async def one() -> int:
        """One."""
        return 1

    async def two() -> int:
        """One."""
        return 2

    async def test() -> None:
        box = Toolbox()
        t = box.register(tool(name="t", description="T.")(one))
        runner = Runner(index=box)
        engine = Engine(MemoryStore())
        body = graph(call("a", "t"), result=out("a"))
        first = engine.program(job(body, runner))
        assert (await engine.run(job(body, runner, "1")))["value"] == 1
        box.register(t, two)
        assert engine.program(job(body, runner)) is not first
        assert (await engine.run(job(body, runner, "2")))["value"] == 2

    asyncio.run(test())


def test_the_cache_is_bounded() -> None:
    async def test() -> None:
        engine, tools = Engine(MemoryStore()), ScriptedTools(t=1)
        for n in range(PROGRAMS + 50):
            engine.program(job(BODY, tools, fingerprint=str(n)))
        assert len(engine._programs) == PROGRAMS

    asyncio.run(test())


def test_one_program_runs_in_many_tasks_and_loops_at_once() -> None:
    tools = ScriptedTools(echo=lambda n: asyncio.sleep(0, n))
    nodes = [call(f"n{i}", "echo", args=obj(n=Ref("input"))) for i in range(3)]
    body = graph(
        block("b", *nodes, result=out("n0")),
        each("m", [1, 2], call("x", "echo", args=obj(n=Ref("input"))), result=out("x")),
        result=obj(b=out("b"), m=out("m")),
    )
    program = compile_flow(flow(body), tools)

    async def many() -> None:
        endings = await asyncio.gather(*[run_program(program, n) for n in range(50)])
        assert [ending.value for ending in endings] == [{"b": n, "m": [n, n]} for n in range(50)]

    for _ in range(3):
        asyncio.run(many())


# --- size ----------------------------------------------------------------------------------------


def long_line(count: int) -> Flow:
    nodes = [call("n0", "t", args=obj(v=lit(0)))]
    nodes += [call(f"n{i}", "t", args=obj(v=out(f"n{i - 1}"))) for i in range(1, count)]
    return Flow(name="f", body=line(*nodes, result=out(f"n{count - 1}")))


def wide_graph(count: int) -> Flow:
    """Layers of ten, each node reading two of the layer before."""
    nodes = []
    for i in range(count):
        before = [f"n{(i // 10 - 1) * 10 + j}" for j in (i % 10, (i + 1) % 10)] if i >= 10 else []
        nodes.append(call(f"n{i}", "t", args=obj(**{f"v{k}": out(id) for k, id in enumerate(before)})))
    return Flow(name="f", body=graph(*nodes, result=out(f"n{count - 1}"), limit=8))


def variables(count: int) -> Flow:
    """A graph that is one long chain; each node writes a variable that the next one reads."""
    nodes = [call("n0", "t", writes=obj(v0=out("n0")))]
    for i in range(1, count):
        reads = obj(v=Ref("state", (f"v{i - 1}",)))
        nodes.append(call(f"n{i}", "t", args=reads, after=f"n{i - 1}", writes=obj(**{f"v{i}": out(f"n{i}")})))
    state = {f"v{i}": Channel() for i in range(count)}
    return Flow(name="f", body=graph(*nodes, result=out(f"n{count - 1}")), state=state)


def appending(count: int) -> Flow:
    """A graph that is one long chain over one list: each node appends to it."""
    nodes = [call(f"n{i}", "t", after=[f"n{i - 1}"] if i else [], writes=obj(v=Arr((lit(i),)))) for i in range(count)]
    result = out(f"n{count - 1}")
    return Flow(name="f", body=graph(*nodes, result=result), state={"v": Channel(reduce="array_append")})


def blind(count: int) -> Flow:
    """Layers of ten; what a node writes is not known before it runs, and each reads the whole state."""
    nodes = []
    for i in range(count):
        before = [f"n{(i // 10 - 1) * 10 + j}" for j in (i % 10, (i + 1) % 10)] if i >= 10 else []
        nodes.append(call(f"n{i}", "t", args=obj(s=Ref("state")), after=before, writes=lit({"v": 1})))
    result = out(f"n{count - 1}")
    return Flow(name="f", body=graph(*nodes, result=result), state={"v": Channel(reduce="sum", initial=0)})


SHAPES: dict[str, Callable[[int], Flow]] = {"line": long_line, "graph": wide_graph, "variables": variables}
SHAPES |= {"appending": appending, "blind": blind}


def one(**_: Any) -> int:
    return 1


@pytest.mark.parametrize("shape", sampled("sizes", SHAPES.values(), 3))
def test_many_nodes_are_checked_and_compiled_in_linear_time_and_run(shape: Callable[[int], Flow], scale: Scale) -> None:
    tools = ScriptedTools(t=one)
    few, many = (
        count_calls(lambda made=made: (check(made), compile_flow(made, tools)))  # type: ignore[misc]
        for made in (shape(200), shape(2_000))
    )
    assert many < 12 * few
    size = scale(2_000, 10_000)
    made = shape(size)
    assert not check(made).problems
    ending = asyncio.run(run_program(compile_flow(made, tools)))
    assert (ending.status, ending.value, tools.count("t")) == ("completed", 1, size)


def quickest(work: Callable[[], Any], enough: float = 0.0, times: int = 5) -> float:
    """Processor time of the quickest of some runs, the last of which took less than is `enough`.

    It is measured without the collector, which depends on everything else that is in memory.
    """
    best = float("inf")
    gc.disable()
    try:
        for _ in range(times):
            start = time.process_time()
            work()
            best = min(best, time.process_time() - start)
            if best < enough:
                break
    finally:
        gc.enable()
    return best


async def executor(name: str, params: Any) -> int:
    return 1


@pytest.mark.parametrize("what", ["compile", "run", "run durably"])
@pytest.mark.parametrize("shape", sampled("sizes", SHAPES.values(), 2))
def test_the_cost_of_a_node_does_not_grow_with_the_flow(shape: Callable[[int], Flow], what: str, scale: Scale) -> None:
    caller = ExecutorCaller(executor)
    few, many = scale((300, 3_000), (1_000, 10_000))

    def per_node(count: int, enough: float = 0.0) -> float:
        made = shape(count)
        engine = Engine(MemoryStore(durable=what == "run durably"))
        runs = itertools.count()

        def work() -> None:
            if what == "compile":
                compile_flow(made, caller)
            else:
                asyncio.run(engine.run(job(made, caller, str(next(runs)), render=lambda ending: {})))

        return quickest(work, enough * count) / count

    small = per_node(few)
    large = per_node(many, enough=6 * small)
    # Near 1 on an idle machine; quadratic would be 10.
    assert large < 6 * small, f"{small * 1e6:.1f} µs a node with {few:,}, {large * 1e6:.1f} µs with {many:,}"


# --- memory --------------------------------------------------------------------------------------


@pytest.fixture
def only_new_objects() -> None:
    """Hide from the collector what is in memory before the test: going through all of it takes seconds."""
    gc.collect(1)
    gc.freeze()


def alive(kind: type[Any]) -> int:
    gc.collect()
    return sum(isinstance(thing, kind) for thing in gc.get_objects())


@pytest.mark.usefixtures("only_new_objects")
@pytest.mark.parametrize("store", [None, "sqlite", "memory of ten"])
def test_nothing_of_ended_runs_stays_in_memory(store: str | None, tmp_path: Path) -> None:
    """Ended however they end. A memory store remembers as many as it was told to keep."""
    tools = ScriptedTools(t=1, bad=fails("no"), slow=hangs())
    bodies = [
        line(each("m", [1, 2, 3], call("t")), call("b", "t")),
        graph(call("a", "t"), block("b", call("c", "t"), call("d", "t"))),
        graph(call("a", "t"), call("bad"), call("slow")),
        flow(graph(call("slow"), call("s2", "slow")), timeout=0.005),
    ]

    async def test() -> None:
        opened = SqliteStore(tmp_path / "s.db") if store == "sqlite" else MemoryStore(keep=10)
        engine = Engine(opened) if store is not None else None
        for n in range(10):
            for i, body in enumerate(bodies):
                if engine is None:
                    await once(body, tools)
                else:
                    await engine.run(job(body, tools, f"{n}.{i}", fingerprint=str(i)))
            task = asyncio.ensure_future(once(graph(call("slow"), call("s2", "slow")), tools))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        del task, body
        tools.calls.clear()
        if engine is not None:
            assert not engine.live
        assert alive(Run) <= (10 if store == "memory of ten" else 0)
        assert len(asyncio.all_tasks()) == 1
        opened.close()

    asyncio.run(test())
    assert alive(Run) == 0
    assert alive(asyncio.Task) == 0


@pytest.mark.usefixtures("only_new_objects")
def test_a_program_does_not_hold_what_its_runs_made() -> None:
    tools = ScriptedTools(t=lambda: "x" * 1_000_000)
    program = compile_flow(flow(graph(call("a", "t"), call("b", "t"))), tools)
    asyncio.run(run_program(program))
    tools.calls.clear()
    gc.collect()
    large = [thing for thing in gc.get_objects() if isinstance(thing, list) and _holds_much(thing)]
    assert not large
    assert isinstance(program, Program)


def _holds_much(thing: list[Any]) -> bool:
    return any(type(item) is str and sys.getsizeof(item) >= 1_000_000 and item[:3] == "xxx" for item in thing)


@pytest.mark.usefixtures("only_new_objects")
def test_an_app_that_has_run_a_thousand_chains_is_no_larger() -> None:
    import tracemalloc

    async def test() -> None:
        async with App("memory", tools=[tool(name="t", description="T.")(_value)]) as app:
            chain = {"nodes": [{"id": "a", "type": "tool", "tool": "t"}]}
            for _ in range(1200):
                await app.run(chain)
            gc.collect()
            tracemalloc.start()
            first = tracemalloc.get_traced_memory()[0]
            for _ in range(1200):
                await app.run(chain)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - first
            tracemalloc.stop()
            # The thousand it remembers were made before tracing began and are replaced: no more than theirs.
            assert grown < 1200 * 8_000, f"{grown:,} bytes"
            assert len(app.runs.list(limit=5000)) == 1000

    asyncio.run(test())


async def _value() -> int:
    return 1


@every_way
async def test_an_empty_flow_has_a_value(way: Any) -> None:
    assert (await way(graph(result=lit(1)), None_)) | {"outputs": {}} == {
        "status": "completed", "value": 1, "state": {}, "outputs": {}, "failures": [], "error": None,
    }  # fmt: skip
    assert (await way(line(compute("c", lit(2)), result=out("c")), None_))["value"] == 2


None_ = ScriptedTools()
