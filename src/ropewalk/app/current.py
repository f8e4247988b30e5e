"""The app of the surrounding `async with App(...)`, and the options of a run by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ..events import Event
from ..values import Json

if TYPE_CHECKING:
    from .app import App

_current: ContextVar[tuple[App, ...]] = ContextVar("current_apps", default=())


def enter_app(app: App) -> None:
    """Make an app the current one."""
    _current.set((*_current.get(), app))


def leave_app(app: App) -> None:
    """Make the app current again that was current before this one."""
    _current.set(tuple(outer for outer in _current.get() if outer is not app))


def current_app() -> App | None:
    """Return the app of the surrounding `async with App(...)`."""
    apps = _current.get()
    return apps[-1] if apps else None


class StartOptions(TypedDict, total=False):
    """The options that `App.run` and `App.execute` share; `App.run` documents them."""

    run_id: str | None
    variables: Mapping[str, Json] | None
    executor: Callable[[str, dict[str, Json]], Awaitable[Any]] | None
    on_event: Callable[[Event], None] | None
    request: str | None
    undo: Literal["on_request", "on_failure"] | None
    budget: Mapping[str, float] | None


class RunOptions(StartOptions, total=False):
    """The options of `App.run`, which documents them."""

    concurrency: int | None
    state: Mapping[str, Json] | None
    keep_state: bool
    park: bool


class JobOptions(StartOptions, total=False):
    """The options of `Jobs.new`."""

    definition_id: str | None
    input: Json


class ExecuteOptions(JobOptions, total=False):
    """The options of `App.execute`, which documents them."""

    park: bool
