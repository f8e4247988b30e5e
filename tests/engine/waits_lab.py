"""What the tests of waits share: a run in a task, and who sends it something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.lab import block, compute, each, graph, job, line, lit, node, out
from ropewalk.engine.engine import Engine
from ropewalk.events import Event
from ropewalk.expr.ast import Fn, Obj, Ref
from ropewalk.ir import Graph, Node
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Store
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.ops import Loop, Wait
from ropewalk.testing import ScriptedTools

STORES: dict[str, Callable[[Path], Store]] = {
    "in memory": lambda path: MemoryStore(),
    "durably in memory": lambda path: MemoryStore(durable=True),
    "sqlite": lambda path: SqliteStore(path / "store.db", poll=0.05),
}


def event(id: str, name: Any = None, timeout: float | None = None, **more: Any) -> Node:
    text = name if isinstance(name, (Ref, Fn)) else lit(name or id)
    return node(id, Wait(event=text, timeout=None if timeout is None else lit(timeout)), **more)


def approval(id: str, text: str = "Send it?", **more: Any) -> Node:
    return node(id, Wait(approval=lit(text)), **more)


class Started:
    """A run in a task, and the events it has told."""

    def __init__(self, store: Store, body: Any, tools: Any = None, **more: Any) -> None:
        self.events: list[Event] = []
        self.news = asyncio.Event()
        self.store, self.engine = store, Engine(store)
        self.job = job(body, tools or ScriptedTools(), watcher=self.take, **more)
        self.task = asyncio.ensure_future(self.engine.run(self.job))

    def take(self, event: Event) -> None:
        self.events.append(event)
        self.news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.news.clear()
            news = asyncio.ensure_future(self.news.wait())
            await asyncio.wait([news, self.task], return_when="FIRST_COMPLETED")
            news.cancel()
            if self.task.done() and not holds():
                raise AssertionError(f"the run has ended: {self.task}")

    async def waits(self, *paths: str) -> Started:
        """Until there is a wait at each of these paths."""
        await self.until(lambda: set(paths) <= {e.path for e in self.events if e.kind == "wait.started"})
        return self

    def send(self, name: str, payload: Any = None) -> None:
        self.store.send("r", name, payload)

    def approve(self, path: str, **said: Any) -> None:
        self.send(f"approval:{path}", {"approved": True, **said})

    async def kill(self) -> None:
        """The process is gone: the run is left as it is."""
        self.task.cancel()
        await asyncio.wait([self.task])


def both(**values: Any) -> Obj:
    return Obj(tuple(values.items()))


A, B = event("a"), event("b")
W = event("w", Ref("item"))
AFTER = compute("c", both(a=out("a"), b=out("b")), after="a")
LISTED = Loop(body=line(W, result=out("w")), items=lit(["a", "b"]))
INSIDE: dict[str, tuple[Graph, list[str], Any]] = {
    "a dag": (graph(A, B, AFTER, result=out("c")), ["a", "b"], {"a": "A", "b": "B"}),
    "a block": (line(block("p", A, B, result=out("b")), result=out("p")), ["p/a", "p/b"], "B"),
    "a nested block": (
        line(block("p", block("q", A, result=out("a")), B, result=out("q")), result=out("p")),
        ["p/q/a", "p/b"],
        "A",
    ),
    "a loop": (line(node("l", LISTED), result=out("l")), ["l[0]/w"], ["A", "B"]),
    "a map": (
        line(each("m", ["a", "b"], W, result=out("w")), result=out("m")),
        ["m[0]/w", "m[1]/w"],
        ["A", "B"],
    ),
    "a narrow map": (
        line(each("m", ["a", "b"], W, limit=1, result=out("w")), result=out("m")),
        ["m[0]/w"],
        ["A", "B"],
    ),
}
