"""An approval answers one call: its tool, the version of the tool, and its arguments, over all corrections of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.errors import InvalidInput

pytestmark = pytest.mark.anyio


class Bank:
    """A destructive tool, and what was paid with it."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.broken = 0

    def pay(self) -> Any:
        @tool(annotations={"destructiveHint": True})
        async def pay(amount: int) -> str:
            """Pay. This cannot be undone."""
            self.paid.append(amount)
            if self.broken:
                self.broken -= 1
                raise ValueError("no connection")
            return "paid"

        return pay

    def pay_with_note(self) -> Any:
        @tool(annotations={"destructiveHint": True})
        async def pay(amount: int, note: str = "") -> str:
            """Pay, with a note. This cannot be undone."""
            self.paid.append(amount)
            return "paid"

        return pay


@pytest.fixture
def bank() -> Bank:
    return Bank()


def open_app(path: Path, *tools: Any) -> App:
    return App(f"sqlite:///{path / 'runs.db'}", tools=list(tools))


async def test_corrected_code_that_pays_again_asks_again(bank: Bank, tmp_path: Path) -> None:
    async with open_app(tmp_path, bank.pay()) as app:
        plans = app.plans.for_models()
        first = await plans.run_plan("await pay(amount=100)\nraise ValueError('oops')")
        failed = await plans.resume_run(str(first["runId"]), {"approved": True}, by="ann")
        assert (failed["status"], bank.paid) == ("failed", [100])
        loop = "for i in range(3):\n    await pay(amount=100)\nreturn 'done'"
        waiting = await plans.resume_run(str(failed["runId"]), code=loop)
        for payments in (1, 2):
            assert (waiting["status"], len(bank.paid)) == ("waiting", payments)
            waiting = await plans.resume_run(str(waiting["runId"]), {"approved": True}, by="bob")
        assert (waiting["status"], bank.paid) == ("completed", [100, 100, 100])


async def test_a_chain_of_corrections_pays_once_for_one_approval(bank: Bank, tmp_path: Path) -> None:
    async with open_app(tmp_path, bank.pay()) as app:
        plans = app.plans.for_models()
        code = "await pay(amount=7)\nraise ValueError({})"
        answer = await plans.run_plan(code.format(0))
        answer = await plans.resume_run(str(answer["runId"]), {"approved": True})
        for number in range(1, 6):
            answer = await plans.resume_run(str(answer["runId"]), code=code.format(number))
            assert (answer["status"], bank.paid) == ("failed", [7])


@pytest.mark.parametrize("corrected", [True, False])
async def test_an_approval_of_a_call_that_failed_is_spent(bank: Bank, tmp_path: Path, corrected: bool) -> None:
    code = "await pay(amount=5)"
    bank.broken = 1
    async with open_app(tmp_path, bank.pay()) as app:
        plans = app.plans.for_models()
        waiting = await plans.run_plan(code)
        failed = await plans.resume_run(str(waiting["runId"]), {"approved": True})
        assert (failed["status"], bank.paid) == ("failed", [5])
        again = await plans.resume_run(str(failed["runId"]), code=f"{code}\n# corrected" if corrected else None)
        assert (again["status"], bank.paid) == ("waiting", [5])
        done = await plans.resume_run(str(again["runId"]), {"approved": True})
        assert (done["status"], bank.paid) == ("completed", [5, 5])


async def test_a_fork_asks_again_for_a_call_that_failed(bank: Bank, tmp_path: Path) -> None:
    bank.broken = 1
    async with open_app(tmp_path, bank.pay()) as app:
        plans = app.plans.for_models()
        waiting = await plans.run_plan("await pay(amount=5)")
        failed = await plans.resume_run(str(waiting["runId"]), {"approved": True})
        forked = await app.runs.fork(str(failed["runId"]), park=True)
        assert (forked.status, bank.paid) == ("waiting", [5])


async def test_a_question_never_answers_for_a_call(bank: Bank, tmp_path: Path) -> None:
    async with open_app(tmp_path, bank.pay()) as app:
        plans = app.plans.for_models()
        asked: Any = await plans.run_plan("await pay(amount=9)")
        text, call = asked["waitingFor"][0]["approval"], asked["waitingFor"][0]["call"]
        assert call["tool"] == "pay"
        assert f"[{call['digest']}]" in text
        # The same words as a question of the program, approved and followed by the call itself.
        question = await plans.run_plan(f"await approve({text!r})\nraise ValueError('later')")
        with pytest.raises(InvalidInput, match="no question of this run has this digest"):
            await plans.resume_run(str(question["runId"]), {"approved": True, "digest": call["digest"]})
        failed = await plans.resume_run(str(question["runId"]), {"approved": True})
        waiting: Any = await plans.resume_run(str(failed["runId"]), code="await pay(amount=9)")
        assert (waiting["status"], bank.paid) == ("waiting", [])


async def test_an_approval_fits_only_the_version_of_the_tool_that_was_shown(bank: Bank, tmp_path: Path) -> None:
    async with open_app(tmp_path, bank.pay()) as app:
        waiting: Any = await app.plans.for_models().run_plan("await pay(amount=3)")
        shown = waiting["waitingFor"][0]["call"]
    async with open_app(tmp_path, bank.pay_with_note()) as app:
        plans = app.plans.for_models()
        failed: Any = await plans.resume_run(waiting["runId"], {"approved": True})
        assert (failed["status"], bank.paid) == ("failed", [])
        assert "pay has changed since the approval was asked" in failed["error"]["message"]
        again: Any = await plans.resume_run(waiting["runId"], code="await pay(amount=3)")
        call = again["waitingFor"][0]["call"]
        assert again["status"] == "waiting"
        assert (call["version"] != shown["version"], call["digest"] != shown["digest"]) == (True, True)
        done = await plans.resume_run(str(again["runId"]), {"approved": True})
        assert (done["status"], bank.paid) == ("completed", [3])


async def test_a_finished_call_keeps_its_approval_when_the_tool_changes_later(bank: Bank, tmp_path: Path) -> None:
    code = "await pay(amount=3)\nreturn await wait_for('go')"
    async with open_app(tmp_path, bank.pay()) as app:
        plans = app.plans.for_models()
        waiting: Any = await plans.run_plan(code)
        waiting = await plans.resume_run(waiting["runId"], {"approved": True})
        assert (waiting["status"], bank.paid) == ("waiting", [3])
    async with open_app(tmp_path, bank.pay_with_note()) as app:
        done = await app.plans.for_models().resume_run(waiting["runId"], {"event": "go", "payload": 1})
        assert (done["status"], done["result"], bank.paid) == ("completed", 1, [3])


async def test_the_approval_of_a_saved_plan_names_its_version(bank: Bank, tmp_path: Path) -> None:
    async with open_app(tmp_path, bank.pay()) as app:
        plans = app.plans.for_models()
        marks = []
        for code in ("await pay(amount=1)", "await pay(amount=1000)"):
            await app.plans.save_plan("settle", code, "Settle the bill.")
            waiting: Any = await plans.run_plan("await plans.settle()")
            marks.append(waiting["waitingFor"][0]["call"])
        assert [mark["tool"] for mark in marks] == ["plans:settle"] * 2
        assert marks[0]["digest"] != marks[1]["digest"]
