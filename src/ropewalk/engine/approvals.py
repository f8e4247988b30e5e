"""Which approvals a flow looks at. A refusal is an answer where something reads `approved` of it; where nothing does
it fails the node, so that nobody ships what was refused because a condition was forgotten.

The answers are followed through the values they can get into: blocks, loops, variables, `$prev`, macros. Refused:
what a tool or a `@transform` makes of an answer; they are given it as data, and nobody can see what they read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final

from ..expr.ast import Arr, Each, Expr, Fn, Lit, Obj, Path, Ref, Var
from ..frozen import dataclass
from ..ir import Flow, Graph, Node, parts
from ..ops import Block, Branch, Compute, Loop, Map, Require, Validate, Wait
from ..values import Json

_KEY: Final = "approved"
_WORD: Final = re.compile(r"\bapproved\b")
_DEEPEST: Final = 8  # of what is known apart: values that go round and round would grow for ever
_SCALAR: Final = frozenset(("boolean", "number", "integer", "string"))
_NOTHING: Final = frozenset(("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in", "-", "*", "/", "%", "neg"))
_SAME: Final = frozenset(("coalesce", "merge", "deep_merge", "pick", "omit"))
_LISTS: Final = frozenset(("concat", "flatten", "unique", "sort", "values", "+"))


@dataclass(frozen=True, slots=True)
class Held:
    """The answers, by the ids of their waits, that may be in a value: it may be one of `own` itself, it has what `at`
    says under these keys and `each` under any, and `deep` may be anywhere; `all` are those of all these together."""

    own: frozenset[str]
    at: Mapping[str | int, Held]
    each: Held | None
    deep: frozenset[str]
    all: frozenset[str]
    height: int


Some = Held | None


def _made(own: frozenset[str], at: Mapping[str | int, Held], each: Some, deep: frozenset[str]) -> Some:
    inner = [*at.values(), *([each] if each is not None else ())]
    inside = deep.union(*[one.all for one in inner])
    if not own and not inside:
        return None
    height = 1 + max([one.height for one in inner], default=-1)
    if height > _DEEPEST:
        return Held(own, {}, None, inside, own | inside, 0)
    return Held(own, at, each, deep, own | inside, height)


def _deep(ids: frozenset[str]) -> Some:
    return _made(frozenset(), {}, None, ids)


def _either(a: Some, b: Some) -> Some:
    if a is None or b is None or a == b:
        return a if b is None else b
    at = {key: one for key in {**a.at, **b.at} if (one := _either(a.at.get(key), b.at.get(key))) is not None}
    return _made(a.own | b.own, at, _either(a.each, b.each), a.deep | b.deep)


def _any_of(many: Iterable[Some]) -> Some:
    return reduce(_either, many, None)


def _object(fields: Iterable[tuple[str | int, Some]]) -> Some:
    return _made(frozenset(), {key: one for key, one in fields if one is not None}, None, frozenset())


def _list(each: Some) -> Some:
    return _made(frozenset(), {}, each, frozenset())


def _anywhere(held: Some) -> Some:
    return _deep(held.all) if held is not None else None


def _elements(held: Some) -> Some:
    if held is None:
        return None
    return _any_of([held.each, *held.at.values(), _deep(held.deep)])


def _member(held: Held, key: str | int) -> Some:
    if type(key) is int and key < 0:
        return _elements(held)
    return _any_of([held.at.get(key), held.each, _deep(held.deep)])


def _mentions(value: Json) -> bool:
    """Whether a literal argument of a function names the key: of `pick`, of `rename`, in a JSONPath."""
    if type(value) is str:
        return _WORD.search(value) is not None
    return any(map(_mentions, value)) if type(value) in (list, dict) else False


def approvals_read(flow: Flow) -> frozenset[str]:
    """The ids of the waits of whose answers some expression reads `approved`."""
    return Following(flow).looked_at()


class Following:
    """One pass over a flow after the other, until what is known of its values stays as it is."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.found: set[str] = set()
        self.out: dict[str, Some] = {}
        self.state: dict[str, Some] = {}
        self.rounds: dict[str, Some] = {}  # what a round of this loop gives to the next
        self.names: dict[str, Some] = {}
        self.prev: Some = None
        self.item: Some = None

    def looked_at(self) -> frozenset[str]:
        before: Any = None
        while before != (now := (dict(self.out), dict(self.state), dict(self.rounds), len(self.found))):
            before, self.prev = now, None
            self._region(self.flow.body)
        return frozenset(self.found)

    # --- regions and nodes ------------------------------------------------------------------------

    def _region(self, graph: Graph) -> Some:
        before = self.prev
        for node in graph.nodes:
            got = self._node(node)
            if graph.ordered:
                soft = node.gate is not None or node.when is not None
                self.prev = _either(self.prev, got) if soft else got
        self.prev = before
        return self._value(graph.result)

    def _node(self, node: Node) -> Some:
        for expr in (node.gate, node.when):
            if expr is not None:
                self._value(expr)
        got = self._op(node)
        if node.result is not None:
            self.out[node.id] = got
            got = self._value(node.result)
        if node.policy.on_error is not None:
            got = _either(got, self._value(node.policy.on_error.value))
        self.out[node.id] = got
        if isinstance(node.writes, Obj):
            for name, update in node.writes.fields:
                self._write(name, self._value(update))
        elif node.writes is not None:
            written = self._value(node.writes)
            for name in dict.fromkeys((*self.flow.state, *node.meta.writes)) if written is not None else ():
                self._write(name, _member(written, name) if written is not None else None)
        return got

    def _write(self, name: str, update: Some) -> None:
        if update is not None:
            channel = self.flow.state.get(name)
            kept = channel is not None and channel.reduce in ("last_wins", "set_once")
            new = update if kept else _either(update, _list(_either(update, _elements(update))))
            self.state[name] = _either(self.state.get(name), new)

    def _op(self, node: Node) -> Some:
        op: Any = node.op
        kind = type(op)
        if kind is Map or kind is Loop:
            return self._rounds(node.id, op)
        if kind is Branch:
            for test, _ in op.arms:
                self._value(test)
            arms = [body for _, body in op.arms] + ([op.default] if op.default is not None else [])
            return _any_of([self._region(body) for body in arms])
        got = [self._region(part) if isinstance(part, Graph) else self._value(part) for _, part in parts(op)]
        if kind is Wait:
            return _made(frozenset((node.id,)), {}, None, frozenset()) if op.approval is not None else None
        if kind is Compute or kind is Require or kind is Validate or kind is Block:
            return self._value(op.value) if kind is not Block else got[0]
        return None

    def _rounds(self, id: str, op: Any) -> Some:
        items = self._value(op.items) if op.items is not None else None
        before = self.prev, self.item
        if op.items is not None:
            self.item = _elements(items)
        initial = None
        if type(op) is Loop:
            initial = self._value(op.initial) if op.initial is not None else None
            self.prev = _any_of([initial if op.initial is not None else self.prev, self.rounds.get(id)])
        each = self._region(op.body)
        if type(op) is Loop:
            self.rounds[id] = _either(self.rounds.get(id), each)
            for test in (op.again, op.until):
                if test is not None:
                    self._value(test)
        self.prev, self.item = before
        if type(op) is Map:
            return _list(_elements(items) if op.select else each)
        return _list(each) if op.collect else _either(each, initial)

    # --- expressions --------------------------------------------------------------------------------

    def _value(self, expr: Expr) -> Some:
        if isinstance(expr, Ref):
            return self._ref(expr)
        if isinstance(expr, Var):
            return self._walk(self.names.get(expr.name), expr.path)
        if isinstance(expr, Obj):
            return _object([(key, self._value(inner)) for key, inner in expr.fields])
        if isinstance(expr, Arr):
            return _object([(i, self._value(inner)) for i, inner in enumerate(expr.items)])
        if isinstance(expr, Fn):
            return self._fn(expr)
        return self._each(expr) if isinstance(expr, Each) else None

    def _ref(self, ref: Ref) -> Some:
        if ref.root == "out" and ref.path:
            held, path = self.out.get(str(ref.path[0])), ref.path[1:]
            elided = self._walk(held, path[1:]) if ref.elide and path[:1] == ("output",) else None
            return _either(self._walk(held, path), elided)
        if ref.root == "state":
            if ref.path:  # of thousands of variables that one alone
                return self._walk(self.state.get(str(ref.path[0])), ref.path[1:])
            return _object(self.state.items())
        if ref.root in ("prev", "item"):
            return self._walk(self.prev if ref.root == "prev" else self.item, ref.path)
        return None

    def _walk(self, held: Some, path: Path) -> Some:
        for key in path:
            if held is None:
                return None
            if key == _KEY:
                self.found |= held.own | held.deep
            held = _member(held, key)
        return held

    def _fn(self, expr: Fn) -> Some:
        from ..expr.calls import FUNCTIONS

        name, got = expr.name, [self._value(arg) for arg in expr.args]
        if name == "[]":
            key = expr.args[1]
            return self._walk(got[0], (key.value,)) if isinstance(key, Lit) else _elements(got[0])
        if name == "?:":
            return _any_of(got[1:])
        known = FUNCTIONS.get(name)
        if name in _NOTHING or not any(got):
            return None
        if known is not None and name != "omit" and any(type(a) is Lit and _mentions(a.value) for a in expr.args):
            self.found.update(*[one.all for one in got if one is not None])
        if (known is not None and known.returns in _SCALAR) or name == "custom":
            return None
        if name in _SAME:
            return _any_of(got)
        if name in _LISTS:
            inside = _any_of(map(_elements, got))
            return _list(_any_of([*(got if name == "concat" else ()), inside, _elements(inside)]))
        return _anywhere(_any_of(got))

    def _each(self, expr: Each) -> Some:
        source = self._value(expr.source)
        item, more = _elements(source), _any_of([self._value(one) for one in expr.extra])
        before = self.names
        self.names = {**before, **dict.fromkeys(expr.names), expr.names[0]: item} if expr.names else before
        if expr.kind == "reduce":
            return self._reduced(expr, more, before)
        body = self._value(expr.body)
        self.names = before
        if expr.kind in ("filter", "sort"):
            return _list(item)
        if expr.kind == "group_by":
            return _list(_list(item))
        if expr.kind in ("map", "flat_map"):
            return _list(body if expr.kind == "map" else _either(body, _elements(body)))
        return None

    def _reduced(self, expr: Each, total: Some, before: dict[str, Some]) -> Some:
        old: Any = self
        while old != total:
            old = total
            self.names = {**self.names, expr.names[1]: total}
            total = _either(total, self._value(expr.body))
        self.names = before
        return total
