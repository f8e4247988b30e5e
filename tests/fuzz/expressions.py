"""Expressions at random: only ExpressionError, only JSON, and the same meaning after `show` and `parse`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from ropewalk.errors import ExpressionError
from ropewalk.expr import MISSING, compile_condition, compile_expr, parse, show
from ropewalk.expr.ast import Expr, Ref
from ropewalk.expr.function_registry import FUNCTIONS
from ropewalk.expr.functions import MACROS

from .judging import Finding, judged

DATA: Final[dict[str, Any]] = {
    "input": {
        "a": 1, "s": "x-1\u0130\U0001f600", "l": [1, 2.5, "b", None, True, [1], {"k": -1}], "n": None,
        "o": {"a": {"b": [3]}, "": 1, "a.b": 2}, "big": 2**63 - 1, "small": -(2**63), "f": 1e308, "z": -0.0,
        "t": 5e-324, "d": "2024-02-30", "rows": [{"a": 1, "b": "x"}, {"a": "1"}, {}],
    },
    "state": {"rows": [{"a": i, "b": str(i)} for i in range(5)], "deep": [[[[[1]]]]]},
    "prev": [],
    "var": {"x": "$input.s"},
}  # fmt: skip
ATOMS: Final = (
    "input", "input.a", "input.s", "input.l", "input.n", "input.o", "input.big", "input.small", "input.f", "input.z",
    "input.t", "input.nope.x", "input.rows", "$.rows", "$.rows[*].a", "$..a", "$.rows[?@.a > 1].b", "$.deep", "prev",
    "var.x", "1", "-1", "0", "0.1", "1e308", "1e20", "-1e308", "9223372036854775807", "'a'", "''", "'\\u0130'", "null",
    "true", "false", "[]", "{}", "[1, [2, [3]]]", "{'a': 1}", "$item", "$index", "x", "y", "r'\\d+'", "'''q'''",
    "0x7fffffffffffffff", '"\\U0001F600"', "'$[*]'", "'a.b'", "['a', 'b']", "{'a': 'b'}", "'desc'",
)  # fmt: skip
OPERATORS: Final = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in", "and", "or")
NOISE: Final = (
    *"()[]{}.,?:'\"\\$@#`|&!=<>+-*/%\0\n\t\u200b\u202e\uff08é0x_", "//", "'''", '"""', "..", "\ud800", "$[", "${",
)  # fmt: skip
MOST_DEPTH: Final = 5


class Expressions:
    """Makes expressions of the whole language: most are well formed, some are not."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.functions = [name for name in sorted(FUNCTIONS) if name not in ("${}", "custom")]

    def text(self) -> str:
        """One expression, now and then with letters changed."""
        text = self._part(0)
        if self.rng.random() < 0.12:
            for _ in range(self.rng.randint(1, 3)):
                at = self.rng.randrange(len(text) + 1)
                text = text[:at] + self.rng.choice(NOISE) + text[at + self.rng.randint(0, 2) :]
        return text

    def _part(self, depth: int) -> str:
        rng = self.rng
        if depth > MOST_DEPTH or rng.random() < 0.26:
            return rng.choice(ATOMS)
        make = rng.choices(
            (self._operation, self._choice, self._index, self._list, self._object, self._call, self._macro, self._sign),
            (22, 5, 6, 4, 4, 18, 12, 3),
        )[0]
        return make(depth + 1)

    def _operation(self, depth: int) -> str:
        return f"{self._part(depth)} {self.rng.choice(OPERATORS)} {self._part(depth)}"

    def _choice(self, depth: int) -> str:
        return f"({self._part(depth)} ? {self._part(depth)} : {self._part(depth)})"

    def _index(self, depth: int) -> str:
        return f"{self._part(depth)}[{self._part(depth)}]"

    def _list(self, depth: int) -> str:
        return f"[{', '.join(self._part(depth) for _ in range(self.rng.randint(0, 3)))}]"

    def _object(self, depth: int) -> str:
        return f"{{'k': {self._part(depth)}, \"{self.rng.choice('kj')}\": {self._part(depth)}}}"

    def _call(self, depth: int) -> str:
        name = self.rng.choice(self.functions)
        known = FUNCTIONS[name]
        most = known.least + 2 if known.most is None else known.most
        count = self.rng.randint(known.least, most) if self.rng.random() < 0.92 else self.rng.randint(0, 4)
        return f"{name}({', '.join(self._part(depth) for _ in range(count))})"

    def _macro(self, depth: int) -> str:
        name = self.rng.choice(sorted(MACROS))
        source, body = f"({self._part(depth)})", self._part(depth)
        if name == "reduce":
            names = self.rng.choice(("", "y, x, "))
            return f"{source}.reduce({names}{body}, {self._part(depth)})"
        order = self.rng.choice(("", "", ', "desc"', ", input.s")) if name == "sort" else ""
        return f"{source}.{name}({self.rng.choice(('', 'x, '))}{body}{order})"

    def _sign(self, depth: int) -> str:
        return f"{self.rng.choice(('!', '-', 'not '))}({self._part(depth)})"


def resolve(ref: Ref) -> Any:
    """Find references in the data itself."""
    return (lambda frame: frame.get(ref.root, MISSING)), ref.path


def not_json(value: Any) -> str | None:
    """What is no JSON in a value: a number past its limits, a key that is no text, any other object."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return None
    if kind is int:
        return None if -(2**63) <= value < 2**63 else "an integer past 64 bits"
    if kind is float:
        return None if math.isfinite(value) else "a number that is not finite"
    if kind is list:
        return next(filter(None, map(not_json, value)), None)
    if kind is dict:
        wrong = next((f"the key {key!r}" for key in value if type(key) is not str), None)
        return wrong or next(filter(None, map(not_json, value.values())), None)
    return f"a {kind.__name__}"


def judge(text: str) -> Iterator[Finding]:
    """What is wrong with how an expression is read, evaluated and shown."""
    tree, finding = judged("parse", text, lambda: parse(text), ExpressionError)
    if finding is not None:
        yield finding
    if tree is None:
        return
    value, finding = judged("evaluate", text, lambda: [compile_expr(tree, resolve)(DATA)], ExpressionError)
    if finding is not None:
        yield finding
    _, finding = judged("decide", text, lambda: compile_condition(tree, resolve)(DATA), ExpressionError)
    if finding is not None:
        yield finding
    if value is not None and (wrong := not_json(value[0])) is not None:
        yield Finding(f"the value has {wrong}", "?", text)
    yield from _judge_shown(text, tree, value)


def _judge_shown(text: str, tree: Expr, value: Any) -> Iterator[Finding]:
    shown, finding = judged("show", text, lambda: show(tree), ExpressionError)
    if finding is not None:
        yield finding
    if shown is None:
        return
    again, finding = judged("parse what was shown", shown, lambda: parse(shown), ExpressionError)
    if finding is not None or again is None:
        yield finding or Finding("what was shown is not read", "?", f"{text} -> {shown}")
        return
    if value is None:
        return
    same, finding = judged(
        "evaluate what was shown", shown, lambda: compile_expr(again, resolve)(DATA), ExpressionError
    )
    if finding is not None or json.dumps(same, sort_keys=True) != json.dumps(value[0], sort_keys=True):
        yield finding or Finding("what was shown means something else", "?", f"{text} -> {shown}")


def cases(rng: Random) -> Iterator[Iterator[Finding]]:
    """Judge one expression after another, without end."""
    made = Expressions(rng)
    while True:
        yield judge(made.text())
