"""Questions of programs: approvals and events, what their answers are, refusals, and timeouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.plans.guard import Forged, Guard
from ropewalk.plans.messages import Delivery

pytestmark = pytest.mark.anyio


async def answered(path: Path, code: str, decision: dict[str, Any]) -> dict[str, Any]:
    """Run a program, and answer what it waits for."""
    async with App(str(path / "runs.db")) as app:
        waiting: Any = await app.plans.run_plan(code)
        assert waiting["status"] == "waiting"
        return await app.plans.resume_run(waiting["runId"], decision, by="Ann")


@pytest.mark.parametrize("approved", [True, False])
async def test_an_approval_has_a_note_and_a_person(approved: bool, tmp_path: Path) -> None:
    code = "answer = await approve('Go?')\nreturn [bool(answer), answer.approved, answer.note, answer.by]"
    done = await answered(tmp_path, code, {"approved": approved, "note": "as agreed"})
    assert done["result"] == [approved, approved, "as agreed", "Ann"]


async def test_a_refusal_that_nobody_reads_raises_rejected(tmp_path: Path) -> None:
    no = {"approved": False, "note": "too late"}
    failed = await answered(tmp_path, "x = 1\nawait approve('Go?')\nreturn x", no)
    assert (failed["status"], failed["error"]["kind"]) == ("failed", "Rejected")
    assert failed["error"]["message"] == "rejected by Ann: too late"
    caught = "try:\n    await approve('Go?')\nexcept Rejected as error:\n    return str(error)"
    assert (await answered(tmp_path, caught, no))["result"] == "rejected by Ann: too late"
    passed = await answered(tmp_path, "await approve('Go?')\nreturn 1", {"approved": True})
    assert passed["result"] == 1


async def test_an_event_gives_its_payload(tmp_path: Path) -> None:
    done = await answered(tmp_path, "return await wait_for('paid', timeout=3600)", {"event": "paid", "payload": [1]})
    assert done["result"] == [1]


@pytest.mark.parametrize("question", ["approve('Go?', timeout=0)", "wait_for('paid', timeout=0)"])
async def test_a_question_that_nobody_answers_in_time_raises_timeout_error(question: str) -> None:
    async with App("memory") as app:
        caught: Any = await app.plans.run_plan(
            f"try:\n    await {question}\nexcept TimeoutError as error:\n    return [type(error).__name__, str(error)]"
        )
        failed: Any = await app.plans.run_plan(f"x = 1\nawait {question}")
    name, message = caught["result"]
    assert name == "TimeoutError"
    assert message.startswith("timed out after 0 s waiting for ")
    assert (failed["status"], failed["error"]["line"], failed["error"]["kind"]) == ("failed", 2, "ToolTimeout")


async def test_a_resumed_run_keeps_the_time_until_which_it_waits(tmp_path: Path) -> None:
    async with App(str(tmp_path / "runs.db")) as app:
        waiting: Any = await app.plans.run_plan("return await approve('Go?', timeout=3600)")
        (before,) = waiting["waitingFor"]
    async with App(str(tmp_path / "runs.db")) as later:
        again: Any = await later.plans.resume_run(waiting["runId"])
        (after,) = again["waitingFor"]
    assert before["due"] is not None
    assert (after["due"], after["since"]) == (before["due"], before["since"])


async def test_a_short_timer_ends_before_a_run_that_waits_is_released(tmp_path: Path) -> None:
    # Such a timer is not recorded, so a resumed run would begin it again, and never come to its end.
    waits = "asks = asyncio.create_task(approve('Go?'))\n"
    timer = "done, open = await asyncio.wait([asks], timeout=0.01)\nasks.cancel()\nreturn [len(done), len(open)]"
    async with App(str(tmp_path / "runs.db")) as app:
        done: Any = await app.plans.run_plan(waits + timer)
        assert (done["status"], done["result"]) == ("completed", [0, 1])


@pytest.mark.parametrize(
    ("call", "advice"),
    [("approve('a', wait=3)", "takes a text and timeout"), ("wait_for()", "takes a text and timeout")],
)
async def test_other_arguments_are_refused(call: str, advice: str) -> None:
    async with App("memory") as app:
        checked: Any = await app.plans.check_plan(f"x = 1\nawait {call}")
    assert (checked["ok"], checked["problems"][0]["line"]) == (False, 2)
    assert advice in checked["problems"][0]["message"]


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan"), "1"])
def test_a_child_cannot_ask_with_another_timeout(seconds: Any) -> None:
    question = {"is": "question", "path": "0/1:6#1", "name": "approve", "text": "Go?", "seconds": seconds}
    with pytest.raises(Forged):
        Guard([]).turn([question, {"is": "blocked"}])


PAY = """
await pay(n=1)
await {question}
return await pay(n=2)
"""


class Payments:
    """An app with a tool that counts its calls."""

    def __init__(self, path: Path) -> None:
        self.paid: list[int] = []
        self.app = App(str(path / "runs.db"), tools=[self.pay])

    def pay(self, n: int) -> int:
        self.paid.append(n)
        return n

    async def start(self, question: str, contained: bool, **options: Any) -> Any:
        code = PAY.format(question=question)
        if contained:
            return await self.app.plans.run_plan(code)
        return await self.app.run({"kind": "plan", "name": "p", "code": code}, **options)


@pytest.mark.parametrize("contained", [False, True])
async def test_a_retry_asks_a_rejected_question_again(contained: bool, tmp_path: Path) -> None:
    payments = Payments(tmp_path)
    async with payments.app as app:
        waiting = await payments.start("approve('Go?')", contained, park=True)
        run_id = waiting["runId"]
        for _ in range(2):
            app.runs.approve(run_id, approved=False, by="Ann")
            failed: Any = await app.resume(run_id, park=True)
            [wait] = [step for step in app.runs.get(run_id)["nodes"] if step["kind"] == "wait"]
            assert failed["status"] == "failed"
            assert failed["errors"][0]["path"] == wait["path"]
            assert app.runs.actions(run_id) == ["retry", "fork"]
            assert (await app.runs.retry(run_id, park=True))["status"] == "waiting"
        app.runs.approve(run_id)
        done = await app.resume(run_id)
    assert (done["status"], done["result"], payments.paid) == ("completed", 2, [1, 2])


@pytest.mark.parametrize(
    ("question", "contained"), [("approve('Go?', timeout=1)", False), ("wait_for('paid', timeout=1)", True)]
)
async def test_a_retry_asks_again_what_nobody_answered_in_time(question: str, contained: bool, tmp_path: Path) -> None:
    payments = Payments(tmp_path)
    async with payments.app as app:
        failed = await payments.start(question, contained)
        if failed["status"] == "waiting":
            failed = await app.resume(failed["runId"])
        run_id = failed["runId"]
        [first] = [step for step in app.runs.get(run_id)["nodes"] if step["kind"] == "wait"]
        again = await app.runs.retry(run_id)
        [second] = [step for step in app.runs.get(run_id)["nodes"] if step["kind"] == "wait"]
    assert (failed["status"], again["status"], payments.paid) == ("failed", "failed", [1])
    assert second["path"] == first["path"]
    assert second["decision"]["due"] >= first["decision"]["due"] + 1


def test_a_child_names_only_refused_approvals_as_failed() -> None:
    question = {"is": "question", "path": "0/1:6#1", "name": "approve", "text": "Go?", "seconds": None}
    ended = {"is": "ended", "status": "failed", "failed": ["0/1:6#1"], "error": "Rejected", "line": 1}
    for answer, is_forged in (('{"approved": false}', False), ('{"approved": true}', True), ("true", True)):
        guard = Guard([])
        guard.turn([question, {"is": "blocked"}])
        guard.deliver(Delivery("0/1:6#1", True, answer))
        if is_forged:
            with pytest.raises(Forged):
                guard.turn([ended])
        else:
            guard.turn([ended])
