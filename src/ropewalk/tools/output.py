"""The output of a call: the text that its tool prints and logs, which is kept with the step that makes the call.

The engine sets `CURRENT` in the task of a step, so tasks and threads that a tool starts have it, too. `current_output`
reads it: for the streams and loggers of this process (`capture.py`), for Node.js processes, and for MCP servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Final, NamedTuple, Protocol


class LogLimits(NamedTuple):
    """How much is kept of what a step prints and logs: lines, and characters of them."""

    lines: int = 1_000
    characters: int = 100_000


LOG_LIMITS: Final = LogLimits()


class Output(Protocol):
    """Keeps what a tool prints and logs; safe to use from any thread."""

    def write(self, stream: str, text: str) -> None:
        """Add a piece of what a stream prints; each newline in it ends a line."""

    def add(self, stream: str, text: str, level: str = "") -> None:
        """Add a whole text, which may have several lines."""


class OutputSource(Protocol):
    """Knows which step its task executes now."""

    def output(self) -> Output | None:
        """Return the output of the step; None between steps."""

    def pin(self) -> OutputSource | None:
        """Return a source that stays with the step that runs now, for a thread; None between steps."""

    def warn_of_call(self, tool: str, key: str, warnings: Sequence[str]) -> bool:
        """Record the warnings about the result of the call with an idempotency key; return False if nobody does."""


class RunOutput:
    """The source of a run, until the run is over: timers that were set during it keep its context much longer."""

    __slots__ = ("source",)

    def __init__(self, source: OutputSource) -> None:
        self.source: OutputSource | None = source

    def output(self) -> Output | None:
        """Return the output of the step; None between steps and after the run."""
        return None if self.source is None else self.source.output()

    def pin(self) -> OutputSource | None:
        """Return a source that stays with the step that runs now; None between steps and after the run."""
        return None if self.source is None else self.source.pin()

    def warn_of_call(self, tool: str, key: str, warnings: Sequence[str]) -> bool:
        """Record warnings about the result of a call; return False after the run."""
        return self.source is not None and self.source.warn_of_call(tool, key, warnings)


CURRENT: Final[ContextVar[OutputSource | None]] = ContextVar("ropewalk_output", default=None)
"""The source for the current task; None outside of runs."""

ECHO: Final[list[Callable[[str], None]]] = []
"""Gets the lines that steps print, without secrets, each with its run and its path."""
SETTLE: Final[list[Callable[[], None]]] = []
"""Called before the output of a run is closed, to read what child processes have printed last."""


def current_output() -> Output | None:
    """Return the output of the step that the current task or thread belongs to; None outside of steps."""
    source = CURRENT.get()
    return None if source is None else source.output()


def context_of_step() -> Context:
    """Return a copy of the context for a thread: what the thread prints stays with the step that runs now."""
    context, source = copy_context(), CURRENT.get()
    if source is not None:
        context.run(CURRENT.set, source.pin())
    return context


@contextmanager
def uncaptured() -> Iterator[None]:
    """Let what is written inside go to the real streams, as a question to a person at the terminal must."""
    token = CURRENT.set(None)
    try:
        yield
    finally:
        CURRENT.reset(token)
