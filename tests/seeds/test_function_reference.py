"""The function reference of tool chains: its own sentences as tests."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from ropewalk import App, tool

CHAIN: dict[str, Any] = {"name": "c", "mode": "sequential", "nodes": [{"id": "a", "type": "tool", "tool": "t"}]}


async def test_chain_objects_are_serialized_to_json_and_stay_as_they_are() -> None:
    async with App("memory") as app:
        stored = await app.chains.create_chain(CHAIN)
        composition = await app.compositions.create_composition({"name": "d", "nodes": CHAIN["nodes"]})
        done = await app.chains.execute_chain(stored["id"], {}, lambda name, params: "x")
    for record in (stored, composition, done):
        assert json.loads(json.dumps(record)) == record.to_dict()
        assert copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == record == dict(record)
        with pytest.raises(TypeError, match="change a copy: to_dict"):
            record["name"] = "other"
    assert ("errorStrategy" in stored, stored.get("error_strategy")) == (True, "stop")
    changed = {**stored}
    changed["nodes"][0]["tool"] = "u"
    again = await app.chains.get_chain(stored["id"])
    assert again["nodes"][0]["tool"] == "t"  # type: ignore[index, call-overload]


@pytest.mark.parametrize("word", ["key", "by"])
@pytest.mark.parametrize("descending", [False, True])
async def test_the_transform_sort_takes_key(word: str, descending: bool) -> None:
    config = {word: "n", **({"order": "desc"} if descending else {})}
    nodes = [
        {"id": "s", "type": "TRANSFORM", "transform": {"type": "SORT", "config": config}, "inputMapping": "$input.rows"}
    ]
    rows = [{"n": 2}, {"n": 1}, {"n": 3}]
    async with App("memory") as app:
        outcome = await app.run({"kind": "composition", "name": "c", "nodes": nodes}, {"rows": rows})
    assert outcome.result == sorted(rows, key=lambda row: row["n"], reverse=descending)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("ropewalk", "ChainStep ProgressEvent RunResult Runner StepResult StreamEvent StreamEventKind ToolError"),
        ("ropewalk.errors", "ToolError wrap_error ToolNotFound InvalidToolId NoBackends StreamNotSupported"),
        ("ropewalk.toolchain", "ChainMode ErrorStrategy NodeType ComposerNodeType TransformType SelectionStrategy"),
        (
            "ropewalk.toolchain",
            "create_chain execute_chain get_chain list_chains delete_chain get_execution_status get_execution_details"
            " list_executions stop_execution clone_chain export_chain import_chain create_composition"
            " execute_composition get_composition list_compositions delete_composition compose_tools"
            " create_validation_chain create_transform_pipeline initialize_selector select_tools",
        ),
        ("ropewalk", "ComposableToolBuilder"),
        ("ropewalk.agents", "ComposableToolSpec ComposableStep ToolDefinition ToolCall ToolResult ToolExecutionResult"),
    ],
)
def test_every_public_name_of_the_documents_is_imported(module: str, names: str) -> None:
    for name in names.split():
        exec(f"from {module} import {name}", {})


NOTATIONS = [
    ("chain", "nodes", "params"),
    ("composition", "nodes", "inputMapping"),
    ("composite", "steps", "inputMapping"),
]
OTHER_PREFIXES = [
    # text, the reason and the suggestion of the warning in chains and compositions
    ("$other.x", "unknown reference $other", ""),
    ("$serach.rows[0]", "unknown reference $serach", "$output.search.rows[0]"),
    ("$search", "unknown reference $search", "$output.search"),
    ("$inputs.z", "unknown reference $inputs", "$input.z"),
    ("$limt", "unknown reference $limt", "$var.limit"),
    ("$result.x", "$result is not known here", ""),
    ("$5", "not a reference", ""),
    ("$", "not a reference", ""),
]


@pytest.mark.parametrize(("kind", "nodes", "field"), NOTATIONS)
async def test_a_reference_of_another_prefix_is_text_and_with_strict_a_problem(
    kind: str, nodes: str, field: str
) -> None:
    @tool
    def say(text: str) -> str:
        return text

    def document(text: str, **more: Any) -> dict[str, Any]:
        steps = [{"tool": "say", field: {"text": word}} for word in ("a", text)]
        if nodes == "nodes":
            steps = [{"type": "tool", "id": id, **step} for id, step in zip(("search", "b"), steps, strict=True)]
            more["variables"] = {"limit": 1}
        return {"kind": kind, "name": "c", nodes: steps, **more}

    async with App("memory", tools=[say]) as app:
        for text, reason, near in OTHER_PREFIXES:
            escaped = document(f"${text}")
            assert not (await app.validate(escaped)).warnings  # also right before the same flow with a warning
            [warning] = (await app.validate(document(text))).warnings
            if kind != "composite":
                told = f'{reason}, so "{text}" is text; if you mean text, write "${text}"'
                assert (warning.message, warning.suggestion or "") == (told, near)
            results = [(await app.run(source)).result for source in (document(text), escaped)]
            assert results == ([{"search": "a", "b": text}] * 2 if kind == "chain" else [text] * 2)
            [problem] = (await app.validate(document(text, strict=True))).problems
            assert problem.path == f"{nodes}[1].{field}.text"
        # The prefix is known, so text cannot be meant.
        if kind != "composite":
            for text in ("$input.a and more", "$output.serach", "$steps[7]", "${other.x}", "$iteration"):
                assert (await app.validate(document(text))).problems
