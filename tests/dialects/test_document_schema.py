"""The JSON Schemas for editors take what the readers take and refuse what these find wrong with the shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from ropewalk.doors.cli.definitions import SchemaKind
from ropewalk.errors import InvalidFlow
from ropewalk.notations import composite, runchain
from ropewalk.notations.chain import read as chain
from ropewalk.notations.composition import read as composition
from ropewalk.notations.experience import read as experience
from ropewalk.notations.fields import camel, snake
from ropewalk.notations.json_schema import schema_of
from ropewalk.notations.plan import read as plan
from ropewalk.notations.registry import NOTATIONS
from ropewalk.schema import compile_schema
from ropewalk.source.load import load

CASES = Path(__file__).parents[1] / "cases"
EDITORS = {kind: compile_schema(schema_of(kind)) for kind in NOTATIONS if kind not in ("agent", "flow")}
PAUSE = {"id": "a", "type": "delay", "delay": 1}
STEP = {"name": "s", "tool": "t", "inputMapping": {"q": "$input"}}


@pytest.mark.parametrize("kind", [kind for kind in NOTATIONS if kind != "flow"])
def test_every_notation_has_a_schema_and_the_command_line_prints_it(kind: str) -> None:
    assert schema_of(kind)["type"] == "object"
    assert kind in get_args(SchemaKind)


@pytest.mark.parametrize("kind", ["chain", "composition"])
def test_every_document_of_the_cases_that_is_valid_fits(kind: str) -> None:
    checked = 0
    for file in (CASES / kind).glob("*.yaml"):
        for case in load(file).data:
            if "problems" not in case:
                assert EDITORS[kind].problems(case[kind]) == [], case["name"]
                checked += 1
    assert checked > 50


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("chain", {"nodes": []}),
    ("chain", {"mod": "dag", "nodes": [{"id": "a", "type": "tool", "tool": "t"}]}),
    ("chain", {"nodes": [{"id": "a", "type": "tool"}]}),
    ("chain", {"nodes": [{"id": "a", "type": "TOOL", "tool": None}]}),
    ("chain", {"nodes": [{"id": "a", "type": "tol", "tool": "t"}]}),
    ("chain", {"nodes": [{"id": "a", "type": "tool", "tool": "t", "items": [1]}]}),
    ("chain", {"nodes": [{"id": "a", "type": "transform"}]}),
    ("chain", {"nodes": [{"id": "p", "type": "parallel", "nodes": [{"id": "a", "type": "tool"}]}]}),
    ("chain", {"nodes": [{"id": "a", "type": "tool", "tool": "t", "maxRetries": 1.5}]}),
    ("composition", {"nodes": [{"id": "a", "type": "branch"}]}),
    ("composition", {"nodes": [{"id": "a", "type": "branch", "branches": [{"condition": "true"}]}]}),
    ("composition", {"nodes": [{"id": "a", "type": "tool", "tool": "t", "onError": "sometimes"}]}),
    ("composite", {"name": "x", "steps": []}),
    ("runchain", {"kind": "runchain"}),
    ("runchain", {"kind": "runchain", "steps": [{"args": {}}]}),
    ("runchain", {"kind": "runchain", "steps": [{"toolId": "t", "tool": "t"}]}),
    ("plan", {"kind": "plan"}),
    ("plan", {"kind": "plan", "code": 3}),
    ("plan", {"kind": "plan", "code": "1", "cod": "1"}),
    ("composite", {"name": "x", "steps": [{"name": "s"}]}),
    ("composite", {"name": "x", "steps": [{**STEP, "inputmapping": {}}]}),
]


@pytest.mark.parametrize(("kind", "document"), WRONG)
def test_what_the_reader_refuses_does_not_fit(kind: str, document: dict[str, Any]) -> None:
    with pytest.raises(InvalidFlow):
        NOTATIONS[kind].compile(document)
    assert EDITORS[kind].problems(document) != []


RIGHT: list[tuple[str, dict[str, Any]]] = [
    ("chain", {"error_strategy": "Skip", "nodes": [{"id": "a", "type": "Tool", "tool": "t", "params": None}]}),
    ("chain", {"nodes": [{"id": "a", "type": "transform", "input": "$input"}]}),
    ("chain", {"nodes": [{"id": "c", "type": "condition", "condition": True, "then": PAUSE}]}),
    ("composite", {"kind": "composite", "name": "x", "mode": "compose", "steps": [STEP]}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "document"), RIGHT)
def test_what_the_reader_takes_fits(kind: str, document: dict[str, Any]) -> None:
    NOTATIONS[kind].compile(document)
    assert EDITORS[kind].problems(document) == []


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("chain", chain.CHAIN_FIELDS),
        ("composition", composition.FIELDS),
        ("composite", composite.FIELDS),
        ("experience", experience.DOCUMENT),
        ("plan", plan.FIELDS),
        ("runchain", runchain.FIELDS),
    ],
)
def test_every_field_is_named_in_both_spellings(kind: str, fields: dict[str, Any]) -> None:
    assert set(schema_of(kind)["properties"]) == {name for key in fields for name in (key, camel(key), snake(key))}
