"""One command: it parses the words, runs the command, prints its answer, and words every error.

A command is a function that returns an `Answer`: an exit code, data for `--json` and text for people.
Every error becomes a message and a documented exit code (`ERRORS`). Commands hold no logic: they call `App` and
shape the result. To add a command, write its function in a file of this folder and name it in `commands.COMMANDS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from inspect import signature
from shlex import quote
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NoReturn

import orjson

from ...errors import (
    ConfigError,
    DefinitionChanged,
    ExpressionError,
    InvalidCursor,
    InvalidFlow,
    InvalidInput,
    InvalidTool,
    InvalidToolId,
    InvalidValue,
    ModelError,
    NotFound,
    NotWaiting,
    Problem,
    RopewalkError,
    RunExists,
    RunStopped,
    RunTimeout,
    ToolNotFound,
    ToolTimeout,
    UnsupportedSchema,
    ValidationFailed,
)
from ...fast_dataclass import dataclass
from ...source.document import escape_invisible, render_problem, shorten
from ..errors import RAN, error_message, error_payload, has_run, problem_payload, problems_of, word_problem
from ..remedies import Door, given_options
from .commands import COMMANDS, GROUPS, program
from .output import configure_logging, logs_json, notify, requested_log_format
from .streams import INTERRUPTED, UNDELIVERED, OutputError, report_undelivered, write_stdout, writing

if TYPE_CHECKING:
    from cyclopts import UnusedCliTokensError

JSON_HINT: Final = "; --json shows all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a command."""

    exit: int = 0
    # What `--json` prints; None prints nothing.
    data: Any = None
    # What is printed without `--json`; None prints nothing.
    text: str | None = None
    # The command that shows the answer again, "" if there is none.
    recorded: str = ""


def completion(shell: Literal["bash", "zsh", "fish"], /) -> Answer:
    """Print a completion script: `ropewalk completion bash > ~/.local/share/bash-completion/completions/ropewalk`."""
    return Answer(text=program().generate_completion(prog_name="ropewalk", shell=shell))


DONE, FAILED, USAGE, INVALID, WAITING, TIMEOUT = 0, 1, 2, 3, 4, 124

STATUS: Final = {
    "completed": DONE,
    "partial": DONE,
    "failed": FAILED,
    "waiting": WAITING,
    "timeout": TIMEOUT,
    "stopped": INTERRUPTED,
    "parked": FAILED,
}


def run_exit_code(result: Mapping[str, Any]) -> int:
    """Return the exit code for the status of a run's result."""
    return STATUS.get(str(result.get("status")), FAILED)


class UsageError(RopewalkError):
    """The command line is wrong."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        self.problems = tuple(problems)
        super().__init__(message)


NOTHING_HAS_RUN: Final = "nothing has run"


class Interrupted(KeyboardInterrupt):
    """A signal ended the command."""

    # The run that it waited for, if any, may continue elsewhere. `next_step` says how to continue an unfinished one.

    def __init__(self, run_id: str = "", next_step: str = "") -> None:
        self.run_id, self.next_step = run_id, next_step
        super().__init__()


class InterruptedByTool(RopewalkError):
    """A tool ended the event loop, so that the run that the command waited for, if any, is unfinished."""

    def __init__(self, what: str, run_id: str = "", *, is_resumable: bool = True) -> None:
        self.run_id = run_id
        on = (
            f": `ropewalk resume {quote(run_id)}{given_options()}` resumes it"
            if is_resumable
            else "; it was in memory and is lost"
        )
        super().__init__(f"a tool has {what}" + (f"; run {run_id} was interrupted{on}" if run_id else ""))


_INPUT_MISFIT: Final = "the input does not fit the input schema that the definition declares"
_MISFIT_HEADINGS: Final = {
    "state": "the state does not fit what the definition declares",
    "variables": "the variables do not fit what the definition declares",
    "payload": "the payload does not fit the form of the server",
}
ERRORS: Final[tuple[tuple[type[BaseException], int], ...]] = (
    # The first matching line decides, so subclasses come before their bases.
    (UsageError, USAGE),
    (InvalidFlow, INVALID),
    (ExpressionError, INVALID),
    (UnsupportedSchema, INVALID),
    (InvalidTool, INVALID),
    (ConfigError, USAGE),
    (NotFound, USAGE),
    (NotWaiting, USAGE),
    (InvalidCursor, USAGE),
    (InvalidInput, USAGE),
    (InvalidValue, USAGE),
    (InvalidToolId, USAGE),
    (ToolNotFound, USAGE),
    (ValidationFailed, USAGE),
    (ToolTimeout, TIMEOUT),
    (RunTimeout, TIMEOUT),
    (RunStopped, INTERRUPTED),
    (KeyboardInterrupt, INTERRUPTED),
    (asyncio.CancelledError, INTERRUPTED),
    (RunExists, USAGE),
    (DefinitionChanged, USAGE),
    (RopewalkError, FAILED),
)


def exit_code(error: BaseException) -> int:
    """Return the exit code of the process for this error."""
    return next((code for kind, code in ERRORS if isinstance(error, kind)), FAILED)


def explain(error: BaseException) -> str:
    """Render an error for people: each problem at its place with a caret, or one line."""
    if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
        next_step = getattr(error, "next_step", "")
        return f"interrupted; {next_step}" if next_step else "interrupted"
    note = [f"note: {RAN}"] if has_run(error) else []
    note += map(escape_invisible, getattr(error, "__notes__", ()))
    problems = tuple(word_problem(problem, Door.CLI) for problem in problems_of(error))
    if not problems:
        return "\n".join([f"error: {escape_invisible(shorten(error_message(error, Door.CLI), hint=JSON_HINT))}", *note])
    # The places alone do not say what the problems are about, so most lists get a heading or a count.
    lines = [render_problem(p) for p in problems]
    if isinstance(error, InvalidInput):
        roots = {problem.path.partition(".")[0] for problem in problems}
        heading = _MISFIT_HEADINGS.get(roots.pop(), _INPUT_MISFIT) if len(roots) == 1 else _INPUT_MISFIT
        lines.insert(0, f"error: {heading}")
    elif not isinstance(error, (InvalidFlow, ConfigError, ExpressionError, ModelError)):
        message = error_message(error, Door.CLI)
        lines = [
            f"error: {escape_invisible(shorten(message, hint=JSON_HINT))}",
            *(render_problem(p) for p in problems if p.message not in message),
        ]
    elif len(problems) > 1:
        lines.append(f"{len(problems)} problems; nothing has run")
    lines += [f"warning: {render_problem(word_problem(p, Door.CLI))}" for p in getattr(error, "warnings", ())] + note
    return "\n".join(lines)


def failure(error: BaseException) -> dict[str, Any]:
    """Return the JSON object that `--json` prints for an error."""
    message = None if str(error) or exit_code(error) != INTERRUPTED else "interrupted"
    data = error_payload(error, Door.CLI, message)
    if exit_code(error) == INTERRUPTED and not isinstance(error, RopewalkError):
        data["error"]["kind"] = "Interrupted"
    if isinstance(error, (Interrupted, InterruptedByTool)) and error.run_id:
        data["runId"] = error.run_id
    if isinstance(error, InvalidFlow) and error.warnings:
        data["error"]["warnings"] = [problem_payload(p, Door.CLI) for p in error.warnings]
    return data


_TEXT_ARGUMENTS: Final = ("QUERY", "PROMPT")  # arguments that may be several words
_executes_run = False
_kept_stdout: BinaryIO | None = None  # the real standard output while a command keeps it for its answer


def dispatch(words: list[str]) -> int:
    """Run one command and return its exit code, one of the documented ones whatever happens."""

    # Standard output is kept for the answer of a command that executes a run: everything that tools or their child
    # processes print goes to standard error.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal of another encoding still shows the rest
    global _executes_run
    as_json = "--json" in words
    is_help = words[-1:] in (["--help"], ["-h"])
    _executes_run = not is_help and any(tuple(words[: len(command)]) == command for command in _RUN_COMMANDS)
    out = _keep_stdout() if as_json or (_executes_run and _has_stdout()) else None
    answer = no_answer = Answer()
    try:
        answer = _run_command(words)
        _print_answer(answer, out, as_json)
        return answer.exit
    except (BrokenPipeError, OutputError) as error:
        _uses_json_log(words)
        return report_undelivered(error, out or sys.stdout, answer.recorded)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich, which prints the help, exits with 1
            return UNDELIVERED
        raise
    except (RopewalkError, KeyboardInterrupt) as error:
        # The handlers of a command raise Interrupted, so any other interruption came before them.
        is_early = type(error) is KeyboardInterrupt and answer is no_answer and _executes_run
        return _print_failure(Interrupted(next_step=NOTHING_HAS_RUN) if is_early else error, out, words)
    except Exception as error:  # noqa: BLE001 - every failure has an exit code
        if isinstance(error, FileNotFoundError) and not _has_working_directory():
            usage_error = UsageError("the working directory was deleted; change to one that exists")
            return _print_failure(usage_error, out, words)
        if isinstance(error, OSError) and error.filename and _is_path_argument(str(error.filename), words):
            return _print_failure(UsageError(f"{error.filename}: {error.strerror}"), out, words)
        with contextlib.suppress(OSError):
            _print_traceback(words)
        return _print_failure(RopewalkError(f"internal error: {type(error).__name__}: {error}"), out, words)


def _is_path_argument(path: str, words: list[str]) -> bool:
    """Return True if a word is this path: `flow.yaml`, `@input.json` or `--input=@input.json`."""
    for word in words:
        value = word.partition("=")[2] or word
        if path in (word, value.removeprefix("@")):
            return True
    return False


def _has_working_directory() -> bool:
    """Return False if the working directory was deleted."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _print_error(error: BaseException, code: int, words: list[str]) -> None:
    if not _uses_json_log(words):
        notify(explain(error))
        return
    payload = failure(error)["error"]
    fields = {"problems": payload["problems"]} if payload["problems"] else {}
    notify(payload["message"], logging.ERROR, errorKind=payload["kind"], exitCode=code, **fields)


def _uses_json_log(words: list[str]) -> bool:
    """Return True if standard error is JSON lines, also before the command configured its log."""
    if not logs_json() and requested_log_format(words) == "json":
        configure_logging("json", "error")
    return logs_json()


def _print_traceback(words: list[str]) -> None:
    """Print the traceback of an internal error, which a bug report needs."""
    if _uses_json_log(words):
        logging.getLogger("ropewalk.doors.cli.dispatch").exception("internal error")
    else:
        traceback.print_exc()


def _run_command(words: list[str]) -> Answer:
    from cyclopts import CycloptsError, UnknownOptionError, UnusedCliTokensError  # slow to import: --help does without

    try:
        command, bound, _ = program().parse_args(words, exit_on_error=False, print_error=False)
    except UnusedCliTokensError as error:
        name = _command_name(words)
        raise UsageError(f"{_too_many_words_message(error, name)} (see `ropewalk {name}--help`)") from None
    except CycloptsError as error:
        message = str(error)
        if isinstance(error, UnknownOptionError) and "--" in words:
            option = error.token.keyword or error.token.value
            if option in words[words.index("--") :]:
                message = f"{option} comes after `--`, where nothing is an option; put it before `--`"
        elif isinstance(error, UnknownOptionError) and (error.token.keyword or error.token.value) == "--park":
            message = "unknown option --park: a run that only waits ends the process by itself; --wait makes it stay"
        raise UsageError(f"{message} (see `ropewalk {_command_name(words)}--help`)") from None
    # A command that is not ours is the help or the version, which cyclopts itself prints.
    is_ours = command.__module__.startswith(str(__package__))
    with contextlib.nullcontext() if is_ours else writing():
        result: Any = command(*bound.args, **bound.kwargs)
    return result if isinstance(result, Answer) else Answer()


def _too_many_words_message(error: UnusedCliTokensError, command: str) -> str:
    """Say which words the command accepts, and how to quote several words as one argument."""
    assert error.target is not None
    parameters = signature(error.target).parameters.values()
    names = [parameter.name.upper() for parameter in parameters if parameter.kind is parameter.POSITIONAL_ONLY]
    usage = " ".join(names)
    message = f"too many words, from {(error.unused_tokens or [''])[0]!r} on: `ropewalk {command.strip()}` takes "
    hint = ' in quotes: "..."' if usage in _TEXT_ARGUMENTS else ""
    if len(names) == 1:
        usage = f"one {usage}"
    return f"{message}{usage or 'none'}{hint}"


def _command_name(words: list[str]) -> str:
    """Return the command or group that the words begin with and a space, or ""."""
    for length in (2, 1):
        name = " ".join(words[:length])
        if name in COMMANDS or name in GROUPS:
            return f"{name} "
    return ""


_RUN_COMMANDS: Final = (("run",), ("resume",), ("runs", "retry"), ("runs", "fork"), ("runs", "undo"))


def executes_run() -> bool:
    """Return True if the command executes a run, and itself shows what its tools print."""
    return _executes_run


def _has_stdout() -> bool:
    """Return True if `sys.stdout` is standard output, and not a stream that the caller has put in its place."""
    try:
        return sys.stdout.fileno() == 1
    except (AttributeError, OSError, ValueError):
        return False


def _keep_stdout() -> BinaryIO:
    """Redirect standard output to standard error, and return a stream to the real one."""
    global _kept_stdout
    sys.stdout.flush()
    _kept_stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return _kept_stdout


def json_line(data: Any) -> None:
    """Print one of several JSON objects at once, for a command that streams its output."""
    if _kept_stdout is not None:
        _write_json(_kept_stdout, data)


def exit_now(answer: Answer, *, as_json: bool) -> NoReturn:
    """Print the answer and end the process at once."""

    # For a command with a thread that hangs: closing the App would wait for that thread.
    _print_answer(answer, _kept_stdout, as_json)
    sys.stdout.flush()
    os._exit(answer.exit)


def _print_answer(answer: Answer, out: BinaryIO | None, as_json: bool) -> None:
    if as_json and out is not None:
        if answer.data is not None:
            _write_json(out, answer.data)
    elif answer.text is not None:
        text = escape_invisible(answer.text)
        text = text if text.endswith("\n") or not text else text + "\n"
        if out is None:
            write_stdout(text)
        else:
            _write(out, text.encode(sys.stdout.encoding, "replace"))


def _write_json(out: BinaryIO, data: Any) -> None:
    _write(out, orjson.dumps(data, default=str) + b"\n")


def _write(out: BinaryIO, data: bytes) -> None:
    with writing():
        sys.stdout.flush()
        out.write(data)
        out.flush()


def _print_failure(error: BaseException, out: BinaryIO | None, words: list[str]) -> int:
    code = exit_code(error)
    with contextlib.suppress(OSError):  # if standard error is full, the exit code remains
        _print_error(error, code, words)
    try:
        if out is not None and "--json" in words:
            _write_json(out, failure(error))
    except (BrokenPipeError, OutputError) as write_error:  # keep the code of the first error, which says more
        report_undelivered(write_error, out or sys.stdout)
    return code
