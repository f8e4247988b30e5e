"""The function reference of tool chains: its own sentences as tests."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import pydoc
import re
from typing import Any

import pytest

from ropewalk import App, Runner, tool, toolchain

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


PUBLIC_NAMES = {
    # name in the source document: import in Ropewalk; a camelCase function that is missing here has its snake_case name
    "ropewalk": """
        App ChainStep ProgressEvent RunResult Runner StepResult StreamEvent StreamEventKind Tool ToolBackend ToolError
        ToolExecutionResult Toolbox ComposableToolBuilder ChainMode ErrorStrategy NodeType""",
    "ropewalk.errors": """
        ToolError ErrToolNotFound=ToolNotFound ErrInvalidToolID=InvalidToolId ErrNoBackends=NoBackends
        ErrValidation=ValidationFailed ErrExecution=ExecutionFailed ErrOutputValidation=OutputValidationFailed
        ErrStreamNotSupported=StreamNotSupported WrapError=wrap_error""",
    "ropewalk.Runner": """
        Run=run RunStream=run_stream RunChain=run_chain RunWithProgress=run_with_progress
        RunChainWithProgress=run_chain_with_progress""",
    "ropewalk.ToolBackend": "BackendKindLocal=local BackendKindProvider=provider BackendKindMCP=mcp",
    "ropewalk.StreamEventKind": """
        StreamEventProgress=PROGRESS StreamEventChunk=CHUNK StreamEventDone=DONE StreamEventError=ERROR""",
    "ropewalk.tools.tool": "LocalHandler=Handler",
    "ropewalk.tools.bound_call": "SchemaValidator=Validator",
    "ropewalk.tools.backends.route": """
        MCPExecutor=McpExecutor ProviderExecutor LocalRegistry ProgressCallback=OnProgress""",
    "ropewalk.toolchain": """
        createChain executeChain getChain listChains deleteChain getExecutionStatus getExecutionDetails listExecutions
        stopExecution cloneChain exportChain importChain ChainMode ErrorStrategy NodeType createComposition
        executeComposition getComposition listCompositions deleteComposition composeTools createValidationChain
        createTransformPipeline ComposerNodeType TransformType initializeSelector selectTools SelectionStrategy""",
    "ropewalk.ComposableToolBuilder": "build validate",
    "ropewalk.agents": """
        ComposableToolSpec ComposableStep ToolDefinition ToolCall ToolResult ToolExecutionResult
        completeJSONWithTools=complete_json_with_tools""",
}
OPTIONS = {
    "WithIndex": "index", "WithToolResolver": "tool_resolver", "WithBackendsResolver": "backends_resolver",
    "WithBackendSelector": "backend_selector", "WithValidator": "validator", "WithMCPExecutor": "mcp",
    "WithProviderExecutor": "provider", "WithLocalRegistry": "local",
}  # fmt: skip
"""The options of NewRunner, as arguments of `Runner`; `WithValidation` is two of them."""
CONSTANTS = {
    "ChainMode": "SEQUENTIAL PARALLEL CONDITIONAL LOOP DAG",
    "ErrorStrategy": "STOP CONTINUE RETRY FALLBACK SKIP",
    "NodeType": "TOOL CONDITION LOOP PARALLEL TRANSFORM DELAY",
    "ComposerNodeType": "TOOL MAP FILTER REDUCE TRANSFORM VALIDATE BRANCH MERGE CONDITIONAL",
    "TransformType": "MAP FILTER REDUCE FLAT_MAP GROUP_BY SORT PICK OMIT MERGE RENAME CUSTOM",
    "SelectionStrategy": "EXACT FUZZY SEMANTIC INTENT HYBRID",
}


def snake(name: str) -> str:
    return name if name[0].isupper() else re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


@pytest.mark.parametrize("module", PUBLIC_NAMES)
def test_every_public_name_of_the_documents_is_imported(module: str) -> None:
    for entry in PUBLIC_NAMES[module].split():
        name, _, ours = entry.partition("=")
        found = pydoc.locate(f"{module}.{ours or snake(name)}")
        assert found == ours.lower() if ours.isupper() else callable(found), name


def test_every_option_and_constant_of_the_documents_is_there() -> None:
    assert {*OPTIONS.values(), "validate_input", "validate_output"} <= inspect.signature(Runner).parameters.keys()
    for name, members in CONSTANTS.items():
        enum: Any = getattr(toolchain, name)
        assert set(members.split()) <= {member.name for member in enum}


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
            for text in ("$input.a + 1", "$output.serach", "$steps[7]", "${other.x}", "$iteration"):
                assert (await app.validate(document(text))).problems
