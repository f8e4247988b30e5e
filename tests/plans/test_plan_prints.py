"""What programs print: in results, and once among the events of a run, also if it is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.events import Event

pytestmark = pytest.mark.anyio


@tool
async def send(n: int) -> int:
    """Send."""
    return n


CODE = """
print("first")
a = await send(n=1)
print("second", a)
await approve("Go?")
print("third")
return {"result": a, "printed": ["mine"]}
"""


def printed(events: list[Event]) -> list[Any]:
    """Return the texts that a run reported."""
    return [event.data["text"] for event in events if event.kind == "node.printed"]  # type: ignore[index,call-overload]


async def test_a_resumed_run_reports_each_text_once(tmp_path: Path) -> None:
    before: list[Event] = []
    after: list[Event] = []
    async with App(str(tmp_path / "runs.db"), tools=[send]) as app:
        waiting: Any = await app.plans.run_plan(CODE, on_event=before.append)
    async with App(str(tmp_path / "runs.db"), tools=[send]) as app:
        done: Any = await app.plans.resume_run(waiting["runId"], {"approved": True}, on_event=after.append)
        recorded: Any = app.runs.get(waiting["runId"], events=True)
        again: Any = await app.plans.resume_run(waiting["runId"])
    assert printed(before) == ["first\n", "second 1\n"]
    assert printed(after) == ["third\n"]
    # A result of this form is a result like any other.
    assert done["result"] == again["result"] == {"result": 1, "printed": ["mine"]}
    assert done["printed"] == again["printed"] == "first\nsecond 1\nthird\n"
    texts = [event["data"]["text"] for event in recorded["events"] if event["kind"] == "node.printed"]
    assert texts == ["first\n", "second 1\n", "third\n"]
    assert "row" not in {event["kind"] for event in recorded["events"]}


async def test_the_declared_type_is_that_of_the_result() -> None:
    document = {"kind": "plan", "name": "p", "code": "print(1)\nreturn 'x'", "output": {"type": "string"}}
    async with App("memory") as app:
        outcome = await app.run(document)
        assert (outcome.value, outcome.to_dict()["printed"]) == ("x", "1\n")
        assert app.as_tool(document).output_schema == {"type": "string"}
        wrong = await app.run({**document, "code": "print(1)\nreturn 2"})
        assert wrong.status == "failed"


async def test_a_program_that_only_prints_gives_its_text() -> None:
    async with App("memory") as app:
        done: Any = await app.plans.run_plan("print('a')\nprint('b')")
        silent: Any = await app.plans.run_plan("x = 1\nreturn x")
    assert (done["result"], done["printed"]) == ("a\nb\n", "a\nb\n")
    assert "printed" not in silent
