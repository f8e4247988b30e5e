"""Find out which approvals a flow reads.

A rejection is a value if something reads its `approved`. If nothing does, it fails the node, so that nobody ships a
rejected order because a condition was forgotten.

The answers are followed through the values that may contain them: blocks, loops, variables, `$prev`, macros. They are
not followed through tools and `@transform` functions, which get them as data: nobody can see what those read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final

from ..expr.ast import Arr, Each, Expr, Fn, Lit, Obj, Path, Ref, Var
from ..fast_dataclass import dataclass
from ..ir import Flow, Graph, Node, parts
from ..ops import Block, Branch, Compute, Loop, Map, Require, Validate, Wait
from ..values import Json

_KEY: Final = "approved"
_WORD: Final = re.compile(r"\bapproved\b")
_MAX_HEIGHT: Final = 8  # levels that are known apart; a value that a loop nests again and again would grow for ever
_SCALAR: Final = frozenset(("boolean", "number", "integer", "string"))
_NOTHING: Final = frozenset(("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in", "-", "*", "/", "%", "neg"))
_FIRST_KNOWN_ARGUMENT: Final = frozenset(("coalesce", "merge", "deep_merge", "pick", "omit"))
_LISTS: Final = frozenset(("concat", "flatten", "unique", "sort", "values", "+"))


@dataclass(frozen=True, slots=True)
class Answers:
    """The approvals whose answers a value may contain, by the ids of their waits."""

    # The value may be an answer of `own` itself. It has the answers `at` under these keys and `each` under any key, and
    # `deep` may be anywhere inside. `all` are the ids of all these together.

    own: frozenset[str]
    at: Mapping[str | int, Answers]
    each: Answers | None
    deep: frozenset[str]
    all: frozenset[str]
    height: int


MaybeAnswers = Answers | None


def _answers(
    own: frozenset[str], at: Mapping[str | int, Answers], each: MaybeAnswers, deep: frozenset[str]
) -> MaybeAnswers:
    inner = [*at.values(), *([each] if each is not None else ())]
    inside = deep.union(*[part.all for part in inner])
    if not own and not inside:
        return None
    height = 1 + max([part.height for part in inner], default=-1)
    if height > _MAX_HEIGHT:
        return Answers(own, {}, None, inside, own | inside, 0)
    return Answers(own, at, each, deep, own | inside, height)


def _deep(ids: frozenset[str]) -> MaybeAnswers:
    return _answers(frozenset(), {}, None, ids)


def _union(a: MaybeAnswers, b: MaybeAnswers) -> MaybeAnswers:
    if a is None or b is None or a == b:
        return a if b is None else b
    at = {key: both for key in {**a.at, **b.at} if (both := _union(a.at.get(key), b.at.get(key))) is not None}
    return _answers(a.own | b.own, at, _union(a.each, b.each), a.deep | b.deep)


def _any_of(alternatives: Iterable[MaybeAnswers]) -> MaybeAnswers:
    return reduce(_union, alternatives, None)


def _object(fields: Iterable[tuple[str | int, MaybeAnswers]]) -> MaybeAnswers:
    return _answers(frozenset(), {key: answers for key, answers in fields if answers is not None}, None, frozenset())


def _list(each: MaybeAnswers) -> MaybeAnswers:
    return _answers(frozenset(), {}, each, frozenset())


def _anywhere(answers: MaybeAnswers) -> MaybeAnswers:
    return _deep(answers.all) if answers is not None else None


def _elements(answers: MaybeAnswers) -> MaybeAnswers:
    if answers is None:
        return None
    return _any_of([answers.each, *answers.at.values(), _deep(answers.deep)])


def _member(answers: Answers, key: str | int) -> MaybeAnswers:
    if type(key) is int and key < 0:
        return _elements(answers)
    return _any_of([answers.at.get(key), answers.each, _deep(answers.deep)])


def _mentions(value: Json) -> bool:
    """Return True if a literal argument of a function contains the word `approved`: of `pick`, of `rename`, in a
    JSONPath.
    """
    if type(value) is str:
        return _WORD.search(value) is not None
    return any(map(_mentions, value)) if type(value) in (list, dict) else False


def approvals_read(flow: Flow) -> frozenset[str]:
    """Return the ids of the waits for approvals whose `approved` some expression reads."""
    return ApprovalFlow(flow).looked_at()


class ApprovalFlow:
    """Passes over a flow until nothing new is known about its values."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.read_answers: set[str] = set()
        self.out: dict[str, MaybeAnswers] = {}
        self.state: dict[str, MaybeAnswers] = {}
        self.iterations: dict[str, MaybeAnswers] = {}  # what a round of this loop gives to the next
        self.names: dict[str, MaybeAnswers] = {}
        self.prev: MaybeAnswers = None
        self.item: MaybeAnswers = None

    def looked_at(self) -> frozenset[str]:
        before: Any = None
        while before != (now := (dict(self.out), dict(self.state), dict(self.iterations), len(self.read_answers))):
            before, self.prev = now, None
            self._region(self.flow.body)
        return frozenset(self.read_answers)

    # --- regions and nodes ------------------------------------------------------------------------

    def _region(self, graph: Graph) -> MaybeAnswers:
        before = self.prev
        for node in graph.nodes:
            answers = self._node(node)
            if graph.ordered:
                may_be_skipped = node.gate is not None or node.when is not None
                self.prev = _union(self.prev, answers) if may_be_skipped else answers
        self.prev = before
        return self._value(graph.result)

    def _node(self, node: Node) -> MaybeAnswers:
        for expr in (node.gate, node.when):
            if expr is not None:
                self._value(expr)
        answers = self._op(node)
        if node.result is not None:
            self.out[node.id] = answers
            answers = self._value(node.result)
        if node.policy.on_error is not None:
            answers = _union(answers, self._value(node.policy.on_error.value))
        self.out[node.id] = answers
        if isinstance(node.writes, Obj):
            for name, update in node.writes.fields:
                self._write(name, self._value(update))
        elif node.writes is not None:
            update_answers = self._value(node.writes)
            for name in dict.fromkeys((*self.flow.state, *node.meta.writes)) if update_answers is not None else ():
                self._write(name, _member(update_answers, name) if update_answers is not None else None)
        return answers

    def _write(self, name: str, update: MaybeAnswers) -> None:
        if update is not None:
            channel = self.flow.state.get(name)
            replaces = channel is not None and channel.reduce in ("last_wins", "set_once")
            new = update if replaces else _union(update, _list(_union(update, _elements(update))))
            self.state[name] = _union(self.state.get(name), new)

    def _op(self, node: Node) -> MaybeAnswers:
        op: Any = node.op
        kind = type(op)
        if kind is Map or kind is Loop:
            return self._iterations(node.id, op)
        if kind is Branch:
            for test, _ in op.arms:
                self._value(test)
            arms = [body for _, body in op.arms] + ([op.default] if op.default is not None else [])
            return _any_of([self._region(body) for body in arms])
        part_answers = [self._region(part) if isinstance(part, Graph) else self._value(part) for _, part in parts(op)]
        if kind is Wait:
            return _answers(frozenset((node.id,)), {}, None, frozenset()) if op.asks else None
        if kind is Compute or kind is Require or kind is Validate or kind is Block:
            return self._value(op.value) if kind is not Block else part_answers[0]
        return None

    def _iterations(self, id: str, op: Any) -> MaybeAnswers:
        items = self._value(op.items) if op.items is not None else None
        before = self.prev, self.item
        if op.items is not None:
            self.item = _elements(items)
        initial = None
        if type(op) is Loop:
            initial = self._value(op.initial) if op.initial is not None else None
            self.prev = _any_of([initial if op.initial is not None else self.prev, self.iterations.get(id)])
        each = self._region(op.body)
        if type(op) is Loop:
            self.iterations[id] = _union(self.iterations.get(id), each)
            for test in (op.again, op.until):
                if test is not None:
                    self._value(test)
        self.prev, self.item = before
        if type(op) is Map:
            return _list(_elements(items) if op.select else each)
        return _list(each) if op.collect else _union(each, initial)

    # --- expressions --------------------------------------------------------------------------------

    def _value(self, expr: Expr) -> MaybeAnswers:
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

    def _ref(self, ref: Ref) -> MaybeAnswers:
        if ref.root == "out" and ref.path:
            answers, path = self.out.get(str(ref.path[0])), ref.path[1:]
            elided = self._walk(answers, path[1:]) if ref.elide and path[:1] == ("output",) else None
            return _union(self._walk(answers, path), elided)
        if ref.root == "state":
            if ref.path:  # one variable only: there may be thousands
                return self._walk(self.state.get(str(ref.path[0])), ref.path[1:])
            return _object(self.state.items())
        if ref.root in ("prev", "item"):
            return self._walk(self.prev if ref.root == "prev" else self.item, ref.path)
        return None

    def _walk(self, answers: MaybeAnswers, path: Path) -> MaybeAnswers:
        for key in path:
            if answers is None:
                return None
            if key == _KEY:
                self.read_answers |= answers.own | answers.deep
            answers = _member(answers, key)
        return answers

    def _fn(self, expr: Fn) -> MaybeAnswers:
        from ..expr.function_registry import FUNCTIONS

        name, argument_answers = expr.name, [self._value(arg) for arg in expr.args]
        # Functions that select an element, or one of two values.
        if name == "[]":
            key = expr.args[1]
            return (
                self._walk(argument_answers[0], (key.value,))
                if isinstance(key, Lit)
                else _elements(argument_answers[0])
            )
        if name == "?:":
            return _any_of(argument_answers[1:])
        function = FUNCTIONS.get(name)
        if name in _NOTHING or not any(argument_answers):
            return None
        if function is not None and name != "omit" and any(type(a) is Lit and _mentions(a.value) for a in expr.args):
            self.read_answers.update(*[answers.all for answers in argument_answers if answers is not None])
        # A scalar contains no answer; other functions may keep it as it is, or in a list.
        if (function is not None and function.returns in _SCALAR) or name == "custom":
            return None
        if name in _FIRST_KNOWN_ARGUMENT:
            return _any_of(argument_answers)
        if name in _LISTS:
            inside = _any_of(map(_elements, argument_answers))
            return _list(_any_of([*(argument_answers if name == "concat" else ()), inside, _elements(inside)]))
        return _anywhere(_any_of(argument_answers))

    def _each(self, expr: Each) -> MaybeAnswers:
        source = self._value(expr.source)
        item, more = _elements(source), _any_of([self._value(extra) for extra in expr.extra])
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
            return _list(body if expr.kind == "map" else _union(body, _elements(body)))
        return None

    def _reduced(self, expr: Each, total: MaybeAnswers, before: dict[str, MaybeAnswers]) -> MaybeAnswers:
        old: Any = self
        while old != total:
            old = total
            self.names = {**self.names, expr.names[1]: total}
            total = _union(total, self._value(expr.body))
        self.names = before
        return total
