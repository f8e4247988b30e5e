"""Experiences in their directories: who calls their modules, which state a run begins with, one inside another.

The files whose texts are part of an experience are read with its definition (`notations/experience/project.py`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engine.flow_tool import FlowHost, FlowSource, FlowTool, value_of_run
from ..errors import InvalidFlow, InvalidInput, InvalidValue, NotFound, Problem
from ..ir import Flow
from ..journal.address import run_sync_in_thread
from ..notations.experience.nodes import SHARED_STATE
from ..notations.registry import value_in
from ..schema import compile_schema
from ..state import check_writes
from ..tools.backends.route import Args, OnProgress, Route
from ..tools.bound_call import Bound, Rules, bind_route
from ..tools.directory.directory import DirectoryCaller
from ..tools.directory.paths import PathError, find
from ..values import Json

if TYPE_CHECKING:
    from ..engine.engine import Engine, Job
    from ..engine.run import AddPlaces
    from ..journal.protocol import RunRow
    from .prepared import Prepared
    from .start import Start

LOOKED_AT = 50  # runs that are looked through for the last one that has ended


class DirectoryCallers:
    """The callers of the directories whose experiences an app runs: one per directory and environment."""

    def __init__(
        self,
        base: Any,
        load: Callable[[Path], Prepared],
        ready: Callable[[Prepared], Awaitable[None]],
        job_for_row: Callable[[RunRow], Awaitable[Job]],
        engine: Callable[[], Engine],
        add_places_to: Callable[[Prepared], AddPlaces | None],
    ) -> None:
        self.add_places_to = add_places_to
        self.base, self.load, self.ready, self.job_for_row, self.engine = base, load, ready, job_for_row, engine
        self._callers: dict[tuple[str, tuple[tuple[str, str], ...]], DirectoryCaller] = {}

    def caller(self, loaded: Prepared) -> Any:
        """Return the caller of a definition's tools: that of the app if the definition names no files."""
        root = loaded.root
        if root is None:
            return self.base
        env = {name: os.environ[name] for name in loaded.compiled.env if name in os.environ}
        key = (root, tuple(sorted(env.items())))
        result = self._callers.get(key)
        if result is None:
            result = self._callers[key] = DirectoryCaller(self.base, root, env=env)
            result.kinds["experience"] = lambda tool_id: self._experience(root, tool_id)
        return result

    async def close(self) -> None:
        """Leave no process behind."""
        for caller in self._callers.values():
            await caller.close()
        self._callers.clear()

    def _experience(self, root: str, tool_id: str) -> Bound:
        """Bind another directory as a tool: each call is a run of its own, part of the run that calls it."""
        try:
            loaded = self.load(find(Path(root), tool_id.partition(":")[2], directory=True))
        except (PathError, NotFound) as wrong:
            raise InvalidFlow([Problem(path=tool_id, message=str(wrong))]) from wrong
        # The inner experience resolves its files in its own directory, so it gets a caller of its own.
        source = FlowSource(
            kind=loaded.kind,
            flow=loaded.flow,
            fingerprint=loaded.fingerprint,
            document=loaded.document,
            render=loaded.compiled.render,
            add_places=self.add_places_to(loaded),
            root=root,
        )
        host = FlowHost(
            caller=self.caller(loaded),
            get_engine=self.engine,
            prepare=lambda: self.ready(loaded),
            job_for_row=self.job_for_row,
        )
        flow = FlowTool(tool_id, source, host)

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Json:
            # Shared state is passed as an argument, but it is the state of the inner run, not its input.
            arguments = {name: value for name, value in args.items() if name != SHARED_STATE}
            if problems := _input_problems(flow.flow, arguments):
                raise InvalidInput(problems)
            shared = args.get(SHARED_STATE)
            state = {name: shared[name] for name in flow.flow.state if name in shared} if shared is not None else None
            if state:
                check_state(flow.flow, state)
            result = await flow.run(arguments, self.engine, key, on_progress, state)
            final = value_of_run(result, flow.kind)
            return {"runId": result.get("executionId"), "status": result.get("status"), "finalState": final}

        route = Route(send=send, timeout=math.inf, per_attempt=True, waits=flow.waits())
        return bind_route(tool_id, None, None, route, Rules(timeout=math.inf))


async def seeded(store: Any, loaded: Prepared, start: Start) -> dict[str, Json]:
    """Return the state that a run of an experience starts with, in addition to its defaults."""
    root, previous = loaded.root, dict[str, Json]()
    if start.keep_state and root is not None:
        previous = await run_sync_in_thread(store, lambda: last_state(store, root, start.run_id))
    state = {**previous, **(start.state or {}), **(start.variables or {})}
    check_state(loaded.flow, state)
    return state


def check_state(flow: Flow, state: Mapping[str, Json]) -> None:
    """Raise an error unless every value of an initial state is declared and has its type."""
    problems = []
    for name, value in state.items():
        try:
            check_writes(flow.state, [(name, value)])
        except InvalidValue as exc:
            problems.append(Problem(path=exc.place, message=exc.message))
    if problems:
        raise InvalidInput(problems)


def _input_problems(flow: Flow, input: Json) -> list[Problem]:
    """Return what is wrong with the input of an inner experience."""
    schema = compile_schema(True if flow.input_schema is None else flow.input_schema)
    return schema.problems(schema.with_defaults(input), "input")


def last_state(store: Any, root: str, run_id: str | None = None) -> dict[str, Json]:
    """Return the final state of the last run of a directory that has ended."""
    current = store.get_run(run_id) if run_id is not None else None
    if current is not None:
        return (current.context or {}).get("variables") or {}
    for row in store.list_runs(kind="experience", definition_id=root, limit=LOOKED_AT):
        ended = store.get_run(row.id) if row.status != "running" else None
        state = value_in(ended.result or {}, ended.kind) if ended is not None else None
        if isinstance(state, dict):
            return state
    return {}


def still_there(root: str, run_id: str) -> None:
    """Raise an error if the directory that a run was started from is gone."""
    if not Path(root).is_dir():
        raise NotFound("directory", root, why=f"run {run_id!r} was started from it; put it back there to resume")
