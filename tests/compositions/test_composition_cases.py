"""Cases of compositions, on every store: see `test_cases.py`. Here a case has

    composition   the document
    input         of the execution, and variables
    expect        a subset of the result; besides it calls, counts, cancelled, peak, and absent (keys)
    problems      {path: part of the message}: exactly these

What is true of all is held too: the same execution id runs once, the stored document is read back as itself.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import ropewalk.errors
from chains.scripted import ScriptedTools, misses
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow
from test_cases import cases

BESIDES = ("calls", "counts", "cancelled", "peak", "absent")


@pytest.mark.parametrize("case", list(cases("composition")))
def test_composition(case: dict[str, Any], address: str) -> None:
    """DUR-8"""
    asyncio.run(_run(case, address))


async def _run(case: dict[str, Any], address: str) -> None:
    async with App(address) as app:
        if "problems" in case:
            await _is_refused(app, case)
            return
        made = await app.compositions.create_composition(case["composition"])
        tools = ScriptedTools(case.get("tools") or {})
        more = {"variables": case.get("variables")}
        if "raises" in case:
            [(kind, text)] = case["raises"].items()
            with pytest.raises(getattr(ropewalk.errors, kind)) as raised:
                await app.compositions.execute_composition(made.id, case.get("input"), tools, **more)
            assert text in str(raised.value)
            return
        result = await app.compositions.execute_composition(made.id, case.get("input"), tools, **more)
        wanted = {key: value for key, value in case["expect"].items() if key not in BESIDES}
        assert misses({"success": True, "compositionId": made.id, **wanted}, result.to_dict()) == []
        _hold(case["expect"], tools, result)
        await _what_is_true_of_all(app, made, result, tools, case)


async def _is_refused(app: App, case: dict[str, Any]) -> None:
    with pytest.raises(InvalidFlow) as refused:
        await app.compositions.create_composition(case["composition"])
    told = [(problem.path, str(problem)) for problem in refused.value.problems]
    assert sorted(path for path, _ in told) == sorted(case["problems"]), told
    for path, text in told:
        assert case["problems"][path] in text
    assert await app.compositions.list_compositions() == []


def _hold(expected: dict[str, Any], tools: ScriptedTools, result: Any) -> None:
    if "calls" in expected:
        assert [list(call) for call in tools.calls] == expected["calls"]
    for name, times in expected.get("counts", {}).items():
        assert tools.count(name) == times, name
    if "cancelled" in expected:
        assert sorted(tools.cancelled) == expected["cancelled"]
    if "peak" in expected:
        assert tools.peak == expected["peak"]
    for key in expected.get("absent", ()):
        assert key not in result
    if result.success:
        assert {"data", "nodeCount"} <= set(result)
        assert "error" not in result
    else:
        assert {"error", "errors"} <= set(result)
        assert "data" not in result
    for entry in result.errors:
        assert {"path", "message", "keyword"} <= set(entry)


async def _what_is_true_of_all(app: App, made: Any, result: Any, tools: ScriptedTools, case: dict[str, Any]) -> None:
    calls = len(tools.calls)
    if app.store.get_run(result.execution_id) is not None:  # nothing is kept of an input that did not fit
        again = await app.compositions.execute_composition(
            made.id, case.get("input"), tools, variables=case.get("variables"), execution_id=result.execution_id
        )
        assert again == result
    assert len(tools.calls) == calls
    assert tools.running == 0
    document = {key: value for key, value in made.to_dict().items() if key not in ("id", "metadata")}
    back = (await app.compositions.create_composition(document)).to_dict()
    assert {key: value for key, value in back.items() if key not in ("id", "metadata")} == document
