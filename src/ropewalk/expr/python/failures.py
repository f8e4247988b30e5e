"""Exceptions of Python programs as records, and which `except` catches which.

A failed tool call raises `ToolError`. Where a Python function of this process failed, the record also names the classes
of its exception, so that `except ValueError` catches a tool that raised ValueError.
"""

from __future__ import annotations

import json
import statistics
from functools import lru_cache
from typing import Any, Final

from ...values import Json


class ToolError(Exception):
    """A failed tool call, with `tool`, `message` and `kind`."""

    def __init__(self, message: str = "", tool: str = "", kind: str = "", bases: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message, self.tool, self.kind, self.bases = message, tool, kind, bases


class CancelledError(BaseException):
    """A task was cancelled; `except Exception` does not catch it."""


class Closed(BaseException):
    """A program closed a generator; a GeneratorExit of Python would not pass through the closures around a `yield`."""


Closed.__name__ = "GeneratorExit"
RAISED: Final = (Exception, CancelledError, Closed)
"""What the statements of a program see of exceptions."""


class ProgramExit(Exception):
    """The program ended itself with a code, which no `except` of the program catches."""

    def __init__(self, code: Any = None) -> None:
        super().__init__(str(code))
        self.code = code


class Rejected(ToolError):
    """An approval that was rejected and that the program does not look at."""


EXCEPTIONS: Final[dict[str, type[BaseException]]] = {
    kind.__name__: kind
    for kind in (
        *(BaseException, Exception, ArithmeticError, AssertionError, AttributeError, BufferError, ConnectionError),
        *(ConnectionAbortedError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError, EOFError),
        *(FileExistsError, FileNotFoundError, FloatingPointError, ImportError, IndexError, InterruptedError),
        *(IsADirectoryError, KeyError, LookupError, MemoryError, ModuleNotFoundError, NameError, NotADirectoryError),
        *(NotImplementedError, OSError, OverflowError, PermissionError, ProcessLookupError, RecursionError),
        *(
            ReferenceError,
            RuntimeError,
            StopIteration,
            SystemError,
            TimeoutError,
            TypeError,
            UnboundLocalError,
            StopAsyncIteration,
        ),
        *(UnicodeError, ValueError, ZeroDivisionError, Warning, UserWarning, DeprecationWarning, RuntimeWarning),
        *(UnicodeDecodeError, UnicodeEncodeError, StopAsyncIteration),
        *(json.JSONDecodeError, statistics.StatisticsError, ToolError, Rejected),
    )
}
EXCEPTIONS.update(IOError=OSError, EnvironmentError=OSError)
_RECORD: Final = "__ropewalk_record__"


def exception_record(error: BaseException, line: int | None = None) -> dict[str, Any]:
    """Return what is kept of an exception: its class, arguments, message and the line that raised it."""
    known: dict[str, Any] | None = error.__dict__.get(_RECORD)
    if known is not None:
        return known
    kind = type(error).__name__
    record: dict[str, Any] = {"type": kind, "args": list(error.args), "message": str(error), "line": line}
    if isinstance(error, json.JSONDecodeError):
        record["args"] = [error.msg, error.doc, error.pos]
    if isinstance(error, ToolError):
        record |= {"tool": error.tool, "kind": error.kind, "bases": list(error.bases)}
    if EXCEPTIONS.get(kind) is not type(error):  # a subclass that only Python's own code raises
        record["type"] = next(base.__name__ for base in type(error).__mro__ if base.__name__ in EXCEPTIONS)
    error.__dict__[_RECORD] = record
    return record


def kind_of(error: BaseException) -> type[BaseException]:
    """Return the class of an exception; that of a ToolError derives from the class that its tool raised."""
    own: Any = type(error)
    kinds: list[Any] = []
    if isinstance(error, ToolError):
        kinds = [EXCEPTIONS[name] for name in error.bases if name in EXCEPTIONS]
    return _tool_error_of(own, kinds[0]) if kinds else own  # type: ignore[no-any-return]


@lru_cache
def _tool_error_of(kind: Any, raised: Any) -> Any:
    bases = (kind,) if issubclass(kind, raised) else (kind, raised)
    return type(kind.__name__, bases, {})


def is_instance(error: BaseException, kinds: Any) -> bool:
    """Return True if `except kinds` catches the exception, a ToolError also by the classes that its tool raised."""
    if isinstance(error, kinds):
        return True
    if not isinstance(error, ToolError):
        return False
    return any(kind.__name__ in error.bases for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


def failure_record(error: dict[str, Json], tool: str) -> dict[str, Any]:
    """Return the record of a failed call from the `error` that the engine gives to `on_error`."""
    message = str(error.get("message") or "")
    bases = [str(name) for name in error.get("classes") or ()]
    kind = str(error.get("kind") or "")
    name = "ToolError"
    # The bases decide which `except` catches the failure: in Python, TimeoutError is an OSError.
    if kind in ("ToolTimeout", "Timeout", "TimeoutError"):
        bases.append("TimeoutError")
        bases.append("OSError")
    if kind in ("ApprovalRejected", "Rejected"):
        name = "Rejected"
    # As for a Python function, a value that does not fit is a ValueError.
    if kind in ("ValidationFailed", "InvalidArguments", "SchemaMismatch"):
        bases.append("ValueError")
    return {
        "type": name,
        "args": [message],
        "message": message,
        "line": None,
        "tool": tool,
        "id": error.get("tool"),
        "kind": kind,
        "bases": bases,
    }
