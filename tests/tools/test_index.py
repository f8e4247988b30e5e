"""The index: registering, paging, listening, and many threads at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ropewalk.errors import ConfigError, InvalidCursor, InvalidTool, NotFound
from ropewalk.tools.index import Change
from ropewalk.tools.tool import Tool, ToolBackend, tool
from ropewalk.tools.toolbox import Toolbox


def made(name: str, description: str = "", **fields: Any) -> Tool:
    return Tool(name, description, {"type": "object"}, **fields)


def handler(**_: Any) -> None:
    return None


def changes(toolbox: Toolbox) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []
    toolbox.on_change(lambda change: seen.append((change.kind, change.tool_id)))
    return seen


def test_toolbox_takes_tools_decorated_and_plain_functions() -> None:
    @tool(namespace="n")
    def first() -> int:
        return 1

    def second() -> int:
        return 2

    box = Toolbox([first, second, made("third")])
    assert box.ids() == ["n:first", "second", "third"]
    assert box.namespaces() == ["", "n"]
    assert [t.id for t in box.list("n")] == ["n:first"]
    assert box.get("absent") is None
    assert box.backends("n:first") == [ToolBackend.local("n:first")]
    assert box.backends("third") == []


def test_same_definition_again_is_fine_and_another_is_refused() -> None:
    box = Toolbox()
    box.register(made("a"), handler)
    box.register(made("a"), handler)
    assert len(box.backends("a")) == 1
    with pytest.raises(InvalidTool, match="description"):
        box.register(made("a", "another"), lambda: None)
    assert box.local.get("a") is handler


def test_same_backend_is_replaced_and_another_appended() -> None:
    box = Toolbox()
    remote = ToolBackend.mcp("s")
    box.register(made("a"), handler)
    box.register(made("a"), backend=remote)
    box.register(made("a"), print)
    assert box.backends("a") == [ToolBackend.local("a"), remote]
    assert box.local.get("a") is print


def test_removing_the_last_backend_removes_the_tool() -> None:
    box = Toolbox()
    box.register(made("a"), handler)
    box.register(made("a"), backend=ToolBackend.mcp("s"))
    seen = changes(box)
    box.remove_backend("a", ToolBackend.local("a"))
    assert box.get("a") is not None
    assert box.local.get("a") is None
    box.remove_backend("a", ToolBackend.mcp("s"))
    assert box.get("a") is None
    assert seen == [("backend_removed", "a"), ("backend_removed", "a"), ("tool_removed", "a")]
    for absent in (lambda: box.remove_backend("a", ToolBackend.mcp("s")), lambda: box.remove("a")):
        with pytest.raises(NotFound):
            absent()


def test_listeners_hear_every_kind_in_order_and_one_that_raises_harms_nobody() -> None:
    box = Toolbox()
    box.on_change(lambda change: 1 / 0)
    seen = changes(box)
    box.register(made("a"), handler)
    box.register(made("a"), handler)
    box.remove("a")
    assert [kind for kind, _ in seen] == ["registered", "updated", "backend_removed", "tool_removed"]


def test_listener_can_be_taken_off_and_may_change_the_index() -> None:
    box = Toolbox()
    heard: list[Change] = []
    stop = box.on_change(heard.append)
    box.on_change(lambda change: box.register(made("b"), handler) if change.tool_id == "a" else None)
    box.register(made("a"), handler)
    assert [change.tool_id for change in heard] == ["a", "b"]
    stop()
    box.register(made("c"), handler)
    assert len(heard) == 2


def test_version_changes_with_every_change() -> None:
    box = Toolbox()
    versions = [box.version]
    box.register(made("a"), handler)
    versions.append(box.version)
    box.register(made("a"), print)
    versions.append(box.version)
    box.add_provider("p", {"url": "http://127.0.0.1:1"})
    versions.append(box.version)
    box.remove("a")
    versions.append(box.version)
    assert len(set(versions)) == len(versions)


def test_search_pages_through_everything_once() -> None:
    box = Toolbox([made(f"tool{i:02}", "finds things", tags=["x"]) for i in range(25)])
    found: list[str] = []
    cursor = None
    while True:
        page = box.search("things", limit=10, cursor=cursor)
        found += [t.id for t in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == [f"tool{i:02}" for i in range(25)]
    assert [t.id for t in box.search("TOOL07").tools] == ["tool07"]
    assert box.search("nothing like it").tools == ()
    assert len(box.search("").tools) == 20


def test_search_puts_names_before_descriptions() -> None:
    box = Toolbox([made("a", "parses mail"), made("mail")])
    assert [t.id for t in box.search("mail").tools] == ["mail", "a"]


def test_stale_foreign_and_garbled_cursors_are_refused() -> None:
    box = Toolbox([made(f"t{i}") for i in range(5)])
    cursor = box.search("t", limit=2).next_cursor
    assert cursor is not None
    with pytest.raises(InvalidCursor, match="another search"):
        box.search("t1", limit=2, cursor=cursor)
    other = Toolbox([made(f"t{i}") for i in range(5)]).search("t", limit=2).next_cursor
    for garbled in ("", "%%%", "AAAA", cursor[:-4], cursor[:-2] + "AA", other, "é"):
        with pytest.raises(InvalidCursor):
            box.search("t", limit=2, cursor=garbled)
    box.register(made("new"))
    with pytest.raises(InvalidCursor, match="changed"):
        box.search("t", limit=2, cursor=cursor)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "x" * 129])
def test_name_of_a_server_or_provider_must_fit_in_an_id(name: str) -> None:
    with pytest.raises(ConfigError):
        Toolbox().add_provider(name, {"url": "http://127.0.0.1"})
    with pytest.raises(ConfigError):
        Toolbox().add_mcp(name, {"command": "x"})


def test_index_stays_whole_under_many_threads() -> None:
    box = Toolbox()
    heard: list[Change] = []
    box.on_change(heard.append)
    errors: list[Exception] = []
    gate = threading.Barrier(8)

    def work(number: int) -> None:
        try:
            gate.wait()
            for i in range(100):
                mine = made(f"t{number}-{i}")
                box.register(mine, handler)
                box.register(made("shared"), backend=ToolBackend.mcp(f"s{number}"))
                box.list()
                box.search("t", limit=5)
                if i % 2:
                    box.remove(mine.id)
        except Exception as error:  # noqa: BLE001 - a thread's failure is asserted on below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(box.ids()) == 8 * 50 + 1
    assert len(box.backends("shared")) == 8
    versions = [change.version for change in heard]
    assert versions == sorted(versions)
    assert len(heard) == box.version


def test_a_function_of_another_module_that_takes_a_tools_place_is_told(caplog: pytest.LogCaptureFixture) -> None:
    source = 'from ropewalk import tool\n@tool\ndef fetch(url: str) -> str:\n    """Fetch."""\n    return __name__\n'
    spaces: list[dict[str, Any]] = [{"__name__": name} for name in ("one", "two")]
    for space in spaces:
        exec(source, space)
    toolbox = Toolbox([spaces[0]["fetch"], spaces[0]["fetch"]])
    toolbox.register(spaces[0]["fetch"])
    assert caplog.messages == []
    toolbox.register(spaces[1]["fetch"])
    assert caplog.messages == ["tool 'fetch': two.fetch takes the place of one.fetch, which has the same definition"]


@pytest.mark.parametrize("handler", [None, lambda: 1])
def test_what_is_no_backend_is_refused(handler: Any) -> None:
    box = Toolbox()
    with pytest.raises(InvalidTool, match=r"^tool 't': its backend is str, not a ToolBackend$"):
        box.register(Tool("t", "", {}), handler, backend="local")  # type: ignore[arg-type]
    assert box.get("t") is None
