"""One entry adds a node type to chains and compositions: reading, schema, run and drawing follow from it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, InvalidFlow, tool
from ropewalk.expr.ast import Expr, Fn
from ropewalk.ir import Op, Site, Step
from ropewalk.notations import fields as f
from ropewalk.notations.chain.read import ErrorStrategy
from ropewalk.notations.json_schema import schema_of
from ropewalk.notations.node_fields import STRATEGY
from ropewalk.notations.node_types import (
    NODE_TYPES,
    OP_WRITERS,
    DocumentNode,
    DocumentNodeType,
    NodeType,
    add_node_type,
    remove_node_type,
)
from ropewalk.notations.registry import write
from ropewalk.ops import OPS, Call, Compute
from ropewalk.schema import compile_schema

PAGE = Path(__file__).parents[2] / "docs" / "node-fields.md"


def join_texts(compiler: Any, node: DocumentNode, within: Any) -> Op:
    texts = compiler.value(node.get("texts"), node.at("texts"), within)
    return Compute(value=Fn("join", (texts, compiler.value(node.get("with", ""), f"{node.path}.with", within))))


JOIN = DocumentNodeType(
    name="join",
    fields={"texts": f.anything, "with": f.text},
    needs=("texts",),
    aliases=("concat",),
    compile=join_texts,
    labels=lambda node: {"value": "texts"},
)


@dataclass(frozen=True)
class Shout:
    """An op of its own: a text in capital letters, for the test below."""

    text: Expr

    def compile(self, site: Site, /) -> Step:
        get = site.expr(self.text)

        return Step(lambda frame: str(get(frame)).upper())


SHOUT = DocumentNodeType(
    name="shout",
    fields={"text": f.anything},
    needs=("text",),
    compile=lambda compiler, node, within: Shout(compiler.value(node.get("text"), f"{node.path}.text", within)),
)
WRITTEN = dataclasses.replace(
    SHOUT,
    writes={
        Shout: lambda writer, node, around: {
            "type": "shout",
            "text": writer.value(node.op.text, f"{around.path}text", around),
        }
    },
)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(OPS, "Shout", Shout)
    add_node_type(JOIN)
    add_node_type(WRITTEN)
    yield
    remove_node_type("join")
    remove_node_type("shout")


KINDS = ("chain", "composition")


def chain(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "chain", "name": "made", "nodes": list(nodes)}


JOINED = chain(
    {"id": "names", "type": "join", "texts": "$input.names", "with": " & "},
    {"id": "loud", "type": "shout", "text": "$prev"},
)


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("kind", KINDS)
def test_a_node_type_that_one_entry_adds_is_read_checked_run_and_drawn(kind: str) -> None:
    made = {**JOINED, "kind": kind, "result": ["$output.names", "$output.loud"]}

    async def run() -> Any:
        async with App("memory") as app:
            checked = await app.validate(made)
            assert not checked.problems
            return await app.run(made, {"names": ["Ada", "Bob"]})

    assert asyncio.run(run()).result == ["Ada & Bob", "ADA & BOB"]
    drawing = App("memory").draw(made, "text")
    assert "names" in drawing
    assert "Shout" in drawing


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    ("node", "path", "message"),
    [
        ({"type": "join"}, "nodes[0].texts", "required for a join node"),
        ({"type": "join", "texts": "${nowhere}"}, "nodes[0].texts", "nowhere"),
        ({"type": "join", "texts": [], "tool": "t"}, "nodes[0].tool", "a join node has no tool; only tool or"),
        ({"type": "delay", "delay": 1, "texts": []}, "nodes[0].texts", "a delay node has no texts; only join nodes do"),
        ({"type": "join", "texts": [], "text": 1}, "nodes[0].text", "a join node has no text; only shout nodes do"),
        ({"type": "concat", "texts": []}, "nodes[0].type", "unknown value 'concat'"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_with_its_nodes_is_reported(kind: str, node: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(InvalidFlow) as caught:
        App("memory").load({**chain({"id": "a", **node}), "kind": kind})
    assert [problem for problem in caught.value.problems if problem.path == path and message in problem.message]
    if node["type"] == "concat":
        assert caught.value.problems[0].suggestion == "join"


@pytest.mark.usefixtures("added")
def test_its_nodes_fit_the_json_schema() -> None:
    schema = compile_schema(schema_of("chain"))
    assert schema.problems(JOINED, "chain") == []
    assert schema.problems(chain({"id": "a", "type": "join"}), "chain") != []
    assert schema.problems(chain({"id": "a", "type": "join", "texts": [], "delay": 5}), "chain") != []


@pytest.mark.usefixtures("added")
def test_its_op_is_written_or_refused() -> None:
    app = App("memory")
    flow = app.load(JOINED).flow
    written: Any = write(flow, "chain")
    # A join is an expression like any other, which a transform holds; a shout has an op and a writer of its own.
    assert [node["type"] for node in written["nodes"]] == ["transform", "shout"]
    assert app.load(written).flow.body.nodes[1].op == app.load(JOINED).flow.body.nodes[1].op
    with pytest.raises(InvalidFlow, match="compositions have no shout nodes"):
        app.convert(JOINED, "composition")
    add_node_type(SHOUT)  # the same without a writer
    with pytest.raises(InvalidFlow, match="chains have no shout nodes"):
        write(flow, "chain")
    losses: list[Any] = []
    write(flow, "chain", losses)
    assert [loss.message for loss in losses] == ["chains have no shout nodes"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fields": {"delay": f.number}}, "delay nodes check the field delay in another way"),
        ({"fields": {"timeout": f.number}}, "every node already has timeout"),
        ({"writes": {Call: lambda *_: {}}}, "tool nodes already write Call"),
    ],
)
def test_types_that_contradict_others_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        add_node_type(dataclasses.replace(JOIN, **wrong))
    assert "join" not in NODE_TYPES
    assert Call in OP_WRITERS


def test_every_other_place_that_names_the_types_names_all_of_them() -> None:
    assert tuple(NODE_TYPES) == tuple(NodeType), "add the type to NodeType in notations/node_types.py"
    assert STRATEGY.words == tuple(ErrorStrategy)
    page = PAGE.read_text("utf-8")
    rows = dict(re.findall(r"^\| ([A-Z_]+) \| (.+?) \| .+ \|$", page, re.MULTILINE))
    for name, node_type in NODE_TYPES.items():
        assert name.upper() in rows, f"{PAGE.name} has no row for {name.upper()} nodes"
        missing = [key for key in node_type.fields if f"`{key}" not in rows[name.upper()]]
        assert not missing, f"the row of {name.upper()} in {PAGE.name} does not name {missing}"


@pytest.mark.parametrize("value", ["$input", "$prev", None, {"n": "$input.n"}])
def test_a_check_of_data_is_written_in_the_other_notation(value: Any) -> None:
    app = App("memory")
    check = {"id": "v", "type": "validate", "schema": {"type": "object"}, "inputMapping": value}
    composition = {
        "kind": "composition",
        "name": "made",
        "nodes": [{"id": "f", "type": "merge", "sources": [{}]}, check],
    }
    written = app.convert(composition, "chain")
    assert written["nodes"][1]["type"] == "validate"
    ops = [app.load(document).flow.body.nodes[1].op for document in (composition, written)]
    assert ops[0] == ops[1]
    assert app.load(app.convert(written, "composition")).flow.body.nodes[1].op == ops[0]


TOOL = {"id": "b", "type": "tool", "tool": "up", "args": {"s": "b"}}
EACH = {"id": "b", "type": "tool", "tool": "up", "args": {"s": "${$item}${$index}${$iteration}"}}
INPUT = {"l": ["x", "y"], "n": 5}
CROSSING: list[tuple[dict[str, Any], Any, list[str]]] = [
    # Each type with its fields, the output, and the calls.
    ({"type": "tool", "tool": "up", "args": {"s": "$input.n"}}, "5", ["5"]),
    ({"type": "condition", "condition": "$input.n > 3", "then": [TOOL]}, "B", ["b"]),
    ({"type": "condition", "condition": "$input.n > 9", "then": [TOOL]}, False, []),
    ({"type": "condition", "condition": "$input.n > 9", "otherwise": TOOL}, "B", ["b"]),
    ({"type": "loop", "items": "$input.l", "nodes": [EACH]}, ["X00", "Y11"], ["x00", "y11"]),
    ({"type": "loop", "items": "$input.l", "concurrency": 2, "nodes": [TOOL]}, ["B", "B"], ["b", "b"]),
    ({"type": "loop", "items": "$input.l", "maxIterations": 1, "nodes": [TOOL]}, ["B"], ["b"]),
    ({"type": "loop", "until": "$iteration == 1", "nodes": [TOOL]}, ["B", "B"], ["b", "b"]),
    ({"type": "loop", "until": '$output.b == "B"', "nodes": [TOOL]}, ["B"], ["b"]),
    ({"type": "loop", "while": "$var.iteration < 2", "nodes": [TOOL]}, ["B", "B"], ["b", "b"]),
    ({"type": "parallel", "nodes": [TOOL, {**TOOL, "id": "c"}]}, {"b": "B", "c": "B"}, ["b", "b"]),
    (
        {"type": "transform", "transform": {"type": "SORT", "config": {"order": "desc"}}, "input": "$input.l"},
        ["y", "x"],
        [],
    ),
    ({"type": "transform", "transformType": "SORT", "config": {"order": "desc"}, "input": "$input.l"}, ["y", "x"], []),
    ({"type": "transform", "input": "$input.l"}, ["x", "y"], []),
    ({"type": "map", "items": "$input.l", "tool": "up", "args": {"s": "$item"}}, ["X", "Y"], ["x", "y"]),
    ({"type": "map", "items": "$input.l", "expression": "$item + string($index)"}, ["x0", "y1"], []),
    ({"type": "MAP", "expression": "$item + '!'"}, ["q!"], []),
    ({"type": "filter", "items": "$input.l", "expression": '$item == "x"'}, ["x"], []),
    (
        {"type": "filter", "items": "$input.l", "tool": "is_x", "args": {"s": "$item"}, "concurrency": 1},
        ["x"],
        ["x", "y"],
    ),
    (
        {"type": "reduce", "items": "$input.l", "tool": "up", "args": {"s": "${$acc}${$item}"}, "initial": ""},
        "XY",
        ["x", "Xy"],
    ),
    ({"type": "reduce", "items": "$input.l", "expression": "$acc + $item", "initial": "-"}, "-xy", []),
    ({"type": "validate", "schema": {"required": ["n"]}, "input": "$input"}, INPUT, []),
    ({"type": "validate", "schema": {"required": ["z"]}, "input": "$input", "required": False}, INPUT, []),
    ({"type": "validate", "schema": {"type": "array"}}, ["q"], []),
    (
        {
            "type": "branch",
            "branches": [{"condition": "$input.n > 9", "nodes": []}, {"condition": True, "nodes": [TOOL]}],
        },
        "B",
        ["b"],
    ),
    (
        {"type": "branch", "branches": [{"condition": False, "nodes": [TOOL]}], "otherwise": {"n": "$input.n"}},
        {"n": 5},
        [],
    ),
    ({"type": "branch", "branches": [{"condition": False, "nodes": [TOOL]}], "input": "$input.l"}, ["x", "y"], []),
    ({"type": "branch", "branches": [{"condition": True, "nodes": []}]}, ["q"], []),
    # The words of each notation work in the other one.
    ({"type": "Validate", "schema": {"required": ["n"]}, "inputMapping": "$input"}, INPUT, []),
    ({"type": "map", "items": "$input.l", "tool": "up", "inputMapping": {"s": "$item"}}, ["X", "Y"], ["x", "y"]),
    ({"type": "map", "items": "$input.l", "tool": "up", "params": {"s": "$item"}}, ["X", "Y"], ["x", "y"]),
    ({"type": "TRANSFORM", "transform_type": "SORT", "input_mapping": "$input.l"}, ["x", "y"], []),
    ({"type": "merge", "sources": ["$input", {"n": 6}]}, {"l": ["x", "y"], "n": 6}, []),
    ({"type": "merge", "sources": ["$input.l", [1]], "strategy": "concat"}, ["x", "y", 1], []),
    ({"type": "conditional", "condition": "$input.n > 3", "then": {"n": "$input.n"}}, {"n": 5}, []),
    ({"type": "conditional", "condition": "$input.n > 9", "then": 1}, ["q"], []),
    (
        {
            "type": "conditional",
            "condition": True,
            "then": [{"id": "b", "type": "validate", "schema": True}],
            "input": 7,
        },
        7,
        [],
    ),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("node", "result", "calls"), CROSSING)
def test_a_type_does_the_same_in_chains_and_compositions(node: Any, result: Any, calls: list[str], kind: str) -> None:
    called: list[str] = []

    @tool
    def up(s: Any) -> str:
        """Return a text in capitals."""
        called.append(str(s))
        return str(s).upper()

    @tool
    def is_x(s: str) -> bool:
        """Return True for `x`."""
        called.append(s)
        return s == "x"

    first = {"id": "first", "type": "transform", "input": ["q"]}
    document = {**chain(first, {"id": "a", **node}), "kind": kind, "result": "$output.a"}
    assert compile_schema(schema_of(kind)).problems(document, kind) == []

    async def run() -> None:
        async with App("memory", tools=[up, is_x]) as app:
            for definition in (document, *(app.convert(document, other) for other in KINDS if other != kind)):
                called.clear()
                outcome = await app.run(definition, INPUT)
                assert outcome.status in ("completed", "partial"), outcome.errors
                assert (outcome.result, called) == (result, calls), definition

    asyncio.run(run())


NEXT = {"id": "b", "type": "tool", "tool": "following"}
FAILS = {"id": "x", "type": "tool", "tool": "failing"}
OWN: list[tuple[str, dict[str, Any], Any]] = [
    # Each notation keeps its own way from node to node inside the types of the other.
    ("composition", {"type": "loop", "items": [{"n": 1}, {"n": 4}], "nodes": [NEXT]}, [{"n": 2}, {"n": 5}]),
    ("composition", {"type": "loop", "maxIterations": 2, "nodes": [NEXT]}, [{"n": 6}, {"n": 7}]),
    ("composition", {"type": "condition", "condition": True, "then": NEXT, "inputMapping": {"n": 8}}, {"n": 9}),
    (
        "composition",
        {"type": "condition", "condition": True, "then": {**NEXT, "condition": False}},
        {"l": ["x", "y"], "n": 5},
    ),
    ("chain", {"type": "loop", "items": [{"n": 1}, {"n": 4}], "nodes": [NEXT]}, [{"n": 1}, {"n": 1}]),
    ("chain", {"type": "conditional", "condition": True, "then": [{**NEXT, "condition": False}]}, None),
    (
        "chain",
        {
            "type": "branch",
            "branches": [{"condition": True, "nodes": [{**FAILS, "onError": "z"}, NEXT, {**NEXT, "id": "z"}]}],
        },
        {"n": 1},
    ),
    (
        "chain",
        {"type": "branch", "branches": [{"condition": True, "nodes": [{**FAILS, "onError": "skip"}, NEXT]}]},
        {"n": 1},
    ),
]


NO_EQUAL = {
    json.dumps(OWN[1][1]): "begins with the value before the loop",
    json.dumps(OWN[3][1]): "chains cannot read the status of 'b'",
    json.dumps(OWN[6][1]): "compositions have no jumps",
}
"""The reasons why the other notation cannot do the same."""


@pytest.mark.parametrize(("kind", "node", "result"), OWN)
def test_a_notation_keeps_its_own_order_of_nodes(kind: str, node: Any, result: Any) -> None:
    @tool
    def following(n: int = 0, l: Any = None) -> dict[str, int]:  # noqa: E741
        """Return the next number."""
        return {"n": n + 1}

    @tool
    def failing(n: int = 0, l: Any = None) -> None:  # noqa: E741
        """Fail."""
        raise ValueError("no")

    async def run() -> None:
        definition: Any = {**chain({"id": "a", **node}), "kind": kind, "result": "$output.a"}
        async with App("memory", tools=[following, failing]) as app:
            for kind_now in (kind, *(other for other in KINDS if other != kind)):
                if (reason := NO_EQUAL.get(json.dumps(node))) and kind_now != kind:
                    with pytest.raises(InvalidFlow, match=reason):
                        app.convert(definition, kind_now)
                    continue
                definition = app.convert(definition, kind_now)
                outcome = await app.run(definition, INPUT)
                assert (outcome.status, outcome.result) == ("completed", result), (definition, outcome.errors)

    asyncio.run(run())


def test_every_type_has_a_row_above() -> None:
    assert {row[0]["type"].lower() for row in CROSSING} >= {*NodeType} - {"delay", "wait"}


WRONG: list[tuple[dict[str, Any], str, str]] = [
    # A node, the field that is wrong, and the message.
    ({"type": "tool"}, "tool", "required for a tool node"),
    (
        {"type": "tool", "tool": "t", "args": [1]},
        "args",
        "must be an object of arguments or a reference to one, not a list",
    ),
    (
        {"type": "tool", "tool": "t", "items": []},
        "items",
        "a tool node has no items; only loop or map or filter or reduce nodes do",
    ),
    ({"type": "condition", "then": [TOOL]}, "condition", "required for a condition node"),
    ({"type": "condition", "condition": True, "then": 5}, "then", "must be a list of nodes, not a number"),
    ({"type": "loop", "maxIterations": 2}, "nodes", "required for a loop node"),
    ({"type": "loop", "nodes": [TOOL]}, "", "a loop node needs items, until, while or maxIterations"),
    ({"type": "parallel", "nodes": []}, "nodes", "must be a non-empty list of nodes"),
    ({"type": "delay", "delay": -1}, "delay", "must be milliseconds of 0 or more, or a reference to them, not -1"),
    ({"type": "wait"}, "", "a wait node needs either event or approval"),
    (
        {"type": "wait", "wait": {"approval": "Go?"}},
        "",
        "a wait node has approval itself; write approval next to type, without wait",
    ),
    ({"type": "map", "items": [1]}, "expression", "a map node needs expression or tool"),
    (
        {"type": "filter", "expression": "$item", "tool": "t"},
        "tool",
        "a filter node has either expression or tool, not both",
    ),
    ({"type": "map", "expression": "$item +"}, "expression", "the expression ends too early"),
    (
        {"type": "reduce", "expression": "$item", "concurrency": 2},
        "concurrency",
        "a reduce node has no concurrency; only loop or parallel or map or filter nodes do",
    ),
    ({"type": "validate"}, "schema", "required for a validate node"),
    ({"type": "validate", "schema": {"type": "txt"}}, "schema.type", '"txt" is not'),
    ({"type": "validate", "schema": True, "input": "${nope}"}, "input", "unknown name 'nope'"),
    (
        {"type": "branch", "branches": []},
        "branches",
        "must be a non-empty list of branches, each with a condition and nodes",
    ),
    ({"type": "merge", "sources": 5}, "sources", "must be a list of references, not a number"),
    ({"type": "merge", "sources": [1], "input": 1}, "input", "a merge node has no "),
    ({"type": "conditional", "then": 1}, "condition", "required for a conditional node"),
    ({"type": "transform", "config": {}, "input": 1}, "transformType", "required if a transform node has config"),
    ({"type": "sort", "input": 1}, "type", "unknown value 'sort'"),
]
OWN_WORDS = {"chain": {"args": "params"}, "composition": {"args": "inputMapping", "input": "inputMapping"}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("node", "key", "message"), WRONG)
def test_a_wrong_field_gives_one_message_with_its_place(node: Any, key: str, message: str, kind: str) -> None:
    text = json.dumps({**chain({"id": "a", **node}), "kind": kind}, indent=1)
    with pytest.raises(InvalidFlow) as caught:
        App("memory").load(text)
    (problem,) = caught.value.problems
    word = OWN_WORDS[kind].get(key, key)
    assert (problem.path, problem.message[: len(message)]) == (f"nodes[0].{word}".rstrip("."), message)
    # The place is that of the field, or of the node without it.
    first, _, last = key.rpartition(".")
    at = f'   "{last}":' if (first or last) in node else "  {"
    assert problem.place is not None
    assert at in text.splitlines()[problem.place.line - 1]
