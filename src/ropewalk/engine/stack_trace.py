"""Stack traces of failed nodes: the place in the user's code, and the stack with everything else folded.

A trace is made when a node fails, and is part of its failure from then on. Frames of Ropewalk, asyncio and anyio become
one line. The text is bounded, and no secret that this process knows is in it. Exceptions of tools that do not run in
this process (JavaScript modules, HTTP, MCP) and failures of recorded runs carry their `trace` already.
"""

from __future__ import annotations

import inspect
import linecache
import logging
import os
import sysconfig
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby
from types import CodeType, TracebackType
from typing import Any, Final

from ..config.secrets import process_redaction
from ..errors import (
    ExpressionError,
    FlowFailed,
    InvalidValue,
    NodeFailed,
    Place,
    RopewalkError,
    StackTrace,
    ToolError,
    ToolTimeout,
    describe_exception,
    exception_text,
    storable_text,
)
from ..tools.module_result import ModuleFailed

MAX_FRAMES: Final = 40
"""Frames of one exception that are shown: the first 10 and the last 30."""
MAX_BYTES: Final = 8_000
"""Bytes of one stack; the middle of a longer one is left out."""
MAX_RUN_BYTES: Final = 2_000_000
"""Bytes of all stacks of a run; failures after that have only their place."""
_HEAD_FRAMES: Final = 10
_HEAD_BYTES: Final = 2_000
_MAX_CHARACTERS: Final = 200_000  # in which secrets are looked for
_MAX_CHAIN: Final = 20  # exceptions that led to one another
_MAX_MEMBERS: Final = 5  # of a group
_MAX_DEPTH: Final = 4  # of groups in groups
_FUNCTION: Final = ("def ", "async def ")
_MAX_DECORATORS: Final = 20  # lines of decorators before a function
_REPEATS: Final = 3  # frames of a recursion that are shown
_ROOT: Final = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}{os.sep}"
_LIBRARIES: Final = (sysconfig.get_path("stdlib") + os.sep, sysconfig.get_path("platstdlib") + os.sep)
_PACKAGES: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_FOLDED: Final = ("asyncio", "anyio", "concurrent")
_CAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n"
_CONTEXT: Final = "\nDuring handling of the above exception, another exception occurred:\n"
_WRAPPERS: Final = (ToolError, NodeFailed, FlowFailed, ModuleFailed)

log = logging.getLogger("ropewalk.engine")


def trace_of(error: BaseException, run: Any, handler: Any = None) -> StackTrace | None:
    """Return the stack trace of a failure, without secrets; None if no code outside of Ropewalk raised it."""

    # No exception says where a call was that did not end in time, so it has the place of the tool's `handler`.
    if isinstance(error, ToolError) and error.trace is not None:
        return error.trace  # the journal has asked for it before
    try:
        trace = _recorded_trace(error) or _python_trace(origin(error), _project_of(run))
        if trace is None and isinstance(error, ToolTimeout):
            trace = _trace_of_function(handler, _project_of(run))
    except Exception as problem:  # noqa: BLE001 - code of the exception's class; the failure must not become this one
        log.warning("cannot make the stack trace of %s: %s", type(error).__name__, type(problem).__name__)
        return None
    if trace is None:
        return None
    at = None if trace.at is None else run.redact(storable_text(trace.at))
    trace = StackTrace(at, None if trace.text is None else _safe_text(trace.text, run))
    if isinstance(error, ToolError):
        error.trace = trace
    return trace


def origin(error: BaseException) -> BaseException:
    """Return the exception that user code or a library raised, out of the errors that Ropewalk has wrapped it in."""
    *_, last = _wrapped(error)
    return last


def trace_in_program(place: Place, ending: str, inner: StackTrace | None, run: Any) -> StackTrace:
    """Return the trace of a failure at a line of a program, with the trace of the step that it comes from."""
    file = shown_path(place.file, _project_of(run))
    at, frame = f"{file}:{place.line}", f'  File "{file}", line {place.line}'
    if place.text.strip():
        frame += f"\n    {place.text.strip()}"
    text = f"{frame}\n{ending}" if inner is None or not inner.text else f"{frame}\n{inner.text}"
    return StackTrace((inner and inner.at) or run.redact(storable_text(at)), _safe_text(text, run))


def _wrapped(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that Ropewalk has wrapped in it, the innermost last."""
    yield error
    for _ in range(_MAX_CHAIN):
        if error.__cause__ is None or not _is_wrapper(error):
            return
        yield (error := error.__cause__)


def trace_of_call(error: BaseException) -> StackTrace:
    """Return the stack trace of a call that failed outside of runs, without the secrets that this process knows."""
    try:
        trace = _recorded_trace(error) or _python_trace(origin(error), _working_directory())
    except Exception:  # noqa: BLE001 - code of the exception's class
        trace = None
    if trace is None:
        return StackTrace(None, None)
    at = None if trace.at is None else process_redaction().text(storable_text(trace.at))
    return StackTrace(at, None if trace.text is None else _bounded_text(trace.text, str))


def local_cause(error: BaseException | None) -> BaseException | None:
    """Return the exception behind the failure of a run, with a traceback that begins in the user's code."""
    cause = None if error is None else origin(error)
    if cause is None or isinstance(cause, NodeFailed) or (isinstance(cause, ToolError) and cause.is_recorded):
        return None  # nothing was raised in this process
    trace = cause.__traceback__
    while trace is not None and _folded_name(trace.tb_frame.f_code.co_filename) is not None:
        trace = trace.tb_next
    return cause if trace is None else cause.with_traceback(trace)


def _is_wrapper(error: BaseException) -> bool:
    """Return True if Ropewalk has made this exception out of its cause."""
    code = _last_code(error.__traceback__)
    if code is not None and _folded_name(code.co_filename) is None:
        return False  # user code raised it, such as a ToolError with a cause
    if isinstance(error, (ExpressionError, InvalidValue)):
        cause = error.__cause__
        for _ in range(_MAX_CHAIN):  # an error of a call has that of the function as its cause
            if not isinstance(cause, (ExpressionError, InvalidValue)) or cause.__cause__ is None:
                break
            cause = cause.__cause__
        return cause is not None and _place(cause, "") is not None  # of a registered transform
    if type(error) is RuntimeError:
        # `tools/backends/local.py` makes it of SystemExit and the like.
        return exception_text(error).startswith("it raised ")
    return isinstance(error, _WRAPPERS)


def _last_code(trace: TracebackType | None) -> CodeType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame.f_code


def _recorded_trace(error: BaseException) -> StackTrace | None:
    """Return the trace that an exception brings along: of another process, or of a run inside this one."""
    for one in _wrapped(error):
        # Not by getattr, because an exception of other people may have a property of this name.
        trace = one.trace if isinstance(one, FlowFailed) else one.__dict__.get("trace")
        if isinstance(trace, StackTrace):
            return trace
    return None


def _python_trace(error: BaseException, project: str) -> StackTrace | None:
    at, trace = _place(error, project), error.__traceback__
    while at is None and trace is not None and _folded_name(trace.tb_frame.f_code.co_filename) is not None:
        trace = trace.tb_next
    # Frames of libraries alone have no place that a user could mend. An error of Ropewalk itself says all in its text.
    is_own = trace is None or isinstance(error, RopewalkError)
    return None if at is None and is_own else StackTrace(at, "\n".join(_lines(error, project)))


def _trace_of_function(function: Any, project: str) -> StackTrace | None:
    """Return the place at which a function of other people begins; None for anything else."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    if not isinstance(code, CodeType) or _folded_name(code.co_filename) is not None:
        return None
    # The code begins at its first decorator.
    first = code.co_firstlineno
    lines = range(first, first + _MAX_DECORATORS)
    starts = (line for line in lines if linecache.getline(code.co_filename, line).lstrip().startswith(_FUNCTION))
    return StackTrace(f"{shown_path(code.co_filename, project)}:{next(starts, first)} in {code.co_name}", None)


def _project_of(run: Any) -> str:
    """Return the directory from which paths are shown: that of the project, else the working directory."""
    while run.parent is not None:
        run = run.parent
    row = getattr(run.log, "run", None)
    return str((getattr(row, "context", None) or {}).get("project") or _working_directory())


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""


def _safe_text(text: str, run: Any) -> str | None:
    """Return a stack without secrets, of at most MAX_BYTES; None once the run has MAX_RUN_BYTES of them."""
    if run.stack_bytes >= MAX_RUN_BYTES:
        return None
    safe = _bounded_text(text, run.redact)
    run.stack_bytes += min(len(safe.encode()), MAX_BYTES)
    return safe


def _bounded_text(text: str, redact: Callable[[str], str]) -> str:
    """Return a stack without secrets, of at most MAX_BYTES."""
    if len(text) > _MAX_CHARACTERS:  # what is cut here is not kept, so it needs no look for secrets
        text = f"{text[: _MAX_CHARACTERS // 2]}{text[-_MAX_CHARACTERS // 2 :]}"
    safe = process_redaction().text(redact(storable_text(text)))
    data = safe.encode()
    if len(data) > MAX_BYTES:
        head, tail = data[:_HEAD_BYTES], data[_HEAD_BYTES - MAX_BYTES :]
        middle = f"\n… {len(data) - MAX_BYTES:,} bytes are left out …\n"
        safe = head.decode(errors="ignore") + middle + tail.decode(errors="ignore")
    return safe


# --- frames ---------------------------------------------------------------------------------------


@lru_cache(1024)
def _folded_name(file: str) -> str | None:
    """Return the name under which frames of a file are folded; None for a file whose frames are shown."""
    if file.startswith(_ROOT):
        return "Ropewalk"
    library = _path_in_library(file)
    package = None if library is None else library.partition(os.sep)[0]
    return package if package in _FOLDED else None


@lru_cache(1024)
def _path_in_library(file: str) -> str | None:
    """Return the path of a file in the standard library or an installed package; None for the user's own code."""
    for folder in _PACKAGES:
        if folder in file:
            return file.rpartition(folder)[2]
    if file.startswith("<frozen "):
        return file
    return next((file[len(folder) :] for folder in _LIBRARIES if file.startswith(folder)), None)


def shown_path(file: str, project: str) -> str:
    """Return a path as people know it: in the project, in a package, or from the working directory."""
    library = _path_in_library(file)
    if library is not None:
        return library
    for folder in (project, _working_directory()):
        if folder and file.startswith(folder + os.sep):
            return file[len(folder) + 1 :]
    return file


def _place(error: BaseException, project: str) -> str | None:
    """Return the last place in the user's code that an exception came through; None if it came through none."""
    if isinstance(error, BaseExceptionGroup) and error.exceptions:
        leaf = error.exceptions[0]
        for _ in range(_MAX_DEPTH):
            leaf = leaf.exceptions[0] if isinstance(leaf, BaseExceptionGroup) else leaf
        if (at := _place_in(leaf.__traceback__, project)) is not None:
            return at
    return _place_in(error.__traceback__, project)


def _place_in(trace: TracebackType | None, project: str) -> str | None:
    last = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_ROOT) and _path_in_library(file) is None:
            last = trace
        trace = trace.tb_next
    if last is None:
        return None
    code = last.tb_frame.f_code
    return f"{shown_path(code.co_filename, project)}:{last.tb_lineno} in {code.co_name}"


def _lines(error: BaseException, project: str, depth: int = 0) -> Iterator[str]:
    """Yield the stack of an exception as Python prints it, the exceptions that led to it first."""
    for one, link in reversed(list(_chain(error))):
        frames = list(_frame_lines(one.__traceback__, project))
        if frames:
            yield "Traceback (most recent call last):"
            yield from frames
        yield describe_exception(one)
        notes = one.__dict__.get("__notes__")
        if isinstance(notes, list):
            yield from map(_note_text, notes[:_MAX_CHAIN])
        if isinstance(one, BaseExceptionGroup) and depth < _MAX_DEPTH:
            yield from _member_lines(one, project, depth)
        if link:
            yield link


def _note_text(note: object) -> str:
    try:
        return str(note)
    except Exception:  # noqa: BLE001 - its `__str__` is wrong
        return "<note: its str() failed>"


def _member_lines(group: BaseExceptionGroup[BaseException], project: str, depth: int) -> Iterator[str]:
    for number, member in enumerate(group.exceptions[:_MAX_MEMBERS], 1):
        yield f"  exception {number} of {len(group.exceptions)}:"
        for line in _lines(member, project, depth + 1):
            yield "    " + line.replace("\n", "\n    ")


def _chain(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """Yield an exception and those that led to it, each with the words that follow it."""
    link, seen = "", set[int]()
    for _ in range(_MAX_CHAIN):
        yield error, link
        seen.add(id(error))
        before, link = error.__cause__, _CAUSE
        if before is None and not error.__suppress_context__:
            before, link = error.__context__, _CONTEXT
        if before is None or id(before) in seen:
            return
        error = before


def _frame_lines(trace: TracebackType | None, project: str) -> Iterator[str]:
    """Yield the lines of the frames; those of Ropewalk and the event loop are one line each time."""
    frames: list[tuple[str, int, str]] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    shown: list[str] = []
    for folded, listed in groupby(frames, lambda frame: _folded_name(frame[0]) is not None):
        group = list(listed)
        if folded:
            names = sorted({str(_folded_name(file)) for file, _, _ in group})
            shown.append(f"  … {len(group)} frame{'s' * (len(group) != 1)} of {' and '.join(names)}")
            continue
        for frame, same in groupby(group):
            count = len(list(same))
            shown += [_frame_text(*frame, project)] * min(count, _REPEATS)
            if count > _REPEATS:
                shown.append(f"  [Previous line repeated {count - _REPEATS} more times]")
    if len(shown) > MAX_FRAMES:
        left_out = f"  … {len(shown) - MAX_FRAMES} frames are left out"
        shown = [*shown[:_HEAD_FRAMES], left_out, *shown[_HEAD_FRAMES - MAX_FRAMES :]]
    yield from shown


def _frame_text(file: str, line: int, name: str, project: str) -> str:
    linecache.checkcache(file)
    source = "" if file.startswith("/dev/") else linecache.getline(file, line).strip()  # a device could block
    place = f'  File "{shown_path(file, project)}", line {line}, in {name}'
    return f"{place}\n    {source}" if source else place
