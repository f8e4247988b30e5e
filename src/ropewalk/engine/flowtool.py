"""A flow as a tool: whatever can be written in a notation can be a step of something else.

Called inside a run it is a run of its own in the same store, *part of* the one that calls it: its id is the
idempotency key of the call, so that after a crash the call made again goes on with it. Called outside it is a
run like any other; without an engine it runs in memory. Refused: a flow that reaches itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Final, TypeAlias

from ..dialects.notation import value_in
from ..errors import FlowFailed, InvalidFlow, Problem
from ..events import Event
from ..ir import Flow, bodies
from ..journal.journal import NewRun, RunRow
from ..schema import compile_schema, relaxed
from ..tools.listener import Listener, RunProgress
from ..tools.route import Args, Flows, OnProgress, Route, Routed
from ..tools.tool import Tool
from ..values import Json
from .bare import run_program
from .caller import Caller
from .engine import Job, new_run_id
from .program import Program, compile_flow, may_wait
from .run import Ending

_NO_NAME: Final = r"[^A-Za-z0-9_.-]+"
Missing: TypeAlias = Callable[[], str | None]
"""What says why a model cannot be asked; None of one that can be."""
_inside: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("ropewalk_flow_tools", default=())
"""The flow tools that are running around the current call: (id, fingerprint) of each, outermost first."""
_caller: ContextVar[Flows] = ContextVar("ropewalk_flow_tools_caller", default=None)
"""Gives the engine of the run that called the outermost flow tool around the current call."""
_asked: ContextVar[frozenset[tuple[str, str]]] = ContextVar("ropewalk_flow_tools_asked", default=frozenset())
"""The flow tools whose waits are being looked for, so that a cycle of flows ends the search."""


class FlowTool(Routed):
    """The handler of a flow's Tool; safe for concurrent use.

    `caller` calls its tools; `given` says that this is no toolbox of an app's, so that only whoever has it can
    go on with a run. `definition_id` is the id of a stored definition, whose runs are counted. `begun` makes the job of
    a run that began under another version of the flow, and continues under it. `root` is the directory of an
    experience, whose files its tools are.
    `ready` is awaited before each run (connect what is missing, refuse what is wrong).
    `engine` gives the engine of calls that come from no other one; `missing` names the tools that it calls and nobody
    has, `models` what says why a model that it asks cannot be, those of flows inside it too, but for the flows in the
    set they are handed, which they add to. `gives` returns the schema of its value, by the tools there are now;
    `secrets` the names that it may read beside those of the run that it is a part of.
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
        given: bool = False,
        definition_id: str | None = None,
        begun: Callable[[RunRow], Awaitable[Job]] | None = None,
        root: str | None = None,
        ready: Callable[[], Awaitable[None]] | None = None,
        engine: Flows = None,
        missing: Callable[[set[str]], list[str]] | None = None,
        models: Callable[[set[int]], list[Missing]] | None = None,
        gives: Callable[[], dict[str, Json] | None] | None = None,
        secrets: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self.id, self.kind, self.flow, self.fingerprint, self.document = id, kind, flow, fingerprint, document
        self.render, self.caller, self.given, self.ready, self.engine = render, caller, given, ready, engine
        self.missing, self.models, self.gives, self.secrets = missing, models, gives, secrets
        self.definition_id, self.begun = definition_id, begun
        self.root = root
        self._program: Program | None = None
        self._takes = compile_schema(flow.input_schema) if flow.input_schema is not None else None

    async def __call__(self, **args: Json) -> Json:
        return await self.value(args, self.engine)

    def route(self, flows: Flows, /) -> Route:
        """The flow keeps its own time; each attempt is a run of its own."""

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Json:
            return await self.value(args, flows or self.engine, key, on_progress)

        engine = flows or self.engine
        waits = engine is not None and self.waits()
        return Route(send=send, timeout=math.inf, per_attempt=True, checked=not self.given, waits=waits)

    def waits(self) -> bool:
        """Return True if a run of the flow may wait for an event or an approval, its own or one of an inner flow."""
        mark, around = (self.id, self.fingerprint), _asked.get()
        if mark in around:
            return False  # a flow that reaches itself is refused before it runs
        token = _asked.set(around | {mark})
        try:
            return may_wait(self.flow, self.caller)
        finally:
            _asked.reset(token)

    async def value(
        self, args: Args, flows: Flows = None, key: str | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        """Run the flow and return its value; raise FlowFailed when it does not reach its end."""
        return value_of(await self.run(args, flows, key, on_progress), self.kind)

    async def run(
        self,
        args: Args,
        flows: Flows = None,
        key: str | None = None,
        on_progress: OnProgress | None = None,
        state: Mapping[str, Json] | None = None,
    ) -> dict[str, Json]:
        """Run it, with `state` over its defaults, and give what its notation says of the ending."""
        watcher = self._watcher(on_progress)
        args = args if self._takes is None else self._takes.filled(args)
        mark, around = (self.id, self.fingerprint), _inside.get()
        if mark in around:
            names = [id for id, _ in around[around.index(mark) :]]
            raise InvalidFlow([Problem(path=self.id, message=cycle(names))])
        token = _inside.set((*around, mark))
        try:
            if self.ready is not None:
                await self.ready()
            flows = _engine_of_caller(flows, key)
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
        """Return what takes the events of a run: a plain progress callback hears of them as progress."""
        if on_progress is None:
            return None
        if isinstance(on_progress, Listener):
            return on_progress.watcher
        return RunProgress(on_progress, counted=is_counted(self.flow)).take

    def _job(self, args: Args, watcher: Callable[[Event], None] | None, state: Mapping[str, Json] | None = None) -> Job:
        context: dict[str, Json] = {"executor": self.given}
        if state:
            context["variables"] = dict(state)
        if self.root is not None:
            context["root"] = self.root
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
            begun=self.begun,
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
    """Return what gives the engine that executes the calling run, also where the tool comes from another app.

    A flow made by another app (`App("memory").as_tool(...)`) calls its own flow tools by that app's runner, which
    knows that app's engine. Their runs are parts of the calling run all the same, and belong into its store.
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

    Raises:
        FlowFailed: The run did not reach its end.
    """
    status = str(result.get("status", "stopped"))
    if status in ("completed", "partial"):
        return value_in(result, kind)
    run_id = str(result.get("executionId", ""))
    raise FlowFailed(_why(result) or f"the run ended as {status}", run_id=run_id, status=status, result=result)


def _why(result: dict[str, Json]) -> str:
    said, errors = result.get("error"), result.get("errors")
    if said is None and isinstance(errors, list) and errors:
        said = errors[-1]
    if isinstance(said, dict):
        where = f"{said['nodeId']}: " if said.get("nodeId") else ""
        return f"{where}{said.get('message', '')}"
    return str(said or "")


def is_counted(flow: Flow) -> bool:
    """Return True if every node of a flow runs once, so that the number of steps is known beforehand."""
    return not any(bodies(node) for node in flow.body.nodes)


def cycle(names: list[str]) -> str:
    """What is said of tools that call each other in a circle; each name once."""
    return f"{names[0]} reaches itself: {' -> '.join([*names, names[0]])}"


def tool_name(text: str) -> str:
    """A name of people's as that of a tool: other characters than `[A-Za-z0-9_.-]` become `_`."""
    return re.sub(_NO_NAME, "_", text).strip("_")[:128]


def input_schema_of(flow: Flow) -> dict[str, Json]:
    """What a flow takes as a tool: any object where it does not say. What has a default may be left out."""
    schema = flow.input_schema
    return relaxed(schema) if isinstance(schema, dict) else {"type": "object"}


def flow_of(tool: Tool | None) -> FlowTool | None:
    """The flow behind a tool; None for every other tool."""
    handler = tool.handler if tool is not None else None
    return handler if isinstance(handler, FlowTool) else None
