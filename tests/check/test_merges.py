"""What a merge of objects gives is known by its members."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk import App

X = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def merging(*sources: Any, strategy: str = "object") -> dict[str, Any]:
    node = {"id": "a", "type": "MERGE", "sources": list(sources), "strategy": strategy}
    return {"kind": "composition", "name": "m", "inputSchema": X, "nodes": [node]}


@pytest.mark.parametrize(
    ("document", "names"),
    [
        (merging({"x": "$input.x"}, {"y": 1}), ["x", "y"]),
        (merging({"x": 1}, {"x": "$input.x", "y": {"z": 1}}), ["x", "y"]),
        (merging({"x": {"y": 1}}, {"x": {"z": "$input.x"}}, strategy="deep"), ["x"]),
    ],
    ids=["object", "later wins", "deep"],
)
def test_the_result_of_a_merge_is_exact(document: Any, names: list[str]) -> None:
    schema: Any = App("memory").as_tool(document).output_schema
    assert schema["type"] == "object"
    assert list(schema["properties"]) == sorted(schema["required"]) == names


def test_a_deep_merge_has_the_members_of_both() -> None:
    schema: Any = (
        App("memory").as_tool(merging({"x": {"y": 1}}, {"x": {"z": "$input.x"}}, strategy="deep")).output_schema
    )
    assert schema["properties"]["x"]["required"] == ["y", "z"]


@pytest.mark.parametrize("strategy", ["object", "deep"])
def test_a_merge_of_anything_is_an_object_and_never_null(strategy: str) -> None:
    schema = App("memory").as_tool(merging("$input.more", {"y": 1}, strategy=strategy)).output_schema
    assert schema == {"type": "object"}


def test_a_misspelt_member_of_a_merge_is_found() -> None:
    inner = App("memory").as_tool({**merging({"total": "$input.x"}, {"y": 1}), "name": "inner"})
    call = {"id": "call", "type": "tool", "tool": "inner", "params": {"x": 1}}
    use = {"id": "use", "type": "transform", "input": "$output.call.totel"}
    app = App("memory", tools=[inner])
    checked = app.check(app.load({"kind": "chain", "name": "outer", "nodes": [call, use]}))
    assert "did you mean total?" in str(checked.problems[0])
