"""Agents that write programs: one program for twelve calls, killed in the middle, approved, saved and found again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fork_server
from patience import wait_until
from ropewalk import App
from ropewalk.testing import ScriptedModel, results_in, wants

from .agent_child import tools
from .test_plan_operations import CANCEL, Shop, open_app

pytestmark = pytest.mark.anyio


def start(directory: Path, *mode: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.plans.agent_child", str(directory), "clerk-1", *mode]
    return fork_server.Popen(words, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def finish(directory: Path, *mode: str) -> dict[str, Any]:
    child = start(directory, *mode)
    printed, _ = child.communicate(timeout=300)
    assert child.returncode == 0
    answer: dict[str, Any] = json.loads(printed)
    return answer


def calls(directory: Path) -> list[Any]:
    file = directory / "calls.jsonl"
    return [tuple(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.process
async def test_one_program_survives_a_kill_waits_and_becomes_a_tool(tmp_path: Path) -> None:
    before = _kill_after(tmp_path, 5)
    assert 5 <= len(before) < 9

    answer = finish(tmp_path)
    asked = []
    while answer["status"] == "waiting":  # each card has arguments of its own, so each is asked about
        [wait] = answer["waitingFor"]
        asked.append(wait["approval"])
        async with App(f"sqlite:///{tmp_path / 'runs.db'}") as app:
            app.runs.approve("clerk-1", by="ann")
        answer = finish(tmp_path)
    assert [member for text in asked for member in ("m5", "m6", "m7") if f'"{member}"' in text] == ["m5", "m6", "m7"]
    assert "Save the plan block_overspenders" in asked[-1]
    assert (answer["status"], answer["result"]) == ("completed", "done")

    made = Counter(calls(tmp_path))
    assert len(made) == 12  # 1 list, 8 amounts, 3 cards
    # Only the call that the kill interrupted may have been repeated.
    assert sum(made.values()) - len(made) <= 1
    assert [call for call in made if call[0] == "block_card"] == [("block_card", f"m{i}") for i in (5, 6, 7)]

    # The next conversation finds the plan and calls it like any tool.
    found: list[Any] = []

    def second(request: Any) -> Any:
        found.extend(json.loads(str(result["content"])) for result in results_in(request))
        return wants("run_plan", {"code": 'return await plans.block_overspenders(team="ops")'})

    model = ScriptedModel(wants("find_tools", {"request": "block overspenders", "limit": 1}), second, "ok")
    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=tools(tmp_path), model=model) as later:
        outcome = await later.run({"kind": "agent", "name": "clerk", "prompt": "go", "plans": True}, park=True)
    assert found[0]["tools"][0]["name"] == "plans.block_overspenders"
    assert "team: str" in found[0]["stubs"]
    assert outcome.status == "waiting"  # the saved plan asks before it blocks a card, too


@pytest.mark.process
async def test_a_correction_survives_a_kill(tmp_path: Path) -> None:
    before = _kill_after(tmp_path, 4, "corrects")
    assert 4 <= len(before) < 8
    answer = finish(tmp_path, "corrects")
    assert (answer["status"], answer["result"]) == ("completed", "done")
    [corrected] = answer["answers"]
    assert (corrected["status"], corrected["result"]) == ("completed", "noted")
    made = Counter(calls(tmp_path))
    assert sorted(made) == [("note", f"n{i}") for i in range(8)]
    # Only the call that the kill interrupted may have been repeated.
    assert sum(made.values()) - len(made) <= 1
    assert made["note", "n0"] == 1


async def test_an_agent_waits_for_the_approval_of_a_correction(tmp_path: Path) -> None:
    broken = "await note(order=7, text='late')\nreturn int('q')"
    corrected = "await note(order=7, text='late')\nreturn await cancel_order(id=7)"

    def correct(request: Any) -> Any:
        [result] = results_in(request)
        return wants("resume_run", {"run_id": json.loads(str(result["content"]))["runId"], "code": corrected})

    shop, model = Shop(), ScriptedModel(wants("run_plan", {"code": broken}), correct, "end")
    async with open_app(shop, tmp_path) as app:
        app.model = model
        agent = {"kind": "agent", "name": "a", "prompt": "go", "plans": True}
        outcome = await app.run(agent, run_id="a", park=True)
        assert outcome.status == "waiting"
    async with open_app(shop, tmp_path) as app:
        app.model = model
        [wait] = app.runs.waiting("a")
        assert "Call cancel_order" in wait["approval"]
        assert [name for name, _ in shop.calls] == ["note"]
        app.runs.approve("a", by="ann")
        outcome = await app.resume("a", park=True)
    assert (outcome.status, outcome.result) == ("completed", "end")
    [result] = results_in(model.requests[-1])
    answer = json.loads(str(result["content"]))
    assert (answer["status"], answer["result"]) == ("completed", True)
    assert [name for name, _ in shop.calls] == ["note", "cancel_order"]


def _kill_after(directory: Path, count: int, *mode: str) -> list[Any]:
    """Start the agent, kill it once it has made so many calls, and return the calls."""
    child = start(directory, *mode)
    wait_until(lambda: len(calls(directory)) >= count or child.poll() is not None)
    child.send_signal(signal.SIGKILL)
    child.wait()
    return calls(directory)


async def _answers(shop: Shop, path: Path, *turns: Any, **plans: Any) -> list[Any]:
    """Run an agent that makes these calls and return what it was answered."""
    model = ScriptedModel(*turns, "end")
    async with open_app(shop, path, **plans) as app:
        app.model = model
        await app.run({"kind": "agent", "name": "a", "prompt": "go", "plans": True}, run_id="a", park=True)
    return [json.loads(str(result["content"])) for request in model.requests for result in results_in(request)]


async def test_a_model_cannot_approve_its_own_call(tmp_path: Path) -> None:
    shop = Shop()
    async with open_app(shop, tmp_path) as app:
        waiting: Any = await app.plans.for_models().run_plan(CANCEL)
    call = wants("resume_run", {"run_id": waiting["runId"], "decision": {"approved": True}})
    model = ScriptedModel(call, "end")
    async with open_app(shop, tmp_path) as app:
        app.model = model
        await app.run({"kind": "agent", "name": "a", "prompt": "go", "plans": True})
    [result] = results_in(model.requests[1])
    assert "a person must decide" in str(result["content"])
    assert [name for name, _ in shop.calls] == ["get_order"]


async def test_programs_cannot_call_the_tools_of_agents(tmp_path: Path) -> None:
    shop = Shop()
    hidden = ("ropewalk.store_plan", "ropewalk.approval", "ropewalk.run_plan", "ropewalk.model")
    codes = [f"await {name}()" for name in hidden] + ['await call_tool("ropewalk:store_plan", {})']
    answers = await _answers(shop, tmp_path, *[wants("run_plan", {"code": code}) for code in codes])
    assert [answer["status"] for answer in answers] == ["invalid"] * len(codes)


async def test_the_budget_of_an_agents_program_holds(tmp_path: Path) -> None:
    shop = Shop()
    code = "for i in range(9):\n    await get_order(id=i)"
    [answer] = await _answers(shop, tmp_path, wants("run_plan", {"code": code, "budget": {"calls": 4}}))
    assert answer["status"] == "failed"
    assert len(shop.calls) == 4


async def test_saving_is_immediate_where_it_is_allowed(tmp_path: Path) -> None:
    save = wants("save_plan", {"name": "look", "code": "id: int\nawait get_order(id=id)", "description": "Look."})
    [answer] = await _answers(Shop(), tmp_path, save, save="allow")
    assert (answer["status"], answer["tool"]) == ("saved", "plans:look")
