"""What is no question, and what is told of how a conversation ended."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from ropewalk.agents import Answer, ClaudeClient, Request, Settings, complete_with_tools
from ropewalk.errors import CompletionFailed, ModelError
from ropewalk.testing import ScriptedModel, wants

from .test_loop import look, talk, virtually


@pytest.mark.parametrize(
    ("prompt", "error", "said"),
    [
        ("", ValueError, "the prompt is empty"),
        (" \n", ValueError, "is empty"),
        (5, TypeError, "must be a string, not int"),
    ],
)
def test_what_is_no_prompt_is_refused_before_anything_is_asked(prompt: Any, error: Any, said: str) -> None:
    model = ScriptedModel("never")
    with pytest.raises(error, match=said):
        talk(model, prompt)
    with pytest.raises(CompletionFailed, match="the prompt is empty"):
        asyncio.run(complete_with_tools(messages=[{"role": "user", "content": ""}], client=model))
    assert not model.requests


@pytest.mark.parametrize(("message", "kind"), [("hi", "a string"), (None, "null"), ([], "a list"), (5, "a number")])
def test_a_message_that_is_not_an_object_is_named(message: Any, kind: str) -> None:
    model = ScriptedModel("never")
    with pytest.raises(CompletionFailed, match=rf"messages\[1\] must be an object with role and content, not {kind}$"):
        asyncio.run(complete_with_tools(messages=[{"role": "user", "content": "a"}, message], client=model))
    assert not model.requests


def test_a_result_that_is_used_again_stands_in_the_trace() -> None:
    model = ScriptedModel([wants("look", {"at": "a"}), wants("look", {"at": "a"})], wants("look", {"at": "a"}), "done")
    done = talk(model, tools=[look])
    assert [use["outcome"]["value"] for use in done.trace] == ["saw a"] * 3  # type: ignore[index, call-overload]
    assert [use["outcome"].get("same_as") for use in done.trace] == [None, "call_1", "call_1"]  # type: ignore[union-attr]


def test_a_failure_says_how_often_the_model_was_asked() -> None:
    model = ScriptedModel(ModelError("refused: overloaded_error", retryable=True))
    with pytest.raises(CompletionFailed, match=r"refused: overloaded_error \(asked 3 times\)$"):
        talk(model, play=virtually)
    assert len(model.requests) == 3


def test_no_answer_in_time_is_told_as_that() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        client = ClaudeClient(Settings(base_url=url, timeout=0.2, max_retries=1), api_key="no-key")
        with pytest.raises(
            CompletionFailed,
            match=r"did not answer within 0\.2 s \(timeout under \[model\] in ropewalk\.toml\) \(after 2",
        ):
            asyncio.run(complete_with_tools("hi", client=client))


class Breaking:
    """A model whose first answer breaks off in its middle."""

    def __init__(self) -> None:
        self.asked = 0

    async def turn(self, request: Request, tell: Any) -> Answer:
        self.asked += 1
        tell("text", "half ")
        if self.asked == 1:
            raise ModelError("the connection ended before the answer was complete", retryable=True)
        tell("text", "whole")
        return Answer(content=[{"type": "text", "text": "half whole"}], stop_reason="end_turn")

    async def close(self) -> None: ...


def test_what_was_told_of_an_answer_that_broke_off_can_be_taken_back() -> None:
    shown: list[str] = []

    def listen(event: dict[str, Any]) -> None:
        if event["type"] == "text":
            shown.append(event["text"])
        elif event["type"] == "broken_off":
            assert ("".join(shown), event["thinking"]) == (event["text"], "")
            assert "connection ended" in event["error"]
            shown.clear()

    done = asyncio.run(complete_with_tools("go", client=Breaking(), on_event=listen))
    assert "".join(shown) == done.text == "half whole"
