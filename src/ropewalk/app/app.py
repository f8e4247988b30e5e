"""The app: a toolbox, a store and the engine behind one object. The command line, the servers and programs use it.

`App` holds no logic: it builds the `Context` that its services share, and delegates to them (definitions, jobs, runs,
stored definitions, workers). To add an operation, write it in the service of its noun and delegate to it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from ..argument_checks import require_method, require_type
from ..check import Checked
from ..config.secrets import secret_names
from ..config.settings import Limits, WorkerSettings, check_engine
from ..duration import read_duration
from ..engine.engine import Engine, check_run_id, new_run_id
from ..errors import InvalidFlow
from ..events import Event
from ..ir import Flow
from ..journal.address import store_or_opener
from ..journal.protocol import Store
from ..notations.records import Outcome, TypedOutcome, outcome, retry_remedy
from ..tools.toolbox import Toolbox
from ..values import Json
from .context import Context
from .conversion import converted
from .current import enter_app, leave_app
from .execution import after_run, call_tool, recorded_ending
from .jobs import Jobs
from .own_tools import OwnTools, SavedPlans
from .preflight import check_variables, with_missing_tools
from .prepared import Prepared
from .start import ExecuteOptions, Executor, RunOptions, Start
from .streaming import RunStream, stream_of

if TYPE_CHECKING:
    from pathlib import Path

    from ..agents.model import ModelClient
    from ..select.embedding import Embedder
    from ..select.selector import Selector
    from ..tools.tool import Tool
    from ..workers.schedules import Schedules
    from ..workers.workers import Workers
    from .chains import Chains
    from .compositions import Compositions
    from .loop_thread import LoopThread
    from .plan_function import Plan
    from .plans import Plans
    from .prepared import Source
    from .preview import Preview
    from .runs.queries import RunService
    from .runs.recovery import Recovery

R = TypeVar("R")


class App:
    """Compose, check and run flows with a toolbox, a store and an engine.

    Use it as a context manager: `async with App(tools=[add]) as app:` closes everything that it opened.

    Args:
        store: Store of the runs: an address (`memory`, `sqlite:///path`, `postgresql://...`), a path, or a Store.
            Default: `.ropewalk/ropewalk.db` in `directory`.
        tools: Tools to register: `@tool` functions, plain callables or Tools.
        toolbox: Toolbox to use. Default: a new one.
        timeout: Seconds per tool call, or a duration such as "10s". Default: `limits.tool_timeout`.
        directory: Directory of the default store. Default: the working directory.
        sync: "full" makes a SQLite store survive a power cut, at the price of a disk flush per batch.
        limits: Limits of definitions and calls.
        engine: "local" executes runs in this process; "dbos" queues them for workers in a Postgres store.
        settings: Queues, limits and schedules of workers.
        model: Model that agents call: `provider:model`, such as `openai:gpt-5`, or a ModelClient. Default: Claude.
        secrets: Names of the environment variables that `$secret` may read.
        selector_model: Embedding model by which the selector compares meanings: `none`, `minilm`, `multilingual`,
            `MODULE:CLASS`, or an embedder.

    Attributes:
        toolbox: The tools that definitions can call.
        runner: Calls single tools.
        definitions: Reads, compiles and checks definitions.

    Raises:
        ConfigError: The engine, a limit, the name of a secret or `selector_model` is invalid.
        StoreError: The address of the store is not supported, or the directory of its file does not exist.
        TypeError: An argument has the wrong type.
    """

    _resumes = False
    _recovery: Recovery | None = None

    def __init__(
        self,
        store: str | Path | Store | None = None,
        *,
        tools: Iterable[Any] = (),
        toolbox: Toolbox | None = None,
        timeout: float | str | None = None,
        directory: Path | str | None = None,
        sync: Literal["normal", "full"] = "normal",
        limits: Limits = Limits(),  # noqa: B008 - frozen
        engine: Literal["local", "dbos"] = "local",
        settings: WorkerSettings = WorkerSettings(),  # noqa: B008 - frozen
        model: ModelClient | str | None = None,
        secrets: Iterable[str] = (),
        selector_model: Embedder | str = "none",
    ) -> None:
        toolbox = Toolbox() if toolbox is None else toolbox
        require_type(Toolbox, toolbox=toolbox)
        require_type(Limits, limits=limits)
        require_type(WorkerSettings, settings=settings)
        toolbox.register_all(tools)
        self.context = Context(
            store_or_opener(store, directory, sync),
            toolbox=toolbox,
            limits=limits,
            settings=settings,
            distributed=check_engine(engine) == "dbos",
            secrets=secret_names(secrets),
            tool_timeout=limits.tool_timeout if timeout is None else read_duration(timeout),
            workers=lambda: self.workers,
        )
        if isinstance(model, str):
            from ..config.models import ModelSettings

            self.context.models = {"": ModelSettings(model=model)}
        elif model is not None:
            self.context.model = require_method("turn", model=model)
        self.context.selection.set_model(selector_model)
        self.jobs = Jobs(self.context, lambda *run: self.plans.outcome_of_correction(*run))
        self.jobs.own_tools, self.jobs.sources = OwnTools(self.jobs), [SavedPlans(self.jobs)]
        self.context.after_run = partial(after_run, self.jobs)
        # Shortcuts to what callers use most; the context owns them.
        self.toolbox, self.runner, self.definitions = toolbox, self.context.runner, self.context.definitions
        self.limits, self.settings, self.distributed = limits, settings, self.context.distributed
        self.secrets = self.context.secrets

    @classmethod
    def open(
        cls,
        directory: Path | str | None = None,
        *,
        store: str | Path | Store | None = None,
        home: Path | str | None = None,
        engine: Literal["local", "dbos"] | None = None,
        resume: bool = False,
        code: bool = True,
    ) -> App:
        """Open the app of a project, with the tools, servers, limits and store of its `ropewalk.toml`.

        Args:
            directory: Where the search for `ropewalk.toml` starts, upward. Default: the working directory.
            store: Store or address to use instead of the configured one.
            home: Directory whose project's store records the runs. If it has none, the configured store of
                `directory` records them, or the default store in `home`.
            engine: Engine to use instead of the configured one.
            resume: Resume the project's interrupted runs while the app is open with `async with`.
            code: Import the modules of the project, and name its servers. False only reads documents.

        Returns:
            The app. Servers are connected when a tool of them is first needed.

        Raises:
            ConfigError: `ropewalk.toml` is wrong, or a tool module cannot be imported; with all problems.
            StoreError: The address `store` is not supported, or the directory of its file does not exist.
        """
        from .open_project import open_project

        app = open_project(cls, directory, store, home, engine, code)
        app._resumes = resume
        return app

    @property
    def store(self) -> Store:
        """The store of the runs, opened when it is first needed."""
        return self.context.store

    @property
    def engine(self) -> Engine:
        """The engine, which executes runs in this process or queues them for workers."""
        return self.context.engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        """Set the engine. Args: engine: Executes the runs that start from now on."""
        self.context.engine = engine

    @property
    def model(self) -> ModelClient:
        """The model that agents call, created when it is first needed."""
        return self.context.model

    @model.setter
    def model(self, model: ModelClient) -> None:
        """Set the model. Args: model: Answers the next turn of every agent; needs the method `turn`."""
        self.context.model = require_method("turn", model=model)

    @property
    def project(self) -> str | None:
        """The directory of the project, or None for an app without one."""
        return self.context.project

    @property
    def http_secrets(self) -> frozenset[str]:
        """The names in `secrets` that definitions sent over HTTP may read."""
        return self.context.http_secrets

    @property
    def selector(self) -> Selector:
        """The selector, which ranks the tools of the toolbox for a request and learns from use."""
        return self.context.selection.selector

    @selector.setter
    def selector(self, selector: Selector) -> None:
        """Set the selector. Args: selector: Ranks the tools for the requests that follow, and learns from their use."""
        self.context.selection.selector = selector

    def watch(self, watcher: Callable[[Event], None]) -> None:
        """Pass each event of the runs that start from now on to a function.

        Args:
            watcher: Called with each event, in the event loop; it must not block.
        """
        self.engine.watchers.append(watcher)

    @cached_property
    def chains(self) -> Chains:
        """The stored chains: create, execute, inspect and stop them."""
        from .chains import Chains, ChainService  # an app that only runs documents does without

        return Chains(ChainService(self.runs))

    @cached_property
    def compositions(self) -> Compositions:
        """The stored compositions: create, execute, list and compose them."""
        from .compositions import Compositions, CompositionService

        return Compositions(CompositionService(self.runs))

    @property
    def plans(self) -> Plans:
        """The operations on programs of models: find tools, check, run, resume, save."""
        from .plans import Plans  # few apps need it

        return Plans(self.context, self.jobs)

    @property
    def runs(self) -> RunService:
        """The recorded runs: list, inspect, retry, fork, compare and stop them."""
        from .runs.queries import RunService

        return RunService(self.context, self.jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.call(self.close())
        self._thread.close()

    async def __aenter__(self) -> App:
        enter_app(self)
        if self._resumes:
            from .runs.recovery import Recovery

            self._recovery = Recovery(self)
            self._recovery.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        leave_app(self)
        await self.close()

    async def close(self) -> None:
        """Close the store, the connections and the processes of tools. Idempotent."""
        if self._recovery is not None:
            await self._recovery.close()
        await self.jobs.close()
        await self.context.close_model_and_tools()
        if "workers" in self.__dict__:
            self.workers.close()
        self.context.close_store()

    # --- definitions --------------------------------------------------------------------------

    def load(self, source: Source) -> Prepared:
        """Read and compile a definition.

        Args:
            source: A file, directory, text, document, flow written in Python, or the id or object of a stored one.

        Returns:
            The compiled definition. It is cached, so loading an unchanged definition again is cheap.

        Raises:
            InvalidFlow: The definition is wrong; with every problem and its place.
            NotFound: There is no such file and no such stored definition.
        """
        return self.definitions.find(source)

    async def load_async(self, source: Source) -> Prepared:
        """Read and compile a definition without blocking the event loop while the store is queried.

        Args:
            source: A definition, as for `load`.

        Returns:
            The compiled definition.

        Raises:
            InvalidFlow: The definition is wrong; with every problem and its place.
            NotFound: There is no such file and no such stored definition.
        """
        return await self.definitions.find_async(source)

    def check(self, source: Source, *, unknown_tools: str | None = None) -> Checked:
        """Check a definition from code without `async`, as `validate` does.

        A compiled definition is checked against the tools that are known now, and no server is connected.

        Args:
            source: A definition, as for `load`.
            unknown_tools: Report an unknown tool as "warning" or "problem"; "certain": as a problem if it cannot exist.
                Default: "problem"; "warning" for a compiled definition.

        Returns:
            Every problem and warning, each with its place. A wrong definition raises nothing.

        Raises:
            NotFound: There is no such file and no such stored definition.
        """
        if not isinstance(source, Prepared):
            certain = unknown_tools == "certain"
            lenient = unknown_tools == "warning"
            return self._thread.call(
                self.jobs.check_source(source) if certain else self.validate(source, allow_missing_tools=lenient)
            )
        loaded, unknown_tools = source, unknown_tools or "warning"
        return self.jobs.with_warnings(loaded, self.definitions.check(loaded, unknown_tools=unknown_tools))

    def ensure(self, loaded: Prepared, *, unknown_tools: str = "warning") -> None:
        """Raise an error if `check` finds a problem.

        Args:
            loaded: The definition.
            unknown_tools: How to report a tool that is not known, as for `check`.

        Raises:
            InvalidFlow: The definition is wrong; with every problem.
        """
        self.definitions.ensure(loaded, unknown_tools=unknown_tools)

    async def validate(self, source: Source, *, allow_missing_tools: bool = False) -> Checked:
        """Check a definition, and connect the servers of its tools. No tool is called.

        Args:
            source: A file, a directory, text, a document, a flow written in Python, or a stored definition.
            allow_missing_tools: Report an unknown tool as a warning. Default: as a problem.

        Returns:
            Every problem and warning, each with its place. A wrong definition raises nothing.

        Raises:
            NotFound: There is no such file and no such stored definition.
        """
        checked = await self.jobs.check_source(source)
        return with_missing_tools(checked, allowed=allow_missing_tools)

    async def preview(self, source: Source) -> Preview:
        """Preview a run: its steps, their order and their tools. No tool is called.

        Args:
            source: A definition, as for `load`.

        Returns:
            The preview, with `text()` for people and `to_dict()` for programs.

        Raises:
            InvalidFlow: The definition is wrong; with every problem.
            NotFound: There is no such file and no such stored definition.
        """
        from .preview import preview

        loaded = await self.definitions.find_async(source, connect=True)
        checked = self.check(loaded, unknown_tools="certain")
        if checked.problems:
            raise InvalidFlow(checked.problems)
        return preview(self.context, loaded, checked.warnings)

    def draw(self, source: Source, format: str = "mermaid") -> str:
        """Draw the graph of a definition.

        Args:
            source: A definition, as for `load`.
            format: "mermaid", "svg" or "text".

        Returns:
            The drawing as text.

        Raises:
            InvalidFlow: The definition cannot be compiled.
            NotFound: There is no such definition, or no such format.
        """
        from ..draw import draw

        return draw(self.load(source).flow, format)

    def convert(self, source: Source, kind: str, *, allow_loss: bool = False) -> Any:
        """Translate a definition to another notation.

        Args:
            source: A definition, as for `load`.
            kind: The notation: "chain", "composite", "composition", "experience" or "plan".
            allow_loss: Convert what the notation supports, and list the rest.

        Returns:
            The document, a dict; with `allow_loss` a `ConvertedDocument`, a dict with the attribute `losses`.

        Raises:
            InvalidFlow: The definition is wrong, or the notation does not support parts of it; each with its place.
            NotFound: There is no such definition, or no such notation.
        """
        loaded = self.load(source)
        self.ensure(loaded)
        return converted(loaded, kind, self.definitions, allow_loss)

    # --- tools --------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Connect every configured server. `toolbox.failures` holds those that fail, each with the reason."""
        await self.toolbox.connect()

    async def connect_for(self, flow: Flow) -> None:
        """Connect the servers of the tools that a flow calls, unless they are connected.

        Args:
            flow: A compiled flow, `loaded.flow`.
        """
        await self.jobs.connect_for(flow)

    async def call_tool(
        self, tool_id: str, args: dict[str, Json] | None = None, *, on_progress: Any = None, request: str | None = None
    ) -> Json:
        """Call one tool: check the arguments, dispatch the call, and check the result.

        Args:
            tool_id: The id of the tool, such as `add` or `weather:forecast`.
            args: The arguments by name.
            on_progress: `async` function that receives each `ProgressEvent` of the tool.
            request: The request that the call serves, in words; the selector learns from it.

        Returns:
            The value of the tool, as JSON.

        Raises:
            ToolNotFound: There is no such tool.
            ValidationFailed: The arguments do not match the schema of the tool.
            ToolError: The call failed.
        """
        return await call_tool(self.jobs, self.runner, tool_id, args, on_progress, request)

    def as_tool(self, source: Source, *, name: str | None = None, description: str | None = None) -> Tool:
        """Return a tool that runs a definition, to be registered in a toolbox.

        Args:
            source: A definition, as for `load`.
            name: Id of the tool, without a namespace. Default: the name of the definition.
            description: What models read. Default: the description of the definition.

        Returns:
            The tool. Each call is a run, or a part of the run that calls it.

        Raises:
            InvalidFlow: The definition cannot be compiled.
            NotFound: There is no such definition.
        """
        return self.jobs.make_tool(self.load(source), name, description)

    # --- runs ---------------------------------------------------------------------------------

    @overload
    async def run(
        self, source: Plan[..., R], input: object = None, **options: Unpack[RunOptions]
    ) -> TypedOutcome[R]: ...
    @overload
    async def run(self, source: Source, input: object = None, **options: Unpack[RunOptions]) -> Outcome: ...
    async def run(
        self,
        source: Any,
        input: Any = None,
        *,
        run_id: str | None = None,
        variables: Mapping[str, Json] | None = None,
        executor: Executor | None = None,
        on_event: Callable[[Event], None] | None = None,
        request: str | None = None,
        concurrency: int | None = None,
        state: Mapping[str, Json] | None = None,
        keep_state: bool = False,
        park: bool = False,
        undo: Literal["on_request", "on_failure"] | None = None,
        budget: Mapping[str, float] | None = None,
    ) -> Outcome:
        """Load, check and run a definition.

        Args:
            source: A definition, as for `load`.
            input: The input of the run: any JSON value, which may hold pydantic models and dataclasses.
            run_id: Id and idempotency key: a second run with this id returns the first result. Default: a new id.
            variables: Values of the definition's variables, by name.
            executor: `async (tool_id, arguments) -> value` that calls the tools in place of the toolbox.
            on_event: Called with each event of the run.
            request: The request that the run serves, in words; the selector learns from it.
            concurrency: Maximum number of nodes of one graph that run at once. Default: that of the definition.
            state: Initial state of an experience, which replaces its defaults.
            keep_state: Start an experience with the final state of its last run.
            park: Return with the status `waiting` while the run only waits; `resume` continues it. Durable stores only.
            undo: "on_failure" undoes the finished steps of a run that does not complete. Default: the definition's.
            budget: Limits of the run and the flows that it calls: `calls`, `seconds`, `tokens` and `cost`.

        Returns:
            The outcome: status, errors of failed steps (not raised), `result` as JSON, `value` in the declared type.

        Raises:
            InvalidFlow: The definition is wrong; nothing has run.
            InvalidInput: The input or a variable does not match the definition; nothing has run.
            NotFound: There is no such definition.
            DefinitionChanged: The id belongs to a run of another definition.
        """
        check_run_id(run_id)
        loaded = await self.load_async(source)
        start = Start(
            definition=loaded, definition_id=loaded.definition_id, input=input, run_id=run_id, variables=variables,
            state=state, keep_state=keep_state, concurrency=concurrency, executor=executor, on_event=on_event,
            request=request, undo=undo, budget=budget, park=park,
        )  # fmt: skip
        # Not `self.execute`: one coroutine less around each run makes tool calls faster.
        result = await self.jobs.run(await self.jobs.ready(start))
        if not result and run_id is not None:
            result = await recorded_ending(self.store, run_id)
        ended = outcome(result, loaded.kind, loaded.read_result)
        if result.get("status") != "completed":
            ended._source = loaded.read_from
            if self.store.durable:
                ended._remedy = retry_remedy(ended, loaded.kind, loaded.read_from)
        return ended

    @overload
    def run_sync(
        self, source: Plan[..., R], input: object = None, **options: Unpack[RunOptions]
    ) -> TypedOutcome[R]: ...
    @overload
    def run_sync(self, source: Source, input: object = None, **options: Unpack[RunOptions]) -> Outcome: ...
    def run_sync(self, source: Any, input: Any = None, **options: Unpack[RunOptions]) -> Any:
        """Run a definition from code without `async`, also in a notebook.

        All runs of the app that start this way share one event loop in a thread. `with App(...) as app:` closes it.

        Args:
            source: A definition, as for `load`.
            input: The input of the run.
            **options: Every option of `run`.

        Returns:
            The outcome, as from `run`.

        Raises:
            RopewalkError: Whatever `run` raises.
        """
        return self._thread.call(self.run(source, input, **options))

    @cached_property
    def _thread(self) -> LoopThread:
        from .loop_thread import LoopThread  # only programs without async need it

        return LoopThread()

    async def execute(self, loaded: Prepared, **options: Unpack[ExecuteOptions]) -> dict[str, Json]:
        """Check and run a compiled definition.

        Args:
            loaded: The definition.
            **options: Every option of `run`, `input`, and the `definition_id` for lists.

        Returns:
            The result in the fields of its notation; empty for an earlier run that ended without one.

        Raises:
            InvalidFlow: The definition is wrong; nothing has run.
            InvalidInput: The input does not match the definition; nothing has run.
            DefinitionChanged: The id belongs to a run of another definition.
        """
        return await self.jobs.run(await self.jobs.ready(Start(definition=loaded, **options)))

    async def submit(self, source: Source, input: Json = None, **how: Any) -> str:
        """Queue a run for a server or worker and return at once. The store is in a file, or `engine` is "dbos".

        Args:
            source: A definition, as for `load`.
            input: The input of the run, any JSON value.
            **how: Options of `Workers.submit`, such as `run_id`, `variables`, `queue`, `priority` and `undo`.

        Returns:
            The id of the run.

        Raises:
            InvalidFlow: The definition is wrong; nothing is queued.
            InvalidInput: The input or a variable does not match the definition; nothing is queued.
        """
        loaded = await self.load_async(source)
        check_variables(loaded.flow, how.get("variables") or {})
        return await self.workers.submit(loaded, input, **how)

    def stream(self, source: Source, input: Json = None, **options: Unpack[RunOptions]) -> RunStream:
        """Run a definition and iterate over its events while it runs.

        The last event is `run.outcome`. Closing the iterator early stops the run. `RunStream` has the details.

        Args:
            source: A definition, as for `load`.
            input: The input of the run.
            **options: Every option of `run`. `on_event` also gets each event.

        Returns:
            The events, as async iterator and context manager. The first step of the iteration starts the run.

        Raises:
            RopewalkError: At the first step, whatever `run` raises. A failing tool raises nothing.
        """
        return stream_of(partial(self.run, source, input), lambda id: self.runs.stop(id), options)

    async def wait(
        self, run_id: str, *, on_event: Callable[[Event], None] | None = None, park: bool = False
    ) -> Outcome:
        """Wait until a queued run has ended.

        Args:
            run_id: The id of the run.
            on_event: Called with each event of the run.
            park: Also return while the run waits for an event or an approval.

        Returns:
            The outcome of the run.

        Raises:
            NotFound: There is no such run.
        """
        return await self.workers.wait(run_id, on_event, park)

    @cached_property
    def workers(self) -> Workers:
        """The workers of the store: list them, wait for their runs, or become one."""
        from ..workers.workers import Workers

        return Workers(self)

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store: list, start, pause and resume them."""
        return self.workers.schedules

    def asgi(self, *, token: str | None = None, hosts: Iterable[str] = ()) -> Any:
        """Return the HTTP API and the web UI as an ASGI app, to mount in FastAPI or Starlette.

        Close the app in the lifespan of yours: `async with App(...) as app:`.

        Args:
            token: What requests must show as bearer token. Default: none; your app decides who may come in.
            hosts: Host names that requests may name, in addition to localhost and 127.0.0.1.

        Returns:
            The ASGI app. The API and the web UI work under any path.

        Raises:
            ConfigError: A package of the extra `serve` is missing.
            InvalidInput: The token is not ASCII text, or a host is not a string.
        """
        from .asgi import make_asgi

        return make_asgi(self, token, hosts)

    async def resume(
        self,
        run_id: str,
        source: Source | None = None,
        *,
        upgrade: bool = False,
        executor: Executor | None = None,
        on_event: Callable[[Event], None] | None = None,
        park: bool = False,
    ) -> Outcome:
        """Resume a crashed or waiting run. Recorded steps are not repeated.

        Args:
            run_id: The id of the run.
            source: A changed definition, as for `load`.
            upgrade: Continue with the changed definition. Default of `source`: the file that the run was started from.
            executor: `async (tool_id, arguments) -> value`; needed if the run was started with one.
            on_event: Called with each event of the run.
            park: Return while the run waits for an event or an approval.

        Returns:
            The outcome. For a finished run it is the recorded one, and nothing is executed.

        Raises:
            NotFound: There is no such run.
            DefinitionChanged: `source` differs and `upgrade` is not set; with every difference.
            JournalConflict: A recorded call does not fit the changed definition.
            PartOfRun: The run is a part of another one, which must be resumed instead.
            NoExecutor: The run was started with an executor and none is given.
        """
        from .resuming import resume_run

        return await resume_run(
            self.jobs, run_id, source, upgrade, Start(executor=executor, on_event=on_event, park=park)
        )


__all__ = ["App", "Executor", "Prepared", "Outcome", "new_run_id"]
