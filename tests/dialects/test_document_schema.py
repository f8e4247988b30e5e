"""The JSON Schemas for editors take what the readers take and refuse what these find wrong with the shape."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest

from pages.page import PAGES, PROJECT
from ropewalk.doors.cli.definitions import SchemaKind
from ropewalk.errors import InvalidFlow
from ropewalk.notations import agent, composite, runchain
from ropewalk.notations.chain import read as chain
from ropewalk.notations.composition import read as composition
from ropewalk.notations.experience import read as experience
from ropewalk.notations.fields import camel, snake
from ropewalk.notations.json_schema import schema_of
from ropewalk.notations.node_fields import spellings
from ropewalk.notations.plan import read as plan
from ropewalk.notations.registry import NOTATIONS
from ropewalk.schema import compile_schema
from ropewalk.source.load import load

CASES = Path(__file__).parents[1] / "cases"
EDITORS = {kind: compile_schema(schema_of(kind)) for kind in NOTATIONS if kind != "flow"}
PAUSE = {"id": "a", "type": "delay", "delay": 1}
NODE_TABLES = {kind: spellings(kind) for kind in ("chain", "composition", "experience")}
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
        ("agent", agent.FIELDS),
        ("chain", chain.CHAIN_FIELDS),
        ("composition", composition.FIELDS),
        ("composite", composite.FIELDS),
        ("experience", experience.DOCUMENT),
        ("plan", plan.FIELDS),
        ("runchain", runchain.FIELDS),
    ],
)
def test_every_field_is_named_in_both_spellings(kind: str, fields: dict[str, Any]) -> None:
    schema = schema_of(kind)
    assert set(schema["properties"]) == set(fields)
    patterns = [*schema.get("patternProperties", {})]
    others = {name for key in fields for name in (camel(key), snake(key))} - set(fields)
    assert [name for name in others if not any(re.match(pattern, name) for pattern in patterns)] == []


def inner_schemas(schema: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema inside of a schema, with its place."""
    if isinstance(schema, list):
        for at, item in enumerate(schema):
            yield from inner_schemas(item, f"{place}[{at}]")
    if isinstance(schema, dict):
        yield place, schema
        for key, item in schema.items():
            if key not in ("enum", "const", "enumDescriptions"):
                yield from inner_schemas(item, f"{place}/{key}")


@pytest.mark.parametrize("kind", [kind for kind in NOTATIONS if kind != "flow"])
def test_an_editor_offers_every_key_once_and_describes_it(kind: str) -> None:
    schema = schema_of(kind)
    table = NODE_TABLES.get(kind)
    for place, inner in inner_schemas(schema):
        offered = inner.get("properties", {})
        assert [key for key, value in offered.items() if not value.get("description")] == [], place
        folded = [re.sub("[-_]", "", key).lower() for key in offered]
        assert len(set(folded)) == len(folded), place
        if inner is schema.get("$defs", {}).get("node"):
            assert set(offered) & {other for other, own in table.items() if own in offered} == set(), place
    texts = [
        value["description"] for _, inner in inner_schemas(schema) for value in inner.get("properties", {}).values()
    ]
    assert [text for text in texts if not text.endswith((".", "?")) or len(text) > 160] == []


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the definitions of the examples and of all pages, each with its place."""
    for file in sorted((PROJECT / "examples").rglob("*.yaml")):
        yield str(file.relative_to(PROJECT)), load(file).data
    for page in PAGES:
        for block in page.blocks:
            # Shell blocks write files by here-documents.
            texts = re.findall(r"<<'END'\n(.*?)^END$", block.code, re.MULTILINE | re.DOTALL)
            for text in [block.code] if block.kind in ("yaml", "json") else texts:
                if re.search(r"^kind: \w", text, re.MULTILINE):
                    yield f"{page.name}:{block.line}", load(text, form="yaml").data


def test_every_definition_of_the_examples_and_of_the_pages_fits() -> None:
    counts, wrong = Counter[str](), []
    plain = {kind: jsonschema_rs.validator_for(schema_of(kind)) for kind in NOTATIONS if kind != "flow"}
    for place, document in documents():
        kind = document.get("kind", "experience")
        if kind not in plain:  # a recorded test, or a flow
            continue
        found = plain[kind].iter_errors(document)
        problems = [f"{place}: {error.instance_path} {error.message[:300]}" for error in found]
        if problems:  # a page may show what is wrong
            wrong.append((kind, document, problems))
        counts[kind] += not problems
    for kind, document, problems in wrong:
        with pytest.raises(InvalidFlow):  # noqa: PT012
            NOTATIONS[kind].compile(document)
            pytest.fail("\n".join(problems))
    assert min(counts[kind] for kind in plain if kind != "runchain") >= 2, counts
    assert counts.total() > 50


def test_editors_complete_the_ids_of_tools_and_accept_others() -> None:
    tools = {"shop:get": "Get an order.", "mail": "Send a mail."}
    schema = schema_of("chain", tools)
    assert schema["$defs"]["tool"]["anyOf"][0] == {"enum": [*tools], "enumDescriptions": [*tools.values()]}
    for tool in (*tools, "of-tomorrow"):
        assert compile_schema(schema).problems({"nodes": [{"id": "a", "type": "tool", "tool": tool}]}) == []
    for kind, places in {"composite": 2, "runchain": 1, "agent": 4, "experience": 4, "composition": 3}.items():
        assert len([1 for _, inner in inner_schemas(schema_of(kind)) if inner.get("$ref") == "#/$defs/tool"]) >= places
