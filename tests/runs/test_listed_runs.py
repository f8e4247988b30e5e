"""Rows of `app.runs.list()`: attributes of the store's row, and the keys of `app.runs.get()`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk import App
from ropewalk.errors import NotFound

CHAIN: dict[str, Any] = {
    "kind": "chain",
    "name": "up",
    "nodes": [{"id": "v", "type": "tool", "tool": "upper", "params": {"t": "$input"}}],
}


def upper(t: str) -> str:
    return t.upper()


async def finished_run(app: App) -> None:
    await app.run(CHAIN, "a", run_id="r")


def test_a_row_has_every_key_of_get() -> None:
    async def case() -> None:
        async with App("memory", tools=[upper]) as app:
            await finished_run(app)
            [row] = app.runs.list()
            whole = app.runs.get("r")
            assert whole is not None
            assert set(row) == set(whole)
            assert len(row) == len(whole)
            for key in whole:
                assert row[key] == whole[key], key
            assert dict(row).keys() == whole.keys()
            assert (row["status"], row["result"]) == ("completed", {"v": "A"})

    asyncio.run(case())


def test_a_row_keeps_its_attributes_and_refuses_unknown_keys() -> None:
    async def case() -> None:
        async with App("memory", tools=[upper]) as app:
            await finished_run(app)
            [row] = app.runs.list()
            assert (row.id, row.status, row.input, row["input"]) == ("r", "completed", None, "a")
            assert "nodes" in row
            assert "node" not in row
            assert row.get("node") is None
            assert row.get("node", 5) == 5
            with pytest.raises(KeyError):
                row["node"]

    asyncio.run(case())


def test_a_line_is_read_without_the_journal() -> None:
    async def case() -> None:
        async with App("memory", tools=[upper]) as app:
            await finished_run(app)
            [row] = app.runs.list()
            app.runs.prune(keep=0)
            assert row["name"] == "up"
            with pytest.raises(NotFound):
                row["result"]

    asyncio.run(case())


def test_a_row_has_the_keys_that_only_a_list_has() -> None:
    async def case() -> None:
        async with App("memory", tools=[upper]) as app:
            await app.run(CHAIN, 1, run_id="failed")
            [row] = app.runs.list()
            assert (row["waiting"], row["undoStatus"], "waiting" in row) == (False, None, True)
            assert "string" in row["errorMessage"]

    asyncio.run(case())
