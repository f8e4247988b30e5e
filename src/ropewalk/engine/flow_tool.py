"""A flow as a tool: any flow can be a step of another flow.

Called inside a run, it is a run of its own in the same store, *part of* the calling run. Its id is the idempotency key
of the call, so that a repeated call after a crash resumes it. Called outside a run, it is a run like any other; without
an engine it runs in memory. A flow that reaches itself is refused.

The app (`app.jobs.Jobs.make_tool`), directories of experiences and the builder of composites make these tools. The
Runner asks their handler for a Route, with the engine of the run that makes the call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from ..errors import FlowFailed, InvalidFlow, Problem
from ..events import Event
from ..fast_dataclass import dataclass
from ..ir import Flow, bodies
from ..journal.address import run_sync_in_thread
from ..journal.protocol import ACCEPTED, NewRun, RunRow, Store
from ..notations.registry import value_in
from ..schema import compile_schema, without_required_defaults
from ..tools.backends.route import Args, EngineGetter, FlowValue, OnProgress, Route, Routed
from ..tools.listener import Listener, RunProgress, broken_schemas
from ..tools.tool import Tool
from ..values import Json
from .compile.calls import Caller
from .compile.program import Program, compile_flow, may_wait
from .engine import Job, new_run_id, run_program, with_cause
from .flow_stream import FlowStream
from .run import AddPlaces, Ending, rendered

_NO_NAME: Final = r"[^A-Za-z0-9_.-]+"
ModelCheck: TypeAlias = Callable[[], str | None]
"""Returns why a model cannot be used; None if it can."""


class FlowVersion(NamedTuple):
    """A flow tool under one version of its definition, by which a flow that reaches itself is recognised."""

    id: str
    fingerprint: str


_running: ContextVar[tuple[FlowVersion, ...]] = ContextVar("ropewalk_flow_tools", default=())
"""The flow tools that are running around the current call, outermost first."""
_outer_engine: ContextVar[EngineGetter | None] = ContextVar("ropewalk_flow_tools_caller", default=None)
"""Gives the engine of the run that called the outermost flow tool around the current call."""
_in_wait_search: ContextVar[frozenset[FlowVersion]] = ContextVar("ropewalk_flow_tools_asked", default=frozenset())
"""The flow tools whose waits are being looked for, so that a cycle of flows ends the search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSource:
    """A flow and where it comes from."""

    # The notation of the flow.
    kind: str
    flow: Flow
    # The digest of its definition.
    fingerprint: str
    document: Json
    # Makes the result of a run in the words of the notation.
    render: Callable[[Ending], dict[str, Json]]
    # Adds to the errors of a result where the document defines what failed.
    add_places: AddPlaces | None = None
    # The id of the stored definition, which counts its runs.
    definition_id: str | None = None
    # The directory of an experience whose files are its tools.
    root: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowHost:
    """The services of the program that offers a flow as a tool."""

    # Its functions are called again for each run.

    # Calls the tools of the flow.
    caller: Caller
    # Whether `caller` is an executor of the user, without which a run cannot be resumed.
    has_executor: bool = False
    # Returns the engine of calls that come from no run; None to run these in memory.
    get_engine: EngineGetter | None = None
    # Awaited before each run; connects missing servers and refuses wrong definitions.
    prepare: Callable[[], Awaitable[None]] | None = None
    # Makes the job of a run that began under another version of the flow, which it continues under.
    job_for_row: Callable[[RunRow], Awaitable[Job]] | None = None
    # Returns the tools that the flow calls and nobody has, inner flows included. It skips the flows in the set that it
    # gets, and adds those that it visits.
    missing_tools: Callable[[set[str]], list[str]] | None = None
    # Returns checks of the models that the flow uses, inner flows included, with the same kind of set.
    model_checks: Callable[[set[int]], list[ModelCheck]] | None = None
    # Returns the schema of the flow's value with the present tools.
    value_schema: Callable[[], dict[str, Json] | None] | None = None
    # Returns the secrets that the flow may read in addition to those of its outer run.
    secrets: Callable[[], frozenset[str]] = frozenset
    # The limits of each run, by amount.
    budget: Mapping[str, float] | None = None


class FlowTool(Routed):
    """The handler of a flow's Tool."""

    # Safe for concurrent use.

    def __init__(self, id: str, source: FlowSource, host: FlowHost) -> None:
        self.id, self.source, self.host = id, source, host
        self.version = FlowVersion(id, source.fingerprint)
        self._program: Program | None = None  # of runs in memory
        input_schema = source.flow.input_schema
        self._input_schema = compile_schema(input_schema) if input_schema is not None else None

    @property
    def flow(self) -> Flow:
        """The flow of every run."""
        return self.source.flow

    @property
    def fingerprint(self) -> str:
        """The digest of the flow's definition."""
        return self.source.fingerprint

    @property
    def kind(self) -> str:
        """The notation of the flow."""
        return self.source.kind

    def with_host(self, **changes: Any) -> FlowTool:
        """Return a tool for the same flow with another host."""
        return FlowTool(self.id, self.source, replace(self.host, **changes))

    async def __call__(self, **args: Json) -> Json:
        return await self.value(args, self.host.get_engine)

    def route(self, get_engine: EngineGetter | None, /) -> Route:
        """Route a call to the flow, which keeps its own time; each attempt is a run of its own."""

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            result = await self.run(args, get_engine, key, on_progress)
            return FlowValue(value_of_run(result, self.kind), broken_schemas(result.get("warnings", ())))

        get_engine = get_engine or self.host.get_engine
        waits = get_engine is not None and self.waits()
        schema = self.host.value_schema

        async def accepts(key: str | None) -> bool:
            engine_of_run = _engine_of_caller(get_engine, key)
            if engine_of_run is None or key is None:
                return False
            store = engine_of_run().store
            return await run_sync_in_thread(store, lambda: _has_accepted(store, key))

        async def open_stream(args: Args, key: str | None) -> Any:
            stream = FlowStream(counted=is_counted(self.flow))
            return stream.events_of(lambda listener: self.value(args, get_engine, key, listener))

        return Route(
            send=send, normalise=lambda result: (result.value, None), open=open_stream, timeout=math.inf,
            per_attempt=True, result_schema=schema, accepts=accepts, waits=waits,
        )  # fmt: skip

    def waits(self) -> bool:
        """Return True if a run of the flow may wait for an event or an approval, its own or one of an inner flow."""
        outer_flows = _in_wait_search.get()
        if self.version in outer_flows:
            return False  # a flow that reaches itself is refused before it runs
        token = _in_wait_search.set(outer_flows | {self.version})
        try:
            return may_wait(self.flow, self.host.caller)
        finally:
            _in_wait_search.reset(token)

    async def value(
        self,
        args: Args,
        get_engine: EngineGetter | None = None,
        key: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """Run the flow and return its value."""
        return value_of_run(await self.run(args, get_engine, key, on_progress), self.kind)

    async def run(
        self,
        args: Args,
        get_engine: EngineGetter | None = None,
        key: str | None = None,
        on_progress: OnProgress | None = None,
        state: Mapping[str, Json] | None = None,
    ) -> dict[str, Json]:
        """Run the flow."""
        watcher = self._watcher(on_progress)
        args = args if self._input_schema is None else self._input_schema.with_defaults(args)
        # A flow that calls itself through other flows would never end.
        outer_flows = _running.get()
        if self.version in outer_flows:
            names = [flow.id for flow in outer_flows[outer_flows.index(self.version) :]]
            raise InvalidFlow([Problem(path=self.id, message=cycle_message(names))])
        token = _running.set((*outer_flows, self.version))
        try:
            if self.host.prepare is not None:
                await self.host.prepare()
            # With an engine the call is a run in its store; without one it runs in memory.
            get_engine = _engine_of_caller(get_engine, key)
            if get_engine is not None:
                return await self._run_in_store(self._job(args, watcher, state), get_engine, key)
            program, run_id = self._compiled(watcher), key or new_run_id()
            ending = await run_program(program, args, run_id=run_id, watcher=watcher)
            return with_cause(await rendered(self.source, ending), ending)
        finally:
            _running.reset(token)

    @staticmethod
    async def _run_in_store(job: Job, get_engine: EngineGetter, key: str | None) -> dict[str, Json]:
        """Run a job as part of the calling run; the flow tools that it calls get the same engine."""
        token = _outer_engine.set(get_engine)
        try:
            result: dict[str, Json] = await get_engine().run_part(job, key)
            return result
        finally:
            _outer_engine.reset(token)

    def _watcher(self, on_progress: OnProgress | None) -> Callable[[Event], None] | None:
        """Return a watcher for the events of a run; a plain progress callback gets them as progress."""
        if on_progress is None:
            return None
        if isinstance(on_progress, Listener):
            return on_progress.watcher
        return RunProgress(on_progress, counted=is_counted(self.flow)).take

    def _job(self, args: Args, watcher: Callable[[Event], None] | None, state: Mapping[str, Json] | None = None) -> Job:
        source, host = self.source, self.host
        context: dict[str, Json] = {"executor": host.has_executor}
        if state:
            context["variables"] = dict(state)
        if source.root is not None:
            context["root"] = source.root
        # The part gets its final id from the key of the call, in `Engine.run_part`.
        new = NewRun(
            id=new_run_id(),
            kind=source.kind,
            name=source.flow.name,
            definition_id=source.definition_id,
            input=args,
            context=context,
            document=source.document,
            fingerprint=source.fingerprint,
        )
        return Job(
            new=new,
            flow=source.flow,
            caller=host.caller,
            render=source.render,
            add_places=source.add_places,
            input=args,
            state=state,
            watcher=watcher,
            job_for_row=host.job_for_row,
            allowed=host.secrets(),
            budget=host.budget,
        )

    def _compiled(self, watcher: Callable[[Event], None] | None) -> Program:
        """Return the program of a run in memory; that of runs without a watcher is kept."""
        caller = self.host.caller
        if watcher is not None:
            return compile_flow(self.flow, caller, watched=True)
        program = self._program
        if program is None or program.version != caller.version:
            program = self._program = compile_flow(self.flow, caller)
        return program


def _has_accepted(store: Store, run_id: str) -> bool:
    """Return True if a person accepted a result that does not fit, in a run or in a part of it."""
    if store.get_run(run_id) is None:
        return False
    past = store.history(run_id)
    if any(entry.kind == ACCEPTED for entry in past):
        return True
    return any(_has_accepted(store, f"{run_id}/{path}") for path in {entry.path for entry in past})


def _engine_of_caller(get_engine: EngineGetter | None, key: str | None) -> EngineGetter | None:
    """Return the function that returns the engine of the calling run, even if the tool comes from another app."""

    # A flow of another app (`App("memory").as_tool(...)`) calls its own flow tools through that app's runner, which
    # knows that app's engine. Their runs are still parts of the calling run, and belong into its store.
    outer = _outer_engine.get()
    if outer is not None and outer is not get_engine and outer().has_caller(key):
        return outer
    return get_engine


def value_of_run(result: dict[str, Json], kind: str) -> Json:
    """Return the value of a run, also of a partial one."""
    status = str(result.get("status", "stopped"))
    if status in ("completed", "partial"):
        return value_in(result, kind)
    run_id = str(result.get("runId") or result.get("executionId", ""))
    raise FlowFailed(_reason(result) or f"the run ended as {status}", run_id=run_id, status=status, result=result)


def _reason(result: dict[str, Json]) -> str:
    error, errors = result.get("error"), result.get("errors")
    if error is None and isinstance(errors, list) and errors:
        error = errors[-1]
    if isinstance(error, dict):
        where = f"{error['nodeId']}: " if error.get("nodeId") else ""
        return f"{where}{error.get('message', '')}"
    return str(error or "")


def is_counted(flow: Flow) -> bool:
    """Return True if every node of a flow runs once, so that the number of steps is known beforehand."""
    return not any(bodies(node) for node in flow.body.nodes)


def cycle_message(names: list[str]) -> str:
    """Word the error about flows that call each other in a cycle."""
    return f"{names[0]} calls itself: {' -> '.join([*names, names[0]])}"


def tool_name(text: str) -> str:
    """Return a name as a tool name: characters other than `[A-Za-z0-9_.-]` become `_`."""
    return re.sub(_NO_NAME, "_", text).strip("_")[:128]


def input_schema_of(flow: Flow) -> dict[str, Json]:
    """Return the input schema of a flow as a tool; any object without one."""

    # Inputs with a default are optional.
    schema = flow.input_schema
    return without_required_defaults(schema) if isinstance(schema, dict) else {"type": "object"}


def flow_tool_of(tool: Tool | None) -> FlowTool | None:
    """Return the flow of a tool; None for a tool that is not a flow."""
    handler = tool.handler if tool is not None else None
    return handler if isinstance(handler, FlowTool) else None
