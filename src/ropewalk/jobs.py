"""Jobs: a definition, or a run of before, as what the engine executes, with everything checked and connected.

To start a run in a new way (a fork, a chunk of a distributed one), make its Job here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from .check import UNKNOWN_TOOL
from .deadline import DEFINITION_SECONDS, in_thread
from .engine.engine import Job, new_run_id
from .engine.flowtool import Missing
from .errors import ModelError, NoExecutor, Problem
from .errors.given import wants
from .events import Event
from .fitting import check_input, models_asked
from .journal.journal import Log, NewRun, RunRow
from .tools.executor import ExecutorCaller
from .tools.runner import check_request
from .values import Json, check_json

if TYPE_CHECKING:
    from .app import App
    from .check import Checked
    from .definitions import Loaded

Executor = Callable[[str, dict[str, Json]], Awaitable[Json]]
_SMALL = 32_768  # bytes of a definition that is checked at once: some milliseconds
KEPT = 256  # executors, and definitions known to be sound, kept per app


class Jobs:
    """`app.jobs`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._executors: dict[int, tuple[Any, ExecutorCaller]] = {}
        self._sound: set[tuple[str, int, str | None]] = set()
        self._checked: tuple[str, int, str | None] | None = None

    async def new(
        self,
        loaded: Loaded,
        *,
        definition_id: str | None = None,
        run_id: str | None = None,
        input: Json = None,
        variables: Mapping[str, Json] | None = None,
        request: str | None = None,
        executor: Executor | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Job:
        """The job of a new run. Not one with the running of it: that would be a coroutine more around each run."""
        caller = self.caller(executor, loaded)
        if executor is None and (loaded.fingerprint, self._app.toolbox.version, loaded.root) not in self._sound:
            await self.ready(loaded)
        if run_id is not None:
            check_json(run_id, "run id")
        input = check_input(loaded.flow, input)
        state = check_json(dict(variables), "variables") if variables else None
        job = self._job(loaded, run_id or new_run_id(), caller, input, state, definition_id, on_event)
        if request is not None:
            job.new.context["request"] = check_request(request)
        return job

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the secrets that runs of the app may read."""
        return self._app.secrets

    def executor_for(self, row: RunRow, executor: Executor | None) -> Executor | None:
        """Who calls the tools of a run that exists; NoExecutor when an executor did and none is given."""
        if (row.context or {}).get("executor") and executor is None:
            raise NoExecutor(row.id)
        return executor

    async def again(
        self,
        row: RunRow,
        *,
        executor: Executor | None = None,
        on_event: Callable[[Event], None] | None = None,
        loaded: Loaded | None = None,
    ) -> Job:
        """The job of a run that exists, with the definition it was started with, or `loaded`. Raises NoExecutor
        when the run's tools were called by an executor and none is given."""
        context = row.context or {}
        self.executor_for(row, executor)
        if (root := context.get("root")) is not None:
            from .experiences import still_there

            still_there(root, row.id)
        if loaded is None:
            from .runs.pinned import pinned

            loaded = pinned(self._app, row)
        if executor is None:
            await self.ready(loaded)
        state = context.get("variables")
        caller = self.caller(executor, loaded)
        job = self._job(loaded, row.id, caller, row.input, state, row.definition_id, on_event)
        job.new.context["request"] = context.get("request")
        return job

    async def resumed(self, job: Job, log: Log) -> dict[str, Json]:
        """Go on with an opened run; what its process could no longer teach the selector is learnt when it ends."""
        result = await self._app.engine.drive(job, log)
        await self._app.learn(job, result)
        return result

    async def ready(self, loaded: Loaded) -> None:
        """Tools connected, and every tool the flow names known with arguments that fit."""
        app = self._app
        key = (loaded.fingerprint, app.toolbox.version, loaded.root)
        if key in self._sound:
            return
        await app.connect_for(loaded.flow)
        if self._checked != (loaded.fingerprint, app.toolbox.version, loaded.root):
            if len(orjson.dumps(loaded.document)) > _SMALL:  # in a thread, as others wait for the event loop
                await in_thread(lambda: app.ensure(loaded, unknown_tools="problem"), DEFINITION_SECONDS)
            else:
                app.ensure(loaded, unknown_tools="problem")
        if asked := self.models(loaded):
            why = await asyncio.to_thread(_why, asked)
            if why is not None:
                raise ModelError(why)
        if len(self._sound) >= KEPT:
            self._sound.clear()
        self._sound.add((loaded.fingerprint, app.toolbox.version, loaded.root))

    def checked(self, loaded: Loaded, found: Checked) -> None:
        """What was found by a check of all there is to say of a file, `ready` need not look for once more."""
        known = not any(one.keyword == UNKNOWN_TOOL for one in found.warnings)
        if known and not found.problems and (loaded.root is not None or not loaded.compiled.local):
            self._checked = (loaded.fingerprint, self._app.toolbox.version, loaded.root)

    def doubted(self, loaded: Loaded, checked: Checked) -> Checked:
        """What the check found, and that the model cannot be asked which the definition asks."""
        why = _why(self.models(loaded))
        if why is None:
            return checked
        return replace(checked, warnings=(*checked.warnings, Problem(path="", message=why)))

    def models(self, loaded: Loaded) -> list[Missing]:
        """What says why a model that the definition asks, also through flows it calls, cannot be asked."""
        return models_asked(loaded.flow, self._app.toolbox, self.model_missing)

    def model_missing(self) -> str | None:
        """Why agents cannot ask their model here, as far as that is known without asking it. Workers have a model of
        their own."""
        missing = None if self._app.distributed else getattr(self._app.model, "missing", None)
        return None if missing is None else missing()

    def caller(self, executor: Executor | None, loaded: Loaded) -> Any:
        """Who calls the tools of a run: the executor if given, else the app's runner or the directory's."""
        if executor is None:
            return self._app.directories.caller(loaded) if loaded.root is not None else self._app.runner
        known = self._executors.get(id(executor))
        if known is None:
            if len(self._executors) >= KEPT:
                del self._executors[next(iter(self._executors))]
            # By id, since an executor need not be hashable; kept alive here, so that no id comes twice.
            known = self._executors[id(executor)] = (executor, ExecutorCaller(executor))
        return known[1]

    def _job(
        self,
        loaded: Loaded,
        run_id: str,
        caller: Any,
        input: Json,
        state: Mapping[str, Json] | None,
        definition_id: str | None,
        on_event: Callable[[Event], None] | None,
    ) -> Job:
        if on_event is not None and not callable(on_event):
            raise wants("on_event", "a function of an event", on_event)
        context: dict[str, Json] = {
            "variables": state,
            "executor": isinstance(caller, ExecutorCaller),
            "project": self._app.project,
            "root": loaded.root,
        }
        if loaded.file is not None:
            context["file"] = os.path.abspath(loaded.file.file)
        new = NewRun(
            id=run_id,
            kind=loaded.kind,
            name=loaded.name,
            definition_id=definition_id,
            input=input,
            context=context,
            document=loaded.document,
            fingerprint=loaded.fingerprint,
        )
        return Job(
            new=new,
            flow=loaded.flow,
            caller=caller,
            render=loaded.compiled.render,
            input=input,
            state=state,
            watcher=on_event,
            allowed=self._app.secrets,
        )


def _why(asked: Iterable[Missing]) -> str | None:
    """Why one of these models cannot be asked."""
    return next((why for missing in asked if (why := missing()) is not None), None)
