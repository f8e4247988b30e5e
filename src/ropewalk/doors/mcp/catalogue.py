"""Everything that is offered, by the names clients see; always as it is now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from .find import CALL, FIND, call_tool, find_tools
from .finder import Finder
from .names import unique_names
from .offer import Offered, Source


class Catalogue:
    """The tools of some sources. Where there are more than `most_listed`, only those of `always` are listed as far as
    they fit, and `find_tools` and `call_tool` for the rest; every tool can be called by its name all the same."""

    def __init__(
        self, finder: Finder, always: Sequence[Source], others: Sequence[Source] = (), *, most_listed: int = 100
    ) -> None:
        self.finder = finder
        self._always, self._others, self._most = tuple(always), tuple(others), most_listed
        self._version: Any = None
        self._tools: dict[str, Offered] = {}
        self._listed: dict[str, Offered] = {}
        self._withheld: dict[str, Offered] = {}

    async def connect(self) -> None:
        """Reach what is needed to describe the tools."""
        await asyncio.gather(*(source.connect() for source in (*self._always, *self._others)))

    @property
    def connecting(self) -> list[str]:
        """The servers whose tools are missing, as they have not answered yet."""
        return self.finder.connecting if self._others else []

    async def find(self, name: str) -> Offered | None:
        """Return what is called by a name, connecting only servers that it may come from; None where there is none.

        Raises ConnectionError when such a server cannot be reached."""
        found = self.tools.get(name) or self.withheld(name)
        if found is not None:
            return found
        for source in (*self._always, *self._others):
            await source.reach(name)
        return self.tools.get(name) or self.withheld(name)

    @property
    def tools(self) -> dict[str, Offered]:
        """What can be called, by name; made anew when a source has changed."""
        self._refresh()
        return {**self._tools, **self._listed}

    def withheld(self, name: str) -> Offered | None:
        """What would have this name if it were offered: its call says why it is not."""
        self._refresh()
        return self._withheld.get(name)

    @property
    def listed(self) -> dict[str, Offered]:
        """What clients are shown, in this order."""
        self._refresh()
        return self._listed

    def _refresh(self) -> None:
        version = [source.version() for source in (*self._always, *self._others)]
        if version == self._version:
            return
        always = [one for source in self._always for one in source.offered()]
        all = [one for source in self._others for one in source.offered()]
        others = [one for one in all if not one.withheld]
        offered = (*always, *others)
        own = {one.id for one in offered if one.own}
        names = unique_names(((one.id, one.wanted) for one in offered), taken=(FIND, CALL), own=own)
        tools = {names[one.id]: one for one in offered}
        # Named by themselves: what is refused takes no name from what is not.
        apart = unique_names((one.id, one.wanted) for one in all if one.withheld)
        withheld = {apart[one.id]: one for one in all if one.withheld}
        listed = tools
        if len(tools) > self._most:
            first = always if len(always) <= self._most else []
            listed = {FIND: find_tools(tools, self.finder), CALL: call_tool(self.find, tools, self.finder)}
            listed |= {names[one.id]: one for one in first}
        # The version of before the look: what changes meanwhile is seen next time.
        self._tools, self._listed, self._version = tools, listed, version
        self._withheld = withheld
