"""What the operations on plans answer: every answer has its documented fields, and a correction keeps its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.config.settings import PlanSettings
from ropewalk.errors import InvalidInput

pytestmark = pytest.mark.anyio


@tool(annotations={"readOnlyHint": True})
async def look(x: int) -> int:
    """Look at a number."""
    if x < 0:
        raise ValueError("it is negative")
    return x


@tool(annotations={"destructiveHint": True})
async def remove(x: int) -> bool:
    """Remove something for good."""
    return True


GOOD = "return await look(x=1)"
WRONG = "return await lok(x=1)"
ASKS = "a = await look(x=2)\nawait remove(x=a)\nreturn a"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path


def open_app(path: Path, **plans: Any) -> App:
    app = App(f"sqlite:///{path / 'runs.db'}", tools=[look, remove])
    app.context.plans = PlanSettings(**plans)
    return app


def is_problem_of_line_one(problems: Any) -> bool:
    [problem] = problems
    return problem["line"] == 1 and "lok" in problem["message"] and "^" in problem["text"]


async def test_every_operation_answers_with_its_fields(path: Path) -> None:
    async with open_app(path) as app:
        checked = await app.plans.check_plan(GOOD)
        assert (checked.keys(), checked["ok"]) == ({"ok", "facts", "graph"}, True)
        assert "look" in str(checked["graph"])
        wrong = await app.plans.check_plan(WRONG)
        assert (wrong.keys(), wrong["ok"]) == ({"ok", "problems"}, False)
        assert is_problem_of_line_one(wrong["problems"])

        ran = await app.plans.run_plan(GOOD)
        assert (ran["status"], ran["result"]) == ("completed", 1)
        refused = await app.plans.run_plan(WRONG)
        assert (refused.keys(), refused["status"]) == ({"status", "problems"}, "invalid")
        assert is_problem_of_line_one(refused["problems"])

        saved = await app.plans.save_plan("one", GOOD, "Look at one.")
        assert {**saved, "inputSchema": None} == {
            "status": "saved", "tool": "plans:one", "name": "plans.one", "version": 1, "inputSchema": None,
        }  # fmt: skip
        unsaved = await app.plans.save_plan("one", WRONG, "Look at one.")
        assert (unsaved.keys(), unsaved["status"]) == ({"status", "problems"}, "invalid")
        assert is_problem_of_line_one(unsaved["problems"])


@pytest.mark.parametrize(("name", "description", "field"), [
    ("One", "d", "name"), ("1a", "d", "name"), ("", "d", "name"), ("a b", "d", "name"), ("a", "", "description"),
    ("a", "  ", "description"), (1, "d", "name"), ("a", 1, "description"),
])  # fmt: skip
async def test_a_plan_is_saved_under_a_name_with_a_description(
    path: Path, name: Any, description: Any, field: str
) -> None:
    async with open_app(path) as app:
        loaded, problems = await app.plans.checked_for_saving(name, GOOD, description)
        assert (loaded, [problem.path for problem in problems]) == (None, [field])


@pytest.mark.parametrize("decision", [{}, {"approved": "yes"}, {"approved": None}, {"approved": 1}, {"note": "n"}])
async def test_a_decision_is_yes_or_no_or_an_event(path: Path, decision: dict[str, Any]) -> None:
    async with open_app(path, approve="destructive") as app:
        plans = app.plans.for_models()
        waiting = await plans.run_plan(ASKS)
        assert waiting["status"] == "waiting"
        run_id = str(waiting["runId"])
        with pytest.raises(InvalidInput) as raised:
            await plans.resume_run(run_id, decision)
        assert [(problem.path, problem.message) for problem in raised.value.problems] == [
            ("decision", "must be {approved: true or false} or {event, payload}")
        ]
        with pytest.raises(InvalidInput) as raised:
            await plans.resume_run(run_id, {"approved": True, "digest": "0" * 8})
        assert [problem.path for problem in raised.value.problems] == ["decision.digest"]


async def test_a_correction_with_an_error_changes_nothing(path: Path) -> None:
    async with open_app(path) as app:
        failed = await app.plans.run_plan("return await look(x=-1)")
        assert failed["status"] == "failed"
        answer = await app.plans.resume_run(str(failed["runId"]), code=WRONG)
        assert (answer.keys(), answer["status"]) == ({"status", "problems"}, "invalid")
        assert is_problem_of_line_one(answer["problems"])
        corrected = await app.plans.resume_run(str(failed["runId"]), code=GOOD)
        assert (corrected["status"], corrected["result"], corrected["corrects"]) == ("completed", 1, failed["runId"])


async def test_a_correction_has_the_budget_of_what_it_corrects(path: Path) -> None:
    async with open_app(path) as app:
        failed = await app.plans.run_plan("return await look(x=-1)", budget={"calls": 2})
        answer = await app.plans.resume_run(
            str(failed["runId"]), code="for x in [1, 2, 3]:\n    await look(x=x)\nreturn 1"
        )
        assert (answer["status"], "2" in str(answer["error"])) == ("failed", True)


@pytest.mark.parametrize("asked", ["none", "destructive"])
@pytest.mark.parametrize("later", ["none", "destructive"])
async def test_a_correction_asks_no_less_than_the_run_did(path: Path, asked: Any, later: Any) -> None:
    async with open_app(path, approve=asked) as app:
        first = await app.plans.for_models().run_plan("await remove(x=await look(x=-1))")
        assert first["status"] == "failed"
    async with open_app(path, approve=later) as app:
        plans = app.plans.for_models()
        answer = await plans.resume_run(str(first["runId"]), code="await remove(x=await look(x=3))")
        assert answer["status"] == ("waiting" if "destructive" in (asked, later) else "completed")


@pytest.mark.parametrize(
    ("value", "kind"),
    [("[1] * 900", "array"), ("'x' * 900", "string"), ("{'a': 'x' * 900}", "object")],
)
async def test_a_handle_names_the_type_of_its_value(path: Path, value: str, kind: str) -> None:
    async with open_app(path, max_result=100) as app:
        answer: Any = await app.plans.run_plan(f"return {value}")
        assert (answer["status"], answer["result"]["type"]) == ("completed", kind)
        assert answer["result"]["size"] > 900
        app.context.plans = PlanSettings(max_result=0)
    for small, name in ((True, "boolean"), (7, "integer"), (1.5, "number"), (None, "null")):
        handle: Any = app.plans.handle(small, "r", "n")
        assert (handle["type"], handle["$value"]) == (name, "r/n")
