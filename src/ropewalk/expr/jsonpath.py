"""JSONPath (RFC 9535) and regular expressions of users, with limits on their work.

Queries run on a strict library that counts visited nodes: at most MAX_VISITS, nested at most 64 levels. Regular
expressions run on RE2, which takes linear time in the text. A pattern may still have thousands of states, each of which
is examined for each character, so the product of states and characters is limited.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from iregexp_check import check as is_iregexp
from jsonpath_rfc9535 import JSONPathEnvironment
from jsonpath_rfc9535.exceptions import JSONPathError
from jsonpath_rfc9535.function_extensions import ExpressionType, FilterFunction
from jsonpath_rfc9535.node import JSONPathNode
from jsonpath_rfc9535.query import JSONPathQuery

from ..errors import ExpressionError
from ..values import MAX_DEPTH, Json
from .faults import MAX_TEXT, fault
from .operators import LIST_ELEMENT, MISSING, Budget, OverBudget, grow
from .patterns import state_checks

MAX_VISITS: Final = 200_000
_CHECKS_PER_VISIT: Final = 13  # 2 ** _CHECKS_PER_VISIT state checks cost one visit
_STATES_PER_VISIT: Final = 3  # 2 ** _STATES_PER_VISIT compiled states cost one visit
_MAX_NESTING: Final = 64
_QUANTITY: Final = re.compile(r"(?<=[{,])[0-9]+(?=[,}])")

_evaluation = threading.local()
"""The remaining visits of the evaluation that runs on this thread."""


def compile_query(path: str) -> Callable[[Budget | None, Json], list[Json]]:
    """Compile a query to a function of (budget, value) that returns the selected values."""
    return _compile_query(path)


@lru_cache(maxsize=1024)
def _compile_query(path: str) -> Callable[[Budget | None, Json], list[Json]]:
    if len(path) > MAX_TEXT:
        raise ExpressionError(f"the JSONPath has more than {MAX_TEXT:,} characters", text=path)
    if _depth_of(path) > _MAX_NESTING:
        raise ExpressionError(f"the JSONPath nests deeper than {_MAX_NESTING}", text=path)
    try:
        query = _ENVIRONMENT.compile(path)
    except JSONPathError as error:
        at = error.token.index if error.token is not None else 0
        message = str(error.args[0]) if error.args else str(error)
        raise fault(path, at, f"not a JSONPath: {message}") from error
    except (RecursionError, ValueError, IndexError) as error:
        raise ExpressionError(f"not a JSONPath: {error}", text=path) from error
    # The library does not count, so its nodes and inner queries are replaced by counting ones.
    _count_inside(query)
    segments = query.segments

    def select(budget: Budget | None, value: Json) -> list[Json]:
        if value is MISSING or value is None:
            return []
        _evaluation.visits, _evaluation.patterns = MAX_VISITS, set()
        nodes: Iterable[JSONPathNode] = [_CountedNode(value=value, location=(), parent=None, root=value)]
        try:
            for segment in segments:
                nodes = segment.resolve(nodes)
            values: list[Json] = [node.value for node in nodes]
        except JSONPathError as error:
            raise ExpressionError(f"`{path[:60]}`: {error}") from error
        if budget is not None:
            budget.spend(MAX_VISITS - _evaluation.visits)
        grow(budget, LIST_ELEMENT * len(values))
        return values

    return select


def _depth_of(path: str) -> int:
    depth = deepest = 0
    for char in re.sub(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", "", path):
        depth += (char in "([!") - (char in ")]")
        deepest = max(deepest, depth)
    return deepest


def _visit(visits: int = 1) -> None:
    _evaluation.visits -= visits
    if _evaluation.visits < 0:
        raise OverBudget(f"the JSONPath visits more than {MAX_VISITS:,} nodes")


class _CountedNode(JSONPathNode):
    """A node that counts every child made from it, and keeps no location, because nothing reads it."""

    __slots__ = ()

    def new_child(self, value: object, key: int | str, parent: JSONPathNode | None) -> _CountedNode:
        _visit()
        return _CountedNode(value=value, location=(), parent=None, root=self.root)


class _CountedQuery(JSONPathQuery):
    """A query inside a filter, counted like the outer one."""

    __slots__ = ()

    def finditer(self, value: Any) -> Iterable[JSONPathNode]:
        _visit()
        nodes: Iterable[JSONPathNode] = [_CountedNode(value=value, location=(), parent=None, root=value)]
        for segment in self.segments:
            nodes = segment.resolve(nodes)
        return nodes


def _count_inside(part: Any) -> None:
    """Replace the queries inside filters by counting ones, at every level."""
    for segment in part.segments:
        for selector in segment.selectors:
            expression = getattr(selector, "expression", None)
            if expression is not None:
                _count_expression(expression)


def _count_expression(part: Any) -> None:
    query = getattr(part, "query", None)
    if isinstance(query, JSONPathQuery):
        _count_inside(query)
        part.query = _CountedQuery(env=query.env, segments=query.segments)
    for name in ("expression", "left", "right"):
        inner = getattr(part, name, None)
        if inner is not None:
            _count_expression(inner)
    for inner in getattr(part, "args", ()):
        _count_expression(inner)


class _Pattern(FilterFunction):
    """`match` and `search` on RE2; the library's own engine backtracks."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012  (the library's shape)
    return_type = ExpressionType.LOGICAL

    def __init__(self, must_match_all: bool) -> None:
        self.must_match_all = must_match_all

    def __call__(self, text: object, pattern: object) -> bool:
        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        compiled_pattern = _compile_iregexp(pattern)
        if compiled_pattern is None:
            return False
        if pattern not in _evaluation.patterns:
            _evaluation.patterns.add(pattern)
            _visit(compiled_pattern.programsize >> _STATES_PER_VISIT)
        _visit(state_checks(compiled_pattern, text) >> _CHECKS_PER_VISIT)
        return (compiled_pattern.fullmatch(text) if self.must_match_all else compiled_pattern.search(text)) is not None


@lru_cache(maxsize=256)
def _compile_iregexp(pattern: str) -> Any:
    """Compile an I-Regexp (RFC 9485) for RE2; None if it is not valid, which matches nothing."""
    import re2  # type: ignore[import-untyped, unused-ignore]

    # The validator accepts quantities of one digit only, and the number does not affect validity.
    if len(pattern) > MAX_TEXT or not is_iregexp(_QUANTITY.sub("1", pattern)):
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(_convert_dots(pattern), options)
    except re2.error:
        return None


def _convert_dots(pattern: str) -> str:
    """Convert the dots of I-Regexp, which match anything but a line feed and a carriage return."""
    return re.sub(
        r"\\.|\[(?:\\.|[^\]\\])*\]|\.",
        lambda match: r"[^\n\r]" if match.group() == "." else match.group(),
        pattern,
        flags=re.DOTALL,
    )


class _Environment(JSONPathEnvironment):
    max_recursion_depth = MAX_DEPTH + 1

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Pattern(must_match_all=True)
        self.function_extensions["search"] = _Pattern(must_match_all=False)


_ENVIRONMENT: Final = _Environment()
