"""A flow as a tool: any flow can be a step of another flow.

Called inside a run, it is a run of its own in the same store, *part of* the calling run. Its id is the idempotency key
of the call, so that a repeated call after a crash resumes it. Called outside a run, it is a run like any other; without
an engine it runs in memory. A flow that reaches itself is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Final, TypeAlias

from ..errors import FlowFailed, InvalidFlow, Problem
from ..events import Event
from ..ir import Flow, bodies
from ..journal.protocol import NewRun, RunRow
from ..notations.registry import value_in
from ..schema import compile_schema, without_required_defaults
from ..tools.backends.route import Args, Flows, OnProgress, Route, Routed
from ..tools.listener import Listener, RunProgress
from ..tools.tool import Tool
from ..values import Json
from .compile.calls import Caller
from .compile.program import Program, compile_flow, may_wait
from .engine import Job, new_run_id, run_program
from .run import Ending

_NO_NAME: Final = r"[^A-Za-z0-9_.-]+"
Missing: TypeAlias = Callable[[], str | None]
"""Returns why a model cannot be used; None if it can."""
_inside: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("ropewalk_flow_tools", default=())
"""The flow tools that are running around the current call: (id, fingerprint) of each, outermost first."""
_caller: ContextVar[Flows] = ContextVar("ropewalk_flow_tools_caller", default=None)
"""Gives the engine of the run that called the outermost flow tool around the current call."""
_flows_in_check: ContextVar[frozenset[tuple[str, str]]] = ContextVar("ropewalk_flow_tools_asked", default=frozenset())
"""The flow tools whose waits are being looked for, so that a cycle of flows ends the search."""


class FlowTool(Routed):
    """The handler of a flow's Tool. Safe for concurrent use.

    Args:
        id: The id of the tool.
        kind: The notation of the flow.
        flow: The flow.
        fingerprint: The digest of its definition.
        document: Its document.
        render: Makes the result of a run in the words of the notation.
        caller: Calls the tools of the flow.
        has_executor: Whether `caller` is an executor of the user, without which a run cannot be resumed.
        definition_id: The id of the stored definition, which counts its runs.
        job_for_row: Makes the job of a run that began under another version of the flow, which it continues under.
        root: The directory of an experience whose files are its tools.
        ready: Awaited before each run; connects missing servers and refuses wrong definitions.
        engine: Returns the engine of calls that come from no run.
        missing: Returns the tools that the flow calls and nobody has, inner flows included. It skips the flows in the
            set that it gets, and adds those that it visits.
        models: Returns checks of the models that the flow uses, inner flows included, with the same kind of set.
        gives: Returns the schema of the flow's value with the present tools.
        secrets: Returns the secrets that the flow may read in addition to those of its outer run.
    """

    def __init__(
        self,
        *,
        id: str,
        kind: str,
        flow: Flow,
        fingerprint: str,
        document: Json,
        render: Callable[[Ending], dict[str, Json]],
        caller: Caller,
        has_executor: bool = False,
        definition_id: str | None = None,
        job_for_row: Callable[[RunRow], Awaitable[Job]] | None = None,
        root: str | None = None,
        ready: Callable[[], Awaitable[None]] | None = None,
        engine: Flows = None,
        missing: Callable[[set[str]], list[str]] | None = None,
        models: Callable[[set[int]], list[Missing]] | None = None,
        gives: Callable[[], dict[str, Json] | None] | None = None,
        secrets: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self.id, self.kind, self.flow, self.fingerprint, self.document = id, kind, flow, fingerprint, document
        self.render, self.caller, self.has_executor, self.ready, self.engine = (
            render,
            caller,
            has_executor,
            ready,
            engine,
        )
        self.missing, self.models, self.gives, self.secrets = missing, models, gives, secrets
        self.definition_id, self.job_for_row = definition_id, job_for_row
        self.root = root
        self._program: Program | None = None
        self._takes = compile_schema(flow.input_schema) if flow.input_schema is not None else None

    async def __call__(self, **args: Json) -> Json:
        return await self.value(args, self.engine)

    def route(self, flows: Flows, /) -> Route:
        """Route a call to the flow, which keeps its own time; each attempt is a run of its own.

        Args:
            flows: Returns the engine of the calling run; None for a call that comes from no run.

        Returns:
            The route of one call.
        """

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Json:
            return await self.value(args, flows or self.engine, key, on_progress)

        engine = flows or self.engine
        waits = engine is not None and self.waits()
        return Route(send=send, timeout=math.inf, per_attempt=True, checked=not self.has_executor, waits=waits)

    def waits(self) -> bool:
        """Return True if a run of the flow may wait for an event or an approval, its own or one of an inner flow.

        Returns:
            False for a flow that never pauses.
        """
        mark, around = (self.id, self.fingerprint), _flows_in_check.get()
        if mark in around:
            return False  # a flow that reaches itself is refused before it runs
        token = _flows_in_check.set(around | {mark})
        try:
            return may_wait(self.flow, self.caller)
        finally:
            _flows_in_check.reset(token)

    async def value(
        self, args: Args, flows: Flows = None, key: str | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        """Run the flow and return its value.

        Args:
            args: The input of the flow by name.
            flows: Returns the engine to run on.
            key: Idempotency key of the call, which becomes the id of the run.
            on_progress: Gets the progress of the run.

        Returns:
            The value that the notation declares.

        Raises:
            FlowFailed: The flow did not complete.
        """
        return value_of(await self.run(args, flows, key, on_progress), self.kind)

    async def run(
        self,
        args: Args,
        flows: Flows = None,
        key: str | None = None,
        on_progress: OnProgress | None = None,
        state: Mapping[str, Json] | None = None,
    ) -> dict[str, Json]:
        """Run the flow.

        Args:
            args: The input of the flow by name.
            flows: Returns the engine to run on.
            key: Idempotency key of the call, which becomes the id of the run.
            on_progress: Gets the progress of the run.
            state: Values of channels that replace the initial ones.

        Returns:
            The result in the words of the notation.

        Raises:
            InvalidFlow: The flow calls itself through other flows.
        """
        watcher = self._watcher(on_progress)
        args = args if self._takes is None else self._takes.with_defaults(args)
        mark, around = (self.id, self.fingerprint), _inside.get()
        if mark in around:
            # A flow that calls itself through other flows would never end.
            names = [id for id, _ in around[around.index(mark) :]]
            raise InvalidFlow([Problem(path=self.id, message=cycle(names))])
        token = _inside.set((*around, mark))
        try:
            if self.ready is not None:
                await self.ready()
            flows = _engine_of_caller(flows, key)
            # With an engine the call is a run in its store; without one it runs in memory.
            if flows is not None:
                called = _caller.set(flows)
                try:
                    result: dict[str, Json] = await flows().run_part(self._job(args, watcher, state), key)
                finally:
                    _caller.reset(called)
                return result
            run_id = key or new_run_id()
            return self.render(await run_program(self._compiled(watcher), args, run_id=run_id, watcher=watcher))
        finally:
            _inside.reset(token)

    def _watcher(self, on_progress: OnProgress | None) -> Callable[[Event], None] | None:
        """Return a watcher for the events of a run; a plain progress callback gets them as progress."""
        if on_progress is None:
            return None
        if isinstance(on_progress, Listener):
            return on_progress.watcher
        return RunProgress(on_progress, counted=is_counted(self.flow)).take

    def _job(self, args: Args, watcher: Callable[[Event], None] | None, state: Mapping[str, Json] | None = None) -> Job:
        context: dict[str, Json] = {"executor": self.has_executor}
        if state:
            context["variables"] = dict(state)
        if self.root is not None:
            context["root"] = self.root
        # The part gets its final id from the key of the call, in `Engine.run_part`.
        new = NewRun(
            id=new_run_id(),
            kind=self.kind,
            name=self.flow.name,
            definition_id=self.definition_id,
            input=args,
            context=context,
            document=self.document,
            fingerprint=self.fingerprint,
        )
        return Job(
            new=new,
            flow=self.flow,
            caller=self.caller,
            render=self.render,
            input=args,
            state=state,
            watcher=watcher,
            job_for_row=self.job_for_row,
            allowed=self.secrets(),
        )

    def _compiled(self, watcher: Callable[[Event], None] | None) -> Program:
        if watcher is not None:
            return compile_flow(self.flow, self.caller, watched=True)
        program = self._program
        if program is None or program.version != self.caller.version:
            program = self._program = compile_flow(self.flow, self.caller)
        return program


def _engine_of_caller(flows: Flows, key: str | None) -> Flows:
    """Return the function that returns the engine of the calling run, even if the tool comes from another app.

    A flow of another app (`App("memory").as_tool(...)`) calls its own flow tools through that app's runner, which knows
    that app's engine. Their runs are still parts of the calling run, and belong into its store.
    """
    outer = _caller.get()
    if outer is not None and outer is not flows and outer().has_caller(key):
        return outer
    return flows


def value_of(result: dict[str, Json], kind: str) -> Json:
    """Return the value of a run, also of a partial one.

    Args:
        result: The result of the run in the words of its notation.
        kind: That notation.

    Returns:
        The value; null if the flow has none.

    Raises:
        FlowFailed: The run did not reach its end.
    """
    status = str(result.get("status", "stopped"))
    if status in ("completed", "partial"):
        return value_in(result, kind)
    run_id = str(result.get("executionId", ""))
    raise FlowFailed(_why(result) or f"the run ended as {status}", run_id=run_id, status=status, result=result)


def _why(result: dict[str, Json]) -> str:
    error, errors = result.get("error"), result.get("errors")
    if error is None and isinstance(errors, list) and errors:
        error = errors[-1]
    if isinstance(error, dict):
        where = f"{error['nodeId']}: " if error.get("nodeId") else ""
        return f"{where}{error.get('message', '')}"
    return str(error or "")


def is_counted(flow: Flow) -> bool:
    """Return True if every node of a flow runs once, so that the number of steps is known beforehand.

    Args:
        flow: The flow.

    Returns:
        False if a node has a region, which may run any number of times.
    """
    return not any(bodies(node) for node in flow.body.nodes)


def cycle(names: list[str]) -> str:
    """Word the error about flows that call each other in a cycle.

    Args:
        names: The flows in the order of the calls.

    Returns:
        The message.
    """
    return f"{names[0]} reaches itself: {' -> '.join([*names, names[0]])}"


def tool_name(text: str) -> str:
    """Return a name as a tool name: characters other than `[A-Za-z0-9_.-]` become `_`.

    Args:
        text: Any name.

    Returns:
        At most 128 characters; "" if none is left.
    """
    return re.sub(_NO_NAME, "_", text).strip("_")[:128]


def input_schema_of(flow: Flow) -> dict[str, Json]:
    """Return the input schema of a flow as a tool; any object without one. Inputs with a default are optional.

    Args:
        flow: The flow.

    Returns:
        A JSON Schema.
    """
    schema = flow.input_schema
    return without_required_defaults(schema) if isinstance(schema, dict) else {"type": "object"}


def flow_of(tool: Tool | None) -> FlowTool | None:
    """Return the flow of a tool; None for a tool that is not a flow.

    Args:
        tool: A tool, or None.

    Returns:
        The handler of the tool.
    """
    handler = tool.handler if tool is not None else None
    return handler if isinstance(handler, FlowTool) else None
