"""What is inferred of a flow holds: every value and state that a run gives fits the inferred schema."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import assume, event, given, note
from hypothesis import strategies as st

from engine.lab import once
from properties.made_flows import World, brief, flows
from ropewalk.check import ToolCard, check
from ropewalk.check.export import Exporter
from ropewalk.check.inference import Source, infer
from ropewalk.check.references import _OPERATORS
from ropewalk.expr.ast import Arr, Each, Fn, Lit, Obj, Ref, Var
from ropewalk.expr.calls import RUNNERS
from ropewalk.expr.function_registry import FUNCTIONS
from ropewalk.ir import Flow, Graph
from ropewalk.schema import compile_schema, schema_errors
from tiers import examples

INPUT = {"n": 2}
GIVES: dict[str, Any] = {
    "none": {"type": "null"},
    "list": {"type": "array", "items": {"type": "integer"}},
    "echo": {"type": "object"},
}
pytestmark = pytest.mark.timeout(1800)


def card(tool: str) -> ToolCard:
    return ToolCard(None, GIVES.get(tool, {"type": "integer"}))


@examples(400)
@given(flows(), st.integers(0, 2**32))
def test_every_value_fits_what_was_inferred(flow: Flow, seed: int) -> None:
    note(brief(flow))
    ending = asyncio.run(once(flow, World(seed), INPUT))
    if ending.status not in ("completed", "partial"):
        event("no value")
        return
    sources: dict[Source, Any] = {"result": ending.value, "state": ending.state}
    for source, value in sources.items():
        schema = infer(flow, card, source)
        note(f"{source}: {schema}")
        event(f"{source}: {'something' if schema else 'nothing'} known")
        if schema is not None:
            assert schema_errors(schema) == []
            assert compile_schema(schema).problems(value, source) == []


VALUES: list[Any] = [None, True, 0, 2, 1.5, "", "ab", [], [1, 2], ["b", "a"], [{"k": 1}], {}, {"k": "v"}]
LITERALS = st.sampled_from(VALUES).map(Lit)
READS = st.sampled_from([Ref("input", (key,)) for key in "abc"])
ARGUMENTS = st.lists(LITERALS | READS, min_size=1, max_size=3).map(tuple)
KINDS = ("map", "filter", "sort", "any", "all", "exists", "exists_one", "flat_map", "group_by")


@st.composite
def expressions(draw: Any) -> Any:
    one = draw(
        st.builds(Fn, st.sampled_from(sorted({*FUNCTIONS, *_OPERATORS, "?:", "[]"} - {"custom"})), ARGUMENTS)
        | st.builds(
            Each,
            st.sampled_from([kind for kind in KINDS if kind in RUNNERS]),
            LITERALS | READS,
            st.just(("x",)),
            st.sampled_from([Var("x", ()), Var("x", ("k",)), Lit(True), Fn("==", (Var("x", ()), Lit(1)))]),
            st.just(()),
            st.just(1),
        )
    )
    return draw(st.sampled_from([one, Obj((("a", one),)), Arr((one, Lit(1))), Fn("coalesce", (one, Lit("x")))]))


@examples(800)
@given(expressions(), st.fixed_dictionaries({}, optional={key: st.sampled_from(VALUES) for key in "abc"}))
def test_every_function_gives_what_was_inferred(expr: Any, given_: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {key: shape(given_.get(key)) for key in given_ if key != "c"}}
    flow = Flow(name="f", body=Graph(nodes=(), result=expr, ordered=True), input_schema=schema)
    assume(not check(flow).problems)
    ending = asyncio.run(once(flow, World(None), given_))
    inferred = infer(flow, card)
    note(f"{expr} {given_!r} {ending.value!r} {inferred}")
    event(ending.status)
    if ending.status == "completed" and inferred is not None:
        assert compile_schema(inferred).problems(ending.value, "value") == []


def shape(value: Any) -> dict[str, Any]:
    """A schema as a tool's author would declare it."""
    return Exporter().schema(Lit(value))
