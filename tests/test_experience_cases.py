"""Cases of experiences as text: a document, scripted nodes, what comes out or what is wrong, on every store.

`cases/experience/*.yaml` hold lists of cases:

    name        in words
    covers      ids of requirements.py
    experience  the document; name, version and an empty schema are added, and `kind: tool` with
                `impl: ./ID.py` to nodes that say neither. With `raw: true` it stands as it is
    tools       see experiences/scripted_nodes.py
    answers     what is sent as soon as there is a wait for it: {event: payload}, {path: answer} for an approval
    input       of the run; state: what it begins with
    expect      a subset of the result, but finalState, errors (as [nodeId, part of the message]) and warnings
                exactly; besides it calls (names in order, or [name, params]), counts, peak, and events
                ([kind, path], in this order among others)
    problems    {path: part of the message}: exactly these; with `beyond_schema` the JSON Schema cannot know

Every document is held against the JSON Schema that ships, too, and every run against itself: the same run id
gives the same result and calls nothing.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chains.scripted import answering, misses
from experiences.scripted_nodes import ScriptedNodes
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow
from ropewalk.events import Event
from ropewalk.notations.json_schema import schema_of
from ropewalk.schema import compile_schema
from ropewalk.source.load import load

CASES = Path(__file__).parent / "cases" / "experience"
KNOWN = {"name", "covers", "experience", "raw", "tools", "input", "state", "expect", "problems", "beyond_schema"}
KNOWN |= {"answers"}
BESIDES = ("finalState", "errors", "warnings", "calls", "counts", "peak", "events")
SCHEMA = compile_schema(schema_of("experience"))


def cases() -> Iterator[Any]:
    for file in sorted(CASES.glob("*.yaml")):
        for case in load(file).data:
            assert not set(case) - KNOWN, f"{file.name}: {case['name']}: {set(case) - KNOWN}"
            yield pytest.param(case, id=f"{file.stem}-{case['name'].replace(' ', '_')}")


def document_of(case: dict[str, Any]) -> Any:
    given = copy.deepcopy(case["experience"])
    if case.get("raw"):
        return given
    for node in given["graph"]["nodes"]:
        if "kind" not in node:
            node |= {"kind": "tool", "impl": f"./{node['id']}.py"}
    return {"name": "case", "version": "0.1.0", "state": {"schema": {}}, **given}


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


@pytest.mark.parametrize("case", list(cases()))
def test_experience(case: dict[str, Any], address: str) -> None:
    """DUR-8"""
    asyncio.run(_run(case, address))


@pytest.mark.parametrize("case", list(cases()))
def test_the_schema_agrees_with_the_reader(case: dict[str, Any]) -> None:
    """EXP-DOC-7"""
    wrong = SCHEMA.problems(document_of(case), "")
    assert bool(wrong) is ("problems" in case and not case.get("beyond_schema")), wrong


async def _run(case: dict[str, Any], address: str) -> None:
    document = document_of(case)
    async with App(address) as app:
        if "problems" in case:
            _is_refused(app, document, case["problems"])
            return
        tools = ScriptedNodes(case.get("tools") or {})
        events: list[list[str]] = []
        answer = answering(app, case.get("answers") or {})

        def take(event: Event) -> None:
            events.append([event.kind, event.path])
            answer(event)

        result = await app.run(
            document,
            case.get("input"),
            state=case.get("state"),
            executor=tools,
            run_id="r",
            on_event=take,
        )
        _hold(case["expect"], result.to_dict(), tools, events)
        calls = len(tools.calls)
        again = await app.run(document, case.get("input"), state=case.get("state"), executor=tools, run_id="r")
        assert again == result
        assert len(tools.calls) == calls


def _is_refused(app: App, document: Any, wanted: dict[str, str]) -> None:
    with pytest.raises(InvalidFlow) as refused:
        app.ensure(app.load(document))
    told = [(problem.path, str(problem)) for problem in refused.value.problems]
    assert sorted(path for path, _ in told) == sorted(wanted), told
    for path, text in told:
        assert wanted[path] in text


def _hold(expected: dict[str, Any], result: dict[str, Any], tools: ScriptedNodes, events: list[list[str]]) -> None:
    assert misses({"status": "completed", **{k: v for k, v in expected.items() if k not in BESIDES}}, result) == []
    errors = expected.get("errors", [])
    assert [error["nodeId"] for error in result["errors"]] == [node for node, _ in errors], result["errors"]
    for error, (_, said) in zip(result["errors"], errors, strict=True):
        assert said in error["message"]
    assert result["success"] is (result["status"] == "completed")
    if "finalState" in expected:
        assert result["finalState"] == expected["finalState"]
    assert result["warnings"] == expected.get("warnings", [])
    if "calls" in expected:
        found = [call if isinstance(want, list) else call[0] for call, want in zip(tools.calls, expected["calls"])]  # noqa: B905
        assert [list(call) if isinstance(call, tuple) else call for call in found] == expected["calls"], tools.calls
        assert len(tools.calls) == len(expected["calls"]), tools.calls
    for name, times in expected.get("counts", {}).items():
        assert tools.count(name) == times, name
    if "peak" in expected:
        assert tools.peak == expected["peak"]
    left = iter(events)
    for event in expected.get("events", ()):
        assert event in left, (event, events)
