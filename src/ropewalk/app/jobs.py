"""Jobs: what the engine executes, made from a definition or from an earlier run, with tools connected and checked.

To start a run in a new way (a fork, a chunk of a distributed one), make its Job here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from os.path import isfile
from typing import TYPE_CHECKING, Any, Unpack

import orjson

from ..argument_checks import wrong_type
from ..check import UNKNOWN_TOOL, Checked
from ..config.settings import ON_REQUEST, POLICIES
from ..deadline import DEFINITION_SECONDS, in_thread
from ..engine.engine import Job, new_run_id
from ..engine.flow_tool import FlowHost, FlowSource, FlowTool, ModelCheck, input_schema_of, tool_name
from ..errors import (
    Action,
    DefinitionChanged,
    InvalidFlow,
    InvalidInput,
    ModelError,
    NoExecutor,
    Problem,
    Remedy,
    display_path,
)
from ..ir import Flow, Node
from ..journal.address import run_sync_in_thread
from ..journal.protocol import ENDS, Entry, Key, Log, NewRun, RunRow
from ..journal.tool_usage import current_source
from ..tools.runner import ExecutorCaller, check_request
from ..tools.source import Source as ToolSource
from ..tools.source import connect_sources
from ..tools.tool import Tool
from ..values import Json, check_json, did_you_mean
from .part_tools import PartTools, Recorded, calls_by_place, parts_by_node
from .preflight import (
    called_by,
    check_input,
    check_variables,
    check_workers_can_call,
    find_model_checks,
    missing_tools,
    tools_of,
)
from .run_budget import read_budget
from .start import DEFAULT, ExecuteOptions, Executor, Start

if TYPE_CHECKING:
    from pathlib import Path

    from ..engine.run import AddPlaces
    from ..notations.records import Outcome
    from .context import Context
    from .directories import DirectoryCallers
    from .flow_list import FlowList
    from .flow_tools import FlowTools
    from .prepared import Prepared, Source
    from .start import ExecuteOptions

_SMALL = 32_768  # bytes of a definition that is checked at once: some milliseconds
_ANY_TOOLS = -1  # in place of the version of a toolbox: no tool of it is called
MAX_CACHED = 256  # executors, and definitions known to be sound, kept per app


class Jobs:
    """Makes the jobs of an app: a definition, or an earlier run, with its tools connected and everything checked."""

    # correct: Continues a run of the first design of plans in a new run.

    def __init__(self, context: Context, correct: Callable[..., Awaitable[Outcome]]) -> None:
        self.context, self.correct = context, correct
        context.definitions.cards.connect_tools = self.connect_tools
        # The tools of the app itself; the app sets them.
        self.own_tools: ToolSource
        self.sources: list[ToolSource]  # those whose tools are also called outside of flows
        self.flow_tools: FlowTools | None = None
        """The flows of the project, if there is one."""
        self._executors: dict[int, tuple[Any, ExecutorCaller]] = {}
        self._sound: set[tuple[str, int, str | None]] = set()

    async def run(self, start: Start) -> dict[str, Json]:
        """Run a new run to its ending, or wait for the run that has its id."""
        job = await self.new(start)
        try:
            result = await self.context.engine.run(job)
        except DefinitionChanged as exc:
            from .runs.differences import with_differences

            raise with_differences(self.context, exc, start.run_id, _definition(start)) from None
        await self.context.selection.learn(job, result)
        return result

    async def ready(self, start: Start) -> Start:
        """Apply the options that change the definition, make the initial state, and check the variables."""
        loaded = _definition(start)
        if start.concurrency is not None:
            loaded = self.context.definitions.get(loaded.with_concurrency(start.concurrency), loaded.file, loaded.root)
            start = replace(start, definition=loaded)
        if loaded.compiled.local:
            from .directories import seeded

            start = replace(start, variables=await seeded(self.context.store, loaded, start))
        if start.variables:
            check_variables(loaded.flow, start.variables)
        return start

    async def make(self, loaded: Prepared, **options: Unpack[ExecuteOptions]) -> Job:
        """Prepare the job of a new run from fields of `Start`, for packages that cannot import it."""
        return await self.new(await self.ready(Start(definition=loaded, **options)))

    async def new(self, start: Start, *, is_prepared: bool = False) -> Job:
        """Prepare the job of a new run."""

        # The engine runs it separately: one coroutine less around each run makes tool calls faster.
        loaded = _definition(start)
        if start.executor is not None:
            await self._ensure_for_executor(loaded)
        elif not (is_prepared or self._is_sound(loaded)):
            await self.prepare(loaded)
        if start.run_id is not None:
            check_json(start.run_id, "run id")
        input = check_input(loaded.flow, start.input)
        state = check_json(dict(start.variables), "variables") if start.variables else None
        job = self._job(start, loaded, start.run_id or new_run_id(), input, state)
        if start.request is not None:
            job.new.context.update(request=check_request(start.request), source=current_source())
        if start.budget is not None:
            job.budget = read_budget(start.budget)
        policy = self._undo_policy(loaded, start.undo)
        if policy is not None:
            job.new = replace(job.new, undo_policy=policy)
        return job

    def _undo_policy(self, loaded: Prepared, undo: str | None) -> str | None:
        """Return the policy of a new run: its own, else that of its definition, else that of the project."""
        policy = undo or loaded.flow.undo or self.context.undo.policy
        if policy not in POLICIES:
            message = f"must be one of {', '.join(POLICIES)}, not {policy!r}"
            raise InvalidInput([Problem(path="undo", message=message, suggestion=did_you_mean(str(policy), POLICIES))])
        return None if policy == ON_REQUEST else policy

    def executor_for(self, row: RunRow, executor: Executor | None) -> Executor | None:
        """Return the caller of the tools of an existing run."""
        if (row.context or {}).get("executor") and executor is None:
            raise NoExecutor(row.id)
        return executor

    async def for_existing(
        self, row: RunRow, start: Start = DEFAULT, forgotten: Collection[Key] = (), restarted: Collection[str] = ()
    ) -> Job:
        """Prepare the job that continues an existing run."""

        # The tools of `forgotten` entries must exist, and the flows of the parts with the ids in `restarted`.
        is_plan = row.kind == "plan"
        if is_plan or row.forked_from is not None:
            from .corrections import require_in_effect

            await run_sync_in_thread(self.context.store, lambda: require_in_effect(self.context, row))
        job = await self.for_replay(row, start, forgotten, restarted)
        if is_plan:
            from .plan_callers import offer_record

            await run_sync_in_thread(self.context.store, lambda: offer_record(self.context, job, row))
        return job

    async def for_replay(
        self, row: RunRow, start: Start, forgotten: Collection[Key] = (), restarted: Collection[str] = ()
    ) -> Job:
        """Prepare a job with the definition and the input of an existing run."""
        started_with, loaded = row.context or {}, start.definition
        self.executor_for(row, start.executor)
        if (root := started_with.get("root")) is not None:
            from .directories import still_there

            still_there(root, row.id)
        if loaded is None:
            await self.context.definitions.read_ahead({**row.document, "kind": row.kind})
            loaded = self.context.definitions.get(row)
        flows: dict[str, Tool] = {}
        if start.executor is None:
            try:
                await self.prepare(loaded)
            except InvalidFlow as error:
                context, nodes = self.context, calls_by_place(loaded.flow)
                flows = await self.flows_of_parts(
                    error if start.definition is not None else _with_file(error, row),
                    nodes,
                    lambda: (
                        _without(context.history(row.id), forgotten),
                        parts_by_node(context.store, row.id, restarted),
                    ),
                )
        listed = replace(start, definition_id=row.definition_id)
        job = self._job(listed, loaded, row.id, row.input, started_with.get("variables"))
        job.new.context.update(request=started_with.get("request"), source=started_with.get("source"))
        if flows:
            job.caller = PartTools(job.caller, self.context.runner, flows)
        return job

    @cached_property
    def directories(self) -> DirectoryCallers:
        """The callers of the tools of experiences, which are files in their directories."""
        from .directories import DirectoryCallers

        context = self.context
        return DirectoryCallers(
            context.runner, context.definitions.find, self.prepare, self.for_existing, lambda: context.engine,
            self.add_places_to,
        )  # fmt: skip

    def make_tool(self, loaded: Prepared, name: str | None = None, description: str | None = None) -> Tool:
        """Make a tool of a definition: each call is a run, or a part of the run that calls it."""
        flow, compiled, cards = loaded.flow, loaded.compiled, self.context.definitions.cards
        own = tool_name(loaded.name) if name is None else name
        aliases = (f"{compiled.namespace}:{own}",) if name is None and compiled.namespace else ()
        source = FlowSource(
            kind=loaded.kind,
            flow=flow,
            fingerprint=loaded.fingerprint,
            document=loaded.document,
            render=compiled.render,
            add_places=self.add_places_to(loaded),
            definition_id=loaded.stored_id,
            root=loaded.root,
        )
        # Functions, because the toolbox may change between now and the call.
        host = FlowHost(
            caller=self.caller(None, loaded),
            get_engine=lambda: self.context.engine,
            prepare=lambda: self.prepare(loaded),
            job_for_row=self.for_existing,
            missing_tools=lambda visited: missing_tools(flow, cards.toolbox, visited),
            model_checks=lambda visited: find_model_checks(flow, cards.toolbox, self.why_model_unavailable, visited),
            value_schema=lambda: cards.output_of(loaded),
            secrets=lambda: self.context.secrets,
        )
        handler = FlowTool(own, source, host)
        if description is None:
            description = str(loaded.document.get("description") or "")
        output = cards.output_of(loaded)
        return Tool(own, description, input_schema_of(flow), output, handler=handler, aliases=aliases)

    async def find_tool(self, tool_id: str) -> Tool:
        """Return a tool by its id, connecting its server, or reading the saved plan that it is."""
        await connect_sources(self.sources, [tool_id])
        return await self.context.toolbox.find(tool_id)

    async def connect_tool(self, tool_id: str) -> None:
        """Make a tool known that is called outside of a flow: only flows have the tools of agents."""
        await connect_sources(self.sources, [tool_id])
        if self.context.toolbox.is_missing(tool_id):
            await self.context.toolbox.connect_for([tool_id])

    async def connect_for(self, flow: Flow) -> None:
        """Make the tools known that a flow calls: connect their servers, or find them among the project's flows."""
        await self.connect_tools(called_by(flow, self.context.toolbox))

    async def connect_tools(self, ids: Collection[str]) -> None:
        """Make tools known."""
        toolbox = self.context.toolbox
        missing = [id for id in ids if toolbox.is_missing(id)]
        if missing and self.flow_tools is None and self.context.definitions.cards.flow_files:
            from .flow_list import FlowList
            from .flow_tools import FlowTools  # without a project only documents that name files need it

            flows = FlowList(None)
            self.flow_tools = FlowTools(self.context.definitions, flows, self.make_tool, self.connect_for)
            self.sources.append(self.flow_tools)
        await connect_sources((self.own_tools, *self.sources), missing)
        # What the app itself or its project has needs no server.
        missing = [id for id in missing if toolbox.is_missing(id)]
        if missing:
            await toolbox.connect_for(missing)

    async def connect_own(self) -> None:
        """Make all tools known that the app and its project have without servers: saved plans and flows."""
        for source in self.sources:
            await source.connect()

    def flow_list(self, directory: Path, patterns: Sequence[str]) -> FlowList:
        """Return the list of these flow files: that of the project's tools, if they are the same."""
        from .flow_list import FlowList

        known = None if self.flow_tools is None else self.flow_tools.flows
        return known if known is not None and known.is_of(directory, patterns) else FlowList(directory, patterns)

    async def close(self) -> None:
        """End the processes of the directories' tools."""

        # Idempotent.
        if "directories" in self.__dict__:
            await self.directories.close()

    async def continue_run(self, job: Job, log: Log) -> dict[str, Json]:
        """Continue an opened run, and let the selector learn from it when it ends."""
        result = await self.context.engine.drive(job, log)
        await self.context.selection.learn(job, result)
        return result

    async def prepare(self, loaded: Prepared) -> None:
        """Connect the tools of a definition and check it against them, once per version of the toolbox."""
        context = self.context
        if self._is_sound(loaded):
            return
        if self.flow_tools is not None:
            self.flow_tools.forget_changed(tools_of(loaded.flow.body))
        if loaded.origin is not None:
            context.definitions.register_recorded_tools(loaded.flow, loaded.origin)
        await self.connect_for(loaded.flow)
        if context.distributed:
            check_workers_can_call(loaded.flow, context.toolbox)
        await self._ensure(loaded, unknown_tools="problem")
        if requested := self.model_checks(loaded):
            problem = await asyncio.to_thread(_model_problem, requested, loaded.kind, loaded.document, loaded.file)
            if problem is not None:
                raise ModelError(problem.message, problems=() if problem.place is None else (problem,))
        self._remember_sound((loaded.fingerprint, context.toolbox.version, loaded.root))

    async def flows_of_parts(
        self, error: InvalidFlow, nodes: Mapping[str, Node], recorded: Callable[[], Recorded]
    ) -> dict[str, Tool]:
        """Return the flows of a run's parts that are tools no more; raise the error unless it only lacks these."""

        # A recorded call needs no tool, and an unfinished part continues under the definition that is recorded with it.
        if any(item.keyword != UNKNOWN_TOOL or item.path not in nodes for item in error.problems):
            raise error
        entries, parts = await run_sync_in_thread(self.context.store, recorded)
        finished = {entry.node for entry in entries if entry.kind == "call"}
        lacking = [node for item in error.problems if (node := nodes[item.path]).id not in finished]
        if not parts.keys() >= {node.id for node in lacking}:
            raise error
        tools = {node.id: str(getattr(node.op, "tool", "")) for node in lacking}
        return {tool: await self._tool_of_part(parts[id], tool) for id, tool in tools.items()}

    async def _tool_of_part(self, part: RunRow, tool_id: str) -> Tool:
        """Make the tool as which a part of a run began."""
        job = await self.for_existing(part)
        tool = self.make_tool(self.context.definitions.get(part), tool_id.rpartition(":")[2])
        handler: Any = tool.handler
        return replace(tool, handler=handler.with_host(caller=job.caller, prepare=None))

    def _is_sound(self, loaded: Prepared) -> bool:
        """Return True if a definition was checked against the tools that there are now."""
        if (loaded.fingerprint, self.context.toolbox.version, loaded.root) not in self._sound:
            return False
        return self.flow_tools is None or self.flow_tools.is_current(loaded)

    async def _ensure_for_executor(self, loaded: Prepared) -> None:
        """Raise InvalidFlow if the definition is wrong, whatever its tools are: the executor may call any."""
        key = (loaded.fingerprint, _ANY_TOOLS, loaded.root)
        if key not in self._sound:
            await self._ensure(loaded, has_executor=True)
            self._remember_sound(key)

    async def _ensure(self, loaded: Prepared, **options: Any) -> None:
        ensure = partial(self.context.definitions.ensure, loaded, **options)
        if len(orjson.dumps(loaded.document)) > _SMALL:  # in a thread, so that other runs continue
            await in_thread(ensure, DEFINITION_SECONDS)
        else:
            ensure()

    def _remember_sound(self, key: tuple[str, int, str | None]) -> None:
        if len(self._sound) >= MAX_CACHED:
            self._sound.clear()
        self._sound.add(key)

    def with_warnings(self, loaded: Prepared, checked: Checked) -> Checked:
        """Add warnings to a check: about numbers in the definition's file, and about a model that is not available."""
        from ..source.document import doubtful_numbers

        warnings = doubtful_numbers(loaded.file)
        problem = _model_problem(self.model_checks(loaded), loaded.kind, loaded.document, loaded.file)
        if problem is not None:
            warnings.append(problem)
        warnings += self.fallback_warnings(loaded)
        return replace(checked, warnings=(*checked.warnings, *warnings)) if warnings else checked

    async def check_source(self, source: Source) -> Checked:
        """Load a definition, connect the servers of its tools and check it; a wrong one raises nothing."""
        definitions = self.context.definitions
        try:
            loaded = await definitions.find_async(source, connect=True)
        except InvalidFlow as error:
            return Checked(problems=error.problems, warnings=error.warnings)
        return self.with_warnings(loaded, definitions.check(loaded, unknown_tools="certain"))

    def model_checks(self, loaded: Prepared) -> list[ModelCheck]:
        """Return the availability checks of every model that the definition calls, also through other flows."""
        return find_model_checks(loaded.flow, self.context.toolbox, self.why_model_unavailable)

    def fallback_warnings(self, loaded: Prepared) -> list[Problem]:
        """Return a warning for each model of a definition with a fallback that cannot be asked."""
        checks = find_model_checks(loaded.flow, self.context.toolbox, self.why_fallback_unavailable, None)
        blocking = {check() for check in self.model_checks(loaded)} if checks else set()
        reasons = dict.fromkeys(check() for check in checks)  # flows that are tools give what blocks them
        return [Problem(path="", message=reason) for reason in reasons if reason is not None and reason not in blocking]

    def why_fallback_unavailable(self, model: str = "", priced: bool = False) -> str | None:
        """Return why a fallback of a model cannot be asked here, or None."""
        find = None if self.context.distributed else getattr(self.context.model, "missing_fallback", None)
        try:
            return None if find is None else str(found) if (found := find(model)) is not None else None
        except ModelError:  # the check of the model itself reports it
            return None

    def why_model_unavailable(self, model: str = "", priced: bool = False) -> str | None:
        """Return why agents cannot call a model here, or None; "" is the default, and `priced` needs its price."""

        # The model is not called to find out.
        # Workers have a model of their own, so nothing is known of it here.
        if self.context.distributed:
            return None
        try:
            client = self.context.client_of(model)
        except ModelError as error:
            return str(error)
        names = ("missing", "why_unpriced") if priced else ("missing",)
        finders = (getattr(client, name, None) for name in names)  # a client of one's own may have none
        return next((reason for find in finders if find is not None and (reason := find()) is not None), None)

    def caller(self, executor: Executor | None, loaded: Prepared) -> Any:
        """Return the caller of a run's tools: the executor if given, else the runner of the app or of the directory."""
        if executor is None:
            return self.directories.caller(loaded) if loaded.root is not None else self.context.runner
        known = self._executors.get(id(executor))
        if known is None:
            if len(self._executors) >= MAX_CACHED:
                del self._executors[next(iter(self._executors))]
            # By id, since an executor need not be hashable; kept alive here, so that no id comes twice.
            known = self._executors[id(executor)] = (executor, ExecutorCaller(executor))
        return known[1]

    def add_places_to(self, loaded: Prepared) -> AddPlaces | None:
        """Return what adds the places of a definition to the errors of its runs; None if it has no file."""
        return None if loaded.file is None and loaded.origin is None else partial(_add_places, self.context, loaded)

    def _job(self, start: Start, loaded: Prepared, run_id: str, input: Json, state: Any) -> Job:
        on_event, caller = start.on_event, self.caller(start.executor, loaded)
        if on_event is not None and not callable(on_event):
            raise wrong_type("on_event", "a function of an event", on_event)
        context: dict[str, Json] = {
            "variables": state,
            "executor": isinstance(caller, ExecutorCaller),
            "project": self.context.project,
            "root": loaded.root,
        }
        if loaded.flow_files:
            context["flows"] = dict(loaded.flow_files)
        # The record needs the file: `resume` with `upgrade` reads its current content.
        if (file := loaded.read_from) is not None:
            context["file"] = file
        new = NewRun(
            id=run_id,
            kind=loaded.kind,
            name=loaded.name,
            definition_id=start.definition_id,
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
            add_places=self.add_places_to(loaded),
            input=input,
            state=state,
            watcher=on_event,
            park=start.park,
            allowed=self.context.secrets,
        )


async def _add_places(context: Context, loaded: Prepared, result: dict[str, Json]) -> None:
    from .node_places import add_places  # only a run with errors needs it

    await add_places(context, loaded, result)


def _with_file(error: InvalidFlow, row: RunRow) -> InvalidFlow:
    """Return the error of a run whose Python file was not imported, with the remedy for its unknown tools."""
    file = str((row.context or {}).get("file") or "")
    unknown = [i for i, problem in enumerate(error.problems) if problem.keyword == UNKNOWN_TOOL]
    if not unknown or ".py:" not in file or not isfile(file.rpartition(":")[0]):
        return error
    action = Action.RETRY_WITH_FILE if row.status in ENDS else Action.RESUME_WITH_FILE
    remedy = Remedy(action, {"run_id": row.id, "file": display_path(file)})
    problems = list(error.problems)
    problems[unknown[-1]] = replace(problems[unknown[-1]], remedy=remedy)
    return InvalidFlow(problems, error.flow)


def _without(history: Iterable[Entry], forgotten: Collection[Key]) -> list[Entry]:
    return [entry for entry in history if (entry.path, entry.kind) not in forgotten]


def _definition(start: Start) -> Prepared:
    """Return the definition of a new run, which always has one."""
    assert start.definition is not None
    return start.definition


def _model_problem(checks: Iterable[ModelCheck], kind: str, document: Mapping[str, Any], file: Any) -> Problem | None:
    """Return why one of the models cannot be called, at its line if the agent names the model; None if all can."""
    reason = next((reason for check in checks if (reason := check()) is not None), None)
    # A reason that begins with the name of a field is about that field.
    field = "cost_budget" if reason is not None and reason.startswith("cost_budget: ") else "model"
    if reason is None or kind != "agent" or not document.get(field):
        return None if reason is None else Problem(path="", message=reason)
    from ..source.document import with_places

    [problem] = with_places([Problem(path=field, message=reason.removeprefix(f"{field}: "))], file)
    return problem if problem.place is not None else replace(problem, message=reason)
