"""The cached lists of tools of MCP servers: who may have written one, and what one never decides."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fork_server
from patience import wait_until
from ropewalk import App, Runner, Toolbox
from ropewalk.errors import NoBackends, ToolNotApproved
from ropewalk.tools.definition import Definition
from ropewalk.tools.mcp.config import ServerConfig, server_config
from ropewalk.tools.mcp.list_cache import ListCache, user_cache
from ropewalk.tools.pins import LOCK_FILE, Pins

from .mcp_lab import SERVERS

LOOK = Definition(
    name="look",
    description="Look.",
    input_schema={"type": "object"},
    annotations={"readOnlyHint": True},
    icons=[{"src": "data:,"}],
    meta={"a": 1},
)
DESK = server_config("desk", {"command": sys.executable, "args": ["-m", "desk"], "env": {"TOKEN": "${DESK_TOKEN:-}"}})
WRITER = """
import sys
from pathlib import Path
from ropewalk.tools.definition import Definition
from ropewalk.tools.mcp.config import server_config
from ropewalk.tools.mcp.list_cache import ListCache, user_cache

cache, desk = ListCache(Path(sys.argv[1])), server_config("desk", {"url": "http://desk.example"})
while True:
    count = int(sys.argv[2])
    cache.write(desk, [Definition(name=f"t{n}", input_schema={"type": "object"}) for n in range(count)], {})
    Path(sys.argv[3]).touch()
"""


@pytest.fixture
def cache(tmp_path: Path) -> ListCache:
    return ListCache(tmp_path / "cache" / "ropewalk")


def the_file(cache: ListCache) -> Path:
    (file,) = cache._directory.glob("tools-*")
    return file


def names(cache: ListCache, config: ServerConfig = DESK) -> list[str] | None:
    known = cache.read(config)
    return None if known is None else [definition.name for definition in known.definitions]


def test_a_list_is_read_as_it_was_written(cache: ListCache) -> None:
    assert cache.read(DESK) is None
    cache.write(DESK, [LOOK], {"#2": "it has no name"})
    known = cache.read(DESK)
    assert known is not None
    assert known.definitions == (LOOK,)
    assert known.definitions[0].fingerprint("desk") == LOOK.fingerprint("desk")
    assert known.left_out == {"#2": "it has no name"}
    cache.forget(DESK)
    assert cache.read(DESK) is None


@pytest.mark.parametrize(
    "change",
    [
        {"args": ["-m", "other"]},
        {"env": {"TOKEN": "x"}},
        {"env": {}},
        {"cwd": "/"},
        {"mode": "legacy"},
        {"roots": ["/"]},
    ],
)
def test_another_configuration_has_no_list(cache: ListCache, change: dict[str, Any]) -> None:
    cache.write(DESK, [LOOK], {})
    same = {"command": sys.executable, "args": ["-m", "desk"], "env": {"TOKEN": "${DESK_TOKEN:-}"}}
    assert names(cache, server_config("desk", same)) == ["look"]
    assert names(cache, server_config("desk", {**same, **change})) is None
    assert names(cache, server_config("other", same)) is None


def test_another_value_of_a_variable_has_no_list(cache: ListCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_TOKEN", "a")
    cache.write(DESK, [LOOK], {})
    monkeypatch.setenv("DESK_TOKEN", "b")
    assert names(cache) is None
    monkeypatch.setenv("DESK_TOKEN", "a")
    assert names(cache) == ["look"]
    required = server_config("desk", {"url": "http://desk.example", "headers": {"Authorization": "${DESK_TOKEN}"}})
    monkeypatch.delenv("DESK_TOKEN")
    cache.write(required, [LOOK], {})
    assert names(cache, required) is None


def test_where_nothing_can_be_told_apart_nothing_is_kept(
    cache: ListCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TOKEN", "\udcff")  # bytes that are no text
    cache.write(DESK, [LOOK], {})
    assert cache.read(DESK) is None
    monkeypatch.delenv("DESK_TOKEN")
    cache.write(DESK, [replace(LOOK, description="\ud800")], {})
    assert cache.read(DESK) is None
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    cache.write(DESK, [LOOK], {})
    assert cache.read(DESK) is None


def test_the_cache_of_the_user_is_never_in_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    for cache_home, home, expected in (
        ("/c", "/h", "/c/ropewalk"),
        ("c", "/h", "/h/.cache/ropewalk"),
        ("", "/h", "/h/.cache/ropewalk"),
        ("c", "h", None),
        ("", "", "/.cache/ropewalk"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", cache_home)
        monkeypatch.setenv("HOME", home)
        cache = user_cache()
        assert (None if cache is None else str(cache._directory)) == expected


def replaced_by_link(file: Path) -> None:
    file.rename(file.with_name("planted"))
    file.symlink_to(file.with_name("planted"))


def directory_replaced_by_link(file: Path) -> None:
    folder = file.parent
    folder.rename(folder.with_name("planted"))
    folder.symlink_to(folder.with_name("planted"))


def owned_by_another(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(file, 12345, 12345)


def directory_owned_by_another(file: Path) -> None:
    owned_by_another(file.parent)


def replaced_by_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


UNSAFE: list[Callable[[Path], Any]] = [
    replaced_by_link,
    directory_replaced_by_link,
    owned_by_another,
    directory_owned_by_another,
    replaced_by_pipe,
    lambda file: file.chmod(0o602),
    lambda file: file.chmod(0o620),
    lambda file: file.parent.chmod(0o777),
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(file.read_bytes()[:-3]),
    lambda file: file.write_text("[]"),
    lambda file: file.write_text('{"version": 1, "tools": [], "leftOut": {}}'),
    lambda file: file.write_text('{"version": 2, "tools": [{"name": "x"}], "leftOut": {}}'),
    lambda file: file.write_text('{"version": 2, "tools": [3], "leftOut": {}}'),
    lambda file: file.write_text('{"version": 2, "tools": {"a": 1}, "leftOut": {}}'),
    lambda file: file.write_text('{"version": 2, "tools": [], "leftOut": {"a": 1}}'),
    lambda file: file.write_text('{"version": 2, "tools": [], "leftOut": []}'),
    lambda file: os.truncate(file, 2**26),
    lambda file: os.utime(file, (time.time() + 1e6,) * 2),
]


@pytest.mark.parametrize("spoil", UNSAFE)
def test_a_list_that_others_may_have_written_or_that_is_broken_is_ignored(cache: ListCache, spoil: Any) -> None:
    cache.write(DESK, [LOOK], {})
    spoil(the_file(cache))
    assert cache.read(DESK) is None


def open_to_all(directory: Path) -> None:
    directory.mkdir(parents=True)
    directory.chmod(0o777)


def link_to_another(directory: Path) -> None:
    directory.parent.mkdir()
    (directory.parent.parent / "other").mkdir()
    directory.symlink_to(directory.parent.parent / "other")


def no_directory(directory: Path) -> None:
    directory.parent.mkdir()
    directory.touch()


@pytest.mark.parametrize("make", [open_to_all, link_to_another, no_directory])
def test_nothing_is_written_into_a_directory_that_is_not_safe(
    cache: ListCache, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(cache._directory)
    cache.write(DESK, [LOOK], {})
    assert cache.read(DESK) is None
    assert [path for path in tmp_path.rglob("*") if "tools-" in path.name] == []


@pytest.mark.process
def test_killed_and_simultaneous_writers_leave_whole_lists(tmp_path: Path) -> None:
    cache, desk = ListCache(tmp_path / "ropewalk"), server_config("desk", {"url": "http://desk.example"})
    marks = [tmp_path / f"wrote{number}" for number in range(3)]
    writers = [
        fork_server.Popen([sys.executable, "-c", WRITER, str(tmp_path / "ropewalk"), str(100 * 4**number), str(mark)])
        for number, mark in enumerate(marks)
    ]
    try:
        assert wait_until(lambda: all(mark.exists() for mark in marks))
        for writer in writers:
            for _ in range(50):
                known = cache.read(desk)
                assert known is not None
                assert len(known.definitions) in (100, 400, 1600)
            writer.send_signal(signal.SIGKILL)
            writer.wait()
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    known = cache.read(desk)
    assert known is not None

    # Drafts of killed processes are deleted after a while, and so are lists that nobody renews.
    cache.write(DESK, [LOOK], {})
    for file in cache._directory.iterdir():
        os.utime(file, (time.time() - 40 * 24 * 3600,) * 2)
    draft = cache._directory / f".tools-{'0' * 80}"
    draft.touch()
    foreign = cache._directory / "notes.txt"
    foreign.touch()
    os.utime(foreign, (0, 0))
    cache.write(DESK, [LOOK], {})
    assert {file.name for file in cache._directory.iterdir()} == {the_file_of(cache, DESK), draft.name, foreign.name}


def the_file_of(cache: ListCache, config: ServerConfig) -> str:
    return next(file.name for file in cache._directory.glob("tools-*") if names(cache, config) is not None)


def counted(folder: Path, *tools: str) -> dict[str, Any]:
    return {
        "command": fork_server.program("python"),
        "args": [str(SERVERS / "counted.py"), str(folder / "starts"), *tools],
        "trust": "hints",
    }


def starts(folder: Path) -> int:
    file = folder / "starts"
    return len(file.read_text().splitlines()) if file.exists() else 0


def listing(folder: Path, cache: ListCache, *tools: str) -> Toolbox:
    """A toolbox that prefers lists."""
    toolbox = Toolbox(mcp={"desk": counted(folder, *tools)})
    assert toolbox.servers is not None
    toolbox.servers.lists, toolbox.servers.prefers_lists = cache, True
    return toolbox


def test_a_planted_hint_decides_no_call(tmp_path: Path, cache: ListCache) -> None:
    async def check() -> None:
        config = server_config("desk", counted(tmp_path, "look"))
        cache.write(config, [LOOK], {})  # says that it only reads; the server does not
        toolbox = listing(tmp_path, cache, "look")
        async with toolbox:
            tool = toolbox.get("desk:look")
            assert tool is not None
            assert starts(tmp_path) == 0
            assert tool.annotations == {"readOnlyHint": True}  # shown
            # Nothing can call it, whatever asks for it in this process.
            assert toolbox.is_missing("desk:look")
            with pytest.raises(NoBackends):
                await Runner(toolbox).run("desk:look", {"text": "x"})
            assert starts(tmp_path) == 0

            # The connected server replaces what the list says.
            assert toolbox.servers is not None
            toolbox.servers.prefers_lists = False
            assert not toolbox.is_listed("desk")
            assert (await Runner(toolbox).run("desk:look", {"text": "x"})).structured == "done"
            assert toolbox.get("desk:look").annotations is None  # type: ignore[union-attr]
            assert starts(tmp_path) == 1

    asyncio.run(check())


def test_an_app_that_runs_a_flow_connects_and_renews_the_list(tmp_path: Path, cache: ListCache) -> None:
    async def check() -> None:
        config = server_config("desk", counted(tmp_path, "look", "read_more"))
        cache.write(config, [LOOK], {})
        toolbox = listing(tmp_path, cache, "look", "read_more")
        flow = {"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "desk:look", "params": {"text": "x"}}]}
        async with App("memory", toolbox=toolbox) as app:
            checked = await app.validate(flow)
            assert not checked.problems
            assert starts(tmp_path) == 0
            assert toolbox.servers is not None
            toolbox.servers.prefers_lists = False
            assert (await app.run(flow))["success"]
            assert starts(tmp_path) == 1
        assert names(cache, config) == ["look", "read_more"]

    asyncio.run(check())


def test_pins_refuse_a_tool_of_a_list_that_was_not_approved(tmp_path: Path, cache: ListCache) -> None:
    async def check() -> None:
        cache.write(server_config("desk", counted(tmp_path, "look")), [LOOK], {})
        toolbox = listing(tmp_path, cache, "look")
        toolbox.pins = Pins(tmp_path / LOCK_FILE)
        toolbox.pins.approve("desk", [replace(LOOK, description="Another.")])
        async with toolbox:
            assert toolbox.ids() == []
            assert list(toolbox.refused) == ["desk:look"]
            with pytest.raises(ToolNotApproved):
                await toolbox.find("desk:look")
        assert starts(tmp_path) == 0

    asyncio.run(check())


def test_a_tool_that_is_gone_leaves_the_toolbox(tmp_path: Path, cache: ListCache) -> None:
    async def check() -> None:
        cache.write(server_config("desk", counted(tmp_path, "new")), [LOOK], {"#2": "it has no name"})
        toolbox = listing(tmp_path, cache, "new")
        async with toolbox:
            assert toolbox.ids() == ["desk:look"]
            assert toolbox.failures == {"desk:#2": "it has no name"}
            assert toolbox.servers is not None
            toolbox.servers.prefers_lists = False
            await toolbox.connect()
            assert toolbox.ids() == ["desk:new"]
            assert toolbox.failures == {}
            assert toolbox.servers.cached == {}

    asyncio.run(check())
