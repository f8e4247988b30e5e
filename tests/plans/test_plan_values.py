"""`value("RUN/NODE")` in a program: what it reads, where it may stand, and that its result is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, tool

pytestmark = pytest.mark.anyio


@tool(annotations={"readOnlyHint": True})
async def rows(n: int) -> list[int]:
    """List numbers."""
    return list(range(n))


@tool
async def value(place: str) -> str:
    """A tool with a name of the language."""
    return f"tool of {place}"


async def run(app: App, code: str, contained: bool) -> dict[str, Any]:
    """Run a program in a child, as models do, or in this process."""
    if contained:
        return await app.plans.run_plan(code)
    outcome = await app.run({"kind": "plan", "name": "p", "code": code})
    return outcome.to_dict()


READS = {
    "called": "return value(PLACE)[1] + 1",
    "awaited": "return (await value(PLACE))[1] + 1",
    "in a list": "return sum([value(place)[1] for place in [PLACE, PLACE]])",
    "in an async function": "async def read(place):\n    return value(place)\nreturn (await read(PLACE))[1] + 1",
    "with a computed place": "run = PLACE.split('/')[0]\nreturn value(f'{run}/result')[1] + 1",
    "inside of another": "return value(PLACE[:len(value(PLACE)) * 0 + 200])[1] + 1",
    "beside a name of the program": "for key, value_ in {'a': 1}.items():\n    x = value(PLACE)[value_] + 1\nreturn x",
}


@pytest.mark.parametrize("contained", [True, False])
async def test_a_program_reads_what_a_run_recorded(contained: bool, tmp_path: Path) -> None:
    async with App(str(tmp_path / "runs.db"), tools=[rows]) as app:
        earlier: Any = await app.plans.run_plan("return await rows(n=3)")
        for name, code in READS.items():
            read = await run(app, code.replace("PLACE", repr(f"{earlier['runId']}/result")), contained)
            assert (read["status"], read["result"]) == ("completed", 2), name
        node = next(entry.path for entry in app.context.history(earlier["runId"]) if entry.kind == "call")
        assert (await run(app, f"return value('{earlier['runId']}/{node}')", contained))["result"] == [0, 1, 2]


async def test_what_was_read_is_recorded(tmp_path: Path) -> None:
    async with App(str(tmp_path / "runs.db"), tools=[rows]) as app:
        earlier: Any = await app.plans.run_plan("return await rows(n=3)")
        code = f"x = value('{earlier['runId']}/result')\nawait approve('Go?')\nreturn x"
        waiting: Any = await app.plans.run_plan(code)
        assert app.runs.prune(older_than=0, status="completed").runs == 1
        done = await app.plans.resume_run(waiting["runId"], {"approved": True})
        assert (done["status"], done["result"]) == ("completed", [0, 1, 2])


MISSING = "try:\n    value('no/result')\nexcept ToolError as error:\n    return str(error)"
REFUSED = {
    "def read(place):\n    return value(place)\nreturn read('r/result')": (2, "write async def"),
    "return sum(len(value(place)) for place in ['r/result'])": (1, "or a list"),
    "return list(map(lambda place: value(place), ['r/result']))": (1, "write async def"),
    "return value('r', 'result')": (1, 'value("RUN/NODE")'),
}


@pytest.mark.parametrize("code", REFUSED)
async def test_what_cannot_wait_for_a_record_is_refused_with_advice(code: str) -> None:
    async with App("memory") as app:
        checked: Any = await app.plans.check_plan(code)
    line, advice = REFUSED[code]
    assert (checked["ok"], checked["problems"][0]["line"]) == (False, line)
    assert advice in checked["problems"][0]["message"]


async def test_a_function_of_the_program_with_this_name_is_called() -> None:
    async with App("memory", tools=[value]) as app:
        own: Any = await app.plans.run_plan("value = lambda x: x + 1\nreturn value(3)")
        given: Any = await app.plans.run_plan("def apply(value):\n    return value(3)\nreturn apply(lambda x: x + 1)")
        by_name: Any = await app.plans.run_plan("return await call_tool('value', {'place': 'here'})")
        missing: Any = await app.plans.run_plan(MISSING)
    assert [own["result"], given["result"], by_name["result"]] == [4, 4, "tool of here"]
    assert missing["result"] == "no value 'no/result'"


async def test_the_facts_of_a_program_name_the_record() -> None:
    async with App("memory") as app:
        checked: Any = await app.plans.check_plan("x = value('r/result')\nreturn await value('r/result')")
    (read,) = checked["facts"]["tools"]
    assert (read["tool"], read["effect"], read["calls"]) == ("ropewalk:value", "read", 2)
