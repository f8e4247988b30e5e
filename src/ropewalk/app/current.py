"""The app of the surrounding `async with App(...)`, and the options of a run by name."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, TypedDict

from ..values import Json

if TYPE_CHECKING:
    from .app import App
    from .start import Executor, OnEvent

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
