"""Undo of models' programs: a failed answer lists what can be undone, and `undo_run` undoes it, after an approval."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.app.plan_operations import call_operation
from ropewalk.config.settings import PlanSettings, UndoSettings
from ropewalk.doors.cli.undo import undo_lines
from ropewalk.errors import NothingToUndo, RunBusy, RunUndone
from ropewalk.testing import ScriptedModel, results_in, wants

pytestmark = pytest.mark.anyio
CODE = 'first = await order(item="a")\nawait look(item="b")\nawait order(item="c")\nawait fail()'


class Shop:
    """A shop with a book of the orders and cancellations."""

    def __init__(self) -> None:
        self.book: list[str] = []

    def tools(self) -> list[Any]:
        @tool(annotations={"destructiveHint": True})
        async def cancel(id: str) -> str:
            """Cancel an order."""
            self.book.append(f"cancel {id}")
            return id

        @tool(undo=cancel)
        async def order(item: str) -> dict[str, str]:
            """Order an item."""
            self.book.append(f"order {item}")
            return {"id": item}

        @tool(annotations={"readOnlyHint": True})
        async def look(item: str) -> str:
            """Look at an item."""
            return item

        @tool
        async def fail() -> str:
            """Fail."""
            raise ValueError("no more")

        return [cancel, order, look, fail]


def open_app(shop: Shop, folder: Path, **more: Any) -> App:
    return App(f"sqlite:///{folder / 'runs.db'}", tools=shop.tools(), **more)


async def test_a_failed_program_says_what_can_be_undone_and_undo_run_undoes_it(tmp_path: Path) -> None:
    shop = Shop()
    async with open_app(shop, tmp_path) as app:
        answer: Any = await app.plans.run_plan(CODE, run_id="r")
        assert answer["status"] == "failed"
        offer = answer["undo"]
        assert (offer["status"], offer["notUndoable"]) == ("possible", [])
        assert [(step["of"], step["tool"], step["args"]) for step in offer["steps"]] == [
            ("order", "cancel", {"id": "c"}),
            ("order", "cancel", {"id": "a"}),
        ]
        report: Any = await call_operation(app.plans, "undo_run", {"runId": "r"})  # as every answer names it
        assert (report["status"], len(report["undone"])) == ("undone", 2)
        again: Any = await app.plans.undo_run("r")
        assert again["undone"] == report["undone"]
        # Its recorded calls no longer hold, so a retry cannot reuse them, and corrected code makes them again.
        with pytest.raises(RunUndone):
            await app.plans.resume_run("r")
        with pytest.raises(NothingToUndo):
            await app.plans.undo_run("r~undo")
        assert shop.book == ["order a", "order c", "cancel c", "cancel a"]
        done: Any = await app.plans.resume_run("r", code=CODE.replace("await fail()", "return 1"))
        assert (done["status"], shop.book[4:]) == ("completed", ["order a", "order c"])


async def test_a_model_that_undoes_waits_for_a_person_where_its_calls_would(tmp_path: Path) -> None:
    shop = Shop()
    async with open_app(shop, tmp_path) as app:
        plans = app.plans.for_models()
        await plans.run_plan(CODE, run_id="r")
        waiting: Any = await plans.undo_run("r")
        assert (waiting["status"], waiting["runId"]) == ("waiting", "r~undo")
        assert 'cancel {"id":"c"}, cancel {"id":"a"}?' in waiting["waitingFor"][0]["approval"]
        assert waiting["facts"][0]["effect"] == "destructive"
        assert (await plans.undo_run("r"))["status"] == "waiting"
        assert shop.book == ["order a", "order c"]
        app.runs.approve("r~undo", by="ann")
        done: Any = await plans.resume_run("r~undo")
        assert done["status"] == "undone"
    assert shop.book[2:] == ["cancel c", "cancel a"]


async def test_a_rejected_undo_goes_on_only_when_it_is_requested_again(tmp_path: Path) -> None:
    shop = Shop()
    async with open_app(shop, tmp_path) as app:
        plans = app.plans.for_models()
        await plans.run_plan(CODE, run_id="r")
        await plans.undo_run("r")
        report: Any = await plans.resume_run("r~undo", {"approved": False, "note": "keep them"}, by="ann")
        assert (report["status"], report["rejected"]) == ("incomplete", {"by": "ann", "note": "keep them"})
        # Neither a look at the undo nor a policy is a new request.
        assert await plans.resume_run("r~undo") == report
        assert app.store.undo_due() == []
        # A model has to ask again, and a person who undoes the run has decided.
        asking: Any = await plans.undo_run("r")
        assert (asking["status"], asking["runId"]) == ("waiting", "r~undo2")
        again: Any = await plans.resume_run("r~undo2", {"approved": False})
        assert again["rejected"] == {"by": None, "note": None}
        assert "\n".join(undo_lines(again, "r", "")).splitlines() == [
            "incomplete: 0 of 2 steps of r",
            "the undo was rejected",
            "  - program[0-3:7.1]/order  cancel",
            "  - program[0-1:15.1]/order  cancel",
            "not undoable:",
            "  - program[0-2:7.1]/look  look: it only reads",
            "to undo it all the same: ropewalk runs undo r",
        ]
        assert "the undo was rejected by ann: keep them" in "\n".join(undo_lines(report, "r", ""))
        assert shop.book == ["order a", "order c"]
        done = await app.runs.undo("r")
        assert (done["status"], done["undoRun"], "rejected" in done) == ("undone", "r~undo3", False)
    assert shop.book[2:] == ["cancel c", "cancel a"]


async def test_a_corrected_run_owns_the_calls_that_it_takes_over(tmp_path: Path) -> None:
    shop = Shop()
    async with open_app(shop, tmp_path) as app:
        app.context.plans = PlanSettings(approve="none")
        app.context.undo = UndoSettings(policy="on_failure")
        waits = CODE.replace("await fail()", "await approve('Ship?')")
        await app.plans.run_plan(waits, run_id="r")
        corrected: Any = await app.plans.resume_run("r", code=CODE, new_id="s")
        assert (corrected["status"], corrected["corrects"], corrected["undo"]["status"]) == ("failed", "r", "undone")
        assert app.store.undo_due() == []  # the first run, which was stopped, included
    assert shop.book == ["order a", "order c", "cancel c", "cancel a"]


@pytest.mark.parametrize("first", ["r", "t"])
async def test_a_call_that_a_corrected_run_reuses_is_undone_once_in_either_run(first: str, tmp_path: Path) -> None:
    shop = Shop()
    more = CODE.replace("await fail()", "await order(item='z')\nawait fail()")
    async with open_app(shop, tmp_path) as app:
        await app.plans.run_plan(CODE, run_id="r")
        await app.plans.resume_run("r", code=CODE.replace('order(item="c")', "order(item='c')"), new_id="s")
        await app.plans.resume_run("s", code=more, new_id="t")
        assert shop.book == ["order a", "order c", "order z"]
        report: Any = await app.plans.undo_run(first)
        own = ["cancel z"] if first == "t" else []
        assert shop.book[3:] == [*own, "cancel c", "cancel a"]
        assert report["status"] == "undone"
        with pytest.raises(NothingToUndo, match=f"undone already in run {first}, by run {first}~undo"):
            await app.plans.undo_run("s")
        # The results that the runs share no longer hold, so nobody retries them.
        for run_id in "rst":
            with pytest.raises(RunUndone):
                await app.plans.resume_run(run_id)
        if first == "r":
            last: Any = await app.plans.undo_run("t")
            assert [step["args"] for step in last["undone"]] == [{"id": "z"}]
            assert {step["undoRun"] for step in last["notUndoable"] if "undoRun" in step} == {"r~undo"}
    assert shop.book[3:].count("cancel a") == 1
    assert len(shop.book) == 6


async def test_a_shared_call_is_undone_once_if_both_runs_are_undone_at_once(tmp_path: Path) -> None:
    shop = Shop()
    async with open_app(shop, tmp_path) as app:
        await app.plans.run_plan(CODE, run_id="r")
        await app.plans.resume_run("r", code=CODE.replace("await fail()", "await order(item='z')"), new_id="s")
        undoing = (app.plans.undo_run(run_id) for run_id in "rs")
        results = await asyncio.gather(*undoing, return_exceptions=True)
    assert [result for result in results if not isinstance(result, dict | NothingToUndo)] == []
    assert sorted(shop.book[3:]) == ["cancel a", "cancel c", "cancel z"]


async def test_a_corrected_run_undoes_its_calls_after_the_record_of_the_first_is_gone(tmp_path: Path) -> None:
    shop = Shop()
    async with open_app(shop, tmp_path) as app:
        await app.plans.run_plan(CODE, run_id="r")
        await app.plans.resume_run("r", code=CODE.replace("first = ", ""), new_id="s")
        app.store.prune(keep=1)
        assert app.store.get_run("r") is None
        await app.plans.undo_run("s")
    assert shop.book == ["order a", "order c", "cancel c", "cancel a"]


async def test_with_a_policy_the_answer_reports_the_undo(tmp_path: Path) -> None:
    shop = Shop()
    async with open_app(shop, tmp_path) as app:
        app.context.undo = UndoSettings(policy="on_failure")
        answer: Any = await app.plans.run_plan(CODE)
    assert (answer["status"], answer["undo"]["status"]) == ("failed", "undone")
    assert shop.book[2:] == ["cancel c", "cancel a"]


async def test_a_program_of_an_agent_is_undone_with_the_run_of_the_agent(tmp_path: Path) -> None:
    shop, answers = Shop(), []

    def last(request: Any) -> str:
        answers.extend(str(result["content"]) for result in results_in(request))
        return "sorry"

    model = ScriptedModel(wants("order", {"item": "z"}), wants("run_plan", {"code": CODE}), last)
    agent = {"kind": "agent", "name": "clerk", "prompt": "go", "plans": True, "tools": ["order"]}
    async with open_app(shop, tmp_path, model=model) as app:
        outcome = await app.run(agent, run_id="r")
        assert outcome.status == "completed", outcome
        report = await app.runs.undo("r")
    assert '"partOf":"r"' in answers[-1]
    assert report["status"] == "undone"
    assert shop.book == ["order z", "order a", "order c", "cancel c", "cancel a", "cancel z"]


@pytest.mark.parametrize("undone", ["r", "s", "t"])
@pytest.mark.parametrize("corrected", ["r", "s", "t"])
async def test_writes_that_one_run_of_a_chain_undid_are_made_again_once(
    corrected: str, undone: str, tmp_path: Path
) -> None:
    shop = Shop()
    more = CODE.replace("await fail()", "await order(item='z')\nawait fail()")
    async with open_app(shop, tmp_path) as app:
        await app.plans.run_plan(CODE, run_id="r")
        await app.plans.resume_run("r", code=f"{CODE}\n# s", new_id="s")
        await app.plans.resume_run("s", code=more, new_id="t")
        await app.plans.undo_run(undone)
        before = len(shop.book)
        # The order that only the last run made is undone with it alone.
        again = ["order a", "order c", *(["order z"] if undone == "t" else [])]
        answer: Any = await app.plans.resume_run(corrected, code=f"{more}\n# u", new_id="u")
        assert (answer["status"], shop.book[before:]) == ("failed", again)
        for number, run_id in enumerate("rstu"):
            answer = await app.plans.resume_run(run_id, code=f"{more}\n# {number}")
            assert (answer["status"], shop.book[before:]) == ("failed", again)
        # What was made again is a write of the chain: code that drops it is a conflict.
        answer = await app.plans.resume_run("u", code='await order(item="a")')
        assert (answer["status"], shop.book[before:]) == ("conflict", again)


async def test_an_undone_payment_needs_a_new_approval(tmp_path: Path) -> None:
    shop = Shop()

    @tool(annotations={"destructiveHint": True}, undo=shop.tools()[0])
    async def pay(id: str) -> dict[str, str]:
        """Pay."""
        shop.book.append(f"pay {id}")
        return {"id": id}

    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[pay, *shop.tools()]) as app:
        plans = app.plans.for_models()
        code = 'await pay(id="a")\nawait fail()'
        await plans.run_plan(code, run_id="r")
        await plans.resume_run("r", {"approved": True})
        await plans.undo_run("r")
        waiting: Any = await plans.resume_run("r~undo", {"approved": True})
        assert (waiting["status"], shop.book) == ("undone", ["pay a", "cancel a"])
        asked: Any = await plans.resume_run("r", code=f"{code}\n# s")
        assert (asked["status"], len(shop.book)) == ("waiting", 2)
        paid: Any = await plans.resume_run(asked["runId"], {"approved": True})
        assert (paid["status"], shop.book[2:]) == ("failed", ["pay a"])
        last: Any = await plans.resume_run("r", code='return await pay(id="a")')
        assert (last["status"], shop.book[2:]) == ("completed", ["pay a"])


async def test_an_approval_lists_every_call_with_the_full_name_of_its_tool(tmp_path: Path) -> None:
    @tool(namespace="other", annotations={"destructiveHint": True})
    async def cancel(id: str) -> str:
        """Cancel an order."""
        return id

    @tool(undo="other:cancel")
    async def order(id: str) -> dict[str, str]:
        """Order an item."""
        return {"id": id}

    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[order, cancel]) as app:
        plans = app.plans.for_models()
        await plans.run_plan("for i in range(30):\n    await order(id=str(i))", run_id="r")
        asked: Any = await plans.undo_run("r")
    question = str(asked)
    assert all(f'other:cancel {{"id":"{number}"}}' in question for number in range(30))


async def test_a_run_is_not_corrected_while_it_is_being_undone(tmp_path: Path) -> None:
    shop = Shop()
    async with open_app(shop, tmp_path) as app:
        plans = app.plans.for_models()
        await plans.run_plan(CODE, run_id="r")
        await plans.undo_run("r")
        with pytest.raises(RunUndone):
            await plans.resume_run("r", code=f"{CODE}\n# s")
        await plans.resume_run("r~undo", {"approved": False})
        # Nothing was undone, so the orders are still in effect.
        answer: Any = await plans.resume_run("r", code=f"{CODE}\n# s")
        assert (answer["status"], shop.book) == ("failed", ["order a", "order c"])


TAKES: Any = {
    "first": 'await order(item="a")\nawait wait_for("go")\nreturn await order(item="b")',
    "later": 'await wait_for("go")\nawait order(item="a")\nreturn await order(item="b")',
}


@pytest.mark.parametrize("door", ["plans", "decision", "app"])
async def test_a_correction_that_waits_is_not_continued_without_the_calls_that_it_took(
    tmp_path: Path, door: str
) -> None:
    shop = Shop()
    async with open_app(shop, tmp_path) as app:
        await app.plans.run_plan('await order(item="a")\nreturn int("q")', run_id="r")
        waiting: Any = await app.plans.resume_run("r", code=TAKES["first"], new_id="s")
        assert ((await app.plans.undo_run("r"))["status"], waiting["status"]) == ("undone", "waiting")
        resume: Any = {
            "decision": lambda: app.plans.resume_run("s", {"event": "go"}),
            "plans": lambda: app.plans.resume_run("s"),
            "app": lambda: app.resume("s"),
        }[door]
        if door != "decision":
            app.runs.send("s", "go")
        with pytest.raises(RunUndone, match="run s is undone by run r~undo, so it cannot be continued"):
            await resume()
        assert (await app.plans.resume_run("s", code=TAKES["later"]))["status"] == "waiting"
    assert shop.book == ["order a", "cancel a"]


async def test_a_correction_that_waits_makes_undone_calls_again_that_it_has_not_taken(tmp_path: Path) -> None:
    shop = Shop()
    async with open_app(shop, tmp_path) as app:
        await app.plans.run_plan('await order(item="a")\nreturn int("q")', run_id="r")
        await app.plans.resume_run("r", code=TAKES["later"], new_id="s")
        await app.plans.undo_run("r")
        answer: Any = await app.plans.resume_run("s", {"event": "go"})
        assert answer["status"] == "completed"
    assert shop.book == ["order a", "cancel a", "order a", "order b"]


async def test_a_run_that_waits_is_not_continued_without_the_calls_of_its_correction(tmp_path: Path) -> None:
    shop = Shop()
    failures = [True]

    @tool(annotations={"readOnlyHint": True})
    async def flaky() -> None:
        """Fail once."""
        if failures:
            raise ValueError(failures.pop())

    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[flaky, *shop.tools()]) as app:
        code = 'await flaky()\nawait order(item="a")\nawait wait_for("go")'
        await app.plans.run_plan(code, run_id="r")
        await app.plans.resume_run("r", code='await order(item="a")\nreturn int("q")', new_id="s")
        assert (await app.plans.resume_run("r"))["status"] == "waiting"
        await app.plans.undo_run("s")
        with pytest.raises(RunUndone, match="run r is undone by run s~undo"):
            await app.plans.resume_run("r", {"event": "go"})
    assert shop.book == ["order a", "cancel a"]


async def test_a_run_is_not_undone_while_its_correction_executes(tmp_path: Path) -> None:
    shop = Shop()
    begun, end = asyncio.Event(), asyncio.Event()

    @tool(annotations={"readOnlyHint": True})
    async def pause() -> None:
        """Pause."""
        begun.set()
        await end.wait()

    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[pause, *shop.tools()]) as app:
        await app.plans.run_plan('await order(item="a")\nreturn int("q")', run_id="r")
        code = 'await order(item="a")\nawait pause()\nreturn 1'
        corrects = asyncio.ensure_future(app.plans.resume_run("r", code=code, new_id="s"))
        await begun.wait()
        with pytest.raises(RunBusy, match="run s "):
            await app.plans.undo_run("r")
        end.set()
        assert (await corrects)["status"] == "completed"
        assert (await app.plans.undo_run("r"))["status"] == "undone"
    assert shop.book == ["order a", "cancel a"]
