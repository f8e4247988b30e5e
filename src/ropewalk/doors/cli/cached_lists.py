"""Commands that only look at tools answer from the cached lists of MCP servers; what they say of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from .output import duration

if TYPE_CHECKING:
    from ...app.app import App

Fresh: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--fresh", negative=(), help="Ask the MCP servers for their tools instead of using lists of up to 7 days."
    ),
]


def prefer_lists(app: App, fresh: bool) -> None:
    """Use the cached lists of servers, unless the servers should be asked."""
    if app.toolbox.servers is not None:
        app.toolbox.servers.prefers_lists = not fresh


def cached_lists(app: App) -> Mapping[str, float]:
    """Return the servers whose tools are known from a list only, each with its age in seconds."""
    return {} if app.toolbox.servers is None else app.toolbox.servers.cached


def ask_servers(app: App) -> bool:
    """Ask the servers from now on; return False if no list was used."""
    prefer_lists(app, fresh=True)
    return bool(cached_lists(app))


def cached_line(app: App) -> list[str]:
    """Say which lists are used and how old they are; nothing without one."""
    ages = [f"{name} ({duration(age)} ago)" for name, age in sorted(cached_lists(app).items())]
    return [f"from the cache: {', '.join(ages)}; --fresh asks the servers"] if ages else []
