"""Experiences in their directories: who calls their modules, which state a run begins with, one inside another."""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .dialects.experience_nodes import SHARED_STATE
from .dialects.notation import value_in
from .engine.flowtool import FlowTool, value_of
from .errors import InvalidFlow, InvalidInput, InvalidValue, NotFound, Problem
from .ir import Flow
from .journal.offloop import off_loop
from .state import check_writes
from .tools.bound import Bound, Rules, bind_route
from .tools.directory import DirectoryCaller
from .tools.inside import WrongPath, find
from .tools.route import Args, OnProgress, Route
from .values import Json

if TYPE_CHECKING:
    from .definitions import Loaded
    from .engine.engine import Engine, Job
    from .journal.journal import RunRow

LOOKED_AT = 50  # runs that are looked through for the last one that has ended


class Directories:
    """The callers of the directories whose experiences an app runs: one per directory and environment."""

    def __init__(
        self,
        base: Any,
        load: Callable[[Path], Loaded],
        ready: Callable[[Loaded], Awaitable[None]],
        begun: Callable[[RunRow], Awaitable[Job]],
        engine: Callable[[], Engine],
    ) -> None:
        self.base, self.load, self.ready, self.begun, self.engine = base, load, ready, begun, engine
        self._callers: dict[tuple[str, tuple[tuple[str, str], ...]], DirectoryCaller] = {}

    def caller(self, loaded: Loaded) -> Any:
        """What calls the tools of a definition: the app's own where it names no files."""
        root = loaded.root
        if root is None:
            return self.base
        env = {name: os.environ[name] for name in loaded.compiled.env if name in os.environ}
        key = (root, tuple(sorted(env.items())))
        found = self._callers.get(key)
        if found is None:
            found = self._callers[key] = DirectoryCaller(self.base, root, env=env)
            found.kinds["experience"] = lambda tool_id: self._experience(root, tool_id)
        return found

    async def close(self) -> None:
        """Leave no process behind."""
        for caller in self._callers.values():
            await caller.close()
        self._callers.clear()

    def _experience(self, root: str, tool_id: str) -> Bound:
        """Another directory as a tool: a run of its own, part of the one that calls it."""
        try:
            loaded = self.load(find(Path(root), tool_id.partition(":")[2], directory=True))
        except (WrongPath, NotFound) as wrong:
            raise InvalidFlow([Problem(path=tool_id, message=str(wrong))]) from wrong
        flow = FlowTool(
            id=tool_id,
            kind=loaded.kind,
            flow=loaded.flow,
            fingerprint=loaded.fingerprint,
            document=loaded.document,
            render=loaded.compiled.render,
            caller=self.caller(loaded),
            ready=lambda: self.ready(loaded),
            begun=self.begun,
            root=root,
            engine=self.engine,
        )

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Json:
            given = {name: value for name, value in args.items() if name != SHARED_STATE}
            shared = args.get(SHARED_STATE)
            state = {name: shared[name] for name in flow.flow.state if name in shared} if shared is not None else None
            if state:
                check_state(flow.flow, state)
            result = await flow.run(given, self.engine, key, on_progress, state)
            final = value_of(result, flow.kind)
            return {"runId": result.get("executionId"), "status": result.get("status"), "finalState": final}

        route = Route(send=send, timeout=math.inf, per_attempt=True, waits=flow.waits())
        return bind_route(tool_id, None, None, route, Rules(timeout=math.inf))


async def seeded(
    store: Any, loaded: Loaded, given: Mapping[str, Json], keep: bool, run_id: str | None = None
) -> dict[str, Json]:
    """The state that a run begins with, beside the defaults: with `keep` that of the last one, and what is `given`. A
    run that has begun keeps what it began with."""
    root, kept = loaded.root, dict[str, Json]()
    if keep and root is not None:
        kept = await off_loop(store, lambda: last_state(store, root, run_id))
    state = {**kept, **given}
    check_state(loaded.flow, state)
    return state


def check_state(flow: Flow, given: Mapping[str, Json]) -> None:
    """Raise InvalidInput, with every problem, unless all that a run is to begin with is declared and of its type."""
    problems = []
    for name, value in given.items():
        try:
            check_writes(flow.state, [(name, value)])
        except InvalidValue as exc:
            problems.append(Problem(path=exc.place, message=exc.message))
    if problems:
        raise InvalidInput(problems)


def last_state(store: Any, root: str, run_id: str | None = None) -> dict[str, Json]:
    """The final state of the last run of a directory that has ended, {} when there is none; where `run_id` has begun,
    what that one began with."""
    begun = store.get_run(run_id) if run_id is not None else None
    if begun is not None:
        return (begun.context or {}).get("variables") or {}
    for row in store.list_runs(kind="experience", definition_id=root, limit=LOOKED_AT):
        ended = store.get_run(row.id) if row.status != "running" else None
        state = value_in(ended.result or {}, ended.kind) if ended is not None else None
        if isinstance(state, dict):
            return state
    return {}


def still_there(root: str, run_id: str) -> None:
    """NotFound where the directory that a run was started from has gone."""
    if not Path(root).is_dir():
        raise NotFound("directory", root, why=f"run {run_id!r} was started from it; put it back there to resume")
