"""The hints about words of other notations: a right one, or none."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ropewalk import App

CHAIN_NODE = {"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "t"}]}
COMPOSITION_NODE = {**CHAIN_NODE, "kind": "composition"}
COMPOSITE = {"kind": "composite", "name": "c", "mode": "compose", "steps": [{"tool": "t"}]}
AGENT = {"kind": "agent", "prompt": "p"}


@pytest.mark.parametrize(
    ("document", "key", "suggestion"),
    [
        (COMPOSITION_NODE, "nodes[0].title", None),  # not items
        (COMPOSITION_NODE, "nodes[0].files", None),
        (COMPOSITION_NODE, "nodes[0].outputSchema", None),  # not outputVar
        (CHAIN_NODE, "nodes[0].outputSchema", None),
        (CHAIN_NODE, "input", None),  # not inputSchema
        (COMPOSITION_NODE, "input", None),
        (COMPOSITE, "state", None),  # not steps
        (AGENT, "nodes", None),  # not undos
        (COMPOSITE, "nodes", "steps"),
        (CHAIN_NODE, "steps", "nodes"),
        (CHAIN_NODE, "nodes[0].retries", "maxRetries"),
        (CHAIN_NODE, "nodes[0].itms", "items"),
        (CHAIN_NODE, "inputSchme", "inputSchema"),
        (CHAIN_NODE, "nmae", "name"),
    ],
)
def test_an_unknown_key_gets_the_key_that_is_meant_or_all(
    document: dict[str, Any], key: str, suggestion: str | None
) -> None:
    node, _, name = key.rpartition(".")
    changed = {**document, **({"nodes": [{**document["nodes"][0], name: 1}]} if node else {name: 1})}
    with App("memory") as app:
        checked = app.check(changed)
    [problem] = [problem for problem in checked.problems if problem.path == key]
    assert problem.suggestion == suggestion
    assert suggestion or "expected one of: " in problem.message


@pytest.mark.parametrize(
    ("prompt", "warning"),
    [
        ("Write about {{topic}}.", "{{topic}} is text here; inside a longer text write ${$input.topic}"),
        ("About {{ input.topic }}", "{{ input.topic }} is text here; inside a longer text write ${$input.topic}"),
        ("About $input.topic", "$input.topic is text here; inside a longer text write ${$input.topic}"),
        ("About {{user_name[0].first}}", "{{user_name[0].first}} is text here; inside a longer text write "
         "${$input.user_name[0].first}"),
        ("About ${$input.topic}, {x} and {{}}", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("key", ["prompt", "system"])
def test_an_agent_warns_of_placeholders_of_other_notations(prompt: str, warning: str | None, key: str) -> None:
    with App("memory") as app:
        checked = app.check({"kind": "agent", "prompt": "p", key: prompt})
    said = [
        re.sub(r"if you mean text, write \$\{'.*?'\}; ", "", item.message)
        for item in checked.warnings
        if item.path == key
    ]
    assert said == ([warning] if warning else [])
