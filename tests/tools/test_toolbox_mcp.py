"""A toolbox with MCP servers: what they list is in the index, and a broken one stops nobody."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from typing import Any

import pytest

from patience import until
from ropewalk.errors import ExecutionFailed, NotFound, ToolNotFound, ToolTimeout
from ropewalk.tools.definition import Definition
from ropewalk.tools.runner import Runner
from ropewalk.tools.tool import ProgressEvent, Tool, ToolBackend, tool
from ropewalk.tools.toolbox import Toolbox

from .mcp_lab import SERVERS, forked

RUDE = str(SERVERS / "rude.py")


def test_tools_of_a_server_are_called_through_the_runner() -> None:
    async def case() -> None:
        async with Toolbox(mcp={"odd": forked("odd.py"), "broken": {"command": "/no/such/program"}}) as box:
            assert list(box.failures) == ["broken"]
            assert box.namespaces() == ["odd"]
            assert box.backends("odd:echo") == [ToolBackend.mcp("odd")]
            runner = Runner(box)
            result = await runner.run("odd:echo", {"text": '{"a": 1}'})
            assert result.structured == {"a": 1}
            assert result.mcp_result.content[0].text == '{"a": 1}'
            sent = await runner.run("odd:meta", key="k-1")
            assert hashlib.sha256(b"k-1").hexdigest() in sent.structured.values()
            with pytest.raises(ExecutionFailed, match=r"odd:fails \[mcp\]: it went wrong"):
                await runner.run("odd:fails")
            with pytest.raises(ToolTimeout):
                await runner.run("odd:slow", timeout=0.1)
            with pytest.raises(NotFound, match=r"no tool 'odd': this is a server; its tools are odd:\w+, odd:"):
                await box.find("odd")
            with pytest.raises(ToolNotFound, match=r"not connected: .*no/such/program"):
                await runner.run("broken:tool")

    asyncio.run(case())


def test_seconds_that_a_server_is_given_hold_for_each_of_its_tools() -> None:
    async def case() -> None:
        async with Toolbox(mcp={"odd": {**forked("odd.py"), "timeout": 0.2}}) as box:
            assert Runner(box).bind("odd:slow").timeout == 0.2
            with pytest.raises(
                ToolTimeout, match=r"odd:slow \[mcp\]: .*no answer within 0.2 s; `timeout` of \[mcp\.odd\]"
            ):
                await Runner(box).run("odd:slow")
        async with Toolbox(mcp={"odd": forked("odd.py")}) as box:
            assert Runner(box, timeout=7).bind("odd:slow").timeout == 7

    asyncio.run(case())


def test_server_that_is_not_connected_in_time_is_a_timeout_of_the_tool() -> None:
    async def case() -> None:
        rude = {"command": sys.executable, "args": [RUDE, "silent"], "connect_timeout": 0.2, "mode": "legacy"}
        async with Toolbox(mcp={"rude": rude}) as box:
            box.register(Tool("echo", "", {"type": "object"}, namespace="rude"), backend=ToolBackend.mcp("rude"))
            with pytest.raises(ToolTimeout, match=r"'rude' did not finish the handshake within 0\.2 s") as caught:
                await Runner(box).run("rude:echo")
            assert (caught.value.seconds, caught.value.op, caught.value.retryable) == (0.2, "execute", True)
            assert isinstance(caught.value.__cause__, TimeoutError)

    asyncio.run(case())


@pytest.mark.parametrize(("code", "retryable"), [(-32601, False), (-32602, False), (-32603, True), (-32000, True)])
def test_only_a_refusal_that_would_come_again_is_not_tried_again(code: int, retryable: bool) -> None:
    async def case() -> None:
        rude = {"command": sys.executable, "args": [RUDE, f"refuses{code}"], "mode": "legacy"}
        async with Toolbox(mcp={"rude": rude}) as box:
            with pytest.raises(ExecutionFailed, match=rf"no \(code {code}\)") as caught:
                await Runner(box).run("rude:echo")
            assert caught.value.retryable is retryable

    asyncio.run(case())


def test_progress_of_a_server_comes_between_ours() -> None:
    async def case() -> list[ProgressEvent]:
        events: list[ProgressEvent] = []
        async with Toolbox(mcp={"odd": forked("odd.py")}) as box:
            await Runner(box).run_with_progress("odd:progress", {"count": 2}, events.append)
            streamed = [event.kind async for event in Runner(box).run_stream("odd:progress", {"count": 2})]
        assert streamed == ["progress", "progress", "done"]
        return events

    assert [(e.progress, e.total, e.message) for e in asyncio.run(case())] == [
        (0, 1, "started"),
        (1, 2, "step 1"),
        (2, 2, "step 2"),
        (1, 1, "completed"),
    ]


def test_index_follows_a_list_that_changes() -> None:
    async def case() -> None:
        async with Toolbox(mcp={"odd": forked("odd.py")}) as box:
            runner = Runner(box)
            version = runner.version
            await runner.run("odd:grow", {"name": "sprout"})
            await until(lambda: box.get("odd:sprout") is not None)
            assert runner.version != version
            assert (await runner.run("odd:sprout")).structured == "sprout"

    asyncio.run(case())


def test_connecting_one_server_by_name_says_why_it_cannot_be() -> None:
    async def case() -> None:
        box = Toolbox(mcp={"broken": {"command": "/no/such/program"}})
        with pytest.raises(ConnectionError):
            await box.connect("broken")
        with pytest.raises(NotFound):
            await box.connect("absent")
        with pytest.raises(NotFound):
            await Toolbox().connect("absent")
        await box.close()

    asyncio.run(case())


# --- what a server may list, without a server ---------------------------------------------------


def listed(box: Toolbox, *definitions: Definition) -> list[tuple[str, str]]:
    heard: list[tuple[str, str]] = []
    stop = box.on_change(lambda change: heard.append((change.kind, change.tool_id)))
    box.take_tools("s", definitions)
    stop()
    return heard


def defined(name: str, description: str = "", **more: Any) -> Definition:
    return Definition(
        name=name, description=description, input_schema=more.pop("input_schema", {"type": "object"}), **more
    )


def test_refresh_registers_what_is_new_updates_what_changed_and_removes_what_is_gone() -> None:
    box = Toolbox()
    assert listed(box, defined("a"), defined("b")) == [("registered", "s:a"), ("registered", "s:b")]
    assert listed(box, defined("a"), defined("b")) == []
    assert listed(box, defined("b", "changed"), defined("c")) == [
        ("updated", "s:b"),
        ("registered", "s:c"),
        ("backend_removed", "s:a"),
        ("tool_removed", "s:a"),
    ]
    found = box.get("s:b")
    assert found is not None
    assert found.description == "changed"


def test_tool_that_cannot_be_used_is_named_and_stops_no_other() -> None:
    box = Toolbox()
    listed(box, defined("bad", input_schema={"type": "array"}), defined("twice"), defined("twice"), defined("good"))
    assert box.ids() == ["s:good", "s:twice"]
    assert set(box.failures) == {"s:bad", "s:twice"}
    listed(box, defined("bad"), defined("good"))
    assert box.failures == {}
    assert box.ids() == ["s:bad", "s:good"]


def test_name_that_is_no_id_is_made_one_and_the_server_still_hears_its_own() -> None:
    box = Toolbox()
    listed(box, defined("files/read all", title="Read", annotations={"readOnlyHint": True, "timeout": 1e9}))
    assert box.backends("s:files_read_all") == [ToolBackend.mcp("s", "files/read all")]
    found = box.get("s:files_read_all")
    assert found is not None
    assert (found.display_name, found.has_side_effects, found.timeout) == ("Read", True, None)


def test_server_cannot_change_a_tool_that_others_serve_too() -> None:
    @tool(namespace="s", description="ours", input_schema={"type": "object"})
    def mine() -> int:
        return 1

    box = Toolbox([mine])
    listed(box, defined("mine", "theirs"))
    found = box.get("s:mine")
    assert found is not None
    assert found.description == "ours"
    assert box.backends("s:mine") == [ToolBackend.local("s:mine")]
    assert "s:mine" in box.failures
