"""The part of an app that selects tools and learns from their use."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import StoreError, ToolError
from ..values import Json

if TYPE_CHECKING:
    from ..journal.journal import Store
    from ..tools.toolbox import Toolbox
    from .selector import Selector

log = logging.getLogger("ropewalk")


class Selecting:
    """What is needed of an app: its toolbox, and its store, which is opened when it is first needed."""

    toolbox: Toolbox

    if TYPE_CHECKING:

        @property
        def store(self) -> Store: ...

    @cached_property
    def selector(self) -> Selector:
        """Finds the tools that a request needs, among those the toolbox has at the time; learns from use."""
        from .selector import Selector

        made = Selector(keeper=lambda: self.store)
        made.follow(self.toolbox)
        return made

    def learn(self, job: Any) -> None:
        """After a run that was given the request it is for: have the selector remember how its tools did."""
        request = (job.new.context or {}).get("request")
        if request is not None:
            from .learning import outcomes

            self._learn(request, outcomes(job.flow, self.store.history(job.new.id)))

    async def learning_from(self, request: str, tool_id: str, called: Awaitable[Json]) -> Json:
        """The value of a call, and how it went remembered for the request it was made for."""
        try:
            value = await called
        except ToolError:
            self._learn(request, {tool_id: False})
            raise
        self._learn(request, {tool_id: True})
        return value

    def _learn(self, request: str, outcomes: Mapping[str, bool]) -> None:
        try:
            self.selector.learn(request, outcomes)
        except StoreError:  # what was done stands; only what could be learnt from it is lost
            log.exception("the selector learnt nothing from a use of %s", ", ".join(outcomes))
