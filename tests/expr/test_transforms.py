"""The transforms of the documents: configuration to expression, and what each gives."""

from __future__ import annotations

import pytest

from ropewalk.errors import ExpressionError, Problem
from ropewalk.expr import TRANSFORMS, Lit, Ref, compile_expr, transform, transform_expr

from .expr_scope import ALL, resolve

ROWS = [
    {"name": "b", "price": 2, "tags": ["x", "y"], "at": {"city": "Rome"}, "state": "ny"},
    {"name": "a", "price": 3, "tags": [], "at": {"city": "Oslo"}, "state": "ca"},
    {"name": "c", "price": 2, "tags": ["z"], "at": {"city": "Rome"}, "state": "ny"},
]


def made(kind, config, data=ROWS, **scope):
    expr = transform_expr({"type": kind, "config": config}, Ref("prev"), roots=ALL)
    return compile_expr(expr, resolve)({"prev": data, **scope})


@pytest.mark.parametrize(
    ("kind", "config", "expected"),
    [
        ("MAP", {"expression": "$item.price * 10 + $index"}, [20, 31, 22]),
        ("map", {"expression": "item.name"}, ["b", "a", "c"]),
        ("MAP", {"expression": {"n": "$item.name", "i": "$index", "k": 1}}, [
            {"n": "b", "i": 0, "k": 1}, {"n": "a", "i": 1, "k": 1}, {"n": "c", "i": 2, "k": 1}]),
        ("MAP", {"expression": "$item.tags.map(t, t + $item.name)"}, [["xb", "yb"], [], ["zc"]]),
        ("MAP", {"expression": "$item.tags.map($item)"}, [["x", "y"], [], ["z"]]),
        ("MAP", {"expression": "$item.tags.map(item, item + $item.name)"}, [["xb", "yb"], [], ["zc"]]),
        ("MAP", {"expression": "$var.n"}, [7, 7, 7]),
        ("FILTER", {"expression": "$item.price > 2"}, [ROWS[1]]),
        ("FILTER", {"expression": "$item.nope"}, []),
        ("FLAT_MAP", {"expression": "$item.tags"}, ["x", "y", "z"]),
        ("REDUCE", {"expression": "$acc + $item.price", "initial": 0}, 7),
        ("REDUCE", {"expression": "$acc + $item.price", "initial": "$var.n"}, 14),
        ("REDUCE", {"expression": "$item.name"}, "c"),
        ("GROUP_BY", {"key": "at.city"}, {"Rome": [ROWS[0], ROWS[2]], "Oslo": [ROWS[1]]}),
        ("GROUP_BY", {"key": "$item.price"}, {"2": [ROWS[0], ROWS[2]], "3": [ROWS[1]]}),
        ("GROUP_BY", {"key": "state"}, {"ny": [ROWS[0], ROWS[2]], "ca": [ROWS[1]]}),
        ("GROUP_BY", {"key": "$item.price > 2"}, {"false": [ROWS[0], ROWS[2]], "true": [ROWS[1]]}),
        ("SORT", {"by": "name"}, [ROWS[1], ROWS[0], ROWS[2]]),
        ("SORT", {"by": "price"}, [ROWS[0], ROWS[2], ROWS[1]]),
        ("SORT", {"by": "price", "order": "desc"}, [ROWS[1], ROWS[0], ROWS[2]]),
        ("SORT", {"by": ["at.city", "$item.name"], "order": "DESC"}, [ROWS[2], ROWS[0], ROWS[1]]),
        ("PICK", {"fields": ["name", "at.city"]}, [
            {"name": "b", "at": {"city": "Rome"}}, {"name": "a", "at": {"city": "Oslo"}},
            {"name": "c", "at": {"city": "Rome"}}]),
        ("OMIT", {"fields": ["tags", "price", "at", "state"]}, [{"name": "b"}, {"name": "a"}, {"name": "c"}]),
    ],
)  # fmt: skip
def test_transform_gives(kind, config, expected):
    assert made(kind, config, var={"n": 7}) == expected


def test_sort_orders_mixed_types_and_is_stable():
    values = ["b", 2, None, True, [1], "a", 1.5, False, {"x": 1}, [0]]
    assert made("SORT", {}, values) == [None, False, True, 1.5, 2, "a", "b", [1], {"x": 1}, [0]]
    rows = [{"k": 1, "n": i} for i in range(5)]
    assert [row["n"] for row in made("SORT", {"by": "k", "order": "desc"}, rows)] == [0, 1, 2, 3, 4]


def test_group_by_keeps_the_order_of_first_sight():
    assert list(made("GROUP_BY", {"key": "k"}, [{"k": "z"}, {"k": "a"}, {"k": "z"}])) == ["z", "a"]


def test_shapes_of_one_object():
    one = {"a": 1, "b": {"c": 2, "d": 3}, "x.y": 4}
    assert made("PICK", {"fields": ["b.d", "nope"]}, one) == {"b": {"d": 3}}
    assert made("PICK", {"fields": ['["x.y"]']}, one) == {"x.y": 4}
    assert made("OMIT", {"fields": ["b.c"]}, one) == {"a": 1, "b": {"d": 3}, "x.y": 4}
    assert made("RENAME", {"fields": {"a": "z"}}, one) == {"z": 1, "b": {"c": 2, "d": 3}, "x.y": 4}
    assert made("RENAME", {"fields": {"a": "b", "b": "a"}}, {"a": 1, "b": 2}) == {"b": 1, "a": 2}
    assert made("RENAME", {"fields": {"a": "b"}}, {"a": 1, "b": 2}) == {"b": 1}
    assert made("MERGE", {"with": {"b": "$var.n"}}, one, var={"n": 7})["b"] == 7
    assert made("MERGE", {"with": {"b": {"c": 9}}, "deep": True}, one)["b"] == {"c": 9, "d": 3}
    assert made("MERGE", {"with": "$var"}, {"a": 1}, var={"n": 7}) == {"a": 1, "n": 7}
    for kind in ("PICK", "OMIT"):
        assert made(kind, {"fields": ["a"]}, None) is None


def test_a_shape_leaves_its_source_as_it_was():
    one = {"a": {"b": {"c": 1, "d": 2}}}
    assert made("PICK", {"fields": ["a", "a.b.c"]}, one) == {"a": {"b": {"c": 1, "d": 2}}}
    made("OMIT", {"fields": ["a.b.c"]}, one)
    made("MERGE", {"with": {"a": {"b": 5}}, "deep": True}, one)
    assert one == {"a": {"b": {"c": 1, "d": 2}}}


@pytest.fixture
def _registered():
    @transform
    def double_it(value):
        return value * 2

    @transform("fails")
    def _fails(value):
        raise KeyError("gone")

    @transform("not-json")
    def _not_json(value):
        return {1, 2}

    yield
    for name in ("double_it", "fails", "not-json"):
        del TRANSFORMS[name]


@pytest.mark.usefixtures("_registered")
def test_custom_calls_the_registered_function():
    assert made("CUSTOM", {"function": "double_it"}, 4) == 8
    with pytest.raises(ExpressionError, match=r"transform fails failed: KeyError: 'gone'") as caught:
        made("CUSTOM", {"function": "fails"}, 4)
    assert caught.value.__cause__ is not None
    with pytest.raises(ExpressionError, match="set is not JSON"):
        made("CUSTOM", {"function": "not-json"}, 4)


@pytest.mark.usefixtures("_registered")
@pytest.mark.parametrize(
    ("spec", "path", "message", "suggestion"),
    [
        ({"config": {}}, "t.type", "needs a type", None),
        ("MAP", "t.type", "needs a type", None),
        ({"type": "MPA"}, "t.type", "unknown transform 'MPA'", "MAP"),
        ({"type": "MAP", "config": 1}, "t.config", "must be an object", None),
        ({"type": "MAP", "config": {}}, "t.config.expression", "is required", None),
        ({"type": "MAP", "config": {"expression": "$itm.x"}}, "t.config.expression", "unknown reference", "$item"),
        ({"type": "MAP", "config": {"expression": "$acc"}}, "t.config.expression", "$acc is not known here", None),
        ({"type": "MAP", "config": {"expression": {"a": "$itm"}}}, "t.config.expression.a", "unknown", "$item"),
        (
            {"type": "MAP", "config": {"expression": "1", "expresion": 1}},
            "t.config.expresion",
            "no such setting",
            "expression",
        ),
        ({"type": "SORT", "config": {"by": "a", "order": "dsc"}}, "t.config.order", '"asc" or "desc"', "desc"),
        ({"type": "SORT", "config": {"by": ["a", "1 +"]}}, "t.config.by[1]", "ends too early", None),
        ({"type": "PICK", "config": {"fields": {"a": 1}}}, "t.config.fields", "a list of field names", None),
        ({"type": "PICK", "config": {}}, "t.config.fields", "a list of field names", None),
        ({"type": "MERGE", "config": {}}, "t.config.with", "is required", None),
        ({"type": "RENAME", "config": {"fields": ["a"]}}, "t.config.fields", "old and new names", None),
        ({"type": "CUSTOM", "config": {}}, "t.config.function", "registered with @transform", None),
        ({"type": "CUSTOM", "config": {"function": "doubleit"}}, "t.config.function", "no transform", "double_it"),
    ],
)
def test_a_wrong_configuration_is_a_problem(spec, path, message, suggestion):
    problems: list[Problem] = []
    transform_expr(spec, Lit(None), roots=ALL, path="t", problems=problems)
    assert problems[0].path == path
    assert message in problems[0].message
    assert problems[0].suggestion == suggestion
    with pytest.raises(ExpressionError):
        transform_expr(spec, Lit(None), roots=ALL)
