"""The same work as tool chains of Ropewalk. To be compared with floor.py line by line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import floor
from ropewalk import flow
from ropewalk.app.app import App
from ropewalk.engine.compile.program import compile_flow
from ropewalk.engine.run import Run
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.tools.runner import Runner
from ropewalk.tools.tool import Tool

Json = Any
Work = Callable[[], Awaitable[Any]]
LONG = 600_000  # milliseconds: no case is to be cut off on a slow machine


# --- documents ------------------------------------------------------------------------------


def chain(nodes: int) -> dict[str, Json]:
    return _document(
        [{"id": f"n{i}", "type": "tool", "tool": "step", "params": {"x": "$prev" if i else 0}} for i in range(nodes)],
        mode="sequential",
    )


def fan_out(nodes: int, limit: int | None = None) -> dict[str, Json]:
    listed = [{"id": f"n{i}", "type": "tool", "tool": "step", "params": {"x": i}} for i in range(nodes)]
    return _document(listed, mode="parallel", concurrency=limit or nodes)


def dag(nodes: int) -> dict[str, Json]:
    listed: list[Json] = []
    for i, needs in enumerate(floor.dag_needs(nodes)):
        node: dict[str, Json] = {"id": f"n{i}", "type": "tool", "tool": "add"}
        if needs is None:
            node["params"] = {"x": i, "y": i}
        else:
            node["dependsOn"] = [f"n{need}" for need in dict.fromkeys(needs)]
            node["params"] = {"x": f"$output.n{needs[0]}", "y": f"$output.n{needs[1]}"}
        listed.append(node)
    return _document(listed, mode="dag", concurrency=nodes)


def loop(rounds: int) -> dict[str, Json]:
    step = {"id": "step", "type": "tool", "tool": "step", "params": {"x": "$var.x"}, "outputVar": "x"}
    return _document([step], mode="loop", variables={"x": 0}, maxIterations=rounds + 1, until=f"$var.x >= {rounds}")


def noted(nodes: int) -> dict[str, tuple[Any, str]]:
    """The same chain in every notation, each with the word for its value in the result."""
    ids = [f"n{i}" for i in range(nodes)]
    given = ["$prev" if i else 0 for i in range(nodes)]
    composition = [
        {"id": id, "type": "TOOL", "tool": "step", "inputMapping": {"x": x}} for id, x in zip(ids, given, strict=True)
    ]
    steps = [{"name": id, "tool": "step", "inputMapping": {"x": x}} for id, x in zip(ids, given, strict=True)]
    with flow("bench") as plain:
        last: Any = 0
        for _ in ids:
            last = plain.call("step", x=last)
        plain.result({"last": last})
    return {
        "python": (plain.done(), "result"),
        "chain": (chain(nodes), "results"),
        "composition": ({"kind": "composition", "name": "bench", "nodes": composition}, "data"),
        "composite": ({"kind": "composite", "name": "bench", "mode": "compose", "steps": steps}, "result"),
    }


def stateful(nodes: int) -> dict[str, tuple[Any, str]]:
    """A chain that passes its value on through state, as experiences do, in Python and as an experience."""
    calls = [
        {"id": f"n{i}", "kind": "call", "tool": "step", "args": {"x": "$.x"}, "writes": ["x"]} for i in range(nodes)
    ]
    edges = [{"from": f"n{i}", "to": f"n{i + 1}"} for i in range(nodes - 1)]
    state = {"schema": {"x": {"type": "number", "default": 0}}}
    with flow("bench") as plain:
        x = plain.state("x", float, initial=0)
        for _ in range(nodes):
            plain.options(into=x).call("step", x=x)
    experience = {"name": "bench", "version": "0.1.0", "state": state, "graph": {"nodes": calls, "edges": edges}}
    return {"python": (plain.done(), "state"), "experience": (experience, "finalState")}


def _document(nodes: list[Json], **rest: Json) -> dict[str, Json]:
    return {"kind": "chain", "name": "bench", "timeout": LONG, "nodes": nodes, **rest}


# --- how they are run -----------------------------------------------------------------------


class House:
    """An app with the tools of a case.

    `typed` tools have schemas for arguments and result, so both are checked at every call; the
    others take any object and give anything, and results are checked only to be JSON.
    """

    def __init__(self, tool: Callable[..., Any], *, typed: bool = False, store: Any = "memory") -> None:
        takes, gives = (floor.NUMBER_IN, floor.NUMBER_OUT) if typed else ({"type": "object"}, None)
        self.app = App(store)
        self.app.toolbox.register(Tool("step", "", takes, gives, handler=tool))
        self.app.toolbox.register(Tool("add", "", {"type": "object"}, handler=floor.add))

    def close(self) -> None:
        self.app.store.close()

    def chain_id(self, document: dict[str, Json]) -> str:
        given = {key: value for key, value in document.items() if key != "kind"}
        return str(self.app.chains.core.create_chain(given).id)

    def executed(self, document: dict[str, Json]) -> Work:
        """As users run it: step records, a run in the store, events that nobody watches."""
        chain, execute = self.chain_id(document), self.app.chains.execute_chain

        async def run() -> Json:
            return (await execute(chain))["results"]

        return run

    def noted(self, source: Any, word: str) -> Work:
        """A definition of any notation; gives the value that the result has under `word`."""
        app, loaded = self.app, self.app.load(source)

        async def run() -> Json:
            result = (await app.execute(loaded))[word]
            if isinstance(result, dict):
                result = list(result.values())[-1]
            return result

        return run

    def bare(self, document: dict[str, Json]) -> Work:
        """The compiled program alone: nothing checked, no step records, no run in the store."""
        runner = Runner(index=self.app.toolbox, validate_input=False, validate_output=False)
        program = compile_flow(self.app.load(document).flow, runner, records=False)
        log = asyncio.run(_log())

        async def run() -> Json:
            return (await Run(program, "bench", None, log).execute()).outputs

        return run

    def fresh(self, document: dict[str, Json]) -> Work:
        """Read, check, compile and run a document that has never been seen."""
        count = [0]

        async def run() -> Json:
            count[0] += 1
            return (await self.app.run({**document, "name": f"bench {count[0]}"}))["results"]

        return run

    def compiled_and_run(self, document: dict[str, Json]) -> Work:
        """Compile a checked graph and run it once."""
        flow = self.app.load(document).flow
        log = asyncio.run(_log())

        async def run() -> Json:
            return (await Run(compile_flow(flow, self.app.runner), "bench", None, log).execute()).outputs

        return run

    def checked(self, document: dict[str, Json]) -> Callable[[], None]:
        """Read, check and compile, without running."""
        count = [0]

        def build() -> None:
            count[0] += 1
            loaded = self.app.load({**document, "name": f"bench {count[0]}"})
            self.app.ensure(loaded)
            compile_flow(loaded.flow, self.app.runner)

        return build

    def compiled(self, document: dict[str, Json]) -> Callable[[], None]:
        """Compile a checked graph, without running."""
        flow = self.app.load(document).flow
        return lambda: void(compile_flow(flow, self.app.runner))


def void(_: Any) -> None:
    return


def durable(tool: Callable[..., Any], folder: Path, sync: Any = "full") -> House:
    """A house over SQLite."""
    return House(tool, store=SqliteStore(folder / f"ours-{sync}.db", sync=sync))


async def _log() -> Any:
    return await MemoryStore().open(NewRun(id="bench", kind="chain", name="bench"))
