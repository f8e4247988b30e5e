"""A gateway between clients and servers of different revisions: what the server asks reaches the right client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_project import ERAS, Served, environment, served
from test_mcp_http import listening

import fork_server

__all__ = ["served"]
pytestmark = pytest.mark.process

SERVER = Path(__file__).parent / "conformance" / "scenario_server.py"


def settings(era: str) -> str:
    return f"""\
[mcp.scenarios]
command = {fork_server.program("python")!r}
args = [{str(SERVER)!r}]
mode = {era!r}
[mcp_server]
gateway = true
prefix = false
wait_for_servers = 60
"""


class User:
    """The user and the model behind a client."""

    def __init__(self, name: str = "ann") -> None:
        self.name = name
        self.asked: list[str] = []

    async def elicit(self, _: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        content = {key: f"{key} of {self.name}" for key in params.requested_schema["properties"]}
        return types.ElicitResult(action="accept", content=content)

    async def sample(self, _: Any, params: Any) -> types.CreateMessageResult:
        said = types.TextContent(type="text", text=f"model of {self.name}")
        return types.CreateMessageResult(role="assistant", content=said, model="test")

    async def roots(self, _: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=f"file:///{self.name}")])

    def client(self, transport: Any, mode: str) -> Client:
        return Client(
            transport,
            mode=mode,  # type: ignore[arg-type]
            elicitation_callback=self.elicit,
            sampling_callback=self.sample,
            list_roots_callback=self.roots,
        )


def stdio(served: Served) -> Any:
    place = StdioServerParameters(
        command=fork_server.program("ropewalk"), args=["mcp"], cwd=str(served.home), env=environment() or None
    )
    return stdio_client(place)


@pytest.mark.parametrize("behind", ERAS)
@pytest.mark.parametrize("era", ERAS)
def test_a_server_asks_the_client_of_the_call_whatever_revisions_both_speak(
    served: Served, era: str, behind: str
) -> None:
    served.write("ropewalk.toml", settings(behind))

    async def case() -> None:
        user = User()
        async with user.client(stdio(served), era) as client:
            for tool, answer in (
                ("test_elicitation", "username of ann"),
                ("test_sampling", "model of ann"),
                ("test_input_required_result_multiple_inputs", "file:///ann"),
                ("test_input_required_result_multi_round", "ann"),
            ):
                result = await client.call_tool(tool, {})
                assert answer in result.content[0].text, (tool, result)
            assert user.asked[0] == "Who are you?"
            assert user.asked[-1] == "Which color?"

    asyncio.run(case())


def test_one_client_never_answers_for_another(served: Served) -> None:
    """An older server does not say which call asks: while two clients call it, neither is asked."""
    served.write("ropewalk.toml", settings("legacy"))

    async def case(url: str) -> None:
        users = [User("ann"), User("ben")]
        async with (
            users[0].client(streamable_http_client(url), "legacy") as ann,
            users[1].client(streamable_http_client(url), "legacy") as ben,
        ):
            for _ in range(10):
                results = await asyncio.gather(
                    *(client.call_tool("test_elicitation", {}) for client in (ann, ben)),
                    return_exceptions=True,
                )
                for user, result in zip(users, results, strict=True):
                    if isinstance(result, Exception):
                        assert "which client to ask" in str(result)
                        continue
                    said = json.dumps(result.model_dump(mode="json"))
                    assert f"of {user.name}" in said or "which client to ask" in said
                    assert all(f"of {other.name}" not in said for other in users if other is not user)

    with listening(served, "--no-token", token=None) as found:
        asyncio.run(case(found.url))


@pytest.mark.parametrize("behind", ERAS)
def test_changes_and_completions_come_through(served: Served, behind: str) -> None:
    served.write("ropewalk.toml", settings(behind))

    async def case() -> None:
        changed = asyncio.Event()

        async def hear(message: Any) -> None:
            if isinstance(message, types.PromptListChangedNotification):
                changed.set()

        async with Client(stdio(served), mode="legacy", message_handler=hear) as client:
            prompt = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
            done = await client.complete(prompt, {"name": "arg1", "value": "pa"})
            assert done.completion.values == ["paris", "park", "party"]
            # Over stdio an older server announces on its own; one of 2026-07-28 on the gateway's stream.
            if behind == "2026-07-28":
                await client.call_tool("test_trigger_prompt_change", {})
                await changed.wait()

    asyncio.run(case())
