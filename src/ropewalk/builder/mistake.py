"""What is wrong with a flow while it is written, told at the line of the user's file."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar, cast

from ..errors import InvalidFlow, Place, Problem
from ..values import closest

P = ParamSpec("P")
R = TypeVar("R")
_OURS = (os.path.dirname(os.path.dirname(__file__)) + os.sep, contextlib.__file__)


def place() -> Place:
    """The line outside of this package that is being executed."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line)
    column = len(text) - len(text.lstrip()) + 1
    if os.path.isabs(file) and file.startswith(os.getcwd() + os.sep):
        file = os.path.relpath(file)
    return Place(file, line, column, text.rstrip("\n"))


def spot(where: Place) -> str:
    """A place as short as people say it: `report.py:12`."""
    return f"{os.path.basename(where.file)}:{where.line}"


def mistake(message: str, word: str = "", known: Iterable[str] = ()) -> InvalidFlow:
    """The error for the line being executed; with a `word`, the one of `known` that was probably meant."""
    where = place()
    near = closest(word, known) if word else None
    return InvalidFlow([Problem(path=spot(where), message=message, suggestion=near, place=where)])


_NUMBERS = ("timeout", "delay", "factor", "max_delay")
_WHOLE = ("attempts", "limit")


def checked(method: Callable[P, R]) -> Callable[P, R]:
    """A method that takes named arguments only, with mistakes in them told as all others are."""
    known = [name for name in signature(method).parameters if name != "self"]

    @wraps(method)
    def told(*args: Any, **named: Any) -> R:
        if len(args) > 1:
            raise mistake(f"{method.__name__} takes its arguments by name: {', '.join(known)}")
        for name, value in named.items():
            if name not in known:
                said = f"{method.__name__} has no {name!r}; it takes {', '.join(known)}"
                raise mistake(said, name, known)
            wanted = "a number" if name in _NUMBERS else "a whole number" if name in _WHOLE else ""
            kinds = (int, float) if name in _NUMBERS else int
            if wanted and value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
                raise mistake(f"{name} is {wanted}, not {value!r}")
        return cast(Any, method)(*args, **named)  # type: ignore[no-any-return]

    return told
