"""`Start`: how a run begins or continues. Each interface makes one, and from there only the record is passed on.

A run that exists continues with its own definition, input and variables. Then `definition` is the one to upgrade to,
and only the fields that a process decides count: `executor`, `on_event` and `park`. A fork takes `input` and `run_id`,
too. Refused here: checks (`app/jobs.py`), and everything that needs a service.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypedDict

from ..events import Event
from ..fast_dataclass import dataclass
from ..values import Json

if TYPE_CHECKING:
    from .prepared import Prepared

Executor: TypeAlias = Callable[[str, dict[str, Json]], Awaitable[Json]]
OnEvent: TypeAlias = Callable[[Event], None] | None


class RunOptions(TypedDict, total=False):
    """The options of `App.run`, which documents them."""

    run_id: str | None
    variables: Mapping[str, Json] | None
    executor: Executor | None
    on_event: OnEvent
    request: str | None
    undo: Literal["on_request", "on_failure"] | None
    budget: Mapping[str, float] | None
    concurrency: int | None
    state: Mapping[str, Json] | None
    keep_state: bool
    park: bool


class ExecuteOptions(RunOptions, total=False):
    """The options of `App.execute`, which documents them."""

    definition_id: str | None
    input: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a run begins or continues; `App.run` documents the fields."""

    # None for an existing run that keeps its own.
    definition: Prepared | None = None
    # The id under which the run is listed.
    definition_id: str | None = None
    input: Json = None
    run_id: str | None = None
    variables: Mapping[str, Json] | None = None
    # Initial state of an experience.
    state: Mapping[str, Json] | None = None
    keep_state: bool = False
    concurrency: int | None = None
    executor: Executor | None = None
    on_event: OnEvent = None
    request: str | None = None
    undo: str | None = None
    budget: Mapping[str, float] | None = None
    park: bool = False

    def watched(self, on_event: OnEvent) -> Start:
        """Return the same start with another watcher of the events."""
        return replace(self, on_event=on_event)

    def parked(self) -> Start:
        """Return the same start for a run that is released while it only waits."""
        return self if self.park else replace(self, park=True)


DEFAULT: Final = Start()
"""Continues a run without an executor, a watcher, and parking."""
