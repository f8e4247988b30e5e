"""While the server of a store is away, whoever waits for it on an event loop holds up nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from postgres_server import PostgresServer, fresh
from ropewalk.app.app import App
from ropewalk.journal.postgres import store as postgres_writer
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.protocol import NewRun


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    yield from fresh(postgres_server.url)


async def resumed(app: App) -> Any:
    return (await app.resume("r"))["status"]


async def watched(app: App) -> Any:
    return [event.kind async for event in app.runs.watch("r")][-1]


async def run_again(app: App) -> Any:
    with pytest.raises(Exception, match=r"has completed|cannot") as told:
        await app.runs.retry("r")
    return type(told.value).__name__


@pytest.mark.parametrize(
    ("ask", "answer"), [(resumed, "completed"), (watched, "run.finished"), (run_again, "NothingToRetry")]
)
def test_the_loop_goes_on_while_the_server_is_away(
    url: str,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[App], Awaitable[Any]],
    answer: str,
) -> None:
    monkeypatch.setattr(postgres_writer, "PATIENCE", 10.0)

    async def test() -> None:
        store = PostgresStore(url)
        app = App(store)
        document = {"kind": "chain", "name": "c", "nodes": [{"id": "n", "type": "transform", "input": [1]}]}
        await app.run(document, run_id="r")
        postgres_server.down()
        try:
            asked = asyncio.ensure_future(ask(app))
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # It has asked by now. On the loop, this would not come back before it gives up.
        finally:
            postgres_server.up()
        assert await asked == answer
        store.close()

    asyncio.run(test())


def test_only_a_store_with_a_server_is_remote(url: str, tmp_path: Any) -> None:
    async def opened() -> None:
        store = PostgresStore(url)
        await store.open(NewRun(id="r", kind="chain"))
        assert store.remote
        store.close()
        assert not App("memory").store.remote
        assert not App(f"sqlite:///{tmp_path}/s.db").store.remote

    asyncio.run(opened())
