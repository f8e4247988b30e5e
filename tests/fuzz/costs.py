"""Expensive expressions at random, over large data: each ends within the budget of one evaluation."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any, Final

from ropewalk.errors import ExpressionError
from ropewalk.expr import compile_expr, parse
from ropewalk.expr.function_registry import FUNCTIONS
from ropewalk.expr.functions import MACROS

from .expressions import resolve
from .judging import Finding, judged

MOST_SECONDS: Final = 8.0
"""Of CPU time. An evaluation has a million steps; the slowest kinds of step take some microseconds."""
SOURCES: Final = (
    "input.ints",
    "input.words",
    "input.rows",
    "input.same",
    "input.pairs",
    "input.deep",
    "[input]",
)
TEXTS: Final = ("input.text", "input.part", "'a'", "''", "string(input.ints)")
PATHS: Final = ("'$..*'", "'$[*][*]'", "'$[?@ == $]'", "'$[?length(@) > 1]'", "'$[::-1]'")


@cache
def data() -> dict[str, Any]:
    """A few megabytes with what is known to be slow: equal hashes, long texts, depth."""
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    return {
        "input": {
            "ints": list(range(20_000)),
            "words": [f"w{i % 500}" for i in range(20_000)],
            "rows": [{f"k{j}": i for j in range(20)} for i in range(1_000)],
            "same": [list(t) for t in itertools.product((-1, -2), repeat=11)],
            "pairs": [list(range(300))] * 300,
            "deep": [deep] * 2_000,
            "text": "a" * 300_000,
            "part": "a" * 150_000 + "b",
            "wide": {f"k{i}": i for i in range(20_000)},
        }
    }


class Costs:
    """Makes expressions that do much."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.functions = [name for name in sorted(FUNCTIONS) if name not in ("${}", "custom")]

    def text(self) -> str:
        """One expression: loops in loops around functions of large values."""
        return self._loop(self.rng.randint(1, 3), [])

    def _loop(self, depth: int, names: list[str]) -> str:
        if not depth:
            return self._call(names)
        name = f"e{depth}"
        source = self.rng.choice((*SOURCES, *names))
        body = self._loop(depth - 1, [*names, name])
        macro = self.rng.choice(sorted(MACROS))
        if macro == "reduce":
            begin = self.rng.choice(("''", "[]", "0", "{}", "input.ints"))
            total = self.rng.choice((body, "a + a", "[a, a]", f"[a, {name}]", f"a + [{body}]", "{'a': a, 'b': a}"))
            return f"{source}.reduce(a, {name}, {total}, {begin})"
        if macro in ("all", "exists", "any", "exists_one", "filter"):
            body = f"{body} {self.rng.choice(('==', '!='))} {self._atom([*names, name])}"
        return f"{source}.{macro}({name}, {body})"

    def _call(self, names: list[str]) -> str:
        name = self.rng.choice(self.functions)
        known = FUNCTIONS[name]
        count = max(known.least, 1) if known.most is None else known.most
        args = [self._atom(names) for _ in range(count)]
        if name == "query":
            args[-1] = self.rng.choice(PATHS)
        called = f"{name}({', '.join(args)})"
        other = self._atom(names)
        return self.rng.choice((called, f"{called} == {other}", f"{other} in [{called}]", f"[{called}, {other}]"))

    def _atom(self, names: list[str]) -> str:
        return self.rng.choice((*names, *names, *SOURCES, *TEXTS, "input.wide", "2", "['k1', 'k2']"))


def judge(text: str) -> Iterator[Finding]:
    """What is wrong with the time that an evaluation takes."""

    def run() -> float:
        start = time.process_time()
        with suppress(ExpressionError):
            compile_expr(parse(text), resolve)(data())
        return time.process_time() - start

    took, finding = judged("evaluate", text, run, ExpressionError)
    if finding is not None:
        yield finding
    elif took > MOST_SECONDS:
        yield Finding(f"takes {took:.1f} s", "?", text)


def cases(rng: Random) -> Iterator[Iterator[Finding]]:
    """Judge one expression after another, without end."""
    made = Costs(rng)
    while True:
        yield judge(made.text())
