"""The flows under which the unfinished parts of a run began, as tools of this run: their files may be gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ..ops import calls_of
from .preflight import tool_place
from .recorded_run import MOST_PARTS, require_run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ..ir import Flow, Node
    from ..journal.protocol import Entry, RunRow, Store
    from ..tools.runner import Runner
    from ..tools.tool import Tool

Recorded: TypeAlias = "tuple[Iterable[Entry], Mapping[str, RunRow]]"
"""The entries of a run, and its unfinished parts by the ids of their nodes."""


class PartTools:
    """The caller of a run's tools, which has these flows instead of those that the toolbox lacks."""

    def __init__(self, caller: Any, runner: Runner, flows: Mapping[str, Tool]) -> None:
        self._caller, self._runner, self._flows = caller, runner, flows

    @property
    def version(self) -> int:
        """The version of the toolbox."""
        return int(self._caller.version)

    def bind(self, tool_id: str, /) -> Any:
        """Resolve a tool."""
        flow = self._flows.get(tool_id)
        return self._caller.bind(tool_id) if flow is None else self._runner.bind_handler(flow, flow.handler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._caller, name)


def calls_by_place(flow: Flow) -> dict[str, Node]:
    """Return the nodes that call tools, by the places at which the document names the tools."""
    return {tool_place(node): node for node in calls_of(flow.body)}


def parts_by_node(store: Store, run_id: str, restarted: Collection[str]) -> dict[str, RunRow]:
    """Return the newest part of a run for each node that calls flows, without the parts that start from nothing."""
    from .runs.instances import without_attempts  # a run that begins has no parts

    parts: dict[str, str] = {}
    for part in store.list_runs(parent=run_id, limit=MOST_PARTS):
        path = without_attempts(part.id.removeprefix(f"{run_id}/"))
        parts.setdefault(path.rpartition("/")[2].partition("[")[0], part.id)
    return {node: require_run(store, id) for node, id in parts.items() if id not in restarted}
