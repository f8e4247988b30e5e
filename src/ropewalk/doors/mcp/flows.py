"""Flows as tools: flows in files, and the chains and compositions of the store.

Each call is a run in the store. The same idempotency key gives the same run, so a client that repeats its call after
a crash gets the earlier result. The client receives progress for every node. The run stops when the client cancels.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ...app.flow_list import FlowFile
from ...app.lookup import STORED
from ...app.preflight import tools_of
from ...app.start import Start
from ...check import UNKNOWN_TOOL
from ...engine.compile.program import may_wait
from ...engine.engine import new_run_id
from ...engine.flow_tool import flow_tool_of, tool_name, value_of_run
from ...errors import FlowFailed, InvalidFlow, NotFound, message_of
from ...events import Event
from ...expr import TRANSFORMS
from ...ir import Flow, bodies
from ...journal.address import run_sync_in_thread
from ...source.document import render_problem
from ...tools.bound_call import Progress
from ...tools.listener import RunProgress
from ...tools.mcp.call_client import can_ask
from ...tools.tool import ProgressEvent
from ...values import Json, digest
from ..errors import problems_of, word_problem
from ..remedies import Door
from .results import failed, flow_failed, given, missed
from .tool_source import CallContext, ExposedTool, PrepareTask
from .waits import ELICIT, answer_waits, for_older_client, open_waits, questions_of

if TYPE_CHECKING:
    from ...app.app import App
    from ...app.prepared import Prepared
    from ...engine.engine import Job

RESUME: Final = "resume_run"
STATE: Final = "ropewalk-run-"
"""Prefix of the request state of a call whose run waits in the store; the id of the run follows."""
_MOST: Final = 10  # notifications of progress within
_SECOND: Final = 1.0
_STOPPING: Final = 5.0  # seconds a stopped run may take to let its tools go
_ENDS: Final = {
    "node.finished": "done",
    "node.recovered": "recovered",
    "node.failed": "failed",
    "node.skipped": "skipped",
}

Execute: TypeAlias = Callable[[Start], Awaitable[Any]]
"""Runs a flow with an input, a run id and a watcher of events."""


class Steps:
    """The events of a run as progress notifications, and the paths of the nodes that failed."""

    # Of more than ten notifications within a second only the newest is sent, when there is room again.

    def __init__(self, progress: Progress, *, counted: bool) -> None:
        self._progress = progress
        self._times: deque[float] = deque(maxlen=_MOST)  # of the newest notifications
        self._held: ProgressEvent | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._run = RunProgress(self.tell, counted=counted)
        self.failed: dict[str, str] = {}
        """The path of each node of the run itself that failed and was not handled."""

    def take(self, event: Event) -> None:
        """Tell one event, where it is of a node."""
        data: Any = event.data or {}
        path = event.path or event.node
        if event.kind == "node.failed" and not data.get("handled"):
            self.failed[event.node or path] = path
        self._run.take(event)

    def tell(self, event: ProgressEvent) -> None:
        """Send a notification, or hold it back while there are too many."""
        self._held = event
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        if len(self._times) < _MOST or loop.time() >= self._times[0] + _SECOND:
            self.flush()
        else:
            self._timer = loop.call_at(self._times[0] + _SECOND, self.flush)

    def flush(self) -> None:
        """Tell what is held back."""
        held = self._held
        self.drop()
        if held is not None:
            self._times.append(asyncio.get_running_loop().time())
            self._progress.report(held)

    def drop(self) -> None:
        """Forget what is held back: nobody listens any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._held = None


async def executed(
    app: App, execute: Execute, args: dict[str, Json], run_id: str | None, asked: CallContext, *, counted: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Run a flow for a client; a cancelled call stops the run first."""
    import anyio

    own = run_id or new_run_id()
    progress = Progress(asked.on_progress)
    steps = Steps(progress, counted=counted)
    task = asyncio.ensure_future(execute(Start(input=args, run_id=own, on_event=steps.take, park=True)))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            app.runs.stop(own)
            await asyncio.wait([task], timeout=_STOPPING)
            task.cancel()
            await asyncio.wait([task], timeout=_STOPPING)
        steps.drop()
        raise
    steps.flush()
    await progress.flush()
    return {**task.result().to_dict(), "runId": own}, steps.failed


def _name_of_plan(error: InvalidFlow, place: str) -> str:
    """Return the name of the tool that a plan would be: that of its document, or of its function (`FILE.py:NAME`)."""
    data: Any = error.file.data if error.file is not None else {}
    return tool_name(str(data.get("name") or Path(place).name.rpartition(":")[2]))


log = logging.getLogger("ropewalk.mcp.server")


class Flows:
    """The flows of an app, as a source of tools."""

    def __init__(
        self,
        app: App,
        places: Iterable[str],
        home: Path,
        *,
        stored: bool = True,
        task_only: Iterable[str] = (),
        prompts: Iterable[str] = (),
        plans: bool = False,
    ) -> None:
        self._app, self._stored = app, stored
        self._task_only, self._prompts, self._has_plans = frozenset(task_only), frozenset(prompts), plans
        self._list = app.jobs.flow_list(home, tuple(places))
        # Nobody named the files that a default pattern matches: they may be documents of other programs.
        self._broken_level = logging.WARNING if self._list.is_named else logging.INFO
        self._known: dict[Path, tuple[Any, ExposedTool | None]] = {}
        self._told: set[tuple[str, Path]] = set()
        self._unlisted: dict[str, tuple[str, ...]] = {}  # by the name of a plan: tools that it needs to be compiled
        self.broken: dict[str, str] = {}
        """Why a file, by its path, or a stored definition is not offered."""

    def version(self) -> Any:
        """Return a value that changes whenever a flow is added, removed or changed."""
        self._list.look()
        stored = tuple((d.kind, d.id, d.fingerprint) for d in self._definitions())
        return self._list.revision, stored, self._surroundings()

    def offered(self) -> Iterator[ExposedTool]:
        """Return one tool per flow."""

        # Invalid flows are left out; `broken` has the reasons.
        # If a flow may wait, one more tool continues runs that did.
        called = map(flow_tool_of, self._app.toolbox.list())
        waits = any(self._may_wait(tool.flow) for tool in called if tool is not None)
        own: dict[str, tuple[Path, set[str]]] = {}
        for path, tool in self._of_files():
            definition = cast("Prepared", tool.definition)
            own.setdefault(tool.wanted, (path, set()))[1].add(definition.fingerprint)
            waits = waits or self._may_wait(definition.flow)
            yield tool
        for definition in self._definitions():
            loaded = self._of_the_store(definition)
            if loaded is None:
                continue
            same = own.get(tool_name(loaded.name))
            if same is not None and loaded.fingerprint in same[1]:
                continue  # the very same one
            id = f"{definition.kind}:{definition.id}"
            if same is not None and (id, same[0]) not in self._told:
                self._told.add((id, same[0]))
                message = (
                    "the file keeps the name; the stored definition is offered under a name with a digest (`stored = "
                    "false` hides it)"
                )
                log.warning("stored %s %r differs from the file %s: %s", definition.kind, loaded.name, same[0], message)
            waits = waits or self._may_wait(loaded.flow)
            yield self._offer(id, loaded, self._of_store(definition), self._task_of_store(definition))
        if waits and not self._has_plans:
            yield self._offer_resume()

    def _may_wait(self, flow: Flow) -> bool:
        if may_wait(flow, self._app.runner):
            return True
        # A tool of a server that has not answered yet is unknown to the runner. The list must not depend on how soon
        # it answers: many clients ask for it once.
        servers = self._app.toolbox.mcp
        return servers is not None and any(servers.may_wait(tool.partition(":")[0]) for tool in tools_of(flow.body))

    async def connect(self) -> None:
        """Reach the servers whose tools the flows call: the schema of a result may be theirs."""
        flows = [tool.definition.flow for _, tool in self._of_files() if tool.definition is not None]
        await asyncio.gather(
            self._app.jobs.connect_tools([*chain(*self._unlisted.values())]), *map(self._app.connect_for, flows)
        )

    async def reach(self, name: str) -> None:
        """Connect the servers of a plan that could not be compiled without them; any other flow needs none."""
        if name in self._unlisted:
            await self._app.jobs.connect_tools(self._unlisted[name])

    # --- which there are

    def _of_files(self) -> Iterator[tuple[Path, ExposedTool]]:
        """Yield each valid flow in a file; one that has not changed is not loaded again."""
        known, self._known = self._known, {}
        for file in self._list.look().values():
            now = file, self._surroundings()
            offer = known.get(file.path)
            if offer is None or offer[0] != now:
                offer = now, self._offer_file(*now)
            self._known[file.path] = offer
            if offer[1] is not None:
                yield file.path, offer[1]

    def _definitions(self) -> list[Any]:
        if not self._stored:
            return []
        return [definition for kind in STORED for definition in self._app.store.list_definitions(kind)]

    def _offer_file(self, file: FlowFile, surroundings: tuple[int, int]) -> ExposedTool | None:
        path = file.path

        def load() -> Prepared:
            result = self._app.load(path)
            # A tool with a prefix may come from a source that is connected later, such as a server or the model.
            is_local = not any(":" in tool for tool in tools_of(result.flow.body))
            self._app.ensure(result, unknown_tools="problem" if is_local else "certain")
            self._log_warnings(result, path)
            return result

        def is_current() -> bool:
            return self._surroundings() == surroundings and file.is_unchanged()

        loaded = self._sound(str(path), load)
        if loaded is None:
            return None
        tool = self._offer(f"file:{path}", loaded, self._of_file(loaded), self._task_of_file(loaded))
        return replace(tool, own=True, is_current=is_current)

    def _log_warnings(self, prepared: Prepared, path: Path) -> None:
        """Log the warnings of a flow that is offered, each once."""
        for warning in self._app.definitions.check(prepared).warnings:
            text = render_problem(word_problem(warning, Door.MCP))
            if warning.keyword != UNKNOWN_TOOL and (text, path) not in self._told:
                self._told.add((text, path))
                log.log(self._broken_level, "%s", text)

    def _surroundings(self) -> tuple[int, int]:
        """Return a value that differs after a change of what files are checked against."""
        return self._app.toolbox.version, len(TRANSFORMS)

    def _of_the_store(self, definition: Any) -> Prepared | None:
        """It was sound when it was stored; a transform that it uses may be registered later here, or elsewhere only."""
        name = f"{definition.kind} {definition.id!r} of the store"
        return self._sound(name, lambda: self._app.definitions.get(definition))

    def _sound(self, name: str, load: Callable[[], Prepared]) -> Prepared | None:
        """Return what `load` returns, or None if it is wrong; `broken` then says why."""
        before = self.broken.pop(name, None)
        try:
            return load()
        except (InvalidFlow, NotFound) as error:
            if isinstance(error, InvalidFlow) and (unlisted := (*error.unlisted, *error.unknown)):
                self._unlisted[_name_of_plan(error, name)] = unlisted
            self.broken[name] = why = "\n".join(
                render_problem(word_problem(problem, Door.MCP)) for problem in problems_of(error)
            ) or message_of(error)
            if why != before:  # it is looked at again whenever tools or transforms change
                log.log(self._broken_level, "%s is not offered:%s%s", name, "\n" if "\n" in why else " ", why)
            return None

    # --- how they are called

    def _of_file(self, loaded: Prepared) -> Execute:
        async def execute(start: Start) -> Any:
            return await self._app.run(loaded, start.input, run_id=start.run_id, on_event=start.on_event, park=True)

        return execute

    def _of_store(self, definition: Any) -> Execute:
        service: Any = self._app.chains.core if definition.kind == "chain" else self._app.compositions.core

        async def execute(start: Start) -> Any:
            job = await service.job(definition.id, {"input": start.input, "executionId": start.run_id}, start)
            return await service.execution_result(job, await self._app.engine.run(job))

        return execute

    def _task_of_file(self, loaded: Prepared) -> PrepareTask:
        async def prepare(args: dict[str, Json], run_id: str) -> Job:
            job = self._app.jobs.make(loaded, definition_id=loaded.definition_id, run_id=run_id, input=args)
            return await job

        return prepare

    def _task_of_store(self, definition: Any) -> PrepareTask:
        service: Any = self._app.chains.core if definition.kind == "chain" else self._app.compositions.core

        async def prepare(args: dict[str, Json], run_id: str) -> Job:
            job: Job = await service.job(definition.id, {"input": args, "executionId": run_id})
            return job

        return prepare

    def _resuming(self, start: Execute) -> Execute:
        """Return a function that resumes the run if it waits, and else starts it."""
        app = self._app

        async def execute(begin: Start) -> Any:
            run_id = str(begin.run_id)
            known = await run_sync_in_thread(app.store, lambda: app.store.get_run(run_id))
            return await (self._resume if known is not None and known.status == "waiting" else start)(begin)

        return execute

    def _offer(self, id: str, loaded: Prepared, start: Execute, prepare: PrepareTask) -> ExposedTool:
        tool = self._app.as_tool(loaded)
        # How often the nodes of a block run, nobody knows before.
        counted = not any(bodies(node) for node in loaded.flow.body.nodes)

        async def call(args: dict[str, Json], asked: CallContext) -> Any:
            run_id = None if asked.key is None else f"mcp-{digest([id, asked.key])}"
            if (state := asked.request_state) is not None and state.startswith(STATE):
                run_id = await self._answered(state.removeprefix(STATE), loaded, args, asked)
            # Only a run whose id the client determines can be there already.
            execute = start if run_id is None else self._resuming(start)
            result, paths = await executed(self._app, execute, args, run_id, asked, counted=counted)
            return await self._finished(result, paths, loaded.kind, tool.output_schema, asked)

        async def task(args: dict[str, Json], run_id: str) -> Job:
            job = await prepare(args, run_id)
            job.new.context["output"] = tool.output_schema
            return job

        return ExposedTool(
            id=id,
            task=task,
            task_only=tool_name(loaded.name) in self._task_only,
            prompt=loaded.name in self._prompts or bool(loaded.document.get("mcpPrompt")),
            definition=loaded,
            wanted=tool_name(loaded.name),
            description=tool.description.strip() or f"Runs the {loaded.kind} {loaded.name!r}.",
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            call=call,
        )

    # --- runs that wait

    async def _finished(
        self, result: dict[str, Any], paths: dict[str, str], kind: str, schema: Any, asked: CallContext
    ) -> Any:
        """Return the result of a run for the client; if the run waits, ask the client's user first where possible."""
        client = asked.client
        while result.get("status") == "waiting":
            run_id = str(result["runId"])
            # Without a way to ask, the client gets the run id and calls again later.
            if client is None or not can_ask(client.capabilities, ELICIT, {}):
                return await self._waits(result)
            if client.is_modern and _was_dismissed(asked):
                return await self._waits(result)
            questions = await questions_of(self._app, run_id, await open_waits(self._app, run_id))
            if not all(can_ask(client.capabilities, ELICIT, question["params"]) for question in questions.values()):
                return await self._waits(result)  # an address to open, which this client cannot show
            # Newer clients ask their user themselves and repeat the call with the answers.
            if client.is_modern:
                return _input_required(run_id, questions)
            # Older clients answer within the call, one question at a time.
            for path, question in questions.items():
                response = await client.ask(question["method"], for_older_client(path, question["params"]))
                if not await answer_waits(self._app, run_id, {path: response}):
                    return await self._waits(result)
            result, paths = await executed(self._app, self._resume, {}, run_id, asked, counted=False)
        about = {"runId": result["runId"], "status": result.get("status")}
        try:
            value = value_of_run(result, kind)
        except FlowFailed as error:
            return flow_failed(error, paths)
        return given(value, schema, about=about, note=missed(result))

    async def _waits(self, result: dict[str, Any]) -> Any:
        """Return what a run waits for, what its flows may do, and how to get its result later, maybe in days."""
        run_id, listed = result["runId"], result.get("waitingFor") or []
        facts = await run_sync_in_thread(self._app.store, lambda: self._app.runs.facts(str(run_id)))
        asks = ", ".join(_asked_text(item) for item in listed)
        how = f"Once this is answered, call {RESUME} with runId {run_id!r}: it returns the result. Start no new run."
        about = {"kind": "Waiting", "runId": run_id, "status": "waiting", "waitingFor": listed, "facts": facts}
        return failed(f"no result yet: run {run_id} waits for {asks or 'an event'}. {how}", about)

    async def _resume(self, start: Start) -> Any:
        return await self._app.resume(str(start.run_id), on_event=start.on_event, park=True)

    async def _answered(self, run_id: str, loaded: Prepared, args: dict[str, Json], asked: CallContext) -> str:
        """Give the answers in a request to the run that its state names, and return the id of the run."""

        # The state comes from the client: it can name only a run of the same flow with the same arguments.
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS

        row = await run_sync_in_thread(self._app.store, lambda: self._app.store.get_run(run_id))
        if row is None or row.fingerprint != loaded.fingerprint or digest(row.input) != digest(args):
            raise MCPError(INVALID_PARAMS, "Invalid or expired requestState")
        await answer_waits(self._app, run_id, responses_of(asked))
        return run_id

    def _offer_resume(self) -> ExposedTool:
        async def call(args: dict[str, Json], asked: CallContext) -> Any:
            run_id, app = str(args["runId"]), self._app
            row = await run_sync_in_thread(app.store, lambda: app.store.get_run(run_id))
            # A run of another project counts as unknown: an id must not give access to it.
            if row is None or (row.context or {}).get("project") != app.project:
                return failed(f"runId: there is no run {run_id!r}", {"kind": "NotFound"})
            # Record the answers first: the run reads them when it continues.
            if asked.request_state is not None:
                await answer_waits(app, row.id, responses_of(asked))
            result, paths = await executed(app, self._resume, {}, row.id, asked, counted=False)
            return await self._finished(result, paths, row.kind, None, asked)

        return ExposedTool(
            id=f"flows/{RESUME}",
            wanted=RESUME,
            checked=True,
            description="Continues a run that waited for an approval, an event or an answer, and returns its result.",
            input_schema={
                "type": "object",
                "properties": {
                    "runId": {"type": "string", "description": "The run id that the waiting tool returned."}
                },
                "required": ["runId"],
            },
            call=call,
            own=True,
        )


def _asked_text(wait: dict[str, Any]) -> str:
    """Return what a run waits for in a few words."""
    question = wait.get("question")
    return str(wait.get("approval") or (question["message"] if question else wait.get("event")))


def responses_of(asked: CallContext) -> dict[str, Any]:
    """Return the answers in a request as JSON, by key."""
    dumped = {}
    for key, response in (asked.input_responses or {}).items():
        dump = getattr(response, "model_dump", None)
        dumped[key] = dump(by_alias=True, mode="json", exclude_none=True) if dump is not None else response
    return dumped


def _was_dismissed(asked: CallContext) -> bool:
    """Return True if the user closed a form: the client must not show it again at once."""
    return any(isinstance(item, dict) and item.get("action") == "cancel" for item in responses_of(asked).values())


def _input_required(run_id: str, requests: dict[str, dict[str, Any]]) -> Any:
    from mcp_types import InputRequiredResult

    return InputRequiredResult.model_validate({"inputRequests": requests, "requestState": STATE + run_id})
