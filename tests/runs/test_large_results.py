"""A run whose values are larger together than one value may be: it ends, and every way to read it works."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from ropewalk.app.app import App
from ropewalk.errors import JournalConflict
from ropewalk.journal.address import open_store
from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.journal.sql.copying import copy
from ropewalk.journal.sqlite.doctor import examine
from ropewalk.testing import ScriptedTools

LIMIT, SIZE, STEPS = 250_000, 100_000, 6
CHAIN = {
    "kind": "chain",
    "id": "c",
    "name": "c",
    "nodes": [
        *({"id": f"n{i}", "type": "tool", "tool": "text", "params": {"seed": i % 5}} for i in range(STEPS)),
        {"id": "few", "type": "transform", "input": ["$output.n0", {"again": "$output.n1"}, 1]},
    ],
}


def text(seed: int) -> str:
    """Characters that do not compress well."""
    return Random(seed).randbytes(SIZE // 2).hex()


TOOLS = ScriptedTools(text=text)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("ropewalk.journal.sql.blobs.MAX_BYTES", LIMIT)
    return tmp_path / "s.db"


def count_blobs(path: Path) -> int:
    connection = apsw.Connection(str(path))
    [(count,)] = connection.execute("SELECT count(*) FROM blob").fetchall()
    connection.close()
    return int(count)


async def test_everyone_reads_the_whole_result(path: Path, tmp_path: Path) -> None:
    async with App(str(path)) as app:
        first = await app.run(CHAIN, run_id="r", executor=TOOLS)
        assert first.status == "completed"
        assert first.results["few"] == [text(0), {"again": text(1)}, 1]
    async with App(str(path)) as app:
        assert (await app.run(CHAIN, run_id="r", executor=TOOLS)).to_dict() == first.to_dict()
        assert (await app.resume("r")).to_dict() == first.to_dict()
        fork = await app.runs.fork("r", executor=TOOLS)
        assert fork.results == first.results
        shown: Any = app.runs.get("r")
        assert shown["result"] == first.results
        assert app.runs.diff("r", fork.run_id)["same"] == STEPS + 1
        exported: Any = app.runs.export("r")
        assert exported["run"]["result"]["results"] == first.results
    assert examine(path) == []
    other = tmp_path / "other.db"
    source, target = open_store(str(path)), open_store(str(other))
    copy(source, target)
    row = target.get_run("r")
    source.close()
    target.close()
    assert row is not None
    assert row.result["results"] == first.results  # type: ignore[index,call-overload]


async def test_recorded_values_are_stored_once(path: Path) -> None:
    async with App(str(path)) as app:
        await app.run(CHAIN, run_id="r", executor=TOOLS)
    assert count_blobs(path) == 5 + 2, "five texts, the value of `few`, and the document"
    async with App(str(path)) as app:
        await app.runs.fork("r", executor=TOOLS)
        assert app.runs.prune(keep=1).runs == 1
        [left] = app.store.list_runs()
        row = app.store.get_run(left.id)
        assert row is not None
        assert len(row.result["results"]["n4"]) == SIZE  # type: ignore[index,call-overload,arg-type]
    assert examine(path) == []


async def test_a_value_of_a_few_kilobytes_is_not_copied(path: Path) -> None:
    value = text(1)[:20_000]
    chain = {**CHAIN, "nodes": [{"id": f"n{i}", "type": "tool", "tool": "text"} for i in range(3)]}
    async with App(str(path)) as app:
        first = await app.run(chain, run_id="r", executor=ScriptedTools(text=value))
        assert first.results == {f"n{i}": value for i in range(3)}
        row = app.store.get_run("r")
        assert row is not None
        assert row.result["results"] == first.results  # type: ignore[index,call-overload]
    connection = apsw.Connection(str(path))
    assert connection.execute("SELECT length(result) FROM run").fetchone()[0] < 1000  # type: ignore[index]
    connection.close()


async def test_a_result_that_was_stored_as_a_copy_is_read(path: Path) -> None:
    async with App(str(path)) as app:
        await app.run(
            {**CHAIN, "nodes": [{"id": "n", "type": "tool", "tool": "text"}]},
            run_id="r",
            executor=ScriptedTools(text=1),
        )
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE run SET result = CAST(? AS BLOB)", ('{"results": {"n": "' + "x" * 70_000 + '"}}',))
    connection.close()
    async with App(str(path)) as app:
        row = app.store.get_run("r")
        assert row is not None
        assert row.result == {"results": {"n": "x" * 70_000}}


async def test_a_step_that_is_missing_is_damage(path: Path) -> None:
    async with App(str(path)) as app:
        await app.run(CHAIN, run_id="r", executor=ScriptedTools(text=text(1)[:5_000]))
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM entry WHERE kind = 'call'")
    connection.close()
    [damage] = examine(path)
    assert "result refers to the step n" in damage


@pytest.mark.parametrize("way", ["removed", "refused"])
async def test_a_value_that_is_no_longer_recorded_is_kept_by_the_result(path: Path, way: str) -> None:
    store = open_store(str(path))
    log = await store.open(NewRun(id="r", kind="chain"))
    value = text(1)[:5_000]
    if way == "removed":
        await log.append(Entry("a", "call", data=value))
        await log.forget([("a", "call")])
    else:
        await log.append(Entry("a", "call", data="first"))
        with pytest.raises(JournalConflict):
            await log.append(Entry("a", "call", data=value))
    await log.finish("completed", {"results": {"a": value}})
    row = store.get_run("r")
    store.close()
    assert row is not None
    assert row.result == {"results": {"a": value}}
