"""`ropewalk mcp` on standard input and output: flows as tools, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp_project import COMMAND, ERAS, REPORT, Served, environment, served

import fork_server
from ropewalk.app.app import App
from ropewalk.doors.mcp.flows import Flows
from ropewalk.errors import InvalidFlow
from ropewalk.expr import TRANSFORMS, transform
from ropewalk.tools.mcp.requests import ServerRefused
from ropewalk.tools.tool import Tool
from tiers import sampled

pytestmark = pytest.mark.process

__all__ = ["served"]


def text(result: Any) -> str:
    return "\n".join(part.text for part in result.content)


def runs(served: Served) -> list[dict[str, Any]]:
    done = fork_server.run(
        [COMMAND, "runs", "ls", "--json"],
        cwd=served.home,
        env={**os.environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("era", ERAS)
def test_a_flow_is_a_tool_with_schemas_that_answers_with_structured_content(served: Served, era: str) -> None:
    async def case() -> None:
        async with served.client(mode=era) as mcp:
            await mcp.connect("here")
            tools = {tool.name: tool for tool in mcp.tools("here")}
            assert list(tools) == ["broken", "shout", "slow_one"]
            assert tools["shout"].description == "Say it loud."
            assert tools["broken"].description == "Runs the chain 'broken'."
            assert tools["shout"].input_schema["required"] == ["text"]
            wrapped = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
            assert tools["shout"].output_schema == wrapped
            result = await mcp.call_tool("here", "shout", {"text": "ahoy"})
            assert (result.structured_content, text(result), result.is_error) == ({"result": "AHOY"}, "AHOY", False)
            run = result.meta["ropewalk/run"]
            assert run["status"] == "completed"
            assert [row["runId"] for row in runs(served)] == [run["runId"]]

    asyncio.run(case())


@pytest.mark.parametrize("era", ERAS)
def test_a_failure_names_the_node_and_is_no_protocol_error(served: Served, era: str) -> None:
    off = "{id: off, type: tool, tool: fail, params: {why: the mill is closed}, condition: '$item == 2'}"
    served.write(
        "flows/deep.yaml",
        f"kind: chain\nname: deep\nnodes: [{{id: each, type: loop, items: [1, 2], nodes: [{off}]}}]\n",
    )

    async def case() -> None:
        async with served.client(mode=era) as mcp:
            result = await mcp.call_tool("here", "broken")
            assert result.is_error
            assert text(result).startswith("node 'off' failed in tool 'fail': the mill is closed (run ")
            about = result.meta["ropewalk/error"]
            assert (about["node"], about["tool"], about["message"]) == ("off", "fail", "the mill is closed")
            assert about["path"] == "off"
            deep = (await mcp.call_tool("here", "deep")).meta["ropewalk/error"]
            assert (deep["node"], deep["path"]) == ("off", "each[1]/off")
            assert "Traceback" not in str(result)
            unfit = await mcp.call_tool("here", "shout", {"text": 3})
            assert unfit.is_error
            assert text(unfit) == 'the arguments do not match the input schema:\ninput.text: 3 is not of type "string"'
            with pytest.raises(ServerRefused, match="Unknown tool: shuot; did you mean shout"):
                await mcp.call_tool("here", "shuot")

    asyncio.run(case())


@pytest.mark.parametrize("era", ERAS)
def test_cancelling_stops_the_run(served: Served, era: str) -> None:
    async def case() -> None:
        begun = asyncio.Event()
        async with served.client(mode=era) as mcp:
            call = asyncio.create_task(mcp.call_tool("here", "slow_one", on_progress=lambda _: begun.set()))
            await begun.wait()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            # Its answer comes after the run has ended: one server answers in order of what it has to do.
            while runs(served)[0]["status"] == "running":
                await mcp.call_tool("here", "shout", {"text": "still here"})
        [slow] = [run for run in runs(served) if run["name"] == "slow one"]
        assert slow["status"] == "stopped"
        assert (served.home / "cancelled").exists()

    asyncio.run(case())


def test_a_call_made_again_under_its_key_gives_the_run_of_before(served: Served) -> None:
    async def case() -> None:
        async with served.client() as mcp:
            first = await mcp.call_tool("here", "shout", {"text": "once"}, key="order-7")
            again = await mcp.call_tool("here", "shout", {"text": "once"}, key="order-7")
            other = await mcp.call_tool("here", "shout", {"text": "once"}, key="order-8")
        ids = [result.meta["ropewalk/run"]["runId"] for result in (first, again, other)]
        assert ids[0] == ids[1] != ids[2]
        assert again.structured_content == {"result": "ONCE"}
        assert (served.home / "calls").read_text().split() == ["once", "ONCE"] * 2

    asyncio.run(case())


def test_one_key_for_two_flows_is_two_runs(served: Served) -> None:
    """A client counts its orders per tool, so the key of one must never answer for the other."""
    for name in ("left", "right"):
        node = f"{{id: up, type: tool, tool: upper, params: {{text: {name}}}}}"
        served.write(f"flows/{name}.yaml", f"kind: chain\nname: {name}\nnodes: [{node}]\n")

    async def case() -> None:
        async with served.client() as mcp:
            results = [await mcp.call_tool("here", name, key="order-7") for name in ("left", "right", "left")]
        ids = [result.meta["ropewalk/run"]["runId"] for result in results]
        assert ids[0] == ids[2] != ids[1]
        assert [result.structured_content["up"] for result in results] == ["LEFT", "RIGHT", "LEFT"]

    asyncio.run(case())


def test_a_run_that_waits_says_for_what_and_the_same_call_has_the_result_later(served: Served) -> None:
    ask = "nodes: [{id: ok, type: wait, approval: Ship it?}, {id: up, type: tool, tool: upper, params: {text: sent}}]"
    served.write("flows/ship.yaml", f"kind: chain\nname: ship\n{ask}\n")

    async def case() -> None:
        async with served.client() as mcp:
            first = await mcp.call_tool("here", "ship", key="order-7")
            about = first.meta["ropewalk/error"]
            assert (first.is_error, about["kind"]) == (True, "Waiting")
            assert text(first).startswith(f"no result yet: run {about['runId']} waits for Ship it?. Once this is")
            argv = [COMMAND, "runs", "approve", about["runId"]]
            approved = await asyncio.to_thread(fork_server.run, argv, cwd=served.home, capture_output=True, text=True)
            assert approved.returncode == 0, approved.stderr
            again = await mcp.call_tool("here", "ship", key="order-7")
            assert again.structured_content["up"] == "SENT"

            # Without a key nothing says that a second call means the same run: a tool continues it.
            plain = await mcp.call_tool("here", "ship")
            run = plain.meta["ropewalk/error"]["runId"]
            assert "key" not in text(plain)
            assert f"call resume_run with runId {run!r}" in text(plain)
            early = await mcp.call_tool("here", "resume_run", {"runId": run})
            assert text(early) == text(plain)
            argv = [COMMAND, "runs", "approve", run]
            done = await asyncio.to_thread(fork_server.run, argv, cwd=served.home, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            resumed = await mcp.call_tool("here", "resume_run", {"runId": run})
            assert resumed.structured_content["result"]["up"] == "SENT"
            unknown = await mcp.call_tool("here", "resume_run", {"runId": "nobody's"})
            assert "there is no run" in text(unknown)
            for arguments in ({"runid": run}, {}):
                wrong = await mcp.call_tool("here", "resume_run", arguments)
                assert wrong.is_error
                assert '"runId" is a required property' in text(wrong)

    asyncio.run(case())


def test_a_partial_run_gives_its_value_and_says_what_failed(served: Served) -> None:
    served.write("flows/report.yaml", REPORT)

    async def case() -> None:
        async with served.client() as mcp:
            result = await mcp.call_tool("here", "report")
            assert result.structured_content == {"up": "A", "off": None}
            assert text(result).endswith("the run is partial; what failed:\noff: no luck")
            assert result.meta["ropewalk/run"]["status"] == "partial"

    asyncio.run(case())


def keep(served: Served, **chain: Any) -> None:
    """Put a chain into the project's store."""
    app = App.open(served.home)
    app.chains.core.create_chain({"name": "report", **chain})
    app.store.close()


NODES = [{"id": "up", "type": "tool", "tool": "upper", "params": {"text": "a"}}]


def test_a_flow_that_is_a_file_and_stored_is_offered_once_and_the_file_keeps_its_name(served: Served) -> None:
    served.write("flows/report.yaml", json.dumps({"kind": "chain", "name": "report", "nodes": NODES}))
    keep(served, nodes=NODES)

    async def names() -> list[str]:
        async with served.client() as mcp:
            await mcp.connect("here")
            report = await mcp.call_tool("here", "report")
            assert report.structured_content == {"up": "A"}
            return [tool.name for tool in mcp.tools("here") if tool.name.startswith("report")]

    assert asyncio.run(names()) == ["report"]
    keep(served, nodes=[{**NODES[0], "params": {"text": "b"}}])
    own, other = asyncio.run(names())
    assert own == "report"
    assert re.fullmatch("report_[0-9a-f]{6}", other)


def test_that_a_stored_flow_differs_from_the_file_of_its_name_is_said(served: Served) -> None:
    served.write("flows/report.yaml", json.dumps({"kind": "chain", "name": "report", "nodes": NODES}))
    keep(served, nodes=[{**NODES[0], "params": {"text": "b"}}])
    argv = [COMMAND, "mcp", "-C", str(served.home)]
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    lines = [asked, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    lines.append({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    with fork_server.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
        child.stdin.flush()
        while '"id":2' not in child.stdout.readline():
            pass
        err = child.communicate()[1]
    assert (
        f"stored chain 'report' differs from the file {served.home / 'flows/report.yaml'}: the file keeps the name"
        in err
    )


INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def test_a_flow_that_is_not_sound_is_told_once_however_often_the_toolbox_changes(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.write("flows/bad.yaml", "kind: chain\nname: bad\nnodes: [{id: a, type: tool}]\n")
    served.write("flows/misspelt.yaml", "kind: chain\nname: misspelt\nnodes: [{id: a, type: tool, tool: uper}]\n")
    served.write("flows/late.yaml", "kind: chain\nname: late\nnodes: [{id: a, type: tool, tool: 'silent:x'}]\n")
    served.write("flows/doubtful.yaml", "kind: chain\nname: d\nnodes: [{id: a, type: transform, input: $bb.x}]\n")

    async def case() -> None:
        async with App.open(served.home, store="memory") as app:
            flows = Flows(app, ["flows"], served.home)
            assert {tool.wanted for tool in flows.offered()} & {"misspelt", "late"} == {"late"}
            version = flows.version()
            app.toolbox.register(Tool(name="new", description="", input_schema={"type": "object"}))
            assert flows.version() != version
            list(flows.offered())

    asyncio.run(case())
    assert "misspelt.yaml is not offered" in caplog.text
    (told,) = [row.getMessage() for row in caplog.records if "bad.yaml is not offered" in row.getMessage()]
    assert f"{served.home / 'flows' / 'bad.yaml'}:3:9: nodes[0]" in told
    assert "\n    nodes: [{id: a, type: tool}]\n            ^" in told
    (warned,) = [row.getMessage() for row in caplog.records if "doubtful.yaml:3" in row.getMessage()]
    assert 'unknown reference $bb, so "$bb.x" is text; if you mean text, write "$$bb.x"' in warned


def test_a_stored_chain_whose_transform_is_not_registered_yet_is_left_out_and_hides_no_other(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    later = {"id": "later", "name": "later", "nodes": [{"id": "a", "type": "transform", "input": "x", "transform": {}}]}
    later["nodes"][0]["transform"] = {"type": "CUSTOM", "config": {"function": "made_later"}}  # type: ignore[index]
    text = "kind: chain\nname: filed\nnodes: [{id: a, type: transform, input: \"${custom('made_later', 1)}\"}]\n"
    served.write("flows/filed.yaml", text.replace("}]", ", transform: {type: PICK, config: {fields: [a]}}}]"))
    transform("made_later")(str.upper)

    async def case() -> None:
        async with App.open(served.home, store="memory") as app:
            await app.chains.create_chain({"name": "sound", "nodes": [{"id": "a", "type": "delay", "delay": 1}]})
            await app.chains.create_chain(later)
            # As in a process that reads the store before somebody registers it.
            known = TRANSFORMS.pop("made_later")
            for cache in (app.definitions._prepared, app.definitions._documents, app.definitions._compiled):
                cache.clear()
            flows = Flows(app, ["flows"], served.home)
            names = {one.wanted for one in flows.offered()}
            assert "sound" in names
            assert not names & {"later", "filed"}
            said = "chain 'later' of the store is not offered: nodes[0].transform.config.function: no transform "
            assert any(row.getMessage().startswith(said) for row in caplog.records)
            assert "put @transform on its function" in flows.broken["chain 'later' of the store"]
            before = flows.version()
            transform("made_later")(known)
            assert flows.version() != before
            assert {"later", "filed"} < {one.wanted for one in flows.offered()}
            assert flows.broken == {}

    try:
        asyncio.run(case())
    finally:
        del TRANSFORMS["made_later"]


def test_recorded_tests_beside_flows_are_left_out_and_refused_where_they_are_named(served: Served) -> None:
    served.write("flows/shout.test.yaml", "kind: test\nname: t\nflow: shout.yaml\n")
    served.write("flows/other.yaml", "kind: test\nname: t\nflow: shout.yaml\n")

    async def broken(*places: str) -> dict[str, str]:
        async with App.open(served.home, store="memory") as app:
            flows = Flows(app, places, served.home)
            assert all("test" not in one.id.rpartition("/")[2] for one in flows.offered())
            return {Path(file).name: why for file, why in flows.broken.items()}

    assert asyncio.run(broken("flows")) == asyncio.run(broken("flows/*.yaml")) == {}
    named = asyncio.run(broken("flows/other.yaml"))
    assert "a recorded test is not a flow; run it as a test" in named["other.yaml"]


def test_files_replace_the_configured_flows_and_stored_chains_stay(served: Served) -> None:
    served.write("hello/experience.yaml", (Path(__file__).parents[2] / HELLO / "experience.yaml").read_text())
    served.write("hello/tools/greet.py", (Path(__file__).parents[2] / HELLO / "tools/greet.py").read_text())
    stored = {"name": "kept", "nodes": [{"id": "up", "type": "tool", "tool": "upper", "params": {"text": "b"}}]}
    app = App.open(served.home)
    kept = app.chains.core.create_chain(stored)
    app.store.close()

    async def case() -> None:
        async with served.client("hello") as mcp:
            await mcp.connect("here")
            assert [tool.name for tool in mcp.tools("here")] == ["hello-tool", "kept"]
            result = await mcp.call_tool("here", "hello-tool")
            assert result.structured_content["greeting"] == "hello, World"
            assert (await mcp.call_tool("here", "kept")).structured_content == {"up": "B"}
        [listed] = App.open(served.home).chains.core.list_chains()
        assert (listed["id"], listed["runCount"]) == (kept["id"], 1)

    asyncio.run(case())


HELLO = "examples/experiences/hello"


@pytest.mark.parametrize("era", sampled("conformance", reversed(ERAS), 1))
def test_a_change_of_the_flows_is_announced(served: Served, era: str) -> None:
    async def case() -> None:
        lists: asyncio.Queue[list[str]] = asyncio.Queue()
        async with served.client(mode=era) as mcp:
            mcp.on_tools(lambda _, tools: lists.put_nowait([tool.name for tool in tools]))
            await mcp.connect("here")
            assert await lists.get() == ["broken", "shout", "slow_one"]
            served.write("flows/added.yaml", "kind: chain\nname: added\nnodes: [{id: a, type: delay, delay: 1}]\n")
            assert await asyncio.wait_for(lists.get(), 20) == ["added", "broken", "shout", "slow_one"]
            served.write("flows/added.yaml", "kind: chain\nname: [\n")
            assert await asyncio.wait_for(lists.get(), 20) == ["broken", "shout", "slow_one"]

    asyncio.run(case())


def test_a_file_given_that_is_wrong_ends_the_command(served: Served) -> None:
    bad = served.write("bad.yaml", "kind: chain\nname: bad\nnodes: [{id: a, type: tool}]\n")
    done = fork_server.run(
        [COMMAND, "mcp", bad], cwd=served.home, input="", capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 3
    assert "bad.yaml:3:" in done.stderr
    assert done.stdout == ""
    with pytest.raises(InvalidFlow):
        App("memory").load(bad)


@pytest.mark.parametrize("end", ["eof", "term"])
def test_the_process_ends_when_its_client_closes_it_or_it_is_told_to(served: Served, end: str) -> None:
    child = fork_server.Popen(
        [COMMAND, "mcp"],
        cwd=served.home,
        env={**os.environ, **environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    for message in (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "slow_one", "_meta": {"progressToken": 1}}},
    ):
        child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        child.stdin.flush()
    lines = [json.loads(child.stdout.readline()) for _ in range(2)]
    assert lines[0]["result"]["capabilities"]["tools"] == {"listChanged": True}
    assert lines[1]["params"]["message"] == "rest: started"
    if end == "eof":
        child.stdin.close()
    else:
        child.send_signal(signal.SIGTERM)
    assert child.wait(50) == (0 if end == "eof" else 130)
    child.stdout.close()
    child.stderr.close()  # type: ignore[union-attr]
    assert [run["status"] for run in runs(served)] == ["stopped"]
