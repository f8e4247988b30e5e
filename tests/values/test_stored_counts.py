"""A stored definition counts every run of it, however the run was started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.journal.address import open_store
from ropewalk.journal.protocol import Store

pytestmark = pytest.mark.anyio
NODES = [{"id": "n", "type": "tool", "tool": "answer"}]


def answer() -> int:
    """Give a number."""
    return 42


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = open_store("memory" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db")
    yield made
    made.close()


@pytest.mark.parametrize("kind", ["chains", "compositions"])
async def test_each_way_of_running_counts_once(store: Store, kind: str) -> None:
    async with App(store, tools=[answer]) as app:
        stored = getattr(app, kind)
        create = stored.create_chain if kind == "chains" else stored.create_composition
        execute = stored.execute_chain if kind == "chains" else stored.execute_composition
        get = stored.get_chain if kind == "chains" else stored.get_composition
        made = await create({"id": "stored", "name": "stored", "nodes": NODES})

        async def count() -> int:
            record = await get("stored")
            return int(record["metadata"]["runCount"])

        assert await count() == 0
        await execute("stored")
        assert await count() == 1
        await app.run("stored")
        assert await count() == 2
        await app.run(made)
        assert await count() == 3
        app.toolbox.register(app.as_tool("stored", name="by_tool"))
        await app.run({"kind": "chain", "name": "o", "nodes": [{"id": "x", "type": "tool", "tool": "by_tool"}]})
        assert await count() == 4
        # The same document, not stored, is somebody else's run.
        await app.run({"kind": kind[:-1], "id": "stored", "name": "stored", "nodes": NODES})
        assert await count() == 4
