"""Where the verdict of the real n8n-mcp is known to be wrong, and where it is not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk.n8n.node_tools import NAMESPACE, SERVER, Server, register
from ropewalk.n8n.verdict import Verdict, make_verdict
from ropewalk.n8n.workflow import make_workflow
from ropewalk.tools.runner import Runner
from ropewalk.tools.toolbox import Toolbox

from .conftest import Lab

pytestmark = pytest.mark.node

FINE = {
    "no space": "return[{json: {a: 1}}];",
    "brackets": "return(\n[{json: {a: 1}}]);",
    "inner function": "function names() { return ['a', 'b']; }\nreturn [{json: {names: names()}}];",
    "inner function last": "return [{json: {names: names()}}];\nfunction names() { return ['a', 'b']; }",
    "arrow": "const pairs = $input.all().map(i => { return ['x', i.json.x]; });\nreturn [{json: {pairs}}];",
    "comment": "// never return ['a']\nreturn [{json: {a: 1}}];",
    "mapped": "return ['a', 'b'].map(name => ({json: {name}}));",
    "split": "return 'a,b'.split(',').map(name => ({json: {name}}));",
    "condition": "return 1 ? [{json: {}}] : [];",
}
WRONG = {
    "nothing": "const a = 1;",
    "only an inner function": "$input.all().map(i => { return i; });",
    "texts": "return ['a', 'b'];",
    "numbers": "const b = 2;\nreturn [1, b];",
    "number": "return 5;",
    "text": "return 'done';",
    "null": "return null;",
}
PYTHON = {"no space": "return[{'json': {}}]", "list of a text": "return 'a,b' and [{'json': {}}]"}


def code_node(code: str, language: str = "javaScript") -> dict[str, Any]:
    field = "jsCode" if language == "javaScript" else "pythonCode"
    return {"type": "code", "typeVersion": 2, "parameters": {"language": language, field: code}}


def flow(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The nodes one after another, behind a trigger."""
    every = [{"id": str(at), "name": f"N{at}", "parameters": {}, **node} for at, node in enumerate(nodes)]
    lines = [{"from": str(at), "to": str(at + 1)} for at in range(len(every) - 1)]
    return dict(make_workflow({"name": "w", "nodes": every, "connections": lines, **more}).workflow)


def verdicts(lab: Lab, flows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Verdict]]:
    """What the tool of a phase says of each, and the verdict."""

    async def run() -> list[tuple[dict[str, Any], Verdict]]:
        toolbox = Toolbox()
        toolbox.add_mcp(SERVER, lab.config)
        register(toolbox, Server(toolbox, lab.home))
        runner = Runner(index=toolbox)
        every = []
        try:
            for workflow in flows:
                said: Any = (await runner.run(f"{NAMESPACE}:validate_workflow", {"workflow": workflow})).structured
                every.append((said, make_verdict([], said, workflow)))
        finally:
            await toolbox.close()
        return every

    return asyncio.run(run())


def test_errors_about_code_that_are_not_true_are_warnings_and_the_others_stay(lab: Lab) -> None:
    nodes = [code_node(code) for code in (FINE | WRONG).values()]
    nodes += [code_node(code, "pythonNative") for code in PYTHON.values()]
    names = [*FINE, *WRONG, *PYTHON]
    every = dict(zip(names, verdicts(lab, [flow(node) for node in nodes]), strict=True))
    assert {name: said["valid"] for name, (said, _) in every.items()} == dict.fromkeys(names, False)  # n8n-mcp
    assert {name: verdict.valid for name, (_, verdict) in every.items()} == {name: name not in WRONG for name in names}
    [warning] = every["mapped"][1].warnings
    assert warning.startswith("N0: Array items must be objects with json property (n8n-mcp is probably wrong")
    assert every["texts"][1].problems == ("N0: Array items must be objects with json property",)


def test_details_that_are_objects_do_not_hide_the_verdict(lab: Lab) -> None:
    agent = {"type": "@n8n/n8n-nodes-langchain.agent", "typeVersion": 1.7, "parameters": {"text": "hi"}}
    group = [{"id": "g", "name": "mine", "nodeIds": ["gone"]}]
    request = {
        "type": "httpRequest",
        "typeVersion": 4.2,
        "parameters": {"url": "https://a.b", "onError": "stopWorkflow"},
    }
    (said, no_model), (_, misplaced), (grouped, fine) = verdicts(
        lab, [flow(agent), flow(request), flow({"type": "set", "typeVersion": 3.4}, nodeGroups=group)]
    )
    assert said["errors"][0]["details"] == {"code": "MISSING_LANGUAGE_MODEL"}
    assert no_model.valid is False
    assert 'AI Agent "N0" requires an ai_languageModel connection' in no_model.problems[0]
    assert "Node-level properties onError are in the wrong location" in misplaced.problems[0]
    assert grouped["warnings"][0]["details"] == {"group": "mine"}
    assert fine.valid is True
    assert fine.warnings != ()


def test_a_node_with_an_error_output_is_valid(lab: Lab) -> None:
    fields = {"onError": "continueErrorOutput", "retryOnFail": True, "maxTries": 3, "waitBetweenTries": 1000}
    nodes = [
        {"id": "get", "name": "Get", "type": "httpRequest", "parameters": {"url": "https://a.b"}, "typeVersion": 4.2},
        *({"id": id, "name": id, "type": "set", "parameters": {}, "typeVersion": 3.4} for id in ("well", "failed")),
    ]
    lines = [{"from": "get", "to": "well"}, {"from": "get", "to": "failed", "output": 1}]
    without: Any = make_workflow({"name": "w", "nodes": nodes, "connections": lines}).workflow
    nodes[0] |= fields
    made: Any = make_workflow({"name": "w", "nodes": nodes, "connections": lines}).workflow
    (_, refused), (_, fine) = verdicts(lab, [without, made])
    assert "Output index 1" in refused.problems[0]
    assert (fine.valid, fine.problems) == (True, ())
