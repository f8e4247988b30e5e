"""One tool bound to one backend: steps 5 to 8 of the pipeline, built once and called often.

The steps: 5 validate the input, 6 dispatch within the timeout, 7 normalise the result, 8 validate the
output. Steps 1 to 4 (cancellation, id, resolve, select a backend) are in `runner.py`. Every failure is a
ToolError with its cause. `Bound.call` runs all steps; `Bound.direct` has them as parts and without the
timeout, for an engine that keeps its own.

`Progress` guards a progress callback: events arrive in order, and its exceptions are logged and do not break
the call.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, cast

from ..argument_checks import wrong_type
from ..errors import (
    InvalidInput,
    InvalidValue,
    OutputValidationFailed,
    Problem,
    ToolError,
    UnsupportedSchema,
    ValidationFailed,
    is_interruption,
)
from ..fast_dataclass import dataclass
from ..problems import join_problems
from ..schema_drafts import compile_any_draft
from ..values import NOT_JSON, Json, check_json, copy_json, fresh
from .annotations import is_repeatable
from .backends.route import Args, FlowValue, OnProgress, Route, ToolReported
from .call_errors import CANCELLED_ITSELF, Failures
from .listener import MISFIT, Listener
from .output import CURRENT
from .raw_result import UnusableResult
from .stream import Stream, streamer
from .tool import ProgressEvent, RunResult, StreamEvent, Tool, ToolBackend
from .undo import Undo, undo_of

if TYPE_CHECKING:
    from .backends.http import RateLimiter, WaitTurn

log = logging.getLogger("ropewalk.tools")


class Progress:
    """Guards one callback, sync or async."""

    # An async one runs concurrently with the call, one event at a time.

    __slots__ = ("_callback", "_last")

    def __init__(self, callback: OnProgress | None) -> None:
        if callback is not None and not callable(callback):
            raise wrong_type("on_progress", "a function", callback)
        self._callback = callback
        self._last: asyncio.Task[None] | None = None

    def report(self, event: ProgressEvent) -> None:
        """Pass one event to the callback; return at once and never raise."""
        if self._callback is None:
            return
        try:
            result = self._callback(event)
        except Exception:
            log.exception("a progress callback raised")
            return
        if inspect.isawaitable(result):
            self._last = asyncio.ensure_future(_after(self._last, result))

    async def flush(self) -> None:
        """Wait until an async callback has processed every event."""
        if self._last is not None:
            await self._last


def guarded(on_progress: OnProgress | None) -> OnProgress | None:
    """Return a callback that never raises: a Listener unchanged, any other callback guarded."""
    if on_progress is None or isinstance(on_progress, Listener):
        return on_progress
    return Progress(on_progress).report


async def _after(previous: asyncio.Task[None] | None, result: Awaitable[Any]) -> None:
    if previous is not None:
        await previous
    try:
        await result
    except Exception:
        log.exception("a progress callback raised")


DEFAULT_TIMEOUT: Final = 60.0


def timeout_problem(timeout: object) -> str | None:
    """Return the message for an invalid timeout in seconds; None for a valid one."""
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and timeout > 0:
        return None
    return f"must be a number of seconds above 0, not {timeout!r}; math.inf means no limit"


def check_timeout(timeout: object) -> None:
    """Raise InvalidInput unless `timeout` is a positive number of seconds or None."""
    message = timeout_problem(timeout) if timeout is not None else None
    if message is not None:
        raise InvalidInput([Problem(path="timeout", message=message)])


class Validator(Protocol):
    """A replacement of the JSON Schema validation."""

    def problems(self, schema: Json, value: Json, place: str, /) -> Iterable[Problem | str]:
        """Return every reason why a value does not fit a schema."""
        ...


class Call(Protocol):
    """One call through the pipeline: `key` is the idempotency key, `timeout` is in seconds."""

    def __call__(
        self,
        args: Args,
        key: str | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Awaitable[Json]: ...


Execute: TypeAlias = Callable[[Args, str | None, float | None, OnProgress | None], Awaitable[RunResult]]
Check: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """The parts of the pipeline of a coroutine handler, for an engine that keeps the timeout itself."""

    # The engine awaits the handler's own coroutine, without one of ours around it: `raw = await handler(**args)`.

    # The handler; it may change the arguments that it gets.
    handler: Callable[..., Awaitable[Any]]
    # Returns True if arguments are valid as they are; None if all are.
    fits: Callable[[Args], bool] | None
    # For arguments that do not fit: returns corrected ones, or raises.
    check: Callable[[Args], Args] | None
    # Converts `raw` to the result on the quick path; NOT_JSON if that is impossible.
    take: Callable[[Any], Any]
    # Converts `raw` to the result and its warnings if `take` could not, or raises.
    settle: Callable[[Any], tuple[Json, tuple[str, ...]]]
    # Returns the ToolError for an exception of the handler.
    failed: Callable[[BaseException], ToolError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A tool ready to be called, valid while the index has the same version."""

    tool: Tool | None
    backend: ToolBackend | None
    # Runs the pipeline and returns the value.
    call: Call
    # `call` in parts and without the timeout; for coroutine handlers only.
    direct: Direct | None
    timeout: float
    # Runs the pipeline and returns the RunResult.
    execute: Execute
    # Runs the pipeline and yields events.
    stream: Stream
    # Each attempt of a node needs an idempotency key of its own.
    per_attempt: bool = False
    # A call that took effect may be repeated.
    repeatable: bool = False
    # The call may wait for a person: a flow for its events and approvals, a server for answers.
    waits: bool = False
    # The tool that takes a call back; None if no tool does.
    undo: Undo | None = None
    # Returns the run and the path of the call whose result answered the call with an idempotency key; None for a call
    # that was made. None if every call is made.
    origin: Callable[[str], tuple[str, str] | None] | None = None

    def with_timeout(self, seconds: float) -> Bound:
        """Return the tool with another timeout, in seconds: the one of a step, which is more specific."""
        call = self.call

        async def patient(
            args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
        ) -> Json:
            return await call(args, key, seconds if timeout is None else timeout, on_progress)

        return replace(self, call=patient, timeout=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of a runner for checks and time; `timeout` is in seconds."""

    # `undos` has the configured undos of tools, by id.

    timeout: float = DEFAULT_TIMEOUT
    validate_input: bool = True
    validate_output: bool = True
    # Patterns of the ids of tools whose results must fit their output schemas.
    strict_output: Sequence[str] = ()
    validator: Validator | None = None
    pace: RateLimiter | None = None
    undos: Mapping[str, Undo] = field(default_factory=dict)


def _make_checkers(tool: Tool | None, route: Route, rules: Rules, fail: Failures) -> tuple[Checker, Checker]:
    """Compile the schemas of a tool once; its calls use only the compiled checks."""
    input_checker = output_checker = ALL_FIT
    if tool is not None:
        if rules.validate_input:
            checker = _make_checker(tool.input_schema, "args", rules.validator, fail.input)
            input_checker = _convert_integers(checker, route.integer_arguments)
        output_schema = tool.output_schema if route.result_schema is None else route.result_schema()
        if rules.validate_output and output_schema is not None:
            output_checker = _make_checker(output_schema, "result", rules.validator, fail.output)
    return input_checker, output_checker


def bind_route(tool_id: str, tool: Tool | None, backend: ToolBackend | None, route: Route, rules: Rules) -> Bound:
    """Bind a resolved tool to its route."""
    repeatable = is_repeatable(tool) if route.repeatable is None else route.repeatable
    fail = Failures(tool_id, backend, repeatable)
    input_checker, output_checker = _make_checkers(tool, route, rules, fail)
    check_input = input_checker.check
    limit = (tool.timeout if tool is not None else None) or route.timeout or rules.timeout
    # A flow announces the type of its value to everybody, so its value must fit.
    is_strict = route.result_schema is not None or any(fnmatchcase(tool_id, name) for name in rules.strict_output)
    check_result = _make_check_result(route, output_checker.check, fail, is_strict)
    turn = rules.pace.turn_for(tool_id) if rules.pace is not None else None
    stream = streamer(route, check_input, limit, fail)

    async def run_pipeline(
        args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None
    ) -> Checked:
        await stop_if_cancelled()
        if check_input is not None:  # 5
            args = check_input(args)
        if turn is not None:
            await turn()
        seconds = limit if timeout is None else timeout
        sent = args if route.strict else fresh(args)  # the executor may change its arguments
        raw = await _dispatch(seconds, route, (sent, key, seconds, guarded(on_progress)), fail)  # 6
        try:
            checked = check_result(raw)  # 7 and 8
        except OutputValidationFailed:
            if route.accepts is None or not await route.accepts(key):
                raise
            return Checked(route.normalise(raw)[0])
        if checked.warnings:
            _report_warnings(tool_id, key, checked.warnings)
        return checked

    async def call(
        args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        return (await run_pipeline(args, key, timeout, on_progress)).value

    async def execute(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> RunResult:
        value, raw, warnings = await run_pipeline(args, key, timeout, on_progress)
        # The result of an executor has neither tool nor backend.
        return RunResult(cast(Tool, tool), cast(ToolBackend, backend), value, raw, warnings)

    handler = route.direct if turn is None else None  # the parts have no place for the rate limiter's turn
    return Bound(
        tool=tool,
        backend=backend,
        call=call,
        direct=_direct(handler, input_checker, output_checker, check_result, fail) if handler else None,
        timeout=limit,
        per_attempt=route.per_attempt,
        repeatable=repeatable,
        waits=route.waits,
        undo=undo_of(tool, rules.undos),
        execute=execute,
        stream=stream if turn is None else _rate_limited_stream(stream, turn),
    )


def _rate_limited_stream(stream: Stream, turn: WaitTurn) -> Stream:
    async def limited(args: Args, key: str | None, timeout: float | None) -> AsyncGenerator[StreamEvent, None]:
        await turn()
        async with aclosing(stream(args, key, timeout)) as events:
            async for event in events:
                yield event

    return limited


def _direct(
    handler: Callable[..., Awaitable[Any]],
    input_checker: Checker,
    output_checker: Checker,
    check_result: Callable[[Any], Checked],
    fail: Failures,
) -> Direct:
    def settle(raw: Any) -> tuple[Json, tuple[str, ...]]:
        value, _, warnings = check_result(raw)
        return value, warnings

    def failed(error: BaseException) -> ToolError:
        # An error of steps 5, 7 or 8 of this very call is complete; any other one comes from the handler.
        if (
            isinstance(error, ToolError)
            and error.tool_id == fail.tool_id
            and error.backend is fail.backend
            and error.op != "execute"
        ):
            return error
        return fail.executing(error)

    return Direct(
        handler=handler,
        fits=input_checker.fits,
        check=input_checker.check,
        take=copy_json if output_checker.check is None else _quick_result(output_checker.fits),
        settle=settle,
        failed=failed,
    )


def _quick_result(fits: Callable[[Any], bool] | None) -> Callable[[Any], Any]:
    """Return a function that copies a valid result; `settle` handles the others, for which it gives NOT_JSON."""
    if fits is None:
        return lambda value: NOT_JSON

    def take(raw: Any) -> Any:
        value = copy_json(raw)
        return value if value is not NOT_JSON and fits(value) else NOT_JSON

    return take


def checked_args(tool_id: str, bound: Bound, args: Args | None) -> Args:
    """Return the caller's arguments; None becomes `{}`."""
    if args is None:
        return {}
    try:
        if not isinstance(args, dict):
            raise InvalidValue("args", f"arguments are an object, not {type(args).__qualname__}")
        check_json(args, "args")
    except InvalidValue as error:
        problem = Problem(path=error.place, message=error.message)
        raise ValidationFailed(tool_id, "validate_input", error, backend=bound.backend, problems=[problem]) from error
    return args


async def stop_if_cancelled() -> None:
    """Raise CancelledError if a cancellation of this task is pending."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        await asyncio.sleep(0)  # a pending cancellation arrives here; one already handled does not


async def _dispatch(seconds: float, route: Route, arguments: tuple[Any, ...], fail: Failures) -> Any:
    """Call the executor within the timeout."""

    # Three interruptions differ: our timeout, the caller's cancellation, and a tool that raises TimeoutError or
    # CancelledError itself.
    task = asyncio.current_task()
    # `cancelling()` counts the pending requests to cancel this task. Our timeout takes its own request back, so a count
    # above this one means that the caller cancels. An equal count means that the tool raised CancelledError itself.
    cancellations = task.cancelling() if task is not None else 0
    scope = asyncio.timeout(None if seconds == math.inf else seconds)
    started = time.monotonic()
    try:
        async with scope:
            raw = await route.send(*arguments)
        if scope.expired():  # the tool suppressed the cancellation, and its result comes too late
            raise TimeoutError if task is None or task.cancelling() <= cancellations else asyncio.CancelledError
        return raw
    except TimeoutError as error:
        # An executor that keeps the time itself may be slightly ahead of our timer.
        if scope.expired() or (route.keeps_time and time.monotonic() - started > 0.95 * seconds):
            raise fail.timed_out(seconds, error) from error
        raise fail.executing(error) from error
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > cancellations:
            raise
        raise fail.executing(RuntimeError(CANCELLED_ITSELF)) from error
    except BaseException as error:
        if is_interruption(error):
            raise
        raise fail.executing(error) from error


class Checked(NamedTuple):
    """A checked result, the raw result of an MCP tool, and warnings."""

    value: Json
    raw: Any = None
    warnings: tuple[str, ...] = ()


def _report_warnings(tool_id: str, key: str | None, warnings: Sequence[str]) -> None:
    """Pass the warnings about a result to the run that made the call; outside of a run, log them."""
    source = CURRENT.get()
    if key is None or source is None or not source.warn_of_call(tool_id, key, warnings):
        log.warning("tool %s: %s", tool_id, "; ".join(warnings))


def _check_json_result(value: Any) -> tuple[Json, tuple[str, ...]]:
    """Copy a result and return it with warnings; one that is not JSON is converted."""

    # Raises InvalidValue if it has no JSON form.
    try:
        copied = copy_json(value)
    except RecursionError:
        copied = NOT_JSON
    if copied is not NOT_JSON:
        return copied, ()
    from .answers import to_value  # few results need it

    return to_value(value)


def _make_check_result(
    route: Route, check_output: Check | None, fail: Failures, is_strict: bool
) -> Callable[[Any], Checked]:
    """Return the function for steps 7 and 8: it converts a raw result to a value."""

    # A result that does not fit the tool's own schema is used all the same, with a warning, unless `is_strict`.
    normalise = route.normalise

    def check_result(raw: Any) -> Checked:
        # 7: every failure keeps the raw result, because the tool ran and its result may still be needed.
        try:
            value, original = normalise(raw)
        except ToolReported as error:
            raise fail.executing(error) from error
        except UnusableResult as error:
            raise fail.rejected(error, raw if error.result is None else error.result) from error
        except Exception as error:
            raise fail.rejected(error, raw) from error
        if route.strict:  # the route has checked it already
            return Checked(value, original)
        try:
            value, warnings = _check_json_result(value)
        except InvalidValue as error:
            problem = Problem(path=error.place, message=error.message)
            raise fail.rejected(error, value, (problem,)) from error
        if check_output is not None:  # 8
            try:
                check_output(value)
            except OutputValidationFailed as error:
                if is_strict:
                    if isinstance(raw, FlowValue) and raw.broken:
                        error = fail.output(f"{error.reason}; {raw.broken}", error.problems)
                    raise fail.with_result(error, value) from error.__cause__
                warnings = (*warnings, f"{MISFIT}: {error.reason}")
        return Checked(value, original, warnings)

    return check_result


@dataclass(frozen=True, slots=True)
class Checker:
    """A compiled check of arguments or results."""

    # Returns the value, or raises the ToolError for an invalid one; None if every object is valid.
    check: Check | None = None
    # Returns True for a valid value; None if only `check` can answer.
    fits: Callable[[Any], bool] | None = None


ALL_FIT: Final = Checker()


def _make_checker(
    schema: Json,
    place: str,
    validator: Validator | None,
    failed: Callable[[BaseException | str, Sequence[Problem]], ToolError],
) -> Checker:
    """Compile the check for a schema; `failed` makes its error from the problems."""
    if validator is not None:
        return Checker(_custom_check(schema, place, validator, failed))
    try:
        compiled = compile_any_draft(schema)
    except UnsupportedSchema as error:
        raise failed(error, ()) from error
    if compiled.open and (place == "args" or "type" not in schema):
        return ALL_FIT
    fits = compiled.is_valid

    def check(value: Json) -> Json:
        if not fits(value):
            problems = compiled.problems(value, place)
            raise failed(join_problems(problems), problems)
        return value

    return Checker(check, fits)


def _convert_integers(checker: Checker, names: tuple[str, ...]) -> Checker:
    """Extend a checker: floats with an integer value, in these arguments, become ints."""

    # The quick path `fits` only rejects floats, so that a call without floats costs almost nothing more.
    check, fits = checker.check, checker.fits
    if check is None or not names:
        return checker

    def convert_and_check(args: Json) -> Json:
        converted = dict(args)
        for name in names:
            value = args.get(name)
            if type(value) is float and value.is_integer():
                converted[name] = int(value)
        return check(converted)

    if fits is None:
        return Checker(convert_and_check)
    if len(names) == 1:
        (name,) = names  # the usual case, without the loop
        return Checker(convert_and_check, lambda args: type(args.get(name)) is not float and fits(args))

    def fits_without_floats(args: Args) -> bool:
        for name in names:
            if type(args.get(name)) is float:
                return False
        return fits(args)

    return Checker(convert_and_check, fits_without_floats)


def _custom_check(
    schema: Json,
    place: str,
    validator: Validator,
    failed: Callable[[BaseException | str, Sequence[Problem]], ToolError],
) -> Check:
    def check(value: Json) -> Json:
        try:
            problems = [
                problem if isinstance(problem, Problem) else Problem(path=place, message=str(problem))
                for problem in validator.problems(schema, value, place) or ()
            ]
        except Exception as error:
            raise failed(error, ()) from error
        if problems:
            raise failed(join_problems(problems), problems)
        return value

    return check
