"""One entry adds a node type: reading, schema, run, drawing and converting follow from it."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, InvalidFlow
from ropewalk.expr.ast import Expr, Fn
from ropewalk.ir import Op, Site, Step
from ropewalk.notations import fields as f
from ropewalk.notations.chain.read import ErrorStrategy, NodeType
from ropewalk.notations.json_schema import schema_of
from ropewalk.notations.node_types import (
    ERROR_STRATEGY,
    NODE_FIELDS,
    NODE_TYPES,
    ONLY_FOR,
    OP_WRITERS,
    ChainNode,
    ChainNodeType,
    add_node_type,
    remove_node_type,
)
from ropewalk.notations.registry import write
from ropewalk.ops import OPS, Call, Compute
from ropewalk.schema import compile_schema

DOCS = Path(__file__).parents[2] / "docs" / "chains-reference.md"


def join_texts(compiler: Any, node: ChainNode, within: Any) -> Op:
    texts = compiler.value(node.get("texts"), f"{node.path}.texts", within)
    return Compute(value=Fn("join", (texts, compiler.value(node.get("with", ""), f"{node.path}.with", within))))


JOIN = ChainNodeType(
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


SHOUT = ChainNodeType(
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


def chain(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "chain", "name": "made", "nodes": list(nodes)}


JOINED = chain(
    {"id": "names", "type": "join", "texts": "$input.names", "with": " & "},
    {"id": "loud", "type": "shout", "text": "$prev"},
)


@pytest.mark.usefixtures("added")
def test_a_node_type_that_one_entry_adds_is_read_checked_run_and_drawn() -> None:
    async def run() -> Any:
        async with App("memory") as app:
            checked = await app.validate(JOINED)
            assert not checked.problems
            return (await app.run(JOINED, {"names": ["Ada", "Bob"]})).to_dict()

    result = asyncio.run(run())
    assert result["status"] == "completed", result
    assert result["results"] == {"names": "Ada & Bob", "loud": "ADA & BOB"}
    app = App("memory")
    drawing = app.draw(JOINED, "text")
    assert "names" in drawing
    assert "Shout" in drawing


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    ("node", "path", "message"),
    [
        ({"type": "join"}, "nodes[0].texts", "required for a join node"),
        ({"type": "join", "texts": "$nowhere"}, "nodes[0].texts", "nowhere"),
        ({"type": "join", "texts": [], "tool": "t"}, "nodes[0].tool", "a join node has no tool; only tool nodes do"),
        ({"type": "delay", "delay": 1, "texts": []}, "nodes[0].texts", "a delay node has no texts; only join nodes do"),
        ({"type": "join", "texts": [], "text": 1}, "nodes[0].text", "a join node has no text; only shout nodes do"),
        ({"type": "concat", "texts": []}, "nodes[0].type", "unknown value 'concat'"),
    ],
)
def test_what_is_wrong_with_its_nodes_is_reported(node: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(InvalidFlow) as caught:
        App("memory").load(chain({"id": "a", **node}))
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
    assert tuple(NODE_TYPES) == tuple(NodeType), "add the type to NodeType in notations/chain/read.py"
    assert ERROR_STRATEGY.words == tuple(ErrorStrategy)
    rows = dict(re.findall(r"^\| ([A-Z_]+) \| (.+?) \| .+ \|$", DOCS.read_text("utf-8"), re.MULTILINE))
    for name, node_type in NODE_TYPES.items():
        assert name.upper() in rows, f"docs/chains-reference.md has no row for {name.upper()} nodes"
        missing = [key for key in node_type.fields if f"`{key}" not in rows[name.upper()].replace("/`", "`")]
        assert missing in ([], ["maxIterations"]), f"the row of {name.upper()} in {DOCS.name} does not name {missing}"
    assert set(NODE_FIELDS) >= set(ONLY_FOR)


def test_a_node_that_chains_do_not_have_is_a_loss_and_no_refusal_of_the_rest() -> None:
    composition = {
        "kind": "composition",
        "name": "made",
        "nodes": [{"id": "v", "type": "validate", "schema": {"type": "object"}, "inputMapping": "$input"}],
    }
    app = App("memory")
    with pytest.raises(InvalidFlow, match="chains have no validate nodes"):
        app.convert(composition, "chain")
    lossy = app.convert(composition, "chain", allow_loss=True)
    assert [loss.message for loss in lossy.losses] == ["chains have no validate nodes"]
    assert lossy["nodes"][0] == {"id": "v", "type": "transform", "input": "${null}"}
