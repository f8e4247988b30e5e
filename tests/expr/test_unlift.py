"""Trees are written as documents that mean the same: `lift` reads back what `unlift` wrote."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import ExpressionError
from ropewalk.expr import ROOTS, lift, parse
from ropewalk.expr.ast import Arr, Each, Expr, Fn, Lit, Obj, Ref, Var
from ropewalk.expr.unlift import escape_constant, text_of, unlift

TEXT = st.text(alphabet="$${}a.[]\\\"' ", max_size=8)
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | TEXT
JSON: Any = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXT, v, max_size=3), max_leaves=6
)
KEYS = st.sampled_from(["a", "b-c", "x y", "0", 'q"q', "é", "output", "$", "length", 0, 3])
REFS = st.builds(
    lambda root, path: Ref(root, tuple(path)),
    st.sampled_from(["input", "prev", "output", "item"]),
    st.lists(KEYS, max_size=3),
)
EXPRS: Any = st.recursive(
    JSON.map(Lit) | REFS,
    lambda e: st.one_of(
        st.lists(e, min_size=1, max_size=3).map(lambda items: Arr(tuple(items))),
        st.dictionaries(TEXT, e, min_size=1, max_size=3).map(lambda d: Obj(tuple(d.items()))),
        st.builds(lambda name, a, b: Fn(name, (a, b)), st.sampled_from(["==", "-", "in", "[]"]), e, e),
        st.builds(lambda name, *of: Fn(name, of), st.sampled_from(["&&", "+", "?:", "coalesce", "${}"]), e, e, e),
        st.builds(lambda s, b: Each("filter", s, ("x",), Fn("==", (Var("x", ("y",)), b))), e, e),
        e.map(lambda inner: Fn("!", (inner,))),
    ),
    max_leaves=6,
)  # fmt: skip


def settled(expr: Expr) -> Expr:
    """What is constant as one constant, as reading makes it; chains of `+` flat."""
    if isinstance(expr, Obj):
        fields = [(key, settled(value)) for key, value in expr.fields]
        if all(isinstance(value, Lit) for _, value in fields):
            return Lit({key: value.value for key, value in fields})  # type: ignore[union-attr]
        return Obj(tuple(fields))
    if isinstance(expr, Arr):
        items = [settled(item) for item in expr.items]
        return Lit([i.value for i in items]) if all(isinstance(i, Lit) for i in items) else Arr(tuple(items))  # type: ignore[union-attr]
    return expr


@given(value=JSON)
def test_constants_are_read_back_as_they_are(value: Any) -> None:
    assert lift(escape_constant(value), ROOTS) == Lit(value)


@given(expr=EXPRS)
def test_what_is_written_means_the_same(expr: Expr) -> None:
    try:
        written = unlift(expr)
    except ExpressionError:  # which `test_what_text_cannot_say_is_refused` looks at
        return
    assert settled(lift(written, ROOTS)) == settled(expr)


@pytest.mark.parametrize(
    ("expr", "written"),
    [
        (Ref("input", ("a", 0, "b-c", "x y", "7")), '$input.a[0].b-c["x y"]["7"]'),
        (Lit("$5"), "$$5"),
        (Lit("${x}"), "$${x}"),
        (Lit("$${x}"), "$$$${x}"),
        (Lit({"a": ["$"]}), {"a": ["$$"]}),
        (Fn("${}", (Lit("about "), Ref("input", ("x",)))), "about ${$input.x}"),
        (Fn("${}", (Ref("input"),)), "${interpolate($input)}"),
        (Fn("+", (Ref("item"), Lit(1))), "${$item + 1}"),
        (Obj((("a", Ref("prev")), ("b", Lit(None)))), {"a": "$prev", "b": None}),
    ],
)
def test_short_forms(expr: Expr, written: Any) -> None:
    assert unlift(expr) == written
    assert lift(written, ROOTS) == expr


def test_conditions_are_bare_texts() -> None:
    assert text_of(parse("$prev.n > 3 && !$var.done")) == "$prev.n > 3 && !$var.done"
    assert text_of(parse("!($prev.n > 3) && !!$var.done")) == "!($prev.n > 3) && !!$var.done"


def test_what_text_cannot_say_is_refused() -> None:
    shadowed = Each("filter", Ref("input"), ("$item", "$index"), Fn("==", (Var("$item"), Ref("item"))))
    with pytest.raises(ExpressionError, match="means the same"):
        text_of(shadowed)
    with pytest.raises(ExpressionError, match="cannot be written"):
        unlift(Fn("nothing", (Ref("input"),)))
