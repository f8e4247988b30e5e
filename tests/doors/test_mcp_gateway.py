"""`ropewalk mcp --gateway` and `--tools`: many servers behind one, and the project's own tools."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_project import ERAS, Served, served

import fork_server
from ropewalk.tools.mcp.requests import ServerRefused
from ropewalk.tools.mcp.servers import McpServers
from ropewalk.tools.tool import ProgressEvent
from tiers import sampled
from tools.mcp_lab import node_script, odd_http

pytestmark = pytest.mark.process

__all__ = ["served"]

SERVERS = Path(__file__).parents[1] / "mcp_servers"
STAMP = "io.modelcontextprotocol/serverInfo"

# What real clients do with the reference server: each kind of content, structured content, errors, progress.
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"message": "ahoy"}),
    ("echo", {}),
    ("get-sum", {"a": 1, "b": 2}),
    ("get-sum", {"a": 1, "b": "two"}),
    ("get-tiny-image", {}),
    ("get-resource-links", {"count": 3}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-structured-content", {"location": "Chicago"}),
    ("trigger-long-running-operation", {"duration": 0.2, "steps": 4}),
]


def toml(offered: str = "", /, **servers: list[str]) -> str:
    """A project with servers, which clients get in their first list however slow this machine is."""
    tables = [f"[mcp.{name}]\ncommand = {argv[0]!r}\nargs = {argv[1:]!r}\n" for name, argv in servers.items()]
    return "".join(["[mcp_server]\nwait_for_servers = 60\n", offered, *tables])


def odd(*args: str) -> list[str]:
    return [fork_server.program("python"), str(SERVERS / "odd.py"), *args]


async def answer(mcp: McpServers, server: str, tool: str, args: dict[str, Any]) -> Any:
    told: list[ProgressEvent] = []
    result = (await mcp.call_tool(server, tool, args, on_progress=told.append)).model_dump(mode="json")
    meta = result.pop("meta") or {}
    meta.pop(STAMP, None)  # who answers: the one thing that is not the same
    return result, meta, told


@pytest.mark.node
@pytest.mark.parametrize("era", sampled("conformance", ERAS, 1))
def test_through_the_gateway_a_real_server_is_the_same(served: Served, era: str) -> None:
    script = node_script("server-everything")
    served.write("ropewalk.toml", toml(every=["node", script]) + 'trust = "hints"\n')

    async def case() -> None:
        async with served.client("--gateway", mode=era) as mcp:
            mcp.add("direct", {"command": "node", "args": [script]})
            await mcp.connect()
            assert mcp.failures == {}
            direct = {tool.name: tool.to_dict() for tool in mcp.tools("direct")}
            assert len(direct) >= 12
            through_gateway = {tool.name: tool.to_dict() for tool in mcp.tools("here")}
            # It shows more tools to a client that can be asked; the gateway can, on behalf of its clients.
            asking = {name for name in through_gateway if name.removeprefix("every__") not in direct}
            assert all("-roots" in name or name.startswith("every__trigger-") for name in asking), asking
            assert {name: said for name, said in through_gateway.items() if name not in asking} == {
                f"every__{name}": said for name, said in direct.items()
            }
            for name, args in CALLS:
                asked = (answer(mcp, "direct", name, args), answer(mcp, "here", f"every__{name}", args))
                straight, through = await asyncio.gather(*asked)
                assert through == straight, name

    asyncio.run(case())


async def asked(mcp: McpServers, server: str, method: str, *args: Any) -> Any:
    """What the SDK's session gives, without who answers and how long it may be kept."""
    found = await mcp.ask(server, lambda session: getattr(session, method)(*args), method)
    said = found.model_dump(mode="json", exclude_none=True)
    (said.get("meta") or {}).pop(STAMP, None)
    return {key: value for key, value in said.items() if value and key not in ("ttl_ms", "cache_scope", "result_type")}


@pytest.mark.node
@pytest.mark.parametrize("era", sampled("conformance", reversed(ERAS), 1))
def test_prompts_and_resources_of_a_real_server_come_through_the_gateway(served: Served, era: str) -> None:
    script = node_script("server-everything")
    served.write("ropewalk.toml", toml(every=["node", script], odd=odd()))

    async def case() -> None:
        async with served.client("--gateway", mode=era) as mcp:
            mcp.add("direct", {"command": "node", "args": [script]})
            await mcp.connect()
            direct = (await asked(mcp, "direct", "list_prompts"))["prompts"]
            assert [one["name"] for one in direct] == [
                "simple-prompt",
                "args-prompt",
                "completable-prompt",
                "resource-prompt",
            ]
            through = (await asked(mcp, "here", "list_prompts"))["prompts"]
            assert through == [{**one, "name": f"every__{one['name']}"} for one in direct]
            for name, args in (("simple-prompt", None), ("args-prompt", {"city": "Bath"}), ("args-prompt", {})):
                assert await outcome(mcp, "here", "get_prompt", f"every__{name}", args) == await outcome(
                    mcp, "direct", "get_prompt", name, args
                )
            for method in ("list_resources", "list_resource_templates"):
                assert await asked(mcp, "here", method) == await asked(mcp, "direct", method)
            [first, *_] = (await asked(mcp, "direct", "list_resources"))["resources"]
            for uri in (first["uri"], "demo://resource/dynamic/blob/2"):
                straight, passed = (
                    await asked(mcp, "direct", "read_resource", uri),
                    await asked(mcp, "here", "read_resource", uri),
                )
                assert (
                    [one["uri"] for one in passed["contents"]] == [one["uri"] for one in straight["contents"]] == [uri]
                )
            with pytest.raises(ServerRefused, match="Resource not found: nowhere://x"):
                await mcp.read_resource("here", "nowhere://x")
            with pytest.raises(ServerRefused, match="Unknown prompt: simple-prompt"):
                await asked(mcp, "here", "get_prompt", "simple-prompt", None)

    asyncio.run(asyncio.wait_for(case(), 100))


async def outcome(mcp: McpServers, server: str, *what: Any) -> Any:
    """The answer, or the words of the protocol error."""
    try:
        return await asked(mcp, server, *what)
    except ServerRefused as error:
        return str(error).partition(": ")[2], error.code


def test_of_a_project_with_pins_only_pinned_servers_pass_on_prompts_and_resources(served: Served) -> None:
    served.write("ropewalk.toml", toml(odd=odd()))
    served.write("ropewalk.lock", '{"version": 1, "servers": {}}')

    async def case() -> None:
        async with served.client("--gateway") as mcp:
            assert await asked(mcp, "here", "list_resources") == {}
            assert mcp.tools("here") == []

    asyncio.run(asyncio.wait_for(case(), 100))


def test_several_servers_are_told_apart_and_a_broken_one_stops_no_other(served: Served) -> None:
    served.write("ropewalk.toml", toml(port=odd(), starboard=odd(), sunk=[sys.executable, "-c", "raise SystemExit"]))

    async def case() -> None:
        async with served.client("--gateway") as mcp:
            port, starboard = [
                (await mcp.call_tool("here", f"{name}__pid")).content[0].text for name in ("port", "starboard")
            ]
            assert port != starboard
            names = [tool.name for tool in mcp.tools("here")]
            assert len(names) == 32
            assert all(name.startswith(("port__", "starboard__")) for name in names)
            failed = await mcp.call_tool("here", "port__fails")
            assert (failed.is_error, failed.content[0].text) == (True, "it went wrong")
            await mcp.call_tool("here", "port__grow", {"name": "anchor"})
            while "port__anchor" not in [tool.name for tool in mcp.tools("here")]:
                await mcp.call_tool("here", "port__echo")  # the change is announced, and heard between calls
            died = await mcp.call_tool("here", "port__die")
            assert died.is_error
            assert "MCP server 'port'" in died.content[0].text
            assert (await mcp.call_tool("here", "port__echo", {"text": "again"})).content[0].text == "again"

    asyncio.run(case())


def test_a_protocol_error_of_a_server_comes_as_it_is_and_a_cancelled_call_is_cancelled_there(served: Served) -> None:
    served.write("ropewalk.toml", toml(odd=odd()))

    async def case() -> None:
        async with served.client("--gateway") as mcp:
            # The server raises: the era of 2026-07-28 says nothing of it, so neither does the gateway.
            with pytest.raises(ServerRefused, match=r"Internal server error \(code -32603\)"):
                await mcp.call_tool("here", "odd__big", {"wrong": 1}, timeout=20)
            begun = asyncio.Event()
            slow = asyncio.create_task(mcp.call_tool("here", "odd__slow", on_progress=lambda _: begun.set()))
            await begun.wait()
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            while not (await mcp.call_tool("here", "odd__calls")).structured_content["cancelled"]:
                pass

    asyncio.run(case())


def test_no_token_or_header_of_the_client_goes_to_a_server_behind(served: Served) -> None:
    with odd_http() as server:
        served.write("ropewalk.toml", f"[mcp.behind]\nurl = '{server.url}'\nheaders = {{ X-Own = 'ours' }}\n")

        async def case() -> None:
            async with served.client("--gateway") as mcp:
                headers = (await mcp.call_tool("here", "behind__headers")).structured_content
                assert headers["x-own"] == "ours"
                assert "authorization" not in headers
                meta = (await mcp.call_tool("here", "behind__meta", key="k")).structured_content
                assert (
                    meta["ropewalk/idempotencyKey"]
                    == hashlib.sha256(hashlib.sha256(b"k").hexdigest().encode()).hexdigest()
                )

        asyncio.run(case())


def scale(served: Served, more: str = "") -> Path:
    """The project with a server `scale`; what it says stands in the file given back."""
    tools = served.write("scale.json", json.dumps([WEIGH, DIE]))
    served.write(
        "ropewalk.toml", toml(more, scale=[fork_server.program("python"), str(SERVERS / "shifty.py"), str(tools)])
    )
    return tools


SAFE = {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False}


@pytest.mark.parametrize(("trust", "annotations"), [("", None), ('trust = "hints"\n', SAFE)])
def test_hints_of_a_server_are_passed_on_only_with_trust(served: Served, trust: str, annotations: Any) -> None:
    tools = served.write("scale.json", json.dumps([{**WEIGH, "annotations": SAFE}]))
    served.write(
        "ropewalk.toml", toml(scale=[fork_server.program("python"), str(SERVERS / "shifty.py"), str(tools)]) + trust
    )

    async def case() -> None:
        async with served.client("--gateway") as mcp:
            await mcp.connect("here")
            found = {tool.name: tool for tool in mcp.tools("here")}
            assert found["scale__weigh"].annotations == annotations

    asyncio.run(case())


WEIGH = {"name": "weigh", "description": "Weighs a rope.", "inputSchema": {"type": "object"}}
DIE = {"name": "die", "description": "Ends the process.", "inputSchema": {"type": "object"}}
REFUSED = "scale:weigh: refused: the tool is not approved, or has changed since; an operator must review it"


def test_a_tool_that_is_not_approved_is_neither_listed_nor_called(served: Served) -> None:
    tools = scale(served)

    async def case() -> None:
        await pin(served)
        async with served.client("--gateway") as mcp:
            lists: asyncio.Queue[list[str]] = asyncio.Queue()
            mcp.on_tools(lambda _, tools: lists.put_nowait([tool.name for tool in tools]))
            await mcp.connect("here")
            assert await lists.get() == ["scale__die", "scale__reload", "scale__weigh"]
            tools.write_text(json.dumps([{**WEIGH, "description": "Weighs you."}, DIE]))
            await mcp.call_tool("here", "scale__reload")
            assert await asyncio.wait_for(lists.get(), 20) == ["scale__die", "scale__reload"]
            refused = await mcp.call_tool("here", "scale__weigh")
            assert refused.is_error
            # What differs is the server's text, and the command that approves it no agent's to type.
            assert refused.content[0].text == REFUSED
            assert "Weighs" not in str(refused)
            assert refused.meta["ropewalk/error"]["kind"] == "ToolNotApproved"
            with pytest.raises(ServerRefused, match="Unknown tool: scale__wei"):
                await mcp.call_tool("here", "scale__wei")

    asyncio.run(case())


@pytest.mark.parametrize(
    ("listed", "era"),
    sampled("conformance", [(100, ERAS[0]), (1, ERAS[0]), (1, ERAS[1]), (100, ERAS[1])], 2),  # one of each, crosswise
)
def test_what_a_restart_has_changed_is_refused_before_it_is_called_once(served: Served, era: str, listed: int) -> None:
    tools = scale(served, f"max_listed = {listed}\n")

    async def case() -> None:
        await pin(served)

        async def call(name: str) -> Any:
            if listed == 100:
                return await mcp.call_tool("here", f"scale__{name}")
            return await mcp.call_tool("here", "call_tool", {"name": f"scale__{name}"})

        async with served.client("--gateway", mode=era) as mcp:
            heard = asyncio.Event()
            mcp.on_tools(lambda _, tools: heard.set() if "scale__weigh" not in [t.name for t in tools] else None)
            assert not (await call("weigh")).is_error
            assert (await call("die")).is_error
            tools.write_text(json.dumps([{**WEIGH, "description": "Weighs you."}, DIE]))
            for _ in range(2):  # when the server is started again, and when the toolbox has heard of it
                refused = await call("weigh")
                assert refused.is_error
                assert refused.content[0].text == REFUSED
            assert not (await call("reload")).is_error  # of the same server
            assert tools.with_suffix(".calls").read_text().split() == ["weigh", "die", "reload"]
            await heard.wait()  # a client that holds the list of before is told
            assert (await call("die")).is_error
            tools.write_text(json.dumps([WEIGH, DIE]))
            assert not (await call("weigh")).is_error  # it is what was approved again

    asyncio.run(case())


async def pin(served: Served) -> None:
    from ropewalk.app.app import App
    from ropewalk.tools.pins import LOCK_FILE, Pins

    async with App.open(served.home, store="memory") as app:
        await app.connect()
        pins = Pins(served.home / LOCK_FILE)
        pins.approve("scale", app.toolbox.mcp.tools("scale"))
        pins.write()


@pytest.mark.parametrize("era", ERAS)
def test_the_projects_own_tools_are_offered_when_asked(served: Served, era: str) -> None:
    served.write("mcp_door_tools.py", OWN)

    async def case() -> None:
        async with served.client("--tools", mode=era) as mcp:
            await mcp.connect("here")
            tools = {tool.name: tool for tool in mcp.tools("here")}
            assert [name for name in tools if name not in ("broken", "shout", "slow_one")] == ["count", "geo__map"]
            assert tools["count"].description == "count (local tool)."
            assert tools["count"].annotations == {"readOnlyHint": True}
            told: list[ProgressEvent] = []
            counted = await mcp.call_tool("here", "count", {"word": "rope"})
            assert counted.structured_content == {"result": 4}
            wrong = await mcp.call_tool("here", "count", {"wrod": "rope"})
            assert wrong.is_error
            assert "the arguments do not match the input schema" in wrong.content[0].text
            map = await mcp.call_tool("here", "geo__map", on_progress=told.append)
            assert [part.type for part in map.content] == ["image", "text"]
            secret = await mcp.call_tool("here", "count", {"word": "!"})
            assert (secret.is_error, "Traceback" in str(secret)) == (True, False)

    asyncio.run(case())


OWN = '''
import mcp_types as types
from ropewalk import tool

@tool(description="", annotations={"readOnlyHint": True})
def count(word: str) -> int:
    if word == "!":
        raise ValueError("not a word")
    return len(word)

@tool(namespace="geo")
def map() -> object:
    """A map, as an image."""
    image = types.ImageContent(type="image", data="AAAA", mime_type="image/png")
    return types.CallToolResult(content=[image, types.TextContent(type="text", text="here")])
'''


def test_many_tools_are_found_instead_of_listed(served: Served) -> None:
    served.write("ropewalk.toml", toml("flows = ['flows/shout.yaml']\nmax_listed = 5\n", odd=odd()))
    served.write("flows/shout.yaml", "kind: chain\nname: shout\nnodes: [{id: a, type: delay, delay: 1}]\n")

    async def case() -> None:
        async with served.client("--gateway") as mcp:
            await mcp.connect("here")
            assert [tool.name for tool in mcp.tools("here")] == ["find_tools", "call_tool", "read_value", "shout"]
            found = (
                await mcp.call_tool("here", "find_tools", {"query": "report progress", "limit": 2})
            ).structured_content
            assert found["total"] == 17
            assert found["tools"][0]["name"] == "odd__progress"
            assert found["fits"]
            assert 0.3 <= found["tools"][0]["score"] <= 1
            none = (await mcp.call_tool("here", "find_tools", {"query": "knit a woollen sock"})).structured_content
            assert not none["fits"]
            assert none["note"].startswith("no tool here fits this request (none has a score of 0.3 or more)")
            assert all(tool["score"] < 0.3 for tool in none["tools"])
            assert found["tools"][0]["inputSchema"] == {"type": "object"}
            both = {"queries": ["report progress", "say it back: echo"], "limit": 6}
            several = (await mcp.call_tool("here", "find_tools", both)).structured_content
            assert [tool["name"] for tool in several["tools"][:2]] == ["odd__progress", "odd__echo"]
            assert {query: names[0] for query, names in several["queries"].items()} == {
                "report progress": "odd__progress",
                "say it back: echo": "odd__echo",
            }
            told: list[ProgressEvent] = []
            through = {"name": "odd__progress", "arguments": {"count": 2}}
            done = await mcp.call_tool("here", "call_tool", through, on_progress=told.append)
            assert done.content[0].text == "done"
            assert [event.message for event in told] == ["step 1", "step 2"]
            assert (await mcp.call_tool("here", "odd__echo", {"text": "by name"})).content[0].text == "by name"
            for wrong, said in (
                ({"query": " "}, "query: must describe the task in words"),
                (
                    {"query": "x", "limit": 0},
                    "the arguments do not match the input schema:\n.limit: 0 is less than the minimum of 1",
                ),
            ):
                refused = await mcp.call_tool("here", "find_tools", wrong)
                assert (refused.is_error, refused.content[0].text) == (True, said)
            unknown = await mcp.call_tool("here", "call_tool", {"name": "odd__eco"})
            assert unknown.content[0].text == "name: there is no tool 'odd__eco'; did you mean odd__echo?"
            plan = await mcp.call_tool("here", "call_tool", {"name": "plans:nope"})
            assert plan.content[0].text == (
                "name: there is no tool 'plans:nope'; there is no saved plan 'nope'; ask find_tools"
            )

    asyncio.run(case())
