"""Plans that import the names of the language: `from ropewalk.plans import approve`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk import App, plan, plans
from ropewalk.errors import InvalidTool
from ropewalk.plans import Approval, Rejected, approve, call_tool, now, uuid, value
from ropewalk.plans import random as chance
from ropewalk.plans import value as recorded
from ropewalk.plans import wait_for as event
from ropewalk.plans.interpret.language import KNOWN_NAMES
from ropewalk.plans.program import Program
from ropewalk.plans.read.tools import LANGUAGE_NAMES

from .simulation import Simulation


@plan
async def imported(number: int) -> Any:
    from ropewalk.plans import now as clock

    answer: Approval = await approve("Go?")
    try:
        await approve("Again?")
    except Rejected as error:
        refusal = str(error)
    signal = await event("ready", timeout=5)
    twice = await call_tool("double", {"number": number})
    is_later = clock() >= now()
    return [
        answer.by,
        answer.note,
        answer.approved,
        bool(answer),
        refusal,
        signal,
        twice,
        is_later,
        len(uuid()),
        0 <= chance() < 1,
    ]


BARE = """
number: int
answer = await approve("Go?")
return [answer.by, await call_tool("double", {"number": number})]
"""


@plan
async def reads_record() -> Any:
    return value("RUN/first")


@plan
async def hidden(value: int) -> Any:
    return recorded("RUN/first") or value


@plan
async def rebound() -> Any:
    value = recorded("RUN/first")
    return [value, value]


@plan
async def unknown() -> Any:
    from ropewalk.plans import aprove  # type: ignore[attr-defined]

    return await aprove("Go?")


@plan
async def whole_module() -> Any:
    return plans.now()


PROBLEMS = [
    (hidden, "recorded is another name of value, which is a parameter; rename the parameter"),
    (rebound, "value is imported under the name recorded; use another name here"),
    (unknown, "ropewalk.plans has no 'aprove'; did you mean approve?"),
    (whole_module, "plans.now is not a tool; write from ropewalk.plans import now"),
]


def run(text: str) -> Any:
    answers = {
        "Go?": {"approved": True, "by": "ann", "note": "fine"},
        "Again?": {"approved": False, "by": "ann", "note": None},
        "ready": 7,
    }
    world = Simulation({"double": ["number"]}, lambda tool, arguments: 2 * arguments["number"], answers=answers)
    return world.run(text, {"number": 4})[0].result


def test_a_plan_has_the_names_that_it_imports_and_needs_no_import() -> None:
    assert run(imported.program.code) == ["ann", "fine", True, True, "rejected by ann", 7, 8, True, 36, True]
    assert run(BARE) == run(f"from ropewalk.plans import approve, call_tool\n{BARE}") == ["ann", 8]


def test_a_wrong_import_says_at_its_use_what_would_be_right() -> None:
    with App("memory") as app:
        found = {
            each.name: [str(problem).partition(": ")[2] for problem in app.check(each).problems] for each, _ in PROBLEMS
        }
        assert app.check(reads_record).problems == ()
    assert found == {each.name: [message] for each, message in PROBLEMS}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import ropewalk.plans", "import of ropewalk.plans is not supported; write from ropewalk.plans import NAME"),
        (
            "from ropewalk import ToolError",
            "import of ropewalk is not supported; write from ropewalk.plans import NAME",
        ),
        ("from ropewalk.plans import *", "name what you import: from ropewalk.plans import NAME"),
        ("from ropewalk.plans import approve\nask = approve", "approve can only be called: approve(...)"),
        ("from ropewalk.plans import value as v\nlist(map(v, []))", "value can only be called: value(...)"),
        ("from ropewalk.plans import now as n\nn = 2", "n is another name of now; use another name here"),
    ],
)
def test_a_program_is_told_what_to_import(text: str, message: str) -> None:
    assert [problem.message for problem in Program(text, {}, []).problems] == [message]


def test_every_name_of_the_language_can_be_imported() -> None:
    functions = {name for name in plans.__all__ if plans.language_name(getattr(plans, name)) is not None}
    assert functions == LANGUAGE_NAMES - {"print"}
    assert {*plans.__all__} - {"Approval"} <= KNOWN_NAMES


def test_python_refuses_to_call_a_name_of_the_language() -> None:
    with pytest.raises(InvalidTool, match="now can be called in a function with @plan only"):
        now()
    with pytest.raises(InvalidTool, match="approve can be called in a function with @plan only"):
        asyncio.run(approve("Go?"))
