"""Text of arguments that looks like a reference stays text, with a warning that says how to write either."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ropewalk import App

SCHEMA = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}


received: list[str] = []


def say(text: str) -> str:
    received.append(text)
    return text


def document(kind: str, text: str) -> dict[str, Any]:
    head: dict[str, Any] = {"kind": kind, "name": "d", "inputSchema": SCHEMA}
    match kind:
        case "chain":
            return {**head, "nodes": [{"id": "a", "type": "tool", "tool": "say", "params": {"text": text}}]}
        case "composition":
            return {**head, "nodes": [{"id": "a", "type": "tool", "tool": "say", "inputMapping": {"text": text}}]}
        case "composite":
            return {**head, "steps": [{"name": "a", "tool": "say", "inputMapping": {"text": text}}]}
    node = {"id": "a", "kind": "call", "tool": "say", "args": {"text": text}}
    state = {"schema": {"n": {"type": "string", "default": ""}}}
    return {"kind": kind, "name": "d", "version": "0.1.0", "state": state, "graph": {"nodes": [node]}}


def said(app: App, kind: str, text: str) -> tuple[str, list[str]]:
    """Return what the tool gets, and the warnings of the check."""
    given = document(kind, text)
    checked = app.check(given)
    assert checked.problems == ()
    app.run_sync(given, {"n": "5"}).raise_if_failed()
    return received.pop(), [str(warning) for warning in checked.warnings]


KINDS = ("chain", "composition", "composite", "experience")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("{{ n }}", "${$input.n}"),
        ("pay {{input.n}} now", "pay ${$input.n} now"),
        ("about $input.n", "about ${$input.n}"),
        ("$input.n EUR", "${$input.n} EUR"),
        ("$input.n, please", "${$input.n}, please"),
        ("$n", "$input.n"),
        ("$n EUR", None),
        ("$5.00", None),
    ],
)
def test_text_that_looks_like_a_reference(kind: str, text: str, right: str | None) -> None:
    with App("memory", tools=[say]) as app:
        value, warnings = said(app, kind, text)
        assert (value, len(warnings)) == (text, 1)
        # A composite has a message of its own: `Unresolved reference "..." treated as literal`.
        advised = re.search(r"if you mean text, write (?:\"(.+?)\"(?:;|$)|(\$\{'.+?'\}))", warnings[0])
        assert advised or "treated as literal" in warnings[0]
        inside = re.search(r"\{\{.*\}\}|\$input\.n$", text)
        as_text = text.replace(inside[0], f"${{'{inside[0]}'}}") if inside else f"${text}"
        assert advised is None or (advised[1] or advised[2]) in as_text
        assert said(app, kind, as_text) == (text, [])
        if right is not None and kind != "experience":  # whose values are those of the state
            shown = right.removeprefix("pay ").removeprefix("about ").removesuffix(" now")
            assert shown in warnings[0] or kind == "composite"
            assert said(app, kind, right)[1] == []
            assert str(said(app, kind, right)[0]) == right.replace("${$input.n}", "5").replace("$input.n", "5")


def test_a_strict_document_has_problems_instead() -> None:
    with App("memory", tools=[say]) as app:
        for text in ("$input.n EUR", "$n"):
            assert len(app.check({**document("chain", text), "strict": True}).problems) == 1
        # What can only be a mistake is a problem in any document.
        for text in ("$input.n + 1", "$input.n.", "$input[", "${$input.n", "$input.n("):
            assert len(app.check(document("chain", text)).problems) == 1, text
