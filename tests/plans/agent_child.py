"""An agent that solves a task of twelve calls with one program. `agent_child.py DIRECTORY RUN [corrects]`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ropewalk import App, tool
from ropewalk.agents.model import Request
from ropewalk.testing import ScriptedModel, results_in, wants

CODE = """
team: str
members = await list_members(team=team)
spent = {}
for member in members:
    spent[member] = await get_spent(member=member)
over = [m for m in members if spent[m] > 40]
for member in over:
    await block_card(member=member)
return {"over": over, "total": sum(spent.values())}
"""
PLAN = {"code": CODE, "input": {"team": "sales"}}
SAVE = {"name": "block_overspenders", "code": CODE, "description": "Block the cards of all who spend too much."}


def tools(directory: Path) -> list[Any]:
    """Return the tools; each writes what it was called with to `calls.jsonl`."""

    async def record(*call: Any) -> None:
        await asyncio.sleep(0.02)
        with (directory / "calls.jsonl").open("a") as file:
            file.write(json.dumps(call) + "\n")

    @tool(annotations={"readOnlyHint": True})
    async def list_members(team: str) -> list[str]:
        """List the members of a team."""
        await record("list_members", team)
        return [f"m{i}" for i in range(8)]

    @tool(annotations={"readOnlyHint": True})
    async def get_spent(member: str) -> int:
        """Get what a member has spent."""
        await record("get_spent", member)
        return int(member[1:]) * 10

    @tool(annotations={"destructiveHint": True})
    async def block_card(member: str) -> bool:
        """Block the card of a member."""
        await record("block_card", member)
        return True

    @tool
    async def note(text: str) -> str:
        """Write a note."""
        await record("note", text)
        return text

    return [list_members, get_spent, block_card, note]


BROKEN = "await note(text='n0')\nreturn int('q')"
CORRECTED = "for i in range(8):\n    await note(text=f'n{i}')\nreturn 'noted'"


def correct(answers: list[Any]) -> ScriptedModel:
    """Return a model that runs a broken program and corrects it once."""

    def turn(request: Request) -> Any:
        answers.extend(json.loads(str(result["content"])) for result in results_in(request))
        if not answers:
            return wants("run_plan", {"code": BROKEN})
        if answers[-1]["status"] == "failed":
            return wants("resume_run", {"run_id": answers[-1]["runId"], "code": CORRECTED})
        return "done"

    return ScriptedModel(turn)


def script(answers: list[Any]) -> ScriptedModel:
    """Return a model that decides by how far the conversation is, as it would after a restart."""

    def turn(request: Request) -> Any:
        answers.extend(json.loads(str(result["content"])) for result in results_in(request))
        rounds = sum(message["role"] == "assistant" for message in request.messages)
        steps = [
            wants("find_tools", {"request": "block cards of members who spent too much"}),
            wants("run_plan", PLAN),
            wants("save_plan", dict(SAVE)),
            "done",
        ]
        return steps[min(rounds, len(steps) - 1)]

    return ScriptedModel(turn)


async def main(directory: Path, run_id: str, model: Callable[[list[Any]], ScriptedModel]) -> None:
    answers: list[Any] = []
    async with App(f"sqlite:///{directory / 'runs.db'}", tools=tools(directory), model=model(answers)) as app:
        agent = {"kind": "agent", "name": "clerk", "prompt": "Block the cards of overspenders.", "plans": True}
        row = app.store.get_run(run_id)
        if row is None:
            outcome = await app.run(agent, run_id=run_id, park=True)
        else:
            outcome = await app.resume(run_id, park=True)
        data = outcome.to_dict()
        shown = {"status": outcome.status, "waitingFor": data.get("waitingFor"), "answers": answers}
        print(json.dumps({**shown, "result": data.get("result")}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], correct if sys.argv[3:] else script))
