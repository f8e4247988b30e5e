"""Everything that is offered, by the names clients see; always as it is now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .names import unique_names
from .offer import Offered, Source


class Catalogue:
    """The tools of some sources. Earlier sources come first in a list, and keep their names where two want one."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._version: Any = None
        self._tools: dict[str, Offered] = {}

    async def connect(self) -> None:
        """Reach what is needed to describe the tools."""
        for source in self._sources:
            await source.connect()

    @property
    def tools(self) -> dict[str, Offered]:
        """By name, in the order they are listed; made anew when a source has changed."""
        version = [source.version() for source in self._sources]
        if version != self._version:
            offered = [one for source in self._sources for one in source.offered()]
            names = unique_names((one.id, one.wanted) for one in offered)
            self._tools = {names[one.id]: one for one in offered}
            # Looking at a source may change it (a tool that is gone, a server that was reached): that is seen next.
            self._version = version
        return self._tools
