"""NaN, NUL, lone surrogates, huge integers, a hundred megabytes: every store gives the same answer, at once and when it
is asked again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine.test_engine_values import FINE, NOT_JSON, deep
from faults.tally import Counts
from ropewalk.app.app import App
from ropewalk.errors import RopewalkError
from ropewalk.testing import ScriptedTools
from ropewalk.values import MAX_BYTES
from tiers import sampled

CHAIN = {
    "kind": "chain",
    "name": "odd",
    "errorStrategy": "continue",
    "nodes": [
        {"id": "odd", "type": "tool", "tool": "odd"},
        {"id": "passed", "type": "tool", "tool": "echo", "params": {"v": "$output.odd"}},
        {"id": "after", "type": "tool", "tool": "echo", "params": {"v": 1}},
    ],
}
SIZES = {
    "the largest": (MAX_BYTES - 2, ("completed", MAX_BYTES - 2, MAX_BYTES - 2)),
    "too large": (MAX_BYTES - 1, ("partial", 0, 0)),
}
"""So many bytes of text as a tool's output: how the run ends, how many are recorded, how many are in its result."""

STORES = ("sqlite", "postgres")
CASES = sampled(
    "faults", [(store, name) for at, name in enumerate(SIZES) for store in (STORES if at % 2 == 0 else STORES[::-1])], 2
)
"""Each size on one store in the slice, and on both in the campaign."""


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_url") if request.param == "postgres" else tmp_path / "s.db")


async def _answers(store: str, tools: ScriptedTools, id: str, input: Any = None) -> list[Any]:
    """What the run says, and what its store says of it afterwards."""
    async with App(store) as app:
        try:
            done = await app.run(CHAIN, input, run_id=id, executor=tools)
        except RopewalkError as error:
            return [type(error).__name__, str(error)]
        told = [done.status, done.results, [error["message"] for error in done.to_dict().get("errors") or []]]
        row = app.store.get_run(id)
        assert row is not None
        assert row.result is not None
        history = app.store.history(id)
        return [
            *told,
            row.status,
            row.result["results"],
            sorted((one.path, one.data) for one in history if one.kind == "call"),
        ]


def test_odd_values_get_the_same_answer_from_every_store(address: str, counts: Counts) -> None:
    counts.item = f"NaN, NUL, surrogates, huge integers: {'Postgres' if '://' in address else 'SQLite'}"

    async def test() -> None:
        for name, value in {**NOT_JSON, **FINE}.items():
            for way, given, tools in (
                ("output", None, ScriptedTools(odd=lambda value=value: value, echo=lambda v: v)),
                ("input", value, ScriptedTools(odd=1, echo=lambda v: v)),
            ):
                id = f"{way} {name}".replace("**", "^")
                memory = await _answers("memory", tools, id, given)
                counts.points += 1
                if await _answers(address, tools, id, given) != memory:
                    counts.wrong.append(id)
        for levels in (201, 230):
            refused = await _answers(address, ScriptedTools(odd=1, echo=1), f"input {levels}", deep(levels))
            assert refused[0] == "InvalidInput", "an input is never changed without a word"
            assert refused[1].endswith("nested deeper than 200")

    asyncio.run(test())
    counts.clean()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("address", "name"), CASES, indirect=["address"])
def test_a_hundred_megabytes_get_the_same_answer_from_every_store(address: str, name: str, counts: Counts) -> None:
    size, expected = SIZES[name]
    counts.item = f"100 MB outputs: {'Postgres' if '://' in address else 'SQLite'}"

    async def test() -> None:
        tools = ScriptedTools(odd=lambda: "x" * size, echo=1)
        chain = {**CHAIN, "nodes": [CHAIN["nodes"][0], CHAIN["nodes"][2]]}  # type: ignore[index]
        async with App(address) as app:
            done = await app.run(chain, run_id="r", executor=tools)
            again = await app.resume("r")
            counts.points += 1
            history = {one.path: one.data for one in app.store.history("r") if one.kind == "call"}
        assert (done.status, done.results) == (again.status, again.results), "the same when it is asked again"
        assert history["after"] == 1
        assert (done.status, len(history.get("odd") or ""), len(done.results.get("odd") or "")) == expected

    asyncio.run(test())
    counts.clean()
