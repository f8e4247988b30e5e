"""The app of the surrounding `async with App(...)`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .app import App

_current: ContextVar[tuple[App, ...]] = ContextVar("current_apps", default=())


def enter_app(app: App) -> None:
    """Make an app the current one."""
    _current.set((*_current.get(), app))


def leave_app(app: App) -> None:
    """Make the app current again that was current before this one."""
    _current.set(tuple(outer for outer in _current.get() if outer is not app))


@contextmanager
def as_current(app: App) -> Iterator[None]:
    """Make an app the current one for the block, and for the tasks that it starts."""
    token = _current.set((*_current.get(), app))
    try:
        yield
    finally:
        _current.reset(token)


def current_app() -> App | None:
    """Return the app of the surrounding `async with App(...)`."""
    apps = _current.get()
    return apps[-1] if apps else None
