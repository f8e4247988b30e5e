"""From the words of a command line to an exit code: parse, run, print, explain."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
from inspect import signature
from typing import Any, BinaryIO, Final, NoReturn

import orjson
from cyclopts import CycloptsError, UnknownOptionError, UnusedCliTokensError

from ...errors import RopewalkError
from .answer import Answer
from .commands import program
from .exits import UsageError, exit_code, explain, failure
from .logs import asked, begin, tell, tells_json
from .streams import UNDELIVERED, Unwritten, put, undelivered, writing

_TEXTS: Final = ("QUERY", "PROMPT")  # arguments that may be several words
_kept: BinaryIO | None = None  # the real standard output while the command runs with --json


def dispatch(words: list[str]) -> int:
    """Run the command; whatever happens ends in one of the documented exit codes.

    With `--json` standard output is kept for the one JSON object: what tools print, or their
    children, goes to standard error.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal of another encoding still shows the rest
    out = _keep_stdout() if "--json" in words else None
    answer = Answer()
    try:
        answer = _answer(words)
        _print(answer, out)
        return answer.exit
    except (BrokenPipeError, Unwritten) as error:
        _tells_json(words)
        return undelivered(error, out or sys.stdout, answer.recorded)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich, which prints the help, ends us with 1
            return UNDELIVERED
        raise
    except (RopewalkError, KeyboardInterrupt) as error:
        return _fail(error, out, words)
    except Exception as error:  # noqa: BLE001 - whatever it is, it has an exit code
        if isinstance(error, FileNotFoundError) and not _stands_somewhere():
            return _fail(UsageError("the working directory is not there any more; change to one that is"), out, words)
        if isinstance(error, OSError) and error.filename and _is_named(str(error.filename), words):
            return _fail(UsageError(f"{error.filename}: {error.strerror}"), out, words)
        with contextlib.suppress(OSError):
            _report(words)
        return _fail(RopewalkError(f"internal error: {type(error).__name__}: {error}"), out, words)


def _is_named(path: str, words: list[str]) -> bool:
    """Whether a word of the command is this path: `flow.yaml`, `@input.json` or `--input=@input.json`."""
    return any(path in (word, (word.partition("=")[2] or word).removeprefix("@")) for word in words)


def _stands_somewhere() -> bool:
    """Whether there is a working directory: one can be deleted under a shell."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _explain(error: BaseException, code: int, words: list[str]) -> None:
    if not _tells_json(words):
        tell(explain(error))
        return
    said = failure(error)["error"]
    more = {"problems": said["problems"]} if said["problems"] else {}
    tell(said["message"], logging.ERROR, errorKind=said["kind"], exitCode=code, **more)


def _tells_json(words: list[str]) -> bool:
    """Whether standard error is JSON lines, also before the command has begun to log."""
    if not tells_json() and asked(words) == "json":
        begin("json", "error")
    return tells_json()


def _report(words: list[str]) -> None:
    """A fault of ours: the trace is what a report needs."""
    if _tells_json(words):
        logging.getLogger(__name__).exception("internal error")
    else:
        traceback.print_exc()


def _answer(words: list[str]) -> Answer:
    try:
        command, bound, _ = program().parse_args(words, exit_on_error=False, print_error=False)
    except UnusedCliTokensError as error:
        raise UsageError(f"{_too_many(error, _named(words))} (see `ropewalk {_named(words)}--help`)") from None
    except CycloptsError as error:
        said = str(error)
        if isinstance(error, UnknownOptionError) and "--" in words:
            option = error.token.keyword or error.token.value
            if option in words[words.index("--") :]:
                said = f"{option} stands behind `--`, where nothing is an option; put it in front of that"
        raise UsageError(f"{said} (see `ropewalk {_named(words)}--help`)") from None
    with contextlib.nullcontext() if command.__module__.startswith(str(__package__)) else writing():  # the help
        given: Any = command(*bound.args, **bound.kwargs)
    return given if isinstance(given, Answer) else Answer()


def _too_many(error: UnusedCliTokensError, command: str) -> str:
    """What is said of words that a command has no place for: what it takes, and how several words are one."""
    assert error.target is not None
    places = [place for place in signature(error.target).parameters.values() if place.kind is place.POSITIONAL_ONLY]
    takes = " ".join(place.name.upper() for place in places)
    said = f"too many words, from {(error.unused_tokens or [''])[0]!r} on: `ropewalk {command.strip()}` takes "
    hint = ' in quotes: "..."' if takes in _TEXTS else ""
    return f"{said}{f'one {takes}' if len(places) == 1 else takes or 'none'}{hint}"


def _named(words: list[str]) -> str:
    """The command among the words, as far as there is one."""
    from .commands import COMMANDS, GROUPS

    for length in (2, 1):
        name = " ".join(words[:length])
        if name in COMMANDS or name in GROUPS:
            return f"{name} "
    return ""


def _keep_stdout() -> BinaryIO:
    sys.stdout.flush()
    global _kept
    _kept = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return _kept


def json_line(data: Any) -> None:
    """Print one JSON object of several; only for a command that follows something."""
    if _kept is not None:
        _write(_kept, data)


def leave(answer: Answer) -> NoReturn:
    """Print the answer and end the process at once; only for a command of which a thread waits for something that does
    not answer: closing the App would wait for it, too."""
    _print(answer, _kept)
    sys.stdout.flush()
    os._exit(answer.exit)


def _print(answer: Answer, out: BinaryIO | None) -> None:
    if out is not None:
        if answer.data is not None:
            _write(out, answer.data)
    elif answer.text is not None:
        put(answer.text if answer.text.endswith("\n") or not answer.text else answer.text + "\n")


def _write(out: BinaryIO, data: Any) -> None:
    with writing():
        sys.stdout.flush()
        out.write(orjson.dumps(data, default=str) + b"\n")
        out.flush()


def _fail(error: BaseException, out: BinaryIO | None, words: list[str]) -> int:
    code = exit_code(error)
    with contextlib.suppress(OSError):  # where standard error does not take it, the code is what is left
        _explain(error, code, words)
    try:
        if out is not None:
            _write(out, failure(error))
    except (BrokenPipeError, Unwritten) as lost:  # the error itself is told, and its code says more
        undelivered(lost, out or sys.stdout)
    return code
