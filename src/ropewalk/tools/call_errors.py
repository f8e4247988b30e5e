"""Make the errors of a bound tool, so that each has the tool, the backend and the stage."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from ..errors import (
    ConfigError,
    ExecutionFailed,
    OutputValidationFailed,
    Problem,
    StreamNotSupported,
    ToolError,
    ToolNotApproved,
    ToolTimeout,
    ValidationFailed,
    attribute_of,
    describe_exception,
    exception_text,
)
from .backends.route import MissingHandler
from .mcp.login_errors import LoginRequired
from .raw_result import UnusableResult, raw_result
from .tool import ToolBackend

CANCELLED_ITSELF: Final = "the tool raised CancelledError although nobody cancelled the call"

log = logging.getLogger("ropewalk.tools")


class Failures:
    """Makes the errors of one bound tool, so that each carries its id and backend."""

    __slots__ = ("backend", "repeatable", "tool_id")

    def __init__(self, tool_id: str, backend: ToolBackend | None, repeatable: bool = False) -> None:
        self.tool_id, self.backend, self.repeatable = tool_id, backend, repeatable

    def executing(self, cause: BaseException, op: str = "execute") -> ToolError:
        """Return the ToolError of a call that raised `cause`."""
        if isinstance(cause, ToolTimeout):
            error: ToolError = ToolTimeout(self.tool_id, cause.seconds, backend=self.backend)
            error.__cause__ = cause
            return error
        if isinstance(cause, TimeoutError):
            from .mcp.requests import NoAnswer  # imported late, for the start of programs without MCP servers

            if isinstance(cause, NoAnswer):
                error = ToolTimeout(self.tool_id, cause.seconds, backend=self.backend, reason=str(cause))
                error.__cause__ = cause
                return error
        if isinstance(cause, ToolNotApproved):  # its server has changed its definition
            from ..source.document import escape_invisible  # the import takes 20 ms and is rarely needed

            log.warning("tool %s is refused: %s", self.tool_id, escape_invisible(cause.differs))
            return ToolNotApproved(self.tool_id, cause.op, cause.differs, reason=cause.reason, backend=self.backend)
        if isinstance(cause, ValidationFailed) and cause.backend is None and cause.problems:
            refused = self.input(cause.reason, cause.problems)
            refused.__cause__ = cause
            return refused
        if isinstance(cause, UnusableResult):
            return self.rejected(cause, cause.result)
        if isinstance(cause, OutputValidationFailed) and cause.result is not None and cause.tool_id == self.tool_id:
            # A proxy called the tool in its own toolbox, which knows whether the call may be repeated.
            proxied_failure = self.rejected(cause.reason, cause.result, cause.problems)
            proxied_failure.retryable, proxied_failure.ran, proxied_failure.__cause__ = (
                cause.retryable,
                cause.ran,
                cause,
            )
            return proxied_failure

        # Anything else is a failure of the tool itself.
        error = ExecutionFailed(self.tool_id, op, exception_message(cause), backend=self.backend)
        error.__cause__ = cause
        if isinstance(cause, LoginRequired):
            error.remedy = cause.remedy
        error.ran, error.ran_at = attribute_of(cause, "ran") is True, attribute_of(cause, "ran_at")
        if isinstance(cause, ToolError) and cause.is_recorded:
            error.kind = cause.kind  # a test repeats the failure of a recorded run
        if isinstance(cause, (ConfigError, MissingHandler)) or attribute_of(cause, "retryable") is False:
            error.retryable = False  # a retry would fail in the same way
        return error

    def timed_out(self, seconds: float, timeout: BaseException) -> ToolTimeout:
        """Return the error of a call that took longer than `seconds`, with the notes of what was cancelled."""
        reason = late_reason(seconds, timeout)
        if not reason and self.backend is not None and self.backend.server_name:
            setting = f"`timeout` of [mcp.{self.backend.server_name}] or of the step"
            reason = f"no answer within {seconds:g} s; {setting} limits it"
        return ToolTimeout(self.tool_id, seconds, backend=self.backend, reason=reason)

    def input(self, cause: BaseException | str, problems: Sequence[Problem] = ()) -> ValidationFailed:
        """Return the error of invalid arguments."""
        return ValidationFailed(self.tool_id, "validate_input", cause, backend=self.backend, problems=problems)

    def output(self, cause: BaseException | str, problems: Sequence[Problem] = ()) -> OutputValidationFailed:
        """Return the error of an invalid result."""
        return OutputValidationFailed(self.tool_id, "validate_output", cause, backend=self.backend, problems=problems)

    def rejected(
        self, cause: BaseException | str, received: Any, problems: Sequence[Problem] = ()
    ) -> OutputValidationFailed:
        """Return the error of a call that took effect but has an unusable result."""
        return self.with_result(self.output(cause, problems), received)

    def with_result(self, error: OutputValidationFailed, received: Any) -> OutputValidationFailed:
        """Complete an error of step 8: the tool ran, so only a repeatable one may be called again."""
        error.result = raw_result(received)
        error.retryable, error.ran = self.repeatable, not self.repeatable
        return error

    def no_stream(self, cause: BaseException | str) -> StreamNotSupported:
        """Return the error of a tool that cannot stream."""
        return StreamNotSupported(self.tool_id, "stream", cause, backend=self.backend)


def late_reason(seconds: float, error: BaseException) -> str:
    """Return the reason of a timeout that cancelled a call whose server was starting; "" without notes of it."""
    # The error is the cancellation or the TimeoutError that it led to, to which Python 3.11.2 gives no cause.
    both = (error, error.__cause__ or error.__context__)
    notes = [
        note for one in both if one is not None for note in attribute_of(one, "__notes__", ()) if isinstance(note, str)
    ]
    return "; ".join([f"no answer within {seconds:g} s", *notes]) if notes else ""


def exception_message(error: BaseException) -> str:
    """Return the message of a tool's exception, with its type if the message is only a key or value (KeyError: 'x')."""
    if not isinstance(error, Exception):
        return f"it raised {describe_exception(error)}"
    text = exception_text(error)
    needs_type = isinstance(error, (KeyError, StopIteration, StopAsyncIteration)) or not any(map(str.isalpha, text))
    return describe_exception(error) if needs_type else text
