"""Cases as text: a document, scripted tools, what comes out or what is wrong, on every store.

`cases/<kind>/*.yaml` hold lists of cases:

    name       in words
    covers     ids of requirements.py
    chain      the document; tools: see chains/scripted.py
    context    of the execution
    answers    what is sent as soon as there is a wait for it: {event: payload}, {path: answer} for an approval
    expect     a subset of the result; besides it calls (names in order, or [name, params]),
               counts {tool: times}, cancelled [tools], peak (most at once), details
    problems   {path: part of the message}: exactly these
    warnings   {path: part of the message}: exactly these; alone, nothing is run
    raises     {error class: part of its text} at the execution

Every case that runs is also held to what is true of all: its status agrees, the same execution id
gives the same result and calls nothing, the export is read back as the same chain.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ropewalk.errors
from chains.scripted import ScriptedTools, answering, misses
from ropewalk.app.app import App
from ropewalk.check import UNKNOWN_TOOL
from ropewalk.errors import InvalidFlow
from ropewalk.source.load import load

CASES = Path(__file__).parent / "cases"
KNOWN = {
    "name",
    "covers",
    "tools",
    "context",
    "input",
    "variables",
    "expect",
    "problems",
    "raises",
    "bug",
    "answers",
    "warnings",
}
KNOWN |= {"chain", "composition"}
BESIDES = ("calls", "counts", "cancelled", "peak", "details", "absent")


def cases(kind: str) -> Iterator[Any]:
    for file in sorted((CASES / kind).glob("*.yaml")):
        for case in load(file).data:
            assert not set(case) - KNOWN, f"{file.name}: {case['name']}: {set(case) - KNOWN}"
            marks = [pytest.mark.xfail(strict=True, reason=case["bug"])] if "bug" in case else []
            yield pytest.param(case, id=f"{file.stem}-{case['name'].replace(' ', '_')}", marks=marks)


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


@pytest.mark.parametrize("case", list(cases("chain")))
def test_chain(case: dict[str, Any], address: str) -> None:
    """DUR-8"""
    asyncio.run(_run(case, address))


async def _run(case: dict[str, Any], address: str) -> None:
    async with App(address) as app:
        if "problems" in case:
            await _is_refused(app, case)
            return
        chain = await app.chains.create_chain(case["chain"])
        if "warnings" in case:
            await _is_doubtful(app, case)
            if "expect" not in case:
                return
        tools = ScriptedTools(case.get("tools") or {})
        context = case.get("context")
        if "raises" in case:
            [(kind, text)] = case["raises"].items()
            with pytest.raises(getattr(ropewalk.errors, kind)) as raised:
                await app.chains.execute_chain(chain.id, context, tools)
            assert text in str(raised.value)
            return
        answers = answering(app, case["answers"]) if "answers" in case else None
        result = await app.chains.execute_chain(chain.id, context, tools, on_event=answers)
        details = await app.chains.get_execution_details(result.execution_id)
        wanted = {key: value for key, value in case["expect"].items() if key not in BESIDES}
        assert misses({"status": "completed", "errors": [], **wanted}, result.to_dict()) == []
        _hold(case["expect"], tools, result, details)
        await _what_is_true_of_all(app, chain, result, tools, context)


async def _is_refused(app: App, case: dict[str, Any]) -> None:
    with pytest.raises(InvalidFlow) as refused:
        await app.chains.create_chain(case["chain"])
    told = [(problem.path, str(problem)) for problem in refused.value.problems]
    assert sorted(path for path, _ in told) == sorted(case["problems"])
    for path, text in told:
        assert case["problems"][path] in text
    assert str(refused.value) == "\n".join(text for _, text in told)
    assert await app.chains.list_chains() == []


async def _is_doubtful(app: App, case: dict[str, Any]) -> None:
    checked = await app.validate(case["chain"])
    told = [(w.path, str(w)) for w in checked.warnings if w.keyword != UNKNOWN_TOOL]
    assert sorted(path for path, _ in told) == sorted(case["warnings"]), told
    for path, text in told:
        assert case["warnings"][path] in text


def _hold(expected: dict[str, Any], tools: ScriptedTools, result: Any, details: Any) -> None:
    if "calls" in expected:
        found = [call if isinstance(want, list) else call[0] for call, want in zip(tools.calls, expected["calls"])]  # noqa: B905
        assert [list(call) if isinstance(call, tuple) else call for call in found] == expected["calls"]
        assert len(tools.calls) == len(expected["calls"]), tools.calls
    for name, times in expected.get("counts", {}).items():
        assert tools.count(name) == times, name
    if "cancelled" in expected:
        assert sorted(tools.cancelled) == expected["cancelled"]
    if "peak" in expected:
        assert tools.peak == expected["peak"]
    if "details" in expected:
        assert misses(expected["details"], details.to_dict()) == []
    for id in expected.get("absent", ()):
        assert id not in result["results"]


async def _what_is_true_of_all(app: App, chain: Any, result: Any, tools: ScriptedTools, context: Any) -> None:
    status = await app.chains.get_execution_status(result.execution_id)
    assert status is not None
    assert (status.status, status.chain_id, status.current_node) == (result.status, chain.id, None)
    assert (status.result_count, status.error_count >= 0) == (len(result.results), True)
    assert result.success is (result.status == "completed")
    calls = len(tools.calls)
    again = await app.chains.execute_chain(chain.id, {**(context or {}), "executionId": result.execution_id}, tools)
    assert again == result
    assert len(tools.calls) == calls
    assert tools.running == 0
    exported = json.loads(await app.chains.export_chain(chain.id))
    imported = await app.chains.import_chain(json.dumps(exported))
    back = json.loads(await app.chains.export_chain(imported.id))
    own = ("id", "metadata")
    assert {k: v for k, v in back.items() if k not in own} == {k: v for k, v in exported.items() if k not in own}
