"""What the Messages API refuses all the same: the part is left out, the conversation continues, and no process sends
the refused request again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import fork_server
from patience import wait_until
from ropewalk import tool
from ropewalk.agents import (
    ClaudeClient,
    Completion,
    Settings,
    complete_json_with_tools,
    complete_with_tools,
    resume_completion,
)
from ropewalk.app.app import App
from ropewalk.errors import CompletionFailed, ModelError
from ropewalk.testing import ScriptedModel
from ropewalk.tools.tool import Tool

from .strict_api import StrictApi, use
from .test_poison import PNG, image, text, user

CHILD = str(Path(__file__).with_name("refused_child.py"))


def client(api: StrictApi) -> ClaudeClient:
    return ClaudeClient(Settings(base_url=api.url, stream=False, max_retries=0), api_key="no-key")


def named(*names: str) -> list[Tool]:
    async def handler(**given: Any) -> str:
        return "done it"

    return [Tool(name, f"Does {name}.", {"type": "object"}, handler=handler) for name in names]


def talk(api: StrictApi, names: tuple[str, ...] = (), model: ClaudeClient | None = None, **options: Any) -> Completion:
    given = {"prompt": "go", **options} if "messages" not in options else options
    return asyncio.run(complete_with_tools(tools=named(*names), client=model or client(api), **given))


def refuse_bad_tools(body: dict[str, Any]) -> str | None:
    """As the API does: the first of the tools that it does not like, by its number."""
    for i, one in enumerate(body.get("tools", ())):
        if one["name"].startswith("bad"):
            return f"tools.{i}.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"
    return None


def refuse_by_name(body: dict[str, Any]) -> str | None:
    found = [one["name"] for one in body.get("tools", ()) if one["name"].startswith("bad")]
    return f"tools: the definition of '{found[0]}' is not supported" if found else None


@pytest.mark.parametrize("refuses", [refuse_bad_tools, refuse_by_name])
def test_a_400_that_names_a_tool_drops_that_tool_warns_and_continues(refuses: Any) -> None:
    with StrictApi(use("good"), "done", refuses=refuses) as api:
        done = talk(api, ("bad_1", "good", "bad_2"))
        assert (done.text, done.rounds, done.stop_reason) == ("done", 2, "end_turn")
        assert [[one["name"] for one in body["tools"]] for body in api.bodies] == [
            ["bad_1", "good", "bad_2"], ["good", "bad_2"], ["good"], ["good"],
        ]  # fmt: skip
    assert [line.partition(": the Messages API refused: 400")[0] for line in done.warnings] == [
        "tool bad_1: left out", "tool bad_2: left out",
    ]  # fmt: skip
    assert [call["outcome"] for call in done.trace] == [{"value": "done it"}]


def test_a_refusal_takes_no_round_and_is_remembered_by_the_client() -> None:
    with StrictApi("done", refuses=refuse_bad_tools) as api:
        model = client(api)
        first = talk(api, ("good", "bad"), model, max_rounds=1, tool_choice={"type": "tool", "name": "bad"})
        assert (first.text, first.rounds) == ("done", 1)
        assert "tool_choice" not in api.bodies[-1]
        again = talk(api, ("good", "bad"), model)
        assert again.text == "done"
        assert len(api.refused) == 1
        assert any(line.startswith("tool bad: left out") for line in again.warnings)


def test_more_refusals_than_a_conversation_may_have_end_it() -> None:
    with StrictApi("never", refuses=refuse_bad_tools) as api:
        with pytest.raises(CompletionFailed, match=r"400 invalid_request_error: tools\.0"):
            talk(api, tuple(f"bad_{n}" for n in range(30)), max_rounds=1)
        assert len(api.bodies) == 21


def test_a_400_that_names_an_image_sends_a_text_in_its_place() -> None:
    def refuses(body: dict[str, Any]) -> str | None:
        for i, message in enumerate(body["messages"]):
            for j, block in enumerate(message["content"] if isinstance(message["content"], list) else ()):
                if block["type"] == "image":
                    return f"messages.{i}.content.{j}.image.source.base64: Could not process image"
                for k, inner in enumerate(block["content"] if isinstance(block.get("content"), list) else ()):
                    if inner["type"] == "image":
                        return f"messages.{i}.content.{j}.tool_result.content.{k}.image.source: Could not process image"
        return None

    use_block = {"type": "tool_use", "id": "t1", "name": "good", "input": {}}
    shown = {"type": "tool_result", "tool_use_id": "t1", "content": [text("see"), image(PNG, "image/png")]}
    with StrictApi("done", refuses=refuses) as api:
        messages = [user(text("a"), image(PNG[:-4])), {"role": "assistant", "content": [use_block]}, user(shown)]
        done = talk(api, ("good",), messages=messages)
        assert (done.text, len(api.refused)) == ("done", 2)
        first, _, last = api.bodies[-1]["messages"]
        assert first["content"][1] == {"type": "text", "text": "[image: it cannot be shown here]"}
        assert last["content"][0]["content"][1] == {"type": "text", "text": "[image: it cannot be shown here]"}
    assert any("messages[0].content[1]: this image was refused" in line for line in done.warnings)


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def test_a_refused_answer_schema_affects_only_that_schema() -> None:
    def refuses(body: dict[str, Any]) -> str | None:
        form = body.get("output_config", {}).get("format", {}).get("schema", {})
        return "output_config.format.schema: Schema is too complex." if "m" in form.get("properties", {}) else None

    other = {**SCHEMA, "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}}
    with StrictApi('{"n": 3}', refuses=refuses) as api:
        model = client(api)
        done = asyncio.run(complete_json_with_tools("go", other, client=model))
        assert (done.data, len(api.refused)) == ({"n": 3}, 1)
        assert "output_config" not in api.bodies[1]
        assert '"m"' in api.bodies[1]["system"]
        assert any(line.startswith("output schema: sent to the model as an instruction") for line in done.warnings)
        asyncio.run(complete_json_with_tools("go", SCHEMA, client=model))
        assert "output_config" in api.bodies[-1]
        asyncio.run(complete_json_with_tools("go", other, client=model))
        assert len(api.refused) == 1


@pytest.mark.parametrize("resume", ["resume", "begin again", "retry"])
def test_a_request_that_is_refused_as_a_whole_is_never_sent_again(tmp_path: Path, resume: str) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with StrictApi(use("good"), "done", refuses=lambda body: "prompt is too long: 9 tokens > 8 maximum"
                   if len(body["messages"]) > 1 else None) as api:  # fmt: skip

        async def begin() -> None:
            async with App(store, tools=named("good"), model=client(api)) as app:
                await complete_with_tools("go", tools=["good"], app=app, run_id="r")

        async def again() -> None:
            async with App(store, tools=named("good"), model=client(api)) as app:
                if resume == "resume":
                    await resume_completion("r", app=app)
                elif resume == "begin again":
                    await complete_with_tools("go", tools=["good"], app=app, run_id="r")
                else:
                    result = await app.runs.retry("r")
                    raise CompletionFailed(str(result.error), run_id="r")

        for run in (begin, again, again):
            with pytest.raises(CompletionFailed, match=r"prompt is too long.*the same request is not sent again"):
                asyncio.run(run())
        assert (len(api.bodies), len(api.refused)) == (2, 1)


def test_a_refusal_of_the_account_is_not_one_of_the_request(tmp_path: Path) -> None:
    poor = ["Your credit balance is too low to access the Anthropic API."]
    store = f"sqlite:///{tmp_path}/runs.db"
    with StrictApi("done", refuses=lambda body: poor[0] if poor else None) as api:

        async def run() -> Completion:
            async with App(store, model=client(api)) as app:
                return await complete_with_tools("go", app=app, run_id="r")

        with pytest.raises(CompletionFailed, match="credit balance"):
            asyncio.run(run())
        poor.clear()
        assert asyncio.run(run()).text == "done"
        assert api.bodies[0] == api.bodies[-1]


def test_a_killed_process_leaves_what_was_refused_to_the_next(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with StrictApi(use("good", n=2), "done", refuses=refuse_bad_tools) as api:
        api.hold = threading.Event()  # the answer after the refusal never comes
        first = fork_server.Popen([sys.executable, CHILD, store, api.url, "r"], stdout=subprocess.PIPE, text=True,
                                  env={**os.environ})  # fmt: skip
        wait_until(lambda: len(api.bodies) == 2)
        first.kill()
        first.communicate()
        assert [len(body["tools"]) for body in api.bodies] == [2, 1]
        api.hold.set()
        api.answered = 0
        second = fork_server.Popen([sys.executable, CHILD, store, api.url, "r", "resume"], stdout=subprocess.PIPE,
                                   text=True, env={**os.environ})  # fmt: skip
        output, _ = second.communicate(timeout=300)
        assert output.split("\n")[-2] == "done done 2 1"
        assert len(api.refused) == 1
        assert [one["name"] for body in api.bodies[1:] for one in body["tools"]] == ["good"] * 3


def test_a_client_of_ones_own_can_say_which_tool_was_refused() -> None:
    model = ScriptedModel(ModelError("refused: no such thing", part={"tool": "bad"}), "done")
    done = asyncio.run(complete_with_tools("go", tools=named("good", "bad"), client=model))
    assert (done.text, done.rounds) == ("done", 1)
    assert [[one["name"] for one in request.tools] for request in model.requests] == [["good", "bad"], ["good"]]
    assert done.warnings == ("tool bad: left out: refused: no such thing",)


@tool
async def look(at: str) -> str:
    """Looks."""
    return at


def test_a_definition_that_a_server_changes_is_sent_anew() -> None:
    """What is remembered is the definition, not the name."""
    with StrictApi("done", refuses=lambda body: next(
        (f"tools.{i}: no" for i, one in enumerate(body.get("tools", ())) if "worse" in one["description"]), None
    )) as api:  # fmt: skip
        model = client(api)
        worse = Tool("look", "Looks worse.", {"type": "object"}, handler=look)
        for given, refused in (([worse], 1), ([look], 1), ([worse], 1)):
            asyncio.run(complete_with_tools("go", tools=given, client=model))
            assert len(api.refused) == refused
        assert [len(body.get("tools", ())) for body in api.bodies] == [1, 0, 1, 0]
