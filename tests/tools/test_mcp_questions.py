"""Servers that ask the program which calls them: for input of its user, a completion of its model, its directories."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from ropewalk import App, Runner, Toolbox
from ropewalk.config.settings import SamplingLimits
from ropewalk.errors import ConfigError, InvalidInput
from ropewalk.testing import ScriptedModel
from ropewalk.tools.mcp.local_client import Elicitation, LocalClient
from ropewalk.tools.mcp.requests import ServerRefused
from ropewalk.tools.mcp.servers import McpServers

from .mcp_lab import forked


def ask(what: str, *, elicit: Any = None, sample: Any = None, **config: Any) -> dict[str, Any]:
    """What the server was told."""

    async def case() -> dict[str, Any]:
        async with McpServers() as servers:
            servers.on_elicit, servers.on_sample = elicit, sample
            servers.add("curious", forked("curious.py", mode="legacy", **config))
            result = await servers.call_tool("curious", "ask", {"what": what})
            return json.loads(result.content[0].text)

    return asyncio.run(case())


def test_a_form_is_answered_with_the_defaults_of_the_server() -> None:
    seen: list[Elicitation] = []

    async def answer(question: Elicitation) -> dict[str, Any]:
        seen.append(question)
        return {"city": "Bern"}

    assert ask("form", elicit=answer) == {"action": "accept", "content": {"city": "Bern", "days": 3}}
    assert (seen[0].server, seen[0].message, seen[0].url) == ("curious", "Where to?", None)


@pytest.mark.parametrize(
    ("answer", "why"),
    [({}, '"city" is a required property'), ({"citi": "Bern"}, "did you mean 'city'"), ("Bern", "must be an object")],
)
def test_an_answer_that_does_not_fit_is_refused(answer: Any, why: str) -> None:
    assert why in ask("form", elicit=lambda _: answer)["refused"]


def test_a_question_can_be_declined() -> None:
    assert ask("form", elicit=lambda _: None)["action"] == "decline"


def test_an_address_is_shown_and_agreed_to() -> None:
    seen: list[str | None] = []
    assert ask("url", elicit=lambda question: seen.append(question.url) or True)["action"] == "accept"
    assert seen == ["https://pay.example/1"]


def test_roots_are_the_configured_directories(tmp_path: Path) -> None:
    answer = ask("roots", roots=[str(tmp_path)])
    assert answer["roots"] == [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]


def test_sampling_needs_a_setting_of_the_server() -> None:
    def sample(server: str, params: dict[str, Any]) -> dict[str, Any]:
        text = params["messages"][0]["content"]["text"]
        return {"role": "assistant", "content": {"type": "text", "text": f"{server}: {text}"}, "model": "m"}

    assert ask("sample", sample=sample, sampling=True)["content"]["text"] == "curious: Hello?"
    assert "refused" in ask("sample", sample=sample)


@pytest.mark.parametrize("what", ["form", "url", "roots", "sample"])
def test_without_an_answer_the_server_is_told_so(what: str) -> None:
    assert "refused" in ask(what)


def test_where_nobody_answers_the_error_has_the_question_and_the_setting() -> None:
    remedy = 'with questions = "wait" a run waits for the answer'
    assert ask("form")["refused"] == f"nobody answers here (on_elicit is not set); {remedy}: Where to?"
    # Outside a run there is nothing that could wait.
    assert ask("form", questions="wait")["refused"] == "nobody answers here (on_elicit is not set): Where to?"

    async def case() -> None:
        async with McpServers() as servers:
            servers.add("curious", forked("curious.py"))
            with pytest.raises(ServerRefused, match=r'no back-channel .*; with mode = "legacy" the server can ask'):
                await servers.call_tool("curious", "ask", {"what": "uncaught"})

    asyncio.run(case())


@pytest.mark.parametrize(
    ("key", "value"), [("roots", "/home"), ("roots", [3]), ("sampling", "yes"), ("sampling", {"max_token": 3})]
)
def test_wrong_settings_are_named(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        McpServers().add("curious", forked("curious.py", **{key: value}))


def local(sample: Any, **limits: int) -> LocalClient:
    return LocalClient("curious", None, sample, (), SamplingLimits(**limits), Counter())


def test_sampling_has_limits() -> None:
    tokens: list[int] = []

    def sample(server: str, params: dict[str, Any]) -> dict[str, Any]:
        tokens.append(params["maxTokens"])
        return {}

    async def case() -> None:
        client = local(sample, max_tokens=50, max_requests=2)
        await client.ask("sampling/createMessage", {"maxTokens": 9000})
        await client.ask("sampling/createMessage", {"maxTokens": 7})
        with pytest.raises(MCPError, match="limit of 2 requests"):
            await client.ask("sampling/createMessage", {"maxTokens": 7})

    asyncio.run(case())
    assert tokens == [50, 7]


def test_the_model_of_the_app_answers_a_server_that_may_ask_it() -> None:
    model = ScriptedModel("Hello, server.")

    async def case(sampling: Any) -> dict[str, Any]:
        toolbox = Toolbox(mcp={"curious": forked("curious.py", mode="legacy", sampling=sampling)})
        async with App("memory", toolbox=toolbox, model=model) as app:
            await app.connect()
            return await app.call_tool("curious:ask", {"what": "sample"})

    answer = asyncio.run(case({"max_tokens": 5}))
    assert (answer["content"]["text"], answer["stopReason"]) == ("Hello, server.", "endTurn")
    [request] = model.requests
    assert (request.max_tokens, request.messages[0]["content"][0]["text"]) == (5, "Hello?")
    assert "refused" in asyncio.run(case(False))
    assert len(model.requests) == 1


def test_a_toolbox_answers_questions_and_a_person_can_close_one() -> None:
    async def elicit(question: Elicitation) -> str:
        return "cancel" if question.schema else "decline"

    async def case() -> list[str]:
        toolbox = Toolbox(mcp={"curious": forked("curious.py", mode="legacy")}, on_elicit=elicit)
        async with toolbox:
            runner = Runner(toolbox)
            return [(await runner.run("curious:ask", {"what": what})).structured["action"] for what in ("form", "url")]

    assert asyncio.run(case()) == ["cancel", "decline"]
    with pytest.raises(InvalidInput, match="on_elicit"):
        Toolbox(on_elicit=3)  # type: ignore[arg-type]
