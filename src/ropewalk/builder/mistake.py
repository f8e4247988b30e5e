"""What is wrong with a flow while it is written, told at the line of the user's file."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Iterable

from ..errors import InvalidFlow, Place, Problem
from ..values import closest

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
