"""The result of a run that was stored in parts is the result that its caller got, read by whoever asks later."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fork_server
from postgres_server import fresh
from ropewalk.app.app import App
from ropewalk.errors import StoreError
from ropewalk.journal.address import open_store
from ropewalk.testing import DyingStore, ScriptedTools
from tiers import examples

SIZES = (0, 10, 999, 1_000, 4_000, 63_998, 63_999, 200_000)
"""Characters of a text: on both sides of each limit between ways to store it."""

texts = st.builds(lambda size, letter: letter * size, st.sampled_from(SIZES), st.sampled_from("abäé"))
leaves = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | texts
values = st.recursive(
    leaves, lambda some: st.lists(some, max_size=3) | st.dictionaries(st.sampled_from("xyz"), some), max_leaves=5
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[dict[str, Any], list[Any]]:
    """A chain, and the value of each of its tools; None of a chain's values is special, so some come twice."""
    made = draw(st.lists(values, min_size=1, max_size=4))
    nodes: list[dict[str, Any]] = []
    for index in range(draw(st.integers(1, 6))):
        id, which = f"n{index}", draw(st.integers(0, len(made)))
        call = {"type": "tool", "tool": "give", "params": {"n": which % len(made)}}
        earlier = [f"$output.{node['id']}" for node in nodes]
        kind = draw(st.sampled_from(("call", "call", "list", "loop", "pass", "fail")))
        if kind == "list":
            nodes.append({"id": id, "type": "transform", "input": {"all": earlier, "more": [1, which]}})
        elif kind == "loop":
            nodes.append({"id": id, "type": "loop", "items": [0, 1], "nodes": [{"id": f"{id}_inner", **call}]})
        elif kind == "pass" and earlier:
            nodes.append({"id": id, "type": "tool", "tool": "same", "params": {"v": draw(st.sampled_from(earlier))}})
        elif kind == "fail":
            nodes.append({"id": id, "type": "tool", "tool": "fail"})
        else:
            nodes.append({"id": id, **call})
    mode = draw(st.sampled_from(("sequential", "sequential", "loop")))
    chain = {"kind": "chain", "id": "c", "name": "c", "mode": mode, "nodes": nodes}
    if mode == "loop":
        chain |= {"maxIterations": 2}
    return chain | {"errorStrategy": draw(st.sampled_from(("stop", "continue")))}, made


def _fail() -> None:
    raise ValueError("no")


def tools(made: list[Any]) -> ScriptedTools:
    return ScriptedTools(give=lambda n: made[n], same=lambda v: v, fail=_fail)


def lasting(result: Any) -> Any:
    """What two runs of one chain have in common."""
    return {name: value for name, value in result.items() if name not in ("duration", "executionId", "runId", "result")}


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "postgres":
        yield from fresh(request.getfixturevalue("postgres_server").url)
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder, "s.db"))


@pytest.mark.campaign("properties")
def test_another_process_reads_the_result_that_the_caller_got(address: str, tmp_path: Path) -> None:
    expected: dict[str, Any] = {}
    numbers = count()

    @examples(60)
    @given(runs())
    def record(drawn: tuple[dict[str, Any], list[Any]]) -> None:
        asyncio.run(_record(*drawn))

    async def _record(chain: dict[str, Any], made: list[Any]) -> None:
        id = f"r{next(numbers)}"
        async with App("memory") as app:
            in_memory = await app.run(chain, executor=tools(made))
        async with App(address) as app:
            result = await app.run(chain, run_id=id, executor=tools(made))
            assert lasting(result.to_dict()) == lasting(in_memory.to_dict())
            assert (await app.run(chain, run_id=id, executor=tools(made))).to_dict() == result.to_dict()
        expected[id] = lasting(result.to_dict())

    record()
    program = tmp_path / "read.py"
    program.write_text(
        "import json, sys\n"
        "from ropewalk.journal.address import open_store\n"
        "store = open_store(sys.argv[1])\n"
        "rows = {row.id: store.get_run(row.id).result for row in store.list_runs(limit=10_000)}\n"
        "json.dump(rows, open(sys.argv[2], 'w'))\n"
    )
    answer = tmp_path / "answer.json"
    fork_server.run([sys.executable, str(program), address, str(answer)], check=True, timeout=120)
    stored = json.loads(answer.read_text())
    assert {id: lasting(stored[id]) for id in expected} == expected


@examples(40)
@given(runs(), st.integers(1, 12), st.booleans())
def test_an_interrupted_ending_is_made_again(drawn: tuple[dict[str, Any], list[Any]], at: int, written: bool) -> None:
    chain, made = drawn

    async def test() -> None:
        async with App("memory") as app:
            expected = await app.run(chain, executor=tools(made))
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "s.db"))
            store = open_store(path)
            dying: Any = DyingStore(store, at, written=written)
            async with App(dying) as app:
                with contextlib.suppress(StoreError):
                    await app.run(chain, run_id="r", executor=tools(made))
            store.close()
            async with App(path) as app:
                result = await app.run(chain, run_id="r", executor=tools(made))
                row = app.store.get_run("r")
                assert row is not None
                assert lasting(row.result) == lasting(result.to_dict())
            assert lasting(result.to_dict()) == lasting(expected.to_dict())

    asyncio.run(test())
