"""The calls in progress of a run, recorded before each call once a process has died while it executed the run.

A tool may end its process, and then nothing records its call. So the journal of such a run names the calls in progress
in one entry of the kind `begun`, which the run shares with the runs inside it. `journal/sql/recovery.py` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from ..errors import errors_in
from ..journal.past import load
from ..journal.protocol import BEGUN, BEGUN_PATH, Entry

if TYPE_CHECKING:
    from ..values import Json
    from .frame import NodeSlot

_MOST: Final = 20  # calls in progress that an entry names; among more, nobody finds the one that ended the process
_NUMBERS: Final = re.compile(r"\[\d+\]|@\d+")


class BegunCalls:
    """Records the calls in progress of one run."""

    def __init__(
        self, run: Any, add_places: Callable[[dict[str, Json]], Awaitable[None]] | None, outer: BegunCalls | None
    ) -> None:
        self._run, self._add_places = run, add_places
        self._root: BegunCalls = self if outer is None else outer._root
        self._places: dict[str, dict[str, Any]] = {}  # by path without numbers
        # Only of the outermost run: the calls in progress, by run and path, and those that the last process was in.
        self._calls: dict[tuple[str, str], dict[str, Any]] = {}
        self._deaths: dict[tuple[str, str], int] | None = None

    async def add(self, path: str, node_slot: NodeSlot, tool: str) -> None:
        """Record that a call begins, before it does."""
        place = await self._place_of(path, node_slot)
        await self._root._record({"run": self._run.id, "path": path, "node": node_slot.id, "tool": tool, **place})

    def remove(self, path: str) -> None:
        """Forget a call that has ended; the next one is recorded without it."""
        self._root._calls.pop((self._run.id, path), None)

    def clear(self) -> None:
        """Record that this process has left all calls, because it releases the run."""
        if self._root is self and self._calls:
            self._calls.clear()
            self._append()

    async def _record(self, call: dict[str, Any]) -> None:
        if self._deaths is None:
            past = self._run.log.past
            if type(past) is not dict:
                await load(past, (BEGUN_PATH, BEGUN))
            entry: Any = past.get((BEGUN_PATH, BEGUN))
            calls = [] if entry is None else entry.data["calls"]
            self._deaths = {(item["run"], _NUMBERS.sub("", item["path"])): item["deaths"] + 1 for item in calls}
        key = call["run"], call["path"]
        # The deaths of earlier processes in this call; a retry of it has another number.
        call["deaths"] = self._deaths.get((key[0], _NUMBERS.sub("", key[1])), 0)
        self._calls[key] = call
        await self._append()

    def _append(self) -> Any:
        log, now = self._run.log, self._run.now()
        data: Json = {"epoch": log.run.epoch, "calls": list(self._calls.values())[-_MOST:]}
        return log.append(Entry(BEGUN_PATH, BEGUN, "", data, "", now, now))

    async def _place_of(self, path: str, node_slot: NodeSlot) -> dict[str, Any]:
        """Return the line of the file that defines the node as the field `place`, or nothing."""
        if self._add_places is None:
            return {}
        key = _NUMBERS.sub("", path)
        if key not in self._places:
            found: dict[str, Any] = {"errors": [{"path": path, "nodeId": node_slot.id, "message": ""}]}
            await self._add_places(found)
            self._places[key] = {
                name: error[name] for error in errors_in(found) for name in ("place",) if name in error
            }
        return self._places[key]
