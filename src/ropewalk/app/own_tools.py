"""Ropewalk's own tools as sources: the parts of agents, the operations on plans, recorded values, and saved plans.

Each module is imported when a flow first calls one of its tools, so other flows load none of them. The tools belong to
an app, not to its toolbox: they use its store and its model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from ..tools.reserved import OWN, PLAN_TOOLS, PLANS, SEARCH, VALUE
from ..tools.source import Source

if TYPE_CHECKING:
    from .jobs import Jobs


class OwnTools(Source):
    """The tools `ropewalk:NAME`."""

    names = (OWN,)

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def connect(self, tool_ids: Collection[str] | None = None) -> None:
        """Register the tools that come with these, or all."""
        names = _PARTS if tool_ids is None else {id.partition(":")[2] for id in tool_ids}
        for register in {_PARTS[name] for name in names if name in _PARTS}:
            register(self._jobs)


class SavedPlans(Source):
    """The tools `plans:NAME`, which are definitions in the store."""

    names = (PLANS,)

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def connect(self, tool_ids: Collection[str] | None = None) -> None:
        """Register every saved plan that is new or has changed."""
        from .saved_plans import register_saved_plans

        await register_saved_plans(self._jobs)


def _register_agent_tools(jobs: Jobs) -> None:
    from ..agents.memory import install

    install(jobs.context.toolbox, lambda: jobs.context.model, jobs.context.cache_ttl)


def _register_value(jobs: Jobs) -> None:
    from .saved_plans import value_tool

    if jobs.context.toolbox.get(f"{OWN}:{VALUE}") is None:
        jobs.context.toolbox.register(value_tool(jobs.context))


def _register_search(jobs: Jobs) -> None:
    from ..agents.tool_search import search_tool

    if jobs.context.toolbox.get(f"{OWN}:{SEARCH}") is None:
        jobs.context.toolbox.register(search_tool(jobs.context.selection.search))


def _register_plan_operations(jobs: Jobs) -> None:
    from .plan_operations import install_operations

    install_operations(jobs.context, jobs)


_PARTS: Final[dict[str, Callable[[Jobs], None]]] = {
    "model": _register_agent_tools,
    "approval": _register_agent_tools,
    VALUE: _register_value,
    SEARCH: _register_search,
    **dict.fromkeys(PLAN_TOOLS, _register_plan_operations),
}
