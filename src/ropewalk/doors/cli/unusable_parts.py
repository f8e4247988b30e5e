"""Warnings of a server about the parts of its project that cannot be used: servers, providers, embedding model."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ...errors import ConfigError
from .output import notify
from .tools import failure_lines

if TYPE_CHECKING:
    from ...app.app import App


class UnusableParts:
    """Writes a line for each part of a project that cannot be used, as soon as that is known."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._written: set[str] = set()

    def report(self) -> None:
        """Write the lines that are new."""
        for line in failure_lines(self._app, besides=self._app.context.untrusted):  # those have a warning of their own
            if line not in self._written:
                self._written.add(line)
                notify(line, logging.WARNING)

    @contextlib.asynccontextmanager
    async def watching(self, *, connect: bool) -> AsyncIterator[None]:
        """Check the embedding model, and connect everything if asked to, while the block runs."""
        self.report()
        task = asyncio.create_task(self._check(connect))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _check(self, connect: bool) -> None:
        await asyncio.gather(self._check_model(), *([self._connect()] if connect else []))

    async def _check_model(self) -> None:
        try:
            await asyncio.to_thread(self._app.context.selection.check_model)
        except ConfigError as error:
            notify(f"warning: {error}", logging.WARNING)

    async def _connect(self) -> None:
        await self._app.toolbox.connect_within(None)
        self.report()
