"""The part of an app that calls single tools, selects among all, and learns from their use."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from ..journal.offloop import off_loop
from ..tools.bound import checked_args
from ..values import Json

if TYPE_CHECKING:
    from ..journal.journal import Store
    from ..tools.runner import Runner
    from ..tools.toolbox import Toolbox
    from .selector import Selector

log = logging.getLogger("ropewalk")


class Selecting:
    """What is needed of an app: its toolbox and runner, and its store, which is opened when it is first needed."""

    toolbox: Toolbox
    runner: Runner

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

    async def learn(self, job: Any, result: Mapping[str, Json]) -> None:
        """After a run that was given the request it is for: have the selector remember how its tools did. Of one that
        was let go of to wait it learns when that has ended."""
        request = (job.new.context or {}).get("request")
        if request is not None and result.get("status") != "waiting":
            from .learning import outcomes

            def learn() -> None:
                self._learn(request, outcomes(job.flow, self.store.history(job.new.id), result))

            await off_loop(self.store, learn)

    async def call_tool(
        self, tool_id: str, args: dict[str, Json] | None = None, *, on_progress: Any = None, request: str | None = None
    ) -> Json:
        """Call one tool through the whole pipeline and return its value. With `request`, the words that asked for
        it, the selector remembers how the tool did."""
        if self.toolbox.lacks(tool_id):
            await self.toolbox.connect_for([tool_id])
        bound = self.runner.bind(tool_id)
        with self.runner.teaching(tool_id, request):
            return await bound.call(checked_args(tool_id, bound, args), None, None, on_progress)

    def _learn(self, request: str, outcomes: Mapping[str, bool]) -> None:
        try:
            self.selector.learn(request, outcomes)
        except StoreError:  # what was done stands; only what could be learnt from it is lost
            log.exception("the selector learnt nothing from a use of %s", ", ".join(outcomes))
