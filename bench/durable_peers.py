"""Other durable engines over the same database, each only where it is installed: DBOS steps, LangGraph
with its savers. Written as their own documents show, with their defaults."""

from __future__ import annotations

import asyncio
import importlib
import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import floor
from peers import _Value, _Values

Work = Callable[[], Any]


class Dbos:
    needs: ClassVar = {"sqlite": ["dbos"], "postgres": ["dbos", "psycopg"]}

    def __init__(self, store: str, url: str) -> None:
        from dbos import DBOS

        self._dbos = DBOS
        where = f"{url}.dbos" if store.startswith("sqlite") else _plain(url)
        DBOS(config={"name": "bench", "system_database_url": where, "log_level": "CRITICAL"})

        @DBOS.step()
        async def step(x: int) -> int:
            return await floor.at_once(x)

        @DBOS.workflow()
        async def chain(steps: int) -> None:
            value = 0
            for _ in range(steps):
                value = await step(value)

        @DBOS.workflow()
        async def wide(steps: int) -> None:
            await asyncio.gather(*[step(i) for i in range(steps)])

        self._flows = {"sequential": chain, "fan-out": wide, "many": chain}
        DBOS.launch()

    def work(self, kind: str, runs: int, steps: int) -> Work:
        go = self._flows[kind]

        async def run() -> None:
            await asyncio.gather(*[go(steps) for _ in range(runs)])

        return run

    def close(self) -> None:
        self._dbos.destroy()


class LangGraph:
    needs: ClassVar = {"sqlite": ["langgraph.checkpoint.sqlite.aio"], "postgres": ["langgraph.checkpoint.postgres.aio"]}

    def __init__(self, store: str, url: str) -> None:
        self._store, self._url = store, url
        self._open: dict[Any, tuple[Any, Any]] = {}  # a saver belongs to its event loop
        self._threads = itertools.count()

    def work(self, kind: str, runs: int, steps: int) -> Work:
        build = self._wide(steps) if kind == "fan-out" else self._chain(steps)
        built: dict[Any, Any] = {}
        start = {"values": []} if kind == "fan-out" else {"value": 0}

        async def run() -> None:
            loop = asyncio.get_running_loop()
            if loop not in built:
                built[loop] = build.compile(checkpointer=await self._saver(loop))

            def config() -> dict[str, Any]:
                return {"recursion_limit": steps + 10, "configurable": {"thread_id": f"{kind}-{next(self._threads)}"}}

            await asyncio.gather(*[built[loop].ainvoke(start, config()) for _ in range(runs)])

        return run

    def close(self) -> None:
        self._open.clear()

    async def _saver(self, loop: Any) -> Any:
        if loop not in self._open:
            if self._store.startswith("sqlite"):
                from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

                context = AsyncSqliteSaver.from_conn_string(self._url.removeprefix("sqlite:///") + ".langgraph")
            else:
                from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

                context = AsyncPostgresSaver.from_conn_string(_plain(self._url))
            saver = await context.__aenter__()
            await saver.setup()
            self._open[loop] = (context, saver)
        return self._open[loop][1]

    def _chain(self, steps: int) -> Any:
        from langgraph.graph import START, StateGraph

        async def step(state: _Value) -> _Value:
            return {"value": await floor.at_once(state["value"])}

        graph = StateGraph(_Value)
        for i in range(steps):
            graph.add_node(f"n{i}", step)
            graph.add_edge(f"n{i - 1}" if i else START, f"n{i}")
        return graph

    def _wide(self, steps: int) -> Any:
        from langgraph.graph import START, StateGraph
        from langgraph.types import Send

        async def step(state: _Value) -> dict[str, list[int]]:
            return {"values": [await floor.at_once(state["value"])]}

        graph = StateGraph(_Values)
        graph.add_node("step", step)
        graph.add_conditional_edges(START, lambda _: [Send("step", {"value": i}) for i in range(steps)], ["step"])
        return graph


PEERS: dict[str, Any] = {"DBOS": Dbos, "LangGraph": LangGraph}


def installed(store: str, url: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The peers that are here, ready to work on a database of their own, and why the others are not."""
    here, missing = {}, {}
    for name, peer in PEERS.items():
        try:
            for module in peer.needs[store.removesuffix("-full")]:
                importlib.import_module(module)
            here[name] = peer(store, url)
        except Exception as error:  # noqa: BLE001 - whatever ails a peer, it is left out and named
            missing[f"{name}, {store}"] = f"{type(error).__name__}: {str(error)[:120]}"
    return here, missing


def _plain(url: str) -> str:
    """The database, without what is Ropewalk's in the address."""
    return url.replace("?schema=ropewalk_bench", "").replace("&schema=ropewalk_bench", "")
