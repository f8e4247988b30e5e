"""One tool bound to one backend: steps 5 to 8 of the pipeline, built once and called often.

5 validate input, 6 dispatch within the timeout, 7 normalise, 8 validate output. Every failure leaves
as a ToolError with its cause. `call` is the whole of it; `direct` is the same in parts and without
the timeout, for an engine that keeps its own.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from ..errors import (
    InvalidInput,
    InvalidValue,
    OutputValidationFailed,
    Problem,
    ToolError,
    UnsupportedSchema,
    ValidationFailed,
)
from ..errors.foreign import passes
from ..errors.given import listed
from ..frozen import dataclass
from ..schema.drafts import compile_any_draft
from ..values import NOT_JSON, Json, check_json, fresh, own
from .failures import Failures
from .normalise import ToolReported
from .progress import guarded
from .raw import UnusableResult
from .result import RunResult, StreamEvent
from .route import Args, OnProgress, Route
from .stream import Stream, streamer
from .tool import Tool, ToolBackend
from .trust import is_repeatable

if TYPE_CHECKING:
    from .pace import Pace, Turn

DEFAULT_TIMEOUT: Final = 60.0


def seconds_complaint(given: object) -> str | None:
    """What is wrong with a number of seconds that a call may take; None where nothing is."""
    if isinstance(given, (int, float)) and not isinstance(given, bool) and given > 0:
        return None
    return f"must be a number of seconds above 0, not {given!r}; math.inf means no limit"


def check_timeout(given: object) -> None:
    """Raise InvalidInput unless a call may be given this `timeout`, or none."""
    complaint = seconds_complaint(given) if given is not None else None
    if complaint is not None:
        raise InvalidInput([Problem(path="timeout", message=complaint)])


class Validator(Protocol):
    """A validator of one's own: every problem of `value` against `schema`, none when it fits."""

    def problems(self, schema: Json, value: Json, place: str, /) -> Iterable[Problem | str]: ...


class Call(Protocol):
    """One call through the pipeline: `key` is the idempotency key, `timeout` in seconds."""

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
    """The pipeline of a coroutine handler taken apart, for an engine that puts it into its own loop
    and keeps the timeout itself: no coroutine of ours stands around the handler's.

    Arguments that `fits` (None: all do) takes go to the handler, for the others `check` raises or gives
    those that do instead; the handler may change what it gets. `raw = await handler(**args)`; when that raises,
    `failed(error)` is the ToolError. The result is `take(raw)`, and where that is NOT_JSON `settle(raw)`, which
    raises where it cannot be one.
    """

    handler: Callable[..., Awaitable[Any]]
    fits: Callable[[Args], bool] | None
    check: Callable[[Args], Args] | None
    take: Callable[[Any], Any]
    settle: Callable[[Any], Json]
    failed: Callable[[BaseException], ToolError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A tool ready to be called, safe to keep while the index has the same version.

    `direct`, for coroutine handlers only, is `call` without the timeout, in parts.
    `tool` and `backend` are None where they are resolved at each call. `timeout` is in seconds.
    `per_attempt` asks for keys that tell attempts apart; `repeatable` allows a call that took effect to be repeated.
    `waits` says that the tool runs a flow that may wait for events and approvals.
    """

    tool: Tool | None
    backend: ToolBackend | None
    call: Call
    direct: Direct | None
    timeout: float
    execute: Execute
    stream: Stream
    per_attempt: bool = False
    repeatable: bool = False
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a runner was told about checking and time."""

    timeout: float = DEFAULT_TIMEOUT
    validate_input: bool = True
    validate_output: bool = True
    validator: Validator | None = None
    pace: Pace | None = None


def bind_route(tool_id: str, tool: Tool | None, backend: ToolBackend | None, route: Route, rules: Rules) -> Bound:
    """Everything after resolution, as closures; raises ToolError where a schema cannot be compiled."""
    repeatable = is_repeatable(tool) if route.repeatable is None else route.repeatable
    fail = Failures(tool_id, backend, repeatable)
    takes = gives = ALL_FIT
    if tool is not None:
        if rules.validate_input:
            takes = _whole(_checker(tool.input_schema, "args", rules.validator, fail.input), route.whole)
        if rules.validate_output and tool.output_schema is not None and not route.checked:
            gives = _checker(tool.output_schema, "result", rules.validator, fail.output)
    check_in, check_out = takes.check, gives.check
    limit = (tool.timeout if tool is not None else None) or route.timeout or rules.timeout
    settle = _settler(route, check_out, fail)
    turn = rules.pace.of(tool_id) if rules.pace is not None else None
    stream = streamer(route, check_in, limit, fail)

    async def execute(
        args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None
    ) -> tuple[Json, Any]:
        await stop_if_cancelled()
        if check_in is not None:  # 5
            args = check_in(args)
        if turn is not None:
            await turn()
        seconds = limit if timeout is None else timeout
        told = guarded(on_progress)
        sent = args if route.strict else fresh(args)
        raw = await _within(seconds, route, (sent, key, seconds, told), fail)  # 6
        return settle(raw)  # 7, 8

    async def call(
        args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        return (await execute(args, key, timeout, on_progress))[0]

    async def run(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> RunResult:
        value, raw = await execute(args, key, timeout, on_progress)
        return RunResult(cast(Tool, tool), cast(ToolBackend, backend), value, raw)  # an executor's has neither

    return Bound(
        tool=tool,
        backend=backend,
        call=call,
        direct=_direct(route.direct, takes, gives, settle, fail) if route.direct and turn is None else None,
        timeout=limit,
        per_attempt=route.per_attempt,
        repeatable=repeatable,
        waits=route.waits,
        execute=run,
        stream=stream if turn is None else _in_turn(stream, turn),
    )


def _in_turn(stream: Stream, turn: Turn) -> Stream:
    async def later(args: Args, key: str | None, timeout: float | None) -> AsyncGenerator[StreamEvent, None]:
        await turn()
        async with aclosing(stream(args, key, timeout)) as events:
            async for event in events:
                yield event

    return later


def _direct(
    handler: Callable[..., Awaitable[Any]],
    takes: Checker,
    gives: Checker,
    settle: Callable[[Any], tuple[Json, Any]],
    fail: Failures,
) -> Direct:
    def failed(error: BaseException) -> ToolError:
        if not isinstance(error, ToolError) or error.tool_id != fail.tool_id or error.backend is not fail.backend:
            return fail.executing(error)
        return fail.executing(error) if error.op == "execute" else error  # which a step of ours has said already

    return Direct(
        handler=handler,
        fits=takes.fits,
        check=takes.check,
        take=own if gives.check is None else _taking(gives.fits),
        settle=lambda value: settle(value)[0],
        failed=failed,
    )


def _taking(fits: Callable[[Any], bool] | None) -> Callable[[Any], Any]:
    """The result where all is well with it; what is not is looked at again, and told, by `settle`."""
    if fits is None:
        return lambda value: NOT_JSON

    def take(raw: Any) -> Any:
        value = own(raw)
        return value if value is not NOT_JSON and fits(value) else NOT_JSON

    return take


def checked_args(tool_id: str, bound: Bound, args: Args | None) -> Args:
    """The caller's arguments: none means `{}`, and they must be a JSON object."""
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
    """Raise CancelledError when this task has been cancelled and does not know it yet."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        await asyncio.sleep(0)  # a cancellation that is due arrives here; one already handled does not


async def _within(seconds: float, route: Route, sent: tuple[Any, ...], fail: Failures) -> Any:
    """Dispatch, and tell the three ways apart in which a call can be cut short: our timeout, the
    caller's cancellation, and a tool that raised TimeoutError or CancelledError on its own."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    scope = asyncio.timeout(None if seconds == math.inf else seconds)
    started = time.monotonic()
    try:
        async with scope:
            raw = await route.send(*sent)
        if scope.expired():  # the tool kept the cancellation to itself: what it gives comes too late
            raise TimeoutError if task is None or task.cancelling() <= before else asyncio.CancelledError
        return raw
    except TimeoutError as error:
        # An executor that keeps the time itself may be a moment ahead of us.
        if scope.expired() or (route.keeps_time and time.monotonic() - started > 0.95 * seconds):
            raise fail.no_answer(seconds) from error
        raise fail.executing(error) from error
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > before:
            raise
        raise fail.executing(RuntimeError("it was cancelled from inside")) from error
    except BaseException as error:
        if passes(error):
            raise
        raise fail.executing(error) from error


def _checked(value: Any) -> Json:
    """Return a copy of a result in which models are objects; raise InvalidValue if that is not JSON."""
    try:
        return check_json(value, "result")
    except InvalidValue:
        from .models import with_models  # most results hold none

        converted = with_models(value)
        if converted is value:
            raise
        return check_json(converted, "result")


def _settler(route: Route, check_out: Check | None, fail: Failures) -> Callable[[Any], tuple[Json, Any]]:
    """Steps 7 and 8."""
    normalise = route.normalise

    def settle(raw: Any) -> tuple[Json, Any]:
        try:
            value, original = normalise(raw)
        except ToolReported as error:
            raise fail.executing(error) from error
        except UnusableResult as error:
            raise fail.rejected(error, raw if error.result is None else error.result) from error
        except Exception as error:
            raise fail.rejected(error, raw) from error
        if route.strict:
            return value, original
        try:
            value = _checked(value)
        except InvalidValue as error:
            problem = Problem(path=error.place, message=error.message)
            raise fail.rejected(error, value, (problem,)) from error
        if check_out is not None:
            try:
                check_out(value)
            except OutputValidationFailed as error:
                raise fail.with_result(error, value) from error.__cause__
        return value, original

    return settle


@dataclass(frozen=True, slots=True)
class Checker:
    """`check` gives the value, or raises the ToolError of one that does not fit; None where every object fits.
    `fits` is the quick answer where there is one."""

    check: Check | None = None
    fits: Callable[[Any], bool] | None = None


ALL_FIT: Final = Checker()


def _checker(
    schema: Json,
    place: str,
    validator: Validator | None,
    failed: Callable[[BaseException | str, Sequence[Problem]], ToolError],
) -> Checker:
    """What raises what `failed` makes of the problems."""
    if validator is not None:
        return Checker(_custom_checker(schema, place, validator, failed))
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
            raise failed(listed(problems), problems)
        return value

    return Checker(check, fits)


def _whole(checker: Checker, names: tuple[str, ...]) -> Checker:
    """The same, where a float that is an integer is given to these arguments as one. Of what is asked for at each
    call only the look for a float is new."""
    check, fits = checker.check, checker.fits
    if check is None or not names:
        return checker

    def whole(args: Json) -> Json:
        return check({k: int(v) if k in names and type(v) is float and v.is_integer() else v for k, v in args.items()})

    if fits is None:
        return Checker(whole)
    if len(names) == 1:
        (name,) = names  # most have one, and this is asked at each call
        return Checker(whole, lambda args: type(args.get(name)) is not float and fits(args))

    def fit(args: Args) -> bool:
        for name in names:
            if type(args.get(name)) is float:
                return False
        return fits(args)

    return Checker(whole, fit)


def _custom_checker(
    schema: Json,
    place: str,
    validator: Validator,
    failed: Callable[[BaseException | str, Sequence[Problem]], ToolError],
) -> Check:
    def check(value: Json) -> Json:
        try:
            found = validator.problems(schema, value, place)
            problems = [p if isinstance(p, Problem) else Problem(path=place, message=str(p)) for p in found or ()]
        except Exception as error:
            raise failed(error, ()) from error
        if problems:
            raise failed(listed(problems), problems)
        return value

    return check
