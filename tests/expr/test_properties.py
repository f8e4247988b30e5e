"""Properties over random trees and random JSON: printing, totality, purity."""

from __future__ import annotations

import contextlib
import copy
import json
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ropewalk.errors import ExpressionError
from ropewalk.expr import (  # fmt: skip
    FUNCTIONS,
    MACROS,
    Arr,
    Each,
    Fn,
    Lit,
    Obj,
    Ref,
    Var,
    compile_condition,
    compile_expr,
    lift,
    parse,
    show,
)
from ropewalk.expr.operators import identity_key, is_equal
from ropewalk.values import check_json
from tiers import examples

from .expr_scope import resolve

NAMES = ("input", "prev", "var", "state", "item", "error")
WORDS = st.sampled_from(("a", "b", "rows", "x_1", "size", "map", "ünï"))
KEYS = WORDS | st.sampled_from(("any key", "a-b", "", "'\"", "0"))
TEXTS = st.text(max_size=6, alphabet=st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
JSON = st.recursive(
    SCALARS | st.integers(-3, 3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | TEXTS, inner, max_size=4),
    max_leaves=10,
)
PATHS = st.lists(KEYS | st.integers(0, 3), max_size=3).map(tuple)
REFS = st.builds(Ref, st.sampled_from(NAMES), PATHS)
OPERATORS = ("-", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in")
CHAINED = ("&&", "||", "+", "*")
CALLED = sorted(set(FUNCTIONS) - {"${}", "custom", "query", "matches"})


def _literal(value):
    """A literal as parsing makes it: what it reads back is what was printed."""
    return Lit(json.loads(json.dumps(value)))


def _chain(name, args):
    """A chain as parsing makes it: flat on the left."""
    first, *rest = args
    if isinstance(first, Fn) and first.name == name:
        return Fn(name, (*first.args, *rest))
    return Fn(name, tuple(args))


def _array(items):
    if all(isinstance(item, Lit) for item in items):
        return Lit([item.value for item in items])
    return Arr(tuple(items))


def _object(fields):
    if all(isinstance(value, Lit) for value in fields.values()):
        return Lit({key: value.value for key, value in fields.items()})
    return Obj(tuple(fields.items()))


def _index(holder, key):
    if isinstance(key, Lit):
        key = Lit("key")
        if isinstance(holder, Ref):
            return Ref(holder.root, (*holder.path, "key"))
        if isinstance(holder, Var):
            return Var(holder.name, (*holder.path, "key"))
    return Fn("[]", (holder, key))


@st.composite
def trees(draw, depth=3, bound=()):
    """A random tree in the normal form that parsing makes."""
    leaf = SCALARS.map(_literal) | REFS
    if bound:
        leaf = leaf | st.builds(Var, st.sampled_from(bound), PATHS)
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(leaf)
    inner = trees(depth=depth - 1, bound=bound)
    kind = draw(st.sampled_from(("op", "chain", "not", "neg", "choice", "call", "array", "object", "index", "each")))
    if kind == "op":
        return Fn(draw(st.sampled_from(OPERATORS)), (draw(inner), draw(inner)))
    if kind == "chain":
        return _chain(draw(st.sampled_from(CHAINED)), draw(st.lists(inner, min_size=2, max_size=4)))
    if kind == "not":
        return Fn("!", (draw(inner),))
    if kind == "neg":
        return Fn("neg", (draw(inner),))
    if kind == "choice":
        return Fn("?:", (draw(inner), draw(inner), draw(inner)))
    if kind == "array":
        return _array(draw(st.lists(inner, max_size=3)))
    if kind == "object":
        return _object(draw(st.dictionaries(KEYS, inner, max_size=3)))
    if kind == "index":
        return _index(draw(inner), draw(inner))
    if kind == "call":
        known = FUNCTIONS[draw(st.sampled_from(CALLED))]
        most = known.most if known.most is not None else 3
        count = draw(st.integers(known.least, most))
        if known.name in MACROS:
            count = 1  # with more it is a macro
        return Fn(known.name, tuple(draw(inner) for _ in range(count)))
    return draw(_macros(inner, depth, bound))


@st.composite
def _macros(draw, inner, depth, bound):
    name = draw(st.sampled_from([n for n, m in MACROS.items() if m.forms[0].kind == n]))
    source = draw(inner)
    extra = ()
    if name == "reduce":
        names = draw(st.sampled_from((("e", "acc"), ("$item", "$acc", "$index"))))
        extra = (draw(inner),)
    else:
        names = draw(st.sampled_from((("e",), ("v",), ("$item", "$index"))))
    body = draw(trees(depth=depth - 1, bound=tuple(dict.fromkeys((*bound, *names)))))
    return Each(name, source, names, _implicit(body, names), extra)


def _implicit(body, names):
    """Inside `map($item...)` the reference $item is the bound name."""
    from ropewalk.expr import rebind

    if names[0] != "$item":
        return body
    return rebind(body, lambda ref: Var(f"${ref.root}", ref.path) if f"${ref.root}" in names else ref)


@given(trees())
@example(Fn("neg", (Lit(1),)))
@example(Fn("-", (Lit(-1), Lit(-2))))
@example(Fn("==", (Fn("!", (Lit(True),)), Lit(1))))
@example(Fn("?:", (Fn("?:", (Lit(1), Lit(2), Lit(3))), Lit(4), Fn("?:", (Lit(5), Lit(6), Lit(7))))))
def test_a_printed_tree_parses_to_itself(tree):
    text = show(tree)
    assert parse(text) == tree, text


@given(trees(), st.fixed_dictionaries(dict.fromkeys(NAMES, JSON)))
def test_evaluation_gives_json_or_an_expression_error_and_changes_nothing(tree, scope):
    before = copy.deepcopy(scope)
    get = compile_expr(tree, resolve)
    try:
        first = get(scope)
    except ExpressionError:
        with pytest.raises(ExpressionError, match=r"."):
            get(scope)
    else:
        check_json(first)
        assert is_equal(first, get(scope))
    assert scope == before


@given(trees(), st.fixed_dictionaries(dict.fromkeys(NAMES, JSON)))
def test_a_condition_is_a_boolean_or_an_expression_error(tree, scope):
    with contextlib.suppress(ExpressionError):
        assert compile_condition(tree, resolve)(scope) in (True, False)


@given(st.text(max_size=40) | st.text(alphabet="$.[]{}()?:!&|=<>+-*/% '\"\\ainput0,@e", max_size=40))
@examples(300)
def test_any_text_parses_or_is_an_expression_error(text):
    with contextlib.suppress(ExpressionError):
        tree = parse(text)
        assert parse(show(tree)) == tree


@given(JSON | st.text(alphabet="${}input. '\"\\a0[]", max_size=30))
@examples(300)
def test_any_document_lifts_or_reports_problems(document):
    problems = []
    tree = lift(document, frozenset(NAMES), problems=problems)
    if not problems:
        compile_expr(tree, resolve)


@given(JSON, JSON)
def test_equal_values_and_only_those_share_an_identity(a, b):
    assert is_equal(a, a)
    assert (identity_key(a, None) == identity_key(b, None)) == is_equal(a, b)
    assert is_equal(a, b) == is_equal(b, a)


@given(trees(), trees(), st.fixed_dictionaries(dict.fromkeys(NAMES, JSON)))
def test_the_order_of_operands_of_logic_does_not_matter(a, b, scope):
    for op in ("&&", "||"):
        results = []
        for args in ((a, b), (b, a)):
            try:
                results.append(compile_expr(Fn(op, args), resolve)(scope))
            except ExpressionError:
                results.append("error")
        assert results[0] == results[1]


def test_one_program_serves_many_threads_at_once():
    get = compile_expr(parse("input.l.map(e, input.l.filter(f, f != e).reduce(a, x, a + x, 0))"), resolve)
    failures = []

    def work(start):
        scope = {"input": {"l": list(range(start, start + 20))}}
        total = sum(range(start, start + 20))
        for _ in range(30):
            if get(scope) != [total - e for e in scope["input"]["l"]]:
                failures.append(start)

    threads = [threading.Thread(target=work, args=(i * 100,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_replace_of_nothing_in_what_is_no_text_is_an_error_of_ours():
    with pytest.raises(ExpressionError, match="replace"):
        compile_expr(parse("input.replace('', 'x')"), resolve)({"input": [1]})
