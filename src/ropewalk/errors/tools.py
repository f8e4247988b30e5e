"""A tool, or the model, could not be asked or has not answered."""

from __future__ import annotations

from typing import Any, Final

from .foreign import text_of
from .given import Problem, RopewalkError

NOT_APPROVED: Final = "refused: it has changed since it was approved, or never was; the operator has to look at it"


class InvalidTool(RopewalkError):
    """A tool definition is wrong, or differs from the one registered under the same id."""


class ToolError(RopewalkError):
    """A tool call failed at a known stage.

    `op` is one of validate_tool_id, resolve, select_backend, validate_input, execute, validate_output, stream;
    `backend` is the ToolBackend chosen, or None before that. The original exception is `__cause__`.
    """

    retryable = True
    ran = False
    """True if the tool ran and repeating the call would repeat its effects."""

    def __init__(
        self, tool_id: str, op: str, cause: BaseException | str, *, backend: Any = None, problems: Any = ()
    ) -> None:
        self.tool_id, self.op, self.backend = tool_id, op, backend
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.steps: list[Any] = []  # filled by Runner.run_chain: every StepResult so far
        self.reason = text_of(cause) or type(cause).__name__
        kind = getattr(backend, "kind", None)
        bracket = f" [{kind}]" if kind else ""
        super().__init__(f"run: {op} {tool_id}{bracket}: {self.reason}")
        if isinstance(cause, BaseException):
            self.__cause__ = cause

    @property
    def cause(self) -> BaseException | str:
        """The original exception, else what went wrong as text."""
        return self.reason if self.__cause__ is None else self.__cause__

    def matches(self, kind: type[BaseException]) -> bool:
        """Whether this error, or anything in its chain of causes, is a `kind`."""
        seen: BaseException | None = self
        while seen is not None and not isinstance(seen, kind):
            seen = seen.__cause__
        return seen is not None


def wrap_error(tool_id: str, op: str, error: BaseException | None, *, backend: Any = None) -> ToolError | None:
    """Give an error the context of a tool call, as executors and backends of your own need it.

    Args:
        tool_id: The tool that was called.
        op: The stage that failed, such as `execute`.
        error: What went wrong. None means that nothing did.
        backend: The ToolBackend that was used.

    Returns:
        A ToolError with `error` as its cause. None for None, and a ToolError of this tool unchanged.
    """
    if error is None:
        return None
    if isinstance(error, ToolError) and error.tool_id == tool_id:
        return error
    kinds = {"execute": ExecutionFailed, "validate_input": ValidationFailed, "validate_output": OutputValidationFailed}
    wrapped = kinds.get(op, ToolError)(tool_id, op, error, backend=backend)
    wrapped.retryable = getattr(error, "retryable", wrapped.retryable)
    return wrapped


class InvalidToolId(ToolError):
    retryable = False


class ToolNotFound(ToolError):
    retryable = False


class ToolNotApproved(ToolNotFound):
    """The tool is not the one that is pinned. `.reason` goes to models, so nothing in it is of the server's making;
    `.differs` is for the operator: what differs, and which command approves it."""

    def __init__(self, tool_id: str, op: str, differs: str, *, said: str = NOT_APPROVED, backend: Any = None) -> None:
        self.differs = differs
        super().__init__(tool_id, op, said, backend=backend)


class NoBackends(ToolError):
    retryable = False


class ValidationFailed(ToolError):
    """The arguments do not fit the tool's input schema; `.problems` lists each with its path."""

    retryable = False


class ExecutionFailed(ToolError):
    """The tool ran and failed, or could not be reached."""


class ToolTimeout(ExecutionFailed):
    """The tool gave no answer within `seconds`; `said` is what there is to tell beyond that."""

    def __init__(self, tool_id: str, seconds: float, *, backend: Any = None, said: str = "") -> None:
        self.seconds = seconds
        super().__init__(tool_id, "execute", said or f"no answer within {seconds:g} s", backend=backend)


class OutputValidationFailed(ToolError):
    """The tool ran, but its result cannot be used: it does not fit the output schema, or is not JSON.

    A retry would repeat the effects of the call, so `retryable` is False unless trusted annotations say that
    repeating the tool is safe. `result` is the rejected result (a RawResult), or None if the tool did not run.
    """

    retryable = False
    result: Any = None


class StreamNotSupported(ToolError):
    retryable = False


class ModelError(RopewalkError):
    """The model gave no answer of use. `status` is that of HTTP, if any; `retryable`: asking again may help.

    `part` is there when the model's API refused the request for what is in it: `{"tool": name}`, `{"block": digest}`,
    `{"schema": digest}`, or `{"request": digest}` when the refusal names nothing that can be left out.
    """

    def __init__(
        self, message: str, *, status: int | None = None, retryable: bool = False, part: dict[str, str] | None = None
    ) -> None:
        self.status, self.retryable, self.part = status, retryable, part
        super().__init__(message)
