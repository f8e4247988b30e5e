"""`cases/composite/*.yaml`: each built by a ComposableToolBuilder and, as a document, run on every store.

steps, input, schema, strict, tools (see chains/scripted.py, and {refuses: text}: success false)
expect     of the ToolExecutionResult      calls     names, or [name, args], in order
warnings   texts that are told             raises    the text of UnresolvedReference
refused    {path: part of the message}: exactly these
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from chains.scripted import ScriptedTools
from ropewalk import App, ComposableToolBuilder, InvalidFlow, ToolExecutionResult, UnresolvedReference
from ropewalk.source.load import load

CASES = [
    pytest.param(case, id=case["name"].replace(" ", "_"))
    for file in sorted((Path(__file__).parents[1] / "cases" / "composite").glob("*.yaml"))
    for case in load(file).data
]


def scripted(case: dict[str, Any]) -> tuple[ScriptedTools, Any]:
    """The tools, and a function for a builder that calls them."""
    script = case.get("tools") or {}
    tools = ScriptedTools({name: step for name, step in script.items() if "refuses" not in step})

    async def execute(name: str, args: dict[str, Any], context: Any) -> ToolExecutionResult:
        assert context == "theirs"
        if "refuses" in script.get(name, {}):
            tools.calls.append((name, args))
            return ToolExecutionResult(False, error=script[name]["refuses"])
        return ToolExecutionResult(True, await tools(name, args))

    return tools, execute


@pytest.mark.parametrize("case", CASES)
def test_built(case: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    tools, execute = scripted(case)
    builder = ComposableToolBuilder(execute, strict_mode=case.get("strict", False))
    given = ("made", "A tool.", case.get("schema", {"type": "object"}), {"mode": "compose", "steps": case["steps"]})
    if "raises" in case:
        with pytest.raises(UnresolvedReference) as unresolved:
            builder.build(*given)
        assert str(unresolved.value) == case["raises"]
        return
    if "refused" in case:
        with pytest.raises(InvalidFlow) as refused:
            builder.build(*given)
        told(case["refused"], refused.value)
        return
    with caplog.at_level(logging.WARNING, "ropewalk"):
        tool = builder.build(*given)
        result = asyncio.run(tool.execute(case.get("input", {}), "theirs"))
    for key, value in case["expect"].items():
        assert getattr(result, key) == value, result
    holds(case, tools)
    said = [record.getMessage() for record in caplog.records if record.name == "ropewalk.composite"]
    assert len(said) == len(case.get("warnings", ())), said
    for text in case.get("warnings", ()):
        assert any(f'Unresolved reference "{text}" treated as literal' in one for one in said), (text, said)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("case", CASES)
def test_as_a_document(case: dict[str, Any], store: str, tmp_path: Path) -> None:
    """COMPOSITE-DOC-1 DUR-8"""
    document = {
        "kind": "composite",
        "name": "made",
        "mode": "compose",
        "steps": case["steps"],
        "strict": case.get("strict", False),
    }
    if any("refuses" in step for step in (case.get("tools") or {}).values()) or "schema" in case:
        return  # of the builder's function and input; here the tools' own words and InvalidInput

    async def body() -> None:
        async with App("memory" if store == "memory" else str(tmp_path / "s.db")) as app:
            if "raises" in case or "refused" in case:
                with pytest.raises(InvalidFlow) as refused:
                    app.load(document)
                if "raises" in case:
                    assert case["raises"] in str(refused.value)
                else:
                    told(case["refused"], refused.value)
                return
            tools = scripted(case)[0]
            result = await app.run(document, case.get("input", {}), executor=tools)
            expected = case["expect"]
            assert result.success is expected["success"]
            if expected["success"]:
                assert result.result == expected["output"]
            if "error" in expected:
                assert result.error == expected["error"]
            if "details" in expected:
                assert {"steps": result.to_dict()["steps"]} == expected["details"]
            holds(case, tools)
            assert (await app.run(document, case.get("input", {}), run_id=result.run_id, executor=tools)) == result

    asyncio.run(body())


def told(expected: dict[str, str], refused: InvalidFlow) -> None:
    found = {problem.path: str(problem) for problem in refused.problems}
    assert sorted(found) == sorted(expected)
    for path, text in expected.items():
        assert text in found[path]


def holds(case: dict[str, Any], tools: ScriptedTools) -> None:
    if "calls" not in case:
        return
    assert len(tools.calls) == len(case["calls"]), tools.calls
    for want, (name, args) in zip(case["calls"], tools.calls, strict=True):
        assert want == ([name, args] if isinstance(want, list) else name)
