"""What calls of a run were given, found out without calling anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.errors import NotFound


def call(id: str, tool: str, /, **params: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": tool, "params": params}


async def test_arguments_come_from_the_journal_and_no_tool_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOOR_KEY", "open-sesame-123")
    made: list[str] = []

    @tool
    def upper(text: str, key: str = "") -> str:
        """Upper case."""
        made.append(text)
        return text.upper()

    @tool
    def fail(text: str) -> str:
        """Fails."""
        made.append(text)
        raise RuntimeError("no luck")

    again = {"errorStrategy": "retry", "maxRetries": 1, "retryDelay": 1}
    document = {
        "kind": "chain",
        "nodes": [
            {"id": "each", "type": "loop", "items": ["a", "b"], "nodes": [call("up", "upper", text="$item")]},
            call("locked", "upper", text="with a key", key="$secret.DOOR_KEY"),
            {"id": "nap", "type": "delay", "delay": 1},
            {**call("f", "fail", text="${$output.each[1]}!"), **again, "onError": "told"},
            call("told", "upper", text="after"),
        ],
    }  # fmt: skip
    async with App(str(tmp_path / "runs.db"), tools=[upper, fail], secrets=["DOOR_KEY"]) as app:
        await app.run(document, run_id="one")
        before = list(made)
        assert await app.runs.arguments("one") == {
            "each[0]/up": {"text": "a"},
            "each[1]/up": {"text": "b"},
            "locked": {"text": "with a key", "key": "$secret.DOOR_KEY"},
            "f": {"text": "B!"},
            "told": {"text": "after"},
        }
        assert made == before
        assert [row.id for row in app.runs.list(all=True)] == ["one"]
        with pytest.raises(NotFound):
            await app.runs.arguments("another")


@pytest.mark.parametrize("origin", [{}, {"origin": "model"}])
async def test_the_arguments_of_a_program_come_from_its_rows(tmp_path: Path, origin: dict[str, str]) -> None:
    made: list[int] = []

    @tool
    def double(n: int) -> int:
        """Double a number."""
        made.append(n)
        if n == 4:
            raise ValueError("no")
        return 2 * n

    code = "a = await double(1)\nb = await double(n=a)\nawait approve('Go?')\nreturn await double(b)"
    document = {"kind": "plan", "code": code, **origin}
    async with App(str(tmp_path / "runs.db"), tools=[double]) as app:
        await app.run(document, run_id="one", park=True)
        waiting = {"program[0-1:11.1]/double": {"n": 1}, "program[0-2:11.1]/double": {"n": 2}}
        assert await app.runs.arguments("one") == waiting
        app.runs.approve("one")
        await app.resume("one")
        assert await app.runs.arguments("one") == {**waiting, "program[0-4:14.1]/double": {"n": 4}}
    assert made == [1, 2, 4]
