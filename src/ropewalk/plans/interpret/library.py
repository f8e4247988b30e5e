"""Modules of Python that only compute, as tables of names: paths, addresses, templates and sorted lists.

A function takes values whose size was paid for, and gives at most a few times as much; what may take longer pays first.
"""

from __future__ import annotations

import bisect
import email.utils
import html
import itertools
import posixpath
import string
import typing
import urllib.parse
from collections import abc
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from ...expr.operators import OverBudget
from ...expr.python.builtins import TYPES
from ...expr.python.evaluation import CALLABLE_TYPES, BuiltinFunction
from ...expr.python.formatting import text
from ...expr.python.method_table import METHODS
from ...expr.python.modules import Constant
from ...expr.python.operations import FIELDS
from ...expr.python.values import Refused

_LONGEST_TEXT: Final = 20_000


def _on_texts(native: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of texts, whose work may grow with the square of their length."""

    def run(evaluation: Any, *values: Any, **named: Any) -> Any:
        size = sum(len(value) for value in (*values, *named.values()) if isinstance(value, (str, list, tuple, dict)))
        if size > _LONGEST_TEXT:
            raise Refused(f"{native.__name__} of more than {_LONGEST_TEXT:,} characters; split the text first")
        evaluation.step(1 + size // 16)
        evaluation.reserve(8 * size)
        return native(*values, **named)

    return run


def _table(module: Any, names: str) -> dict[str, Any]:
    return {name: _on_texts(getattr(module, name)) for name in names.split()}


def _chained(evaluation: Any, values: Any) -> Iterator[Any]:
    return itertools.chain.from_iterable(evaluation.iterate(value) for value in evaluation.iterate(values))


# --- bisect ----------------------------------------------------------------------------------------


def _bisection(native: Callable[..., Any]) -> Callable[..., Any]:
    def run(evaluation: Any, values: Any, item: Any, *bounds: Any, key: Any = None, **named: Any) -> Any:
        evaluation.step(1 + len(values) // 256)
        evaluation.stored(item)
        return native(values, item, *bounds, key=None if key is None else evaluation.callable(key), **named)

    return run


# --- paths -----------------------------------------------------------------------------------------


def _path(evaluation: Any, *parts: Any) -> PurePosixPath:
    made = PurePosixPath(*parts)
    size = len(str(made))
    if size > _LONGEST_TEXT:
        raise OverBudget(f"a path of more than {_LONGEST_TEXT:,} characters")
    evaluation.step(1 + size // 16)
    return made


def _path_method(name: str) -> Callable[..., Any]:
    native = getattr(PurePosixPath, name)

    def run(evaluation: Any, path: PurePosixPath, *values: Any) -> Any:
        evaluation.step(1 + sum(len(str(value)) for value in (path, *values)) // 16)
        made = native(path, *values)
        return _path(evaluation, made) if isinstance(made, PurePosixPath) else made

    return run


_PATH_METHODS: Final = "as_posix is_absolute is_relative_to joinpath match relative_to with_name with_stem with_suffix"
METHODS[PurePosixPath] = {name: _path_method(name) for name in _PATH_METHODS.split()}
METHODS[PurePosixPath]["__truediv__"] = lambda evaluation, path, other: _path(evaluation, path, other)
FIELDS[PurePosixPath] = frozenset("anchor name parent parents parts root stem suffix suffixes".split())  # noqa: SIM905
TYPES[PurePosixPath] = CALLABLE_TYPES[PurePosixPath] = _path


# --- templates -------------------------------------------------------------------------------------


def _substitution(name: str) -> Callable[..., Any]:
    native = getattr(string.Template, name)

    def run(evaluation: Any, template: string.Template, mapping: Any = (), /, **named: Any) -> Any:
        values = {key: text(evaluation, value) for key, value in {**dict(mapping), **named}.items()}
        longest = max(map(len, values.values()), default=0)
        size = len(template.template) + template.template.count("$") * longest
        evaluation.step(1 + size // 256)
        evaluation.reserve(size)
        return native(template, values)

    return run


METHODS[string.Template] = {name: _substitution(name) for name in ("substitute", "safe_substitute")}
FIELDS[string.Template] = frozenset(("template",))
TYPES[string.Template] = CALLABLE_TYPES[string.Template] = lambda evaluation, template: string.Template(template)


LIBRARY: Final[dict[str, dict[str, Any]]] = {
    "bisect": {
        name: _bisection(getattr(bisect, name))
        for name in ("bisect", "bisect_left", "bisect_right", "insort", "insort_left", "insort_right")
    },
    "email.utils": _table(email.utils, "formataddr getaddresses parseaddr parsedate_to_datetime"),
    "html": _table(html, "escape unescape"),
    "pathlib": {"PurePath": Constant(PurePosixPath), "PurePosixPath": Constant(PurePosixPath)},
    "posixpath": _table(posixpath, "basename commonpath commonprefix dirname isabs join normpath split splitext"),
    "string": {
        "Template": Constant(string.Template),
        "capwords": _on_texts(string.capwords),
    },
    "urllib.parse": {
        **_table(urllib.parse, "parse_qsl quote quote_plus unquote unquote_plus urlencode urljoin urlsplit"),
    },
}
_HINTS: Final = (
    "Annotated Any AsyncGenerator AsyncIterator Awaitable Callable ClassVar Coroutine Dict Final Generator Iterable "
    "Iterator List Literal Mapping Optional Sequence Set Tuple Type TypeAlias Union"
)
_IDENTITIES: Final = ("final", "no_type_check", "override", "overload", "runtime_checkable")
LIBRARY["typing"] = LIBRARY["typing_extensions"] = {
    **{name: Constant(getattr(typing, name)) for name in _HINTS.split()},
    **{name: lambda evaluation, function: function for name in _IDENTITIES},
    "NewType": lambda evaluation, name, kind: BuiltinFunction(name, lambda evaluation, value: value, evaluation),
    "TYPE_CHECKING": Constant(False),
    "TypeVar": lambda evaluation, name, *bounds, **options: typing.TypeVar(name),
    "cast": lambda evaluation, kind, value: value,
}
LIBRARY["collections.abc"] = {name: Constant(getattr(abc, name)) for name in abc.__all__ if name != "ByteString"}
LIBRARY["itertools.chain"] = {"from_iterable": _chained}
LIBRARY["os.path"] = LIBRARY["posixpath"]
