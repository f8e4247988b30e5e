"""RFC 9535 JSONPath through a strict library, made safe: a cap on visited nodes, and a
linear-time engine for its regular expressions.

Refused: a query that visits more than MAX_VISITS nodes, and one nested past 64.
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
from .budget import LIST_ELEMENT, Budget, OverBudget, grow
from .faults import MAX_TEXT, fault
from .operators import MISSING
from .patterns import looks_of

MAX_VISITS: Final = 200_000
_LOOKS: Final = 13  # of a pattern, of which 2 to the power of this many are a visit
_STATES: Final = 3  # the same, of those that a pattern is compiled to
_MAX_NESTING: Final = 64
_QUANTITY: Final = re.compile(r"(?<=[{,])[0-9]+(?=[,}])")

_left = threading.local()
"""Visits left to the evaluation now running on this thread; one runs to its end before the next."""


def compiled(path: str) -> Callable[[Budget | None, Json], list[Json]]:
    """The query as a function of (budget, value) that gives the list of selected values; raises
    ExpressionError for a path that is not RFC 9535."""
    return _compiled(path)


@lru_cache(maxsize=1024)
def _compiled(path: str) -> Callable[[Budget | None, Json], list[Json]]:
    if len(path) > MAX_TEXT:
        raise ExpressionError(f"the JSONPath has more than {MAX_TEXT:,} characters", text=path)
    if _nesting(path) > _MAX_NESTING:
        raise ExpressionError(f"the JSONPath nests deeper than {_MAX_NESTING}", text=path)
    try:
        query = _ENVIRONMENT.compile(path)
    except JSONPathError as error:
        at = error.token.index if error.token is not None else 0
        message = str(error.args[0]) if error.args else str(error)
        raise fault(path, at, f"not a JSONPath: {message}") from error
    except (RecursionError, ValueError, IndexError) as error:
        raise ExpressionError(f"not a JSONPath: {error}", text=path) from error
    _count_inside(query)
    segments = query.segments

    def select(budget: Budget | None, value: Json) -> list[Json]:
        if value is MISSING or value is None:
            return []
        _left.visits, _left.patterns = MAX_VISITS, set()
        nodes: Iterable[JSONPathNode] = [_Counted(value=value, location=(), parent=None, root=value)]
        try:
            for segment in segments:
                nodes = segment.resolve(nodes)
            found: list[Json] = [node.value for node in nodes]
        except JSONPathError as error:
            raise ExpressionError(f"`{path[:60]}`: {error}") from error
        if budget is not None:
            budget.spend(MAX_VISITS - _left.visits)
        grow(budget, LIST_ELEMENT * len(found))
        return found

    return select


def _nesting(path: str) -> int:
    depth = most = 0
    for char in re.sub(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", "", path):
        depth += (char in "([!") - (char in ")]")
        most = max(most, depth)
    return most


def _visit(visits: int = 1) -> None:
    _left.visits -= visits
    if _left.visits < 0:
        raise OverBudget(f"the JSONPath visits more than {MAX_VISITS:,} nodes")


class _Counted(JSONPathNode):
    """A node that counts every child made from it, and keeps no location: nobody asks for one."""

    __slots__ = ()

    def new_child(self, value: object, key: int | str, parent: JSONPathNode | None) -> _Counted:
        _visit()
        return _Counted(value=value, location=(), parent=None, root=self.root)


class _CountedQuery(JSONPathQuery):
    """A query inside a filter, counted like the outer one."""

    __slots__ = ()

    def finditer(self, value: Any) -> Iterable[JSONPathNode]:
        _visit()
        nodes: Iterable[JSONPathNode] = [_Counted(value=value, location=(), parent=None, root=value)]
        for segment in self.segments:
            nodes = segment.resolve(nodes)
        return nodes


def _count_inside(part: Any) -> None:
    """Replace the queries inside filters by counting ones, all the way down."""
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

    def __init__(self, whole: bool) -> None:
        self.whole = whole

    def __call__(self, text: object, pattern: object) -> bool:
        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        found = _regex(pattern)
        if found is None:
            return False
        if pattern not in _left.patterns:
            _left.patterns.add(pattern)
            _visit(found.programsize >> _STATES)
        _visit(looks_of(found, text) >> _LOOKS)
        return (found.fullmatch(text) if self.whole else found.search(text)) is not None


@lru_cache(maxsize=256)
def _regex(pattern: str) -> Any:
    """An I-Regexp (RFC 9485) for RE2; None when it is not one, which matches nothing."""
    import re2  # type: ignore[import-untyped, unused-ignore]

    # The library takes quantities of one digit only; which number it is makes no pattern right or wrong.
    if len(pattern) > MAX_TEXT or not is_iregexp(_QUANTITY.sub("1", pattern)):
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(_dots(pattern), options)
    except re2.error:
        return None


def _dots(pattern: str) -> str:
    """A dot of I-Regexp matches anything but a line feed and a carriage return."""
    return re.sub(
        r"\\.|\[(?:\\.|[^\]\\])*\]|\.",
        lambda found: r"[^\n\r]" if found.group() == "." else found.group(),
        pattern,
        flags=re.DOTALL,
    )


class _Environment(JSONPathEnvironment):
    max_recursion_depth = MAX_DEPTH + 1

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Pattern(whole=True)
        self.function_extensions["search"] = _Pattern(whole=False)


_ENVIRONMENT: Final = _Environment()
