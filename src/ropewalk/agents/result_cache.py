"""Results of read-only tools that the conversations of one app share for a time to live.

A model that calls a tool with the arguments of an earlier call gets the earlier result. The entries are in memory, at
most MAX_ENTRIES and MAX_BYTES, and the least recently used ones go first. `Caching` is the view of one turn: it answers
calls from the cache, and keeps what the calls of the turn before gave.

Only results that every conversation would get are shared: of tools with `readOnlyHint` that a Runner calls. Failures,
calls that need an approval, flows, Ropewalk's own tools and calls for a client that a server may ask are left out.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import orjson

from ..engine.engine import Engine
from ..fast_dataclass import dataclass
from ..tools.backends.route import Routed
from ..tools.directory.directory import DirectoryCaller
from ..tools.mcp.call_client import CLIENT
from ..tools.runner import Runner
from ..tools.toolbox import Toolbox
from ..values import Json, digest

MAX_ENTRIES: Final = 1_000
MAX_BYTES: Final = 50_000_000


class _Entry(NamedTuple):
    identity: Any
    outcome: Mapping[str, Json]
    # A reading of `time.monotonic` before the call.
    asked: float
    run_id: str
    size: int


class ResultCache:
    """The results of one toolbox; `ttl` has the seconds that the project sets, by pattern of tool ids."""

    def __init__(self, toolbox: Toolbox, ttl: Mapping[str, float]) -> None:
        self.toolbox, self.ttl = toolbox, ttl
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._asked: OrderedDict[tuple[str, str], tuple[str, Any, float]] = OrderedDict()
        self._bytes = 0

    def ttl_of(self, tool: str, option: Json) -> float:
        """Return the seconds for which the results of a tool are used; 0 for not at all."""
        if isinstance(option, Mapping):
            return float(option.get("ttl") or 0)
        patterns = self.ttl if option is not False else {}
        return next((seconds for pattern, seconds in patterns.items() if fnmatchcase(tool, pattern)), 0.0)

    def ask(self, id: tuple[str, str], key: str, identity: Any) -> None:
        """Note that a call is about to be made."""
        # The time before the call, so that no result looks newer than it is.
        self._asked[id] = key, identity, time.monotonic()
        if len(self._asked) > MAX_ENTRIES:
            self._asked.popitem(last=False)

    def keep(self, id: tuple[str, str], outcome: Mapping[str, Json], run_id: str) -> None:
        """Keep the result of a call that this process has made."""
        # A result that a resumed run read from the journal may be of any age, and was not asked for here.
        key, identity, asked = self._asked.pop(id, ("", None, 0.0))
        if not key or "value" not in outcome or "same_as" in outcome:
            return
        size = len(orjson.dumps(outcome))
        self._drop(key)
        if size > MAX_BYTES:
            return
        self._entries[key] = _Entry(identity, outcome, asked, run_id, size)
        self._bytes += size
        while self._bytes > MAX_BYTES or len(self._entries) > MAX_ENTRIES:
            self._drop(next(iter(self._entries)))

    def find(self, key: str, identity: Any, ttl: float) -> dict[str, Json] | None:
        """Return the outcome of an earlier call, with its age and run in `cached`; None if there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        age = time.monotonic() - entry.asked
        if age >= ttl or entry.identity != identity:
            return None
        self._entries.move_to_end(key)
        return {**entry.outcome, "cached": {"age": round(age, 3), "run_id": entry.run_id}}

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size


@dataclass(frozen=True, slots=True)
class Caching:
    """The cache as one turn of a conversation uses it."""

    cache: ResultCache
    # The caller of the run's tools. Only runs with the same one share results.
    caller: Any
    run_id: str
    # The node of the conversation in its run, because two conversations may use the same ids for their calls.
    place: str
    option: Json
    approve: Collection[str]

    def find(self, tool: str, arguments: Json, use_id: str) -> dict[str, Json] | None:
        """Return the outcome of an earlier call; None for a call to make, whose result the next turn keeps."""
        ttl = self.cache.ttl_of(tool, self.option)
        identity = self._identity(tool) if ttl and tool not in self.approve else None
        if identity is None:
            return None
        key = digest([tool, arguments])
        outcome = self.cache.find(key, identity, ttl)
        if outcome is None:
            self.cache.ask((self.place, use_id), key, identity)
        return outcome

    def keep(self, trace: Sequence[Mapping[str, Any]]) -> None:
        """Keep the results of the calls that this process has made for the conversation."""
        for use in trace:
            self.cache.keep((self.place, str(use.get("id"))), use.get("outcome") or {}, self.run_id)

    def _identity(self, tool_id: str) -> Any:
        """Return what changes with the definition, the code or the server of a tool; None for one to leave out."""
        toolbox = self.cache.toolbox
        tool, backends = toolbox.get(tool_id), toolbox.backends(tool_id)
        handlers = [toolbox.local.get(backend.name) for backend in backends if backend.name is not None]
        if tool is None or any(isinstance(handler, Routed) for handler in handlers):
            return None
        return tool.fingerprint, backends, handlers, self.caller


def caching_of(
    cache: ResultCache, engine: Engine | None, key: str | None, option: Json, approve: Collection[str]
) -> Caching | None:
    """Return the cache for a turn with an idempotency key; None if the run's tools may answer only itself."""
    run = None if engine is None or not (cache.ttl or isinstance(option, Mapping)) else engine.live_run(key)
    if run is None or key is None or CLIENT.get() is not None:
        return None
    caller = run.program.caller
    caller = caller.base if isinstance(caller, DirectoryCaller) else caller
    if type(caller) is not Runner:
        return None  # an executor, recorded calls or the parts of an unfinished run
    # `talk[2]/turn`: the calls of a conversation have the same ids in every iteration.
    return Caching(cache, caller, run.id, key.rpartition("/")[0].rpartition("[")[0], option, approve)
