"""A run of a program continues with another text as long as its recorded steps are still the first ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.errors import DefinitionChanged, JournalConflict
from ropewalk.testing import ScriptedTools

TOOLS = {"order": {"id": "order", "parameters": ["n"], "required": ["n"]}}


def plan(code: str) -> dict[str, Any]:
    return {"kind": "plan", "name": "p", "code": code, "tools": TOOLS}


async def test_an_error_below_the_recorded_steps_is_corrected_in_the_same_run(tmp_path: Path) -> None:
    made = ScriptedTools(order=lambda n: n)
    async with App(tmp_path / "s.db") as app:
        await app.run(plan("a = await order(n=1)\nreturn [a][1]"), run_id="r", executor=made)
        fixed = plan("a = await order(n=1)\nreturn [a, await order(n=2)]")
        with pytest.raises(DefinitionChanged, match="differs in program"):
            await app.runs.retry("r", definition=fixed, executor=made)
        done = await app.runs.retry("r", definition=fixed, upgrade=True, executor=made)
        assert (done["status"], done.result) == ("completed", [1, 2])
        assert [call.args["n"] for call in made.calls] == [1, 2]


async def test_a_change_of_recorded_steps_is_corrected_code(tmp_path: Path) -> None:
    made = ScriptedTools(order=lambda n: n)
    async with App(tmp_path / "s.db") as app:
        await app.run(plan("a = await order(n=1)\nreturn [a][1]"), run_id="r", executor=made)
        moved = plan("# new\na = await order(n=1)\nreturn [a][0]")
        with pytest.raises(JournalConflict, match=r"line 2: the run recorded|does not request it"):
            await app.runs.retry("r", definition=moved, upgrade=True, executor=made)
        assert len(made.calls) == 1
        kept: Any = app.store.get_run("r")
        assert kept.document["code"].endswith("[a][1]")
