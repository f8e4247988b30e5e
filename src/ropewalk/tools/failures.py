"""The errors of one bound tool: made in one place, so that each names the tool, the backend and the stage."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

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
)
from ..errors.foreign import text_of, with_type
from .raw import UnusableResult, raw_result
from .route import MissingHandler
from .tool import ToolBackend

log = logging.getLogger("ropewalk.tools")


class Failures:
    """Makes the errors of one bound tool, so that each carries its id and backend."""

    __slots__ = ("backend", "repeatable", "tool_id")

    def __init__(self, tool_id: str, backend: ToolBackend | None, repeatable: bool = False) -> None:
        self.tool_id, self.backend, self.repeatable = tool_id, backend, repeatable

    def executing(self, cause: BaseException, op: str = "execute") -> ToolError:
        """The failure of a call, with what was raised as its cause."""
        if isinstance(cause, ToolTimeout):
            error: ToolError = ToolTimeout(self.tool_id, cause.seconds, backend=self.backend)
            error.__cause__ = cause
            return error
        if isinstance(cause, TimeoutError):
            from .mcp_request import NoAnswer  # what no MCP server was asked, none can leave unanswered

            if isinstance(cause, NoAnswer):
                error = ToolTimeout(self.tool_id, cause.seconds, backend=self.backend, said=str(cause))
                error.__cause__ = cause
                return error
        if isinstance(cause, ToolNotApproved):  # its server changed it in the meantime
            from ..source import visible  # 20 ms, and most tools are as they were approved

            log.warning("%s is refused: %s", self.tool_id, visible(cause.differs))
            return ToolNotApproved(self.tool_id, cause.op, cause.differs, said=cause.reason, backend=self.backend)
        if isinstance(cause, ValidationFailed) and cause.backend is None and cause.problems:
            refused = self.input(cause.reason, cause.problems)
            refused.__cause__ = cause
            return refused
        if isinstance(cause, UnusableResult):
            return self.rejected(cause, cause.result)
        if isinstance(cause, OutputValidationFailed) and cause.result is not None and cause.tool_id == self.tool_id:
            # The call of a lent tool: it is the same call, and the toolbox that owns the tool knows its hints.
            lent = self.rejected(cause.reason, cause.result, cause.problems)
            lent.retryable, lent.ran, lent.__cause__ = cause.retryable, cause.ran, cause
            return lent
        error = ExecutionFailed(self.tool_id, op, said(cause), backend=self.backend)
        error.__cause__ = cause
        error.ran = getattr(cause, "ran", False) is True
        if isinstance(cause, (ConfigError, MissingHandler)) or getattr(cause, "retryable", True) is False:
            error.retryable = False  # trying again cannot help
        return error

    def no_answer(self, seconds: float) -> ToolTimeout:
        return ToolTimeout(self.tool_id, seconds, backend=self.backend)

    def input(self, cause: BaseException | str, problems: Sequence[Problem] = ()) -> ValidationFailed:
        return ValidationFailed(self.tool_id, "validate_input", cause, backend=self.backend, problems=problems)

    def output(self, cause: BaseException | str, problems: Sequence[Problem] = ()) -> OutputValidationFailed:
        return OutputValidationFailed(self.tool_id, "validate_output", cause, backend=self.backend, problems=problems)

    def rejected(
        self, cause: BaseException | str, received: Any, problems: Sequence[Problem] = ()
    ) -> OutputValidationFailed:
        """Return the failure of a call that took effect, with the result that cannot be used."""
        return self.with_result(self.output(cause, problems), received)

    def with_result(self, error: OutputValidationFailed, received: Any) -> OutputValidationFailed:
        """Complete a failure of step 8: the tool ran, so only a repeatable one may be called again."""
        error.result = raw_result(received)
        error.retryable, error.ran = self.repeatable, not self.repeatable
        return error

    def no_stream(self, cause: BaseException | str) -> StreamNotSupported:
        return StreamNotSupported(self.tool_id, "stream", cause, backend=self.backend)


def said(error: BaseException) -> str:
    """What a tool's exception says, with its type where that is no more than a key or a value (KeyError: 'x')."""
    if not isinstance(error, Exception):
        return f"it raised {with_type(error)}"
    text = text_of(error)
    alone = isinstance(error, (KeyError, StopIteration, StopAsyncIteration)) or not any(map(str.isalpha, text))
    return with_type(error) if alone else text
