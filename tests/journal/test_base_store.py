"""A store that an outsider writes: two methods, an address, the conformance tests, and what survives its process."""

from __future__ import annotations

import asyncio
import base64
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk import App
from ropewalk.content import from_mcp, hashes_of
from ropewalk.errors import ConfigError, StoreError
from ropewalk.journal import address
from ropewalk.journal.address import open_store, register_store
from ropewalk.journal.base_store import BaseStore
from ropewalk.journal.protocol import Definition, Entry, NewRun, OpenWait, RunRow
from ropewalk.journal.tool_usage import ToolUse
from ropewalk.testing import check_store

STORE = '''
import json

from ropewalk.journal.base_store import BaseStore
from ropewalk.journal.address import register_store


class JsonlStore(BaseStore):
    """Keeps each batch of changes as one line of JSON."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "ab")
        super().__init__()

    def load(self):
        saved = {}
        with open(self.path, "rb") as file:
            for line in file:
                saved.update(json.loads(line))
        return [(key, value) for key, value in saved.items() if value is not None]

    def save(self, changes, /):
        self.file.write(json.dumps(changes).encode() + b"\\n")
        self.file.flush()

    def close(self):
        super().close()
        self.file.close()


def make(folder):
    return JsonlStore(folder / "store.jsonl")


register_store("jsonl", lambda url: JsonlStore(url.removeprefix("jsonl://")))
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "jsonl_store.py").write_text(STORE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("jsonl_store", None)
    address._registered.clear()


class DictStore(BaseStore):
    """In a dict that outlives it; `broken` makes the next saves fail."""

    def __init__(self, saved: dict[str, Any]) -> None:
        self.saved, self.broken = saved, False
        super().__init__()

    def load(self) -> Any:
        return list(self.saved.items())

    def save(self, changes: Any, /) -> None:
        if self.broken:
            raise OSError("no space left")
        for key, value in changes.items():
            if value is None:
                self.saved.pop(key, None)
            else:
                self.saved[key] = value


@pytest.mark.process
def test_a_store_of_forty_lines_passes_the_conformance_tests(folder: Path) -> None:
    assert " passed" in check_store("jsonl_store:make", "-k", "not slow", cwd=folder)


@pytest.mark.process
def test_the_conformance_tests_find_what_a_store_loses(folder: Path) -> None:
    lossy = STORE.replace("if value is not None", "if False").replace("self.file.flush()", "changes.clear()")
    (folder / "lossy_store.py").write_text(lossy + "\n\nJsonlStore.list_versions = lambda self, kind, id: []\n")
    with pytest.raises(AssertionError, match="test_every_version_of_a_definition_is_kept"):
        check_store("lossy_store:make", "-k", "versions or version", cwd=folder)
    with pytest.raises(ConfigError, match="module:function"):
        check_store("lossy_store")


def test_runs_go_on_after_the_process_died(folder: Path) -> None:
    (folder / "ropewalk.toml").write_text(
        '[tools]\nmodules = ["jsonl_store", "steps"]\n[store]\nurl = "jsonl://runs.jsonl"\n'
    )
    (folder / "steps.py").write_text(
        "import os\nfrom ropewalk import tool\n\n@tool\ndef first() -> str:\n    with open('calls', 'a') as f:\n"
        "        f.write('first ')\n    return 'one'\n\n@tool\ndef second() -> str:\n    if not os.path.exists('go'):\n"
        "        os._exit(9)\n    return 'two'\n"
    )
    (folder / "two.json").write_text(
        '{"kind": "chain", "name": "two", "nodes": [{"id": "a", "type": "tool", "tool": "first"},'
        ' {"id": "b", "type": "tool", "tool": "second"}]}'
    )

    def ropewalk(*words: str) -> Any:
        command = [sys.executable, "-m", "ropewalk", *words]
        return fork_server.run(command, cwd=folder, capture_output=True, text=True, timeout=60)

    assert ropewalk("run", "two.json", "--id", "r1").returncode == 9
    assert "r1" in ropewalk("runs", "ls").stdout
    (folder / "go").touch()
    done = ropewalk("resume", "r1")
    assert done.returncode == 0, done.stderr
    assert "two" in done.stdout
    assert (folder / "calls").read_text() == "first "


def test_everything_that_was_saved_is_there_when_it_is_opened_again() -> None:
    saved: dict[str, Any] = {}
    picture = from_mcp({"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"picture").decode()})
    (hash,) = hashes_of(picture)

    async def fill() -> None:
        store = DictStore(saved)
        store.put_definition(Definition(kind="chain", id="c", name="one", fingerprint="f1", document={"a": 1}))
        store.put_definition(Definition(kind="chain", id="c", name="two", fingerprint="f2"))
        store.put_uses([ToolUse(tool="t", request="find it", successes=2, at=5.0)])
        assert store.take_turn("prune", 60, 1000.0)
        log = await store.open(NewRun(id="r", kind="chain", definition_id="c", input={"x": [1, "é"]}, fingerprint="f1"))
        await log.append(Entry("a", "call", "a", {"v": picture}, "d", 1.0, 2.0))
        await log.append(Entry("gone", "call", "gone", 1))
        await log.append(Entry("b", "wait", "b", {"name": "news"}))
        await log.forget([("gone", "call")])
        store.send("r", "news", {"n": 1}, id="s1")
        await log.take([OpenWait(path="b", name="news")])
        store.send("r", "later", None, id="s2")
        ended = await store.open(NewRun(id="e", kind="chain"))
        await ended.finish("partial", {"v": 1}, [{"m": "x"}], results=1, errors=1)
        part = await store.open(NewRun(id="p", kind="chain", parent="r"))
        await part.park(9e9)
        forked = await store.open(NewRun(id="f", kind="chain", forked_from="r", copies={("a", "call"): ("z", "call")}))
        await forked.release()
        before.append(state(store))

    before: list[Any] = []
    asyncio.run(fill())
    again = DictStore(saved)
    assert state(again) == before[0]
    assert [run.id for run in again.orphans()] == ["r", "f"], "running, and nobody holds them"
    assert not again.take_turn("prune", 60, 1010.0)
    assert again.content(hash) == b"picture"
    again.prune(keep=0)
    assert DictStore(saved).get_run("e") is None
    assert not any('"e"' in key for key in saved)


def state(store: BaseStore) -> Any:
    runs = [store.get_run(run.id) for run in store.list_runs()]
    kept = [name for name in RunRow.__slots__ if name not in ("spent", "owner")]
    rows = [[getattr(run, name) for name in kept] for run in runs]
    signals = {run.id: store.signals(run.id) for run in runs if run}
    history = {run.id: store.history(run.id) for run in runs if run}
    return rows, signals, history, store.list_definitions(), store.list_versions("chain", "c"), store.list_uses()


def test_what_could_not_be_saved_is_saved_with_the_next_change() -> None:
    saved: dict[str, Any] = {}

    async def test() -> None:
        store = DictStore(saved)
        log = await store.open(NewRun(id="r", kind="chain"))
        store.broken = True
        with pytest.raises(StoreError, match="cannot be written: no space left"):
            await log.append(Entry("a", "call", "a", 1))
        with pytest.raises(StoreError, match="no space left"):
            await log.finish("completed", None)
        store.broken = False
        await log.append(Entry("b", "call", "b", 2))
        assert await log.finish("completed", None) == "completed"

    asyncio.run(test())
    again = DictStore(saved)
    assert [entry.path for entry in again.history("r")] == ["a", "b"]
    run = again.get_run("r")
    assert run is not None
    assert run.status == "completed"


def test_a_run_that_could_not_be_taken_over_is_held_by_nobody() -> None:
    async def test() -> None:
        store = DictStore({})
        log = await store.open(NewRun(id="r", kind="chain"))
        await log.release()
        save, calls = store.save, []

        def fail_once(changes: Any, /) -> None:
            calls.append(changes)
            if len(calls) == 1:
                raise OSError("no space left")
            save(changes)

        store.save = fail_once  # type: ignore[method-assign]
        with pytest.raises(StoreError, match="no space left"):
            await store.open(NewRun(id="r", kind="chain"))
        assert [run.id for run in store.orphans()] == ["r"]
        again = await store.open(NewRun(id="r", kind="chain"))
        assert again.finished is None

    asyncio.run(test())


def test_a_closed_store_saves_nothing_more() -> None:
    saved: dict[str, Any] = {}

    async def test() -> None:
        store = DictStore(saved)
        log = await store.open(NewRun(id="r", kind="chain"))
        store.close()
        store.close()
        before = dict(saved)
        with pytest.raises(StoreError, match="the store is closed"):
            store.take_turn("t", 1.0, 5.0)
        await log.release()
        assert saved == before

    asyncio.run(test())


def test_an_address_opens_the_store_that_registered_its_scheme(folder: Path) -> None:
    importlib.import_module("jsonl_store")
    app = App(f"jsonl://{folder}/own.jsonl")
    assert type(app.store).__name__ == "JsonlStore"
    app.store.close()
    with pytest.raises(StoreError, match="did you mean jsonl"):
        open_store("jsnl://x")


@pytest.mark.parametrize("scheme", ["sqlite", "postgres", "A", "", 5])
def test_schemes_that_cannot_be_registered_are_refused(scheme: Any) -> None:
    with pytest.raises(StoreError, match="scheme"):
        register_store(scheme, lambda url: DictStore({}))


def test_what_a_scheme_opens_must_be_a_store() -> None:
    register_store("odd", lambda url: "no store")  # type: ignore[arg-type, return-value]
    try:
        with pytest.raises(StoreError, match="returned str, not a Store"):
            open_store("odd://x")
    finally:
        address._registered.clear()
