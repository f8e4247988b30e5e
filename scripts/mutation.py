"""Make small semantic faults in the text of a module: wrong operators, constants, returned values and conditions."""

from __future__ import annotations

import ast
import difflib
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

KINDS = ("operator", "constant", "return", "condition")

_COMPARISONS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
_ARITHMETIC: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
    ast.BitOr: (r"\|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_ANNOTATIONS = ("annotation", "returns")


@dataclass(frozen=True)
class Mutation:
    """A change of one place in a module.

    `start` and `end` are offsets in the bytes of the text; `line` is the line that changes, and `statement` the first
    line of the statement around it.
    """

    kind: str
    line: int
    statement: int
    start: int
    end: int
    new: str

    def apply(self, source: str) -> str:
        """Return the text of the module with the change."""
        text = source.encode()
        return (text[: self.start] + self.new.encode() + text[self.end :]).decode()

    def diff(self, source: str) -> str:
        """Return the changed lines, as `diff` shows them."""
        lines = difflib.unified_diff(source.splitlines(), self.apply(source).splitlines(), n=0, lineterm="")
        return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


def sample(source: str, seed: str, count: int) -> list[Mutation]:
    """Choose mutations of a module at random, as many of each kind as there are, up to a number in all."""
    chance = random.Random(seed)
    everything = list(_Finder(source).mutations())
    by_kind = [[mutation for mutation in everything if mutation.kind == kind] for kind in KINDS]
    for mutations in by_kind:
        chance.shuffle(mutations)
    chosen: list[Mutation] = []
    while len(chosen) < count and any(by_kind):
        chosen += [mutations.pop() for mutations in by_kind if mutations]
    return sorted(chosen[:count], key=lambda mutation: (mutation.start, mutation.end, mutation.new))


class _Finder:
    """Find every place of a module that can be changed, and its change."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._text = source.encode()
        self._lines = [0]
        for line in self._text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def mutations(self) -> Iterator[Mutation]:
        """Return every mutation that is still Python."""
        for mutation in self._of(ast.parse(self._source), 0):
            try:
                compile(mutation.apply(self._source), "changed", "exec", dont_inherit=True)
            except SyntaxError:
                continue
            yield mutation

    def _of(self, node: ast.AST, statement: int) -> Iterator[Mutation]:
        if isinstance(node, ast.stmt):
            statement = node.lineno
        for kind, start, end, new in self._changes(node):
            line = self._text[:start].count(b"\n") + 1
            yield Mutation(kind, line, statement, start, end, new)
        for name, value in ast.iter_fields(node):
            if name in _ANNOTATIONS:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_left_alone(child):
                    yield from self._of(child, statement)

    def _changes(self, node: ast.AST) -> Iterator[tuple[str, int, int, str]]:
        """Yield (kind, start, end, new text) for one node."""
        match node:
            case ast.Compare():
                for operator, (left, right) in zip(node.ops, pairwise([node.left, *node.comparators]), strict=True):
                    yield from self._between(left, right, *_COMPARISONS[type(operator)])
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                yield from self._between(node.left, node.right, *_ARITHMETIC[type(node.op)])
            case ast.AugAssign() if type(node.op) in _ARITHMETIC:
                yield from self._between(node.target, node.value, *_ARITHMETIC[type(node.op)])
            case ast.BoolOp():
                old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in pairwise(node.values):
                    yield from self._between(left, right, old, new)
            case ast.UnaryOp(op=ast.Not()):
                yield "operator", self._start(node), self._start(node) + len("not"), ""
            case ast.Constant():
                yield from self._constants(node)
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield "return", self._start(value), self._end(value), "None"
            case ast.If() | ast.While() | ast.IfExp():
                yield from self._negations(node.test)
            case ast.comprehension():
                for test in node.ifs:
                    yield from self._negations(test)

    def _constants(self, node: ast.Constant) -> Iterator[tuple[str, int, int, str]]:
        value = node.value
        if isinstance(value, bool):
            new = repr(not value)
        elif isinstance(value, int | float):
            new = repr(value + 1)
        elif isinstance(value, str):
            text = self._text[self._start(node) : self._end(node)].decode()
            quotes = text[-3:] if text.endswith(('"""', "'''")) and len(text) > 5 else text[-1]
            new = f"{text.removesuffix(quotes)}_{quotes}"
        else:
            return
        yield "constant", self._start(node), self._end(node), new

    def _negations(self, test: ast.expr) -> Iterator[tuple[str, int, int, str]]:
        if not _is_negated_by_operator(test):
            start, end = self._start(test), self._end(test)
            yield "condition", start, end, f"(not ({self._text[start:end].decode()}))"

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[tuple[str, int, int, str]]:
        """Change the operator between two expressions; brackets and comments may be there too."""
        start = self._end(left)
        gap = self._text[start : self._start(right)].decode("latin-1")  # one character is one byte
        gap = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), gap)
        word = rf"\b{old}\b" if old[0].isalpha() else old
        found = re.search(word, gap)
        if found is not None:
            yield "operator", start + found.start(), start + found.end(), new

    def _start(self, node: ast.expr) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset


def _is_negated_by_operator(test: ast.expr) -> bool:
    """Return True where another operator negates the condition, so that two mutations would be the same."""
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() | ast.In() | ast.NotIn()]):
            return True
    return False


def _is_left_alone(node: ast.AST) -> bool:
    """Return True for docstrings, imports for type checkers and the text around the values of an f-string."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr():
            return True  # in Python 3.11 the parts of an f-string have no places of their own
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Call(func=ast.Name(id="cast" | "TypeVar")):
            return True
    return False
