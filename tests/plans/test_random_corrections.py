"""Random programs that fail and are corrected at random: no recorded call is repeated, and no write is lost."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.tiers import Scale

from ropewalk import App
from ropewalk.values import digest

from .oracle import World, run_python, tools_of
from .programs import Writer

pytestmark = pytest.mark.anyio


class Pure(World):
    """Tools whose results depend on their arguments alone; the call with a number fails, and `made` has the others."""

    def __init__(self, fails_at: int = 0) -> None:
        super().__init__()
        self.fails_at = fails_at
        self.made: list[tuple[str, str]] = []

    async def answer(self, name: str, args: dict[str, Any]) -> Any:
        if len(self.calls) + 1 == self.fails_at:
            self.calls.append((name, args))
            raise ConnectionError("down")
        value = await super().answer(name, args)
        if name == "save":
            value = {"saved": args.get("key"), "count": len(str(args))}
        self.made.append((name, digest([name, args])))
        return value


def edited(text: str, chance: random.Random) -> str:
    """Return a program with one random change: a statement dropped, two swapped, or a number changed."""
    lines = text.split("\n")
    name = chance.choice(["await", "await save"])
    calls = [at for at, line in enumerate(lines) if name in line]
    match chance.choice(["drop", "drop", "swap", "number", "number", "append"]):
        case "drop" if calls:
            at = chance.choice(calls)
            if not lines[at].rstrip().endswith(":"):
                indent = len(lines[at]) - len(lines[at].lstrip())
                lines[at] = " " * indent + "pass"
        case "swap":
            at = chance.randrange(1, len(lines) - 2)
            lines[at : at + 2] = lines[at + 1], lines[at]
        case "append":
            lines.insert(len(lines) - 1, "await save(key='new', value=a)")
        case _:
            at = chance.choice(calls or range(len(lines) - 1))
            lines[at] = re.sub(r"\b\d+\b", lambda found: str(int(found[0]) + 1), lines[at], count=1)
    return "\n".join(lines)


def writes(calls: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [call for call in calls if call[0] == "save"]


@pytest.mark.campaign("plans")
async def test_a_random_correction_repeats_and_loses_nothing(scale: Scale, seed: int, tmp_path: Path) -> None:
    statuses: Counter[str] = Counter()
    for number in range(seed * 1_000_000, seed * 1_000_000 + scale(30, 600)):
        chance = random.Random(number)
        text = Writer(number).program()
        world = Pure(chance.randint(1, 12))
        async with App(f"sqlite:///{tmp_path / f'{number}.db'}", tools=tools_of(world)) as app:
            first: Any = await app.plans.run_plan(text, parallel="none")
            recorded = list(world.made)
            world.fails_at, before = 0, len(world.made)
            code = edited(text, chance)
            if first["status"] == "invalid":
                continue
            answer: Any = await app.plans.resume_run(first["runId"], code=code)
            statuses[answer["status"]] += 1
            if answer["status"] == "invalid":
                continue
            python = Pure()
            expected = await asyncio.to_thread(run_python, code, {}, python)
            asked = python.made
            made, wanted = Counter(world.made[before:]), Counter(asked) - Counter(recorded)
            assert made <= wanted, (number, code)
            if answer["status"] == "conflict":
                assert writes(asked)[: len(writes(recorded))] != writes(recorded), (number, code)
                continue
            # asyncio begins a task that its maker never waits for when the loop ends.
            assert made == wanted or "create_task" in code, (number, code)
            if answer["status"] == "completed":
                assert not Counter(writes(recorded)) - Counter(asked), (number, code)
                if "not associated with a value" not in str(expected["result"]):  # Python words it by where it is
                    assert answer["result"] == expected["result"], (number, code)
            else:
                assert "error" in expected, (number, code, answer)
    print(statuses)
    assert statuses["completed"] > statuses["conflict"] > 0
