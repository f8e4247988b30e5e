"""What the tests of the engine share: short ways to build flows and run them, and a test runner
that lets no test leave a task or a cancellation behind."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from patience import BOUND
from properties.virtual_time import run_virtually
from ropewalk.check import check
from ropewalk.engine.engine import Engine, Job, run_flow
from ropewalk.engine.run import Ending
from ropewalk.expr.ast import NULL, Expr, Lit, Obj, Ref
from ropewalk.ir import Channel, Flow, Graph, Node, OnError, Policy
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import NewRun, Store
from ropewalk.ops import Block, Call, Compute, Map

HANDLED = Policy(on_error=OnError(value=Lit("handled")))
NOTHING = Obj(())


@pytest.hookimpl
def run_async_test(pyfuncitem: pytest.Function) -> bool | None:
    """Run each `async def` test in its own loop, which is clean at its end.

    With the marker `virtual_time`, no test waits for a timer: time moves when nothing else is left to do. Tests that
    ask for `tmp_path` have a store with a thread, for which nobody can tell what is left to do.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    given = {name: pyfuncitem.funcargs[name] for name in names}

    async def whole() -> None:
        with leaves_nothing():
            await pyfuncitem.obj(**given)

    async def bounded() -> None:
        async with asyncio.timeout(BOUND):
            await whole()

    if pyfuncitem.get_closest_marker("virtual_time") and "tmp_path" not in pyfuncitem.fixturenames:
        run_virtually(lambda clock: whole())
    else:
        asyncio.run(bounded())
    return True


def _closes_a_client(task: asyncio.Task[Any]) -> bool:
    """Return True for the task by which the Anthropic SDK closes a client that the garbage collector met: another
    test's client, in this test's loop."""
    return getattr(task.get_coro(), "__qualname__", "") == "AsyncClient.aclose"


@contextmanager
def leaves_nothing() -> Iterator[None]:
    """No task is left running, and this task has no cancellation that nobody took back."""
    me = asyncio.current_task()
    assert me is not None
    tasks, count = asyncio.all_tasks(), me.cancelling()
    yield
    left = {task for task in asyncio.all_tasks() - tasks if not task.done() and not _closes_a_client(task)}
    assert not left, f"still running: {left}"
    assert me.cancelling() == count, "a cancellation is left over in the caller's task"


async def turns(count: int = 20) -> None:
    """Let every task continue for so many turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


# --- flows -----------------------------------------------------------------------------------


def lit(value: Any) -> Lit:
    return Lit(value)


def out(id: str, *path: str | int) -> Ref:
    return Ref("out", (id, *path))


def obj(**fields: Expr) -> Obj:
    return Obj(tuple(fields.items()))


def call(id: str, tool: str | None = None, args: Expr = NOTHING, **more: Any) -> Node:
    """A node that calls `tool` (the tool of its own name)."""
    return Node(id=id, op=Call(tool=tool or id, args=args), **_set(more))


def compute(id: str, value: Expr = NULL, **more: Any) -> Node:
    return Node(id=id, op=Compute(value=value), **_set(more))


def node(id: str, op: Any, **more: Any) -> Node:
    return Node(id=id, op=op, **_set(more))


def block(id: str, *nodes: Node, ordered: bool = False, result: Expr = NULL, **more: Any) -> Node:
    return Node(id=id, op=Block(body=Graph(nodes=nodes, ordered=ordered, result=result)), **_set(more))


def each(id: str, items: Any, *nodes: Node, limit: int | None = None, result: Expr = NULL, **more: Any) -> Node:
    """A Map over `items` whose body is a line."""
    items = items if isinstance(items, Ref) else Lit(items)
    body = Graph(nodes=nodes, ordered=True, result=result)
    return Node(id=id, op=Map(items=items, body=body, limit=limit), **_set(more))


def line(*nodes: Node, result: Expr = NULL) -> Graph:
    return Graph(nodes=nodes, ordered=True, result=result)


def graph(*nodes: Node, result: Expr = NULL, limit: int | None = None) -> Graph:
    return Graph(nodes=nodes, result=result, limit=limit)


def flow(body: Graph, **more: Any) -> Flow:
    """A checked flow; `state` gives channels or initial values by name."""
    state = {n: c if isinstance(c, Channel) else Channel(initial=c) for n, c in more.pop("state", {}).items()}
    made = Flow(name="f", body=body, state=state, **more)
    problems = check(made).problems
    assert not problems, problems
    return made


def _set(more: dict[str, Any]) -> dict[str, Any]:
    if "after" in more:
        after = more["after"]
        more["after"] = frozenset({after} if isinstance(after, str) else after)
    return more


# --- running ---------------------------------------------------------------------------------


def job(what: Flow | Graph, tools: Any, run_id: str = "r", **more: Any) -> Job:
    """A job that renders its ending as status, value, state, outputs and failures."""
    made = what if isinstance(what, Flow) else flow(what)
    told = {
        name: more.pop(name) for name in list(more) if name in ("fingerprint", "input", "context", "document", "parent")
    }
    new = NewRun(id=run_id, kind="flow", name=made.name, **{"fingerprint": "one", **told})
    allowed = frozenset(("TOKEN", "KEY"))  # what the tests of secrets read
    return Job(
        **{
            "new": new,
            "allowed": allowed,
            "input": new.input,
            "flow": made,
            "caller": tools,
            "render": rendered,
            **more,
        }
    )


def rendered(ending: Ending) -> dict[str, Any]:
    return {
        "status": ending.status,
        "value": ending.value,
        "state": ending.state,
        "outputs": ending.outputs,
        "failures": sorted(f"{f.path}: {f.message}" for f in ending.failures),
        "error": None if ending.error is None else f"{type(ending.error).__name__}: {ending.error}",
    }


async def once(what: Flow | Graph, tools: Any, input: Any = None) -> Ending:
    """Run a flow once, without any store."""
    return await run_flow(what if isinstance(what, Flow) else flow(what), tools, input)


async def on(store: Store | None, what: Flow | Graph, tools: Any, run_id: str = "r", **more: Any) -> dict[str, Any]:
    """Run a flow on a store (a durable one in memory) and give what `rendered` makes of it."""
    engine = Engine(store if store is not None else MemoryStore(durable=True))
    return await engine.run(job(what, tools, run_id, **more))


async def resumed(store: Store, what: Flow | Graph, tools: Any, run_id: str = "r", **more: Any) -> dict[str, Any]:
    """Go on with a run whose process died."""
    return await Engine(store).drive(job(what, tools, run_id, **more), await store.reopen(run_id))


Way = Callable[[Flow | Graph, Any], Awaitable[dict[str, Any]]]


async def bare(what: Flow | Graph, tools: Any) -> dict[str, Any]:
    return rendered(await once(what, tools))


async def in_memory(what: Flow | Graph, tools: Any) -> dict[str, Any]:
    return await on(MemoryStore(), what, tools)


async def durably(what: Flow | Graph, tools: Any) -> dict[str, Any]:
    return await on(MemoryStore(durable=True), what, tools)


async def watched(what: Flow | Graph, tools: Any) -> dict[str, Any]:
    return await on(MemoryStore(), what, tools, watcher=lambda event: None)


WAYS = [bare, in_memory, durably, watched]
"""The ways a program is built: each compiles the same flow to other closures."""

every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def swallows(value: Any = "swallowed") -> Callable[[], Any]:
    """A tool that gives a value where it is cancelled."""

    async def tool() -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return value

    return tool
