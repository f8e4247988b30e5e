"""The figures of gold plans count what they say: sound, unsound, identical, and faults that the check finds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.tools.tool import Tool

BENCH = Path(__file__).parents[2] / "bench"

SPEC = [
    {
        "name": "Shop.find-user",
        "description": "Find a user.",
        "query_parameters": {"from": {"type": "string", "required": True}, "limit": {"type": "integer"}},
        "output_parameters": {"id": {"type": "integer"}, "Full Name": {"type": "string"}},
    },
    {
        "name": "double",
        "description": "Double a number.",
        "parameters": {"number": {"type": "number", "required": True}, "kind": {"enum": ["a", "b"], "type": "string"}},
        "output_parameters": {"items": {"type": "array", "items": {"type": "number"}}},
    },
]


def sequence(*calls: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of the set."""
    labelled = [{**call, "label": f"var{number}"} for number, call in enumerate(calls, 1)]
    return {"output": [*labelled, {"name": "var_result", "arguments": result}]}


USER = {"name": "Shop.find-user", "arguments": {"from": "Rome", "limit": 1}}
SOUND = [
    sequence(
        USER, {"name": "double", "arguments": {"number": "$var1.id$", "kind": "a"}}, result={"x": "$var2.items[1]$"}
    ),
    sequence(
        USER, {"name": "double", "arguments": {"number": "2 * $var1.id$"}}, result={"who": "I am $var1.Full Name$!"}
    ),
]
UNSOUND = [
    sequence(USER, {"name": "double", "arguments": {"number": "$var1.Full Name$"}}, result={}),
    sequence({"name": "double", "arguments": {"number": 1, "kind": "c"}}, result={}),
    sequence({"name": "halve", "arguments": {}}, result={}),
    sequence(USER, result={"x": "$var1.age$"}),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in the form of NESTFUL, with sequences of our own."""
    monkeypatch.syspath_prepend(str(BENCH))
    for part in ("executable/executable", "non-executable/non-executable-glaive", "non-executable/non-executable-sgd"):
        path = tmp_path / "data" / f"{part}-spec.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(SPEC))
        entries = [*SOUND, *UNSOUND] if part.startswith("executable") else []
        (tmp_path / "data" / f"{part}-data.json").write_text(json.dumps(entries))
    return tmp_path


def test_sound_sequences_run_like_the_calls_themselves_and_the_rest_has_a_reason(folder: Path) -> None:
    import plans_gold
    import plans_sets

    tally = asyncio.run(plans_gold.compare(plans_sets.nestful(folder)))
    assert (tally.total, tally.excluded, tally.compiled, tally.identical) == (6, 4, 2, 2), tally.lines
    reasons = "\n".join(tally.lines)
    for reason in ("is a string, never a number", "'c' is not one of", "no tool 'halve'", "no member 'age'"):
        assert reason in reasons


def test_a_difference_is_no_success(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import plans_gold
    import plans_sets

    direct = plans_gold.execute
    gold = next(plans_sets.nestful(folder))
    outcome = direct(gold)
    for part, value in (("calls", outcome.calls[:1]), ("result", {"x": 0}), ("state", []), ("error", "no")):
        changed = plans_gold.Outcome(**{**vars(outcome), part: value})
        assert plans_gold.difference(outcome, changed) is not None


def test_every_mutant_of_a_name_an_argument_a_type_or_a_limit_is_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import plans_mutants
    import plans_sets

    asyncio.run(plans_mutants.measure(plans_sets.nestful(folder), 2))
    text = capsys.readouterr().out
    for fault in ("wrong name", "missing argument", "extra argument", "wrong type", "schema limit"):
        assert f"{fault}: 2 of 2 (100.0%)" in text, text


def test_an_argument_for_a_tool_without_parameters_is_a_problem() -> None:
    async def main() -> None:
        closed = Tool("closed", "", {"type": "object", "properties": {}}, handler=lambda: 1)
        open_ = Tool("open_", "", {"type": "object"}, handler=lambda **args: 1)
        async with App("memory", tools=[closed, open_]) as app:
            answer: Any = await app.plans.check_plan("await closed(x=1)")
            assert "closed has no parameter 'x'" in answer["problems"][0]["message"]
            assert (await app.plans.check_plan("await open_(x=1)"))["ok"]

    asyncio.run(main())
