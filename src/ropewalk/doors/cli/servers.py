"""Connecting all servers of a project, with a word about those that keep a command waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .logs import tell

if TYPE_CHECKING:
    from ...app import App

_QUIET: Final = 2.0  # seconds before a command says what it waits for


async def all_connected(app: App) -> None:
    """Connect every server. The command has no later moment to list a tool, so it waits for each one's
    `connect_timeout`, and says so when that takes long."""
    late = await app.toolbox.connect_within(_QUIET)
    if late:
        tell(f"waiting for {', '.join(late)}: no answer yet; `connect_timeout` of the server says how long to wait")
        await app.toolbox.connect_within(None)
