"""Programs of models through `App`, computed in children: they give what Python gives, and attacks end."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, Tool
from ropewalk.plans.boundary.pool import pool
from serve.test_http_tools import asking

from .test_machine_limits import READ_DEEP, STOPPED
from .test_machine_scripts import EVERY, TOOLS, world
from .virtual_loop import run_python

pytestmark = pytest.mark.process

PREFIX = "import asyncio\nfrom collections import defaultdict\n"


def app_of(answer: Any, calls: list[Any]) -> App:
    """Return an app with the tools of `test_machine_scripts`, which note their calls."""

    def make(name: str, parameters: list[str]) -> Tool:
        async def call(**arguments: Any) -> Any:
            calls.append((name, arguments))
            await asyncio.sleep(0)
            return answer(name, arguments)

        schema: Any = {"type": "object", "properties": {name: {} for name in parameters}, "required": parameters}
        return Tool(name, "", schema, handler=call)

    return App("memory", tools=[make(name, parameters) for name, parameters in TOOLS.items()])


async def ending_of(text: str) -> dict[str, Any]:
    """Check and run a program as one of a model; return `result` or `error`, with its calls."""
    calls: list[Any] = []
    async with app_of(world(), calls) as app:
        plans = app.plans.for_models()
        checked = await plans.check_plan(text)
        answer = await plans.run_plan(text)
    assert checked["ok"] == (answer["status"] != "invalid")
    return {**answer, "calls": calls}


async def endings_of(texts: list[str]) -> list[dict[str, Any]]:
    return await asyncio.gather(*map(ending_of, texts))


FORGOTTEN = ["coroutine never awaited"]
"""What the check reports, where Python only warns."""


def test_programs_give_in_a_child_what_python_gives() -> None:
    # At once in one loop, so more of them than there are children.
    texts = {name: PREFIX + text for name, text in EVERY.items()}
    answers = dict(zip(texts, asyncio.run(endings_of([*texts.values()])), strict=True))
    assert [name for name, answer in answers.items() if answer["status"] == "invalid"] == FORGOTTEN
    for name in texts.keys() - FORGOTTEN:
        python, answer = run_python(texts[name], {}, TOOLS, world()), answers[name]
        if "error" in python:
            error = answer["error"]
            message = f"line {error['line']}: {python['error']}: {python['message']}"
            assert error["message"] == message, name
        else:
            assert answer["result"] == python["result"], name
        assert sorted(map(repr, answer["calls"])) == sorted(map(repr, python["calls"])), name


ATTACKS = {
    "unpacks a lambda": "x, *y = lambda x: x\nreturn 1",
    "names a tool that is computed": "return await call_tool('a' + 'dd', {'x': 1})",
    **{name: READ_DEEP[name] for name in ("brackets", "elif", "lambdas", "strings", "null")},
    **{name: STOPPED[name].replace("get(n=", "num(n=") for name in STOPPED},
}


def test_attacks_end_as_failed_or_invalid_runs_while_others_run() -> None:
    async def run() -> list[dict[str, Any]]:
        attacks = asyncio.ensure_future(endings_of([*ATTACKS.values()]))
        others = 0
        while not attacks.done():
            assert (await ending_of("return await add(x=1)"))["result"] == 2
            others += 1
        assert others
        return await attacks

    for name, answer in zip(ATTACKS, asyncio.run(run()), strict=True):
        assert answer["status"] in ("failed", "invalid"), (name, answer)
        assert " at 0x" not in str(answer), (name, answer)
    assert pool().leases == 0


@pytest.mark.campaign("plans")
def test_random_programs_end_without_an_address(monkeypatch: pytest.MonkeyPatch, scale: Any, seed: int) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    from plans_fuzz import program

    chance = random.Random(seed)
    for answer in asyncio.run(endings_of([program(chance) for _ in range(scale(40, 400))])):
        assert answer["status"] in ("completed", "failed", "invalid"), answer
        assert " at 0x" not in str(answer), answer


BURN = "while True:\n    pass"
PROGRAM = {"kind": "Program", "text": BURN, "tools": [[{"name": "t", "parameters": ["x"]}, 0]]}
PLACES: dict[str, list[dict[str, Any]]] = {
    "at the top": [PROGRAM],
    "as one that is contained": [{**PROGRAM, "contained": True}],
    "in a block": [{"kind": "Compute", "value": {"lit": 1}}, {"kind": "Block", "body": 2}],
    "in a loop": [{"kind": "Loop", "body": 2, "limit": 3}],
    "in an arm": [{"kind": "Branch", "arms": [[{"lit": False}, 0]], "default": 2}],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fields", [{}, {"kind": "flow"}, {"code": "return 1"}], ids=["guessed", "flow", "plan"])
def test_no_flow_document_of_a_client_brings_a_program(place: str, fields: dict[str, Any]) -> None:
    call = {"kind": "Call", "tool": "ropewalk:store_plan", "args": {"ref": ["item"]}}
    main = [{"id": f"n{number}", "op": op} for number, op in enumerate(PLACES[place])]
    regions = [{"nodes": [{"id": "t", "op": call}]}, {"nodes": main}, {"nodes": [{"id": "p", "op": PROGRAM}]}]
    flow = {"ropewalk": 1, "name": "f", "body": 1, "regions": regions, **fields}
    sent = [("POST", path, {"document": flow}) for path in ("/api/runs", "/api/preview", "/api/definitions/flow")]
    *answers, valid = asking(app_of(world(), []), *sent, ("POST", "/api/validate", {"document": flow}))
    assert [answer.status_code for answer in answers] == [422, 422, 422]
    assert valid.json()["valid"] is False, valid.text
