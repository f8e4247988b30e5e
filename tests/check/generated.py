"""Flows made up by Hypothesis: well-formed as data, mostly nonsense as flows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ropewalk.expr.ast import Arr, Each, Expr, Fn, Lit, Obj, Ref, Var
from ropewalk.ir import Channel, Flow, Graph, Meta, Node, OnError, Policy, Retry
from ropewalk.ops import Block, Branch, Call, Compute, Loop, Map, Sleep

names = st.text('abé_ $"<', min_size=1, max_size=3)
numbers = st.integers(0, 9) | st.floats(0, 9, allow_nan=False)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | names,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)
paths = st.lists(names | st.integers(-3, 9), max_size=3).map(tuple)
columns = st.integers(1, 40)


def _larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    some = st.lists(inner, max_size=2).map(tuple)
    return (
        st.builds(Obj, st.lists(st.tuples(names, inner), max_size=2).map(tuple))
        | st.builds(Arr, some)
        | st.builds(Fn, names, some, columns)
        | st.builds(Each, names, inner, st.lists(names, max_size=2).map(tuple), inner, some, columns)
    )


exprs = st.recursive(
    st.builds(Lit, json_values) | st.builds(Ref, names, paths, st.booleans(), columns) | st.builds(Var, names, paths),
    _larger,
    max_leaves=5,
)
policies = st.builds(
    Policy,
    retry=st.builds(Retry, attempts=st.integers(1, 5), delay=numbers, factor=numbers, linear=st.booleans()),
    timeout=st.none() | numbers,
    on_error=st.none() | st.builds(OnError, value=exprs, reported=st.booleans()),
)
metas = st.builds(Meta, source=names, labels=st.dictionaries(names, names, max_size=2), phase=st.none() | names)


def _nodes(ops: st.SearchStrategy[Any]) -> st.SearchStrategy[Node]:
    maybe = st.none() | exprs
    return st.builds(
        Node, id=names, op=ops, after=st.frozensets(names, max_size=2), gate=maybe, when=maybe, writes=maybe,
        policy=policies, meta=metas,
    )  # fmt: skip


def _graphs(ops: st.SearchStrategy[Any]) -> st.SearchStrategy[Graph]:
    return st.builds(
        Graph, nodes=st.lists(_nodes(ops), max_size=2).map(tuple), result=exprs, ordered=st.booleans(),
        limit=st.none() | st.integers(1, 9),
    )  # fmt: skip


leaves = st.builds(Call, tool=names, args=exprs) | st.builds(Compute, value=exprs) | st.builds(Sleep, seconds=exprs)


def _nesting(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    body = _graphs(inner)
    return (
        st.builds(Block, body=body)
        | st.builds(Branch, arms=st.lists(st.tuples(exprs, body), max_size=2).map(tuple), default=st.none() | body)
        | st.builds(Map, items=exprs, body=body, limit=st.none() | st.integers(1, 9))
        | st.builds(
            Loop,
            body=body,
            limit=st.none() | st.integers(1, 9),
            items=st.none() | exprs,
            again=st.none() | exprs,
            until=exprs,
            collect=st.booleans(),
        )
    )


flows = st.builds(
    Flow,
    name=names,
    body=_graphs(st.recursive(leaves, _nesting, max_leaves=3)),
    state=st.dictionaries(
        names,
        st.builds(Channel, schema=json_values, reduce=names, initial=json_values, present=st.booleans()),
        max_size=2,
    ),
    input_schema=json_values,
    timeout=st.none() | numbers,
)
