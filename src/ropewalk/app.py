"""The app: a toolbox, a store and the engine. All that a door sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from .check import Checked
from .config.limits import Limits, Retention
from .config.secret import secret_names
from .config.workplace import Workplace, check_engine
from .conversion import converted
from .definitions import Definitions, Loaded
from .dialects.records import Outcome, outcome
from .engine.engine import Engine, check_run_id, new_run_id
from .errors import DefinitionChanged, InvalidFlow, NotFound, PartOfRun
from .errors.given import having, must_be
from .events import Event
from .fitting import Cards, check_variables, is_local, is_of_agents, tools_of
from .ir import Flow
from .jobs import Executor, Jobs
from .journal import ENDS, Store, named_store, open_store
from .journal.offloop import off_loop
from .select.selecting import Selecting
from .streaming import Streaming
from .tools.runner import Runner
from .tools.toolbox import Toolbox
from .values import Json

if TYPE_CHECKING:
    from pathlib import Path

    from .chains import Chains
    from .claude.model import ModelClient
    from .compositions import Compositions
    from .definitions import Source
    from .experiences import Directories
    from .plan import Plan
    from .runs import Runs
    from .runs.recovery import Recovery
    from .runs.retention import Keeper
    from .tools.tool import Tool
    from .workers.schedules import Schedules
    from .workers.workers import Workers


class App(Selecting, Streaming):
    """Toolbox, store and engine together. `async with App() as app:` closes what it opened.

    `store` is an address (`memory`, `sqlite:///path`, a path), a Store, or None for
    `.ropewalk/ropewalk.db` in `directory` (the working directory). `tools` are `@tool` functions,
    plain callables or Tools. `timeout` is in seconds per tool call, that of `limits` unless given;
    with `sync="full"` a SQLite store survives a power cut, too. With `engine="dbos"` workers execute the runs
    (`ropewalk worker`), and the store is one in Postgres; `settings` are their queues, limits and schedules. `model` is
    what agents ask, Claude unless given. `secrets` are the environment variables that `$secret` may read.
    """

    retention: Retention | None = Retention()  # of ended runs; None keeps them for ever
    _keeper: Keeper | None = None
    _resumes = False
    _recovery: Recovery | None = None

    def __init__(
        self,
        store: str | Path | Store | None = None,
        *,
        tools: Iterable[Any] = (),
        toolbox: Toolbox | None = None,
        timeout: float | None = None,
        directory: Path | str | None = None,
        sync: Literal["normal", "full"] = "normal",
        limits: Limits = Limits(),  # noqa: B008 - frozen
        engine: Literal["local", "dbos"] = "local",
        settings: Workplace = Workplace(),  # noqa: B008 - frozen
        model: ModelClient | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        self.toolbox = Toolbox() if toolbox is None else toolbox
        must_be(Toolbox, toolbox=self.toolbox)
        must_be(Limits, limits=limits)
        must_be(Workplace, settings=settings)
        self.toolbox.register_all(tools)
        self.limits = limits
        seconds = limits.tool_timeout if timeout is None else timeout
        pace = None
        if settings.rates:
            from .tools.pace import Pace

            pace = Pace(settings.rates, self._take_turn)
        self.runner = Runner(
            index=self.toolbox, timeout=seconds, flows=lambda: self.engine, pace=pace, learner=self._learn
        )
        self.project: str | None = None  # the directory whose configuration gave the tools; kept with each run
        self._address, self._directory, self._sync = named_store(store), directory, sync
        self.model_settings: Mapping[str, Any] = {}  # [claude] in the project's configuration
        if model is not None:
            self.model = having("turn", model=model)
        self._store: Store | None = None
        self._engine: Engine | None = None
        self.distributed, self.settings = check_engine(engine) == "dbos", settings
        self.definitions = Definitions(Cards(self.toolbox), limits)
        self.jobs = Jobs(self)
        self.secrets = self.definitions.secrets = secret_names(secrets)
        self.http_secrets: frozenset[str] = frozenset()
        """Those of `secrets` that definitions sent over HTTP may read."""

    @classmethod
    def open(
        cls,
        directory: Path | str | None = None,
        *,
        store: str | Path | Store | None = None,
        home: Path | str | None = None,
        engine: Literal["local", "dbos"] | None = None,
        resume: bool = False,
    ) -> App:
        """The app of a project: tools, servers, limits and store from its `ropewalk.toml`. With `home`
        runs are kept there: in the store of the project that `home` is in; without one, in the store
        that the project of `directory` names, else in the default one of `home`. `engine` replaces the project's.
        With `resume`, `async with` the app resumes the project's runs whose process died (`runs/recovery.py`)."""
        from .project import open_project

        app = open_project(cls, directory, store, home, engine)
        app._resumes = resume
        return app

    @property
    def store(self) -> Store:
        """The store, opened when it is first needed."""
        if self._store is None:
            given = self._address
            if given is None or isinstance(given, (str, PathLike)):
                given = open_store(given, self._directory, self._sync)
            self._store = given
            if self.retention is not None and given.durable and self._address is not given:
                from .runs.retention import Keeper

                self._keeper = Keeper(given, self.retention)
        return self._store

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = self.workers.engine if self.distributed else Engine(self.store)
        return self._engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self._engine = engine

    @cached_property
    def model(self) -> ModelClient:
        """What agents ask; made when it is first needed."""
        from .claude.client import ClaudeClient
        from .claude.settings import settings

        return ClaudeClient(settings(self.model_settings))

    def watch(self, watcher: Callable[[Event], None]) -> None:
        """Hand the events of every run that begins from now on to `watcher`, in the task of what they are about."""
        self.engine.watchers.append(watcher)

    @cached_property
    def directories(self) -> Directories:
        """Who calls the tools of experiences, which are files beside them."""
        from .experiences import Directories

        return Directories(self.runner, self.load, self.jobs.ready, self.jobs.again, lambda: self.engine)

    @cached_property
    def chains(self) -> Chains:
        """The stored chains: create, execute, look at, stop."""
        from .chains import Chains, ChainService  # an app that only runs documents does without

        return Chains(ChainService(self))

    @cached_property
    def compositions(self) -> Compositions:
        """The stored compositions: create, execute, list, compose."""
        from .compositions import Compositions, CompositionService

        return Compositions(CompositionService(self))

    @property
    def runs(self) -> Runs:
        from .runs import Runs

        return Runs(self)

    async def __aenter__(self) -> App:
        if self._resumes:
            from .runs.recovery import Recovery

            self._recovery = Recovery(self)
            self._recovery.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave no process and no open file behind. Idempotent."""
        if self._recovery is not None:
            await self._recovery.close()
        if "directories" in self.__dict__:
            await self.directories.close()
        if "model" in self.__dict__:
            await self.model.close()
        await self.toolbox.close()
        if "workers" in self.__dict__:
            self.workers.close()
        if self._keeper is not None:
            self._keeper.close()
        if self._store is not None:
            self._store.close()

    # --- definitions --------------------------------------------------------------------------

    def load(self, source: Source) -> Loaded:
        """Read and compile a definition: a file, a directory, text, the document itself, a flow written in Python,
        or the id or object of a stored one. Raises InvalidFlow with every problem, each with its place."""
        if isinstance(source, Mapping) and "metadata" in source and "kind" not in source:
            from .stored import stored_kind

            return self._load_object(source, stored_kind(self, source))
        try:
            return self.definitions.load(source)
        except NotFound as exc:  # there is no such file
            from .stored import find_definition

            return self.definitions.stored(find_definition(self, source, exc))

    async def load_async(self, source: Source) -> Loaded:
        """Load a definition as `load` does, without holding the event loop while the store is asked for it."""
        if isinstance(source, Mapping) and "metadata" in source and "kind" not in source:
            from .stored import stored_kind

            return self._load_object(source, await off_loop(self.store, lambda: stored_kind(self, source)))
        try:
            return self.definitions.load(source)
        except NotFound as exc:
            missing = exc
        from .stored import check_id, find_definition

        check_id(source, missing)
        return self.definitions.stored(await off_loop(self.store, lambda: find_definition(self, source, missing)))

    def _load_object(self, source: Mapping[str, Any], kind: str | None) -> Loaded:
        """Compile what `create` or `get` of a stored definition returned, if `kind` names what it is."""
        if kind is None:
            return self.definitions.load(source)
        return self.definitions.of_stored(self.definitions.loaded({**source, "kind": kind}))

    def loaded(self, document: Mapping[str, Any], file: Any = None) -> Loaded:
        """Compile a document, from the cache when it is one of before."""
        return self.definitions.loaded(document, file)

    def check(self, loaded: Loaded, *, unknown_tools: str = "warning") -> Checked:
        """Everything wrong with a definition and, as warnings, what is doubtful."""
        return self.jobs.doubted(loaded, self.definitions.check(loaded, unknown_tools=unknown_tools))

    def ensure(self, loaded: Loaded, *, unknown_tools: str = "warning") -> None:
        """Raise InvalidFlow when the definition is wrong."""
        self.definitions.ensure(loaded, unknown_tools=unknown_tools)

    async def validate(self, source: Source) -> Checked:
        """Check a definition against the tools there are; calls no tool."""
        loaded = await self.definitions.connected(self.load_async(source), self.connect_for)
        return self.check(loaded, unknown_tools="certain")

    async def plan(self, source: Source) -> Plan:
        """What would run, in which order, with which tools; calls nothing."""
        from .plan import plan

        loaded = await self.definitions.connected(self.load_async(source), self.connect_for)
        found = self.check(loaded, unknown_tools="certain")
        if found.problems:
            raise InvalidFlow(found.problems)
        return plan(loaded.flow, self.definitions.cards_for(loaded), found.warnings, kind=loaded.kind)

    def draw(self, source: Source, format: str = "mermaid") -> str:
        """The graph as `mermaid`, `svg` or `text`."""
        from .draw import draw

        return draw(self.load(source).flow, format)

    def convert(self, source: Source, kind: str, *, allow_loss: bool = False) -> Any:
        """Write the definition in another notation. Raise InvalidFlow with everything that the notation cannot hold;
        with `allow_loss` convert the rest: the result is a `Converted`, a dict with `losses`."""
        loaded = self.load(source)
        self.ensure(loaded)
        return converted(loaded, kind, allow_loss)

    # --- tools --------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Connect every configured server; those that fail are in `toolbox.failures`."""
        await self.toolbox.connect()

    async def connect_for(self, flow: Flow) -> None:
        """Connect the servers whose tools the flow names and that are not known yet, or may have changed."""
        missing = [tool for tool in tools_of(flow.body) if not is_local(tool) and self.toolbox.lacks(tool)]
        if any(map(is_of_agents, missing)):
            from .claude.memory import install

            install(self.toolbox, lambda: self.model)
        if missing:
            await self.toolbox.connect_for(missing)

    def as_tool(self, source: Source, *, name: str | None = None, description: str | None = None) -> Tool:
        """Make a tool of any definition, to be registered in a toolbox. `name` is its id, without a namespace."""
        from .fitting import flow_tool

        loaded = self.load(source)
        return flow_tool(loaded, self.jobs, lambda: self.engine, self.definitions.cards, name, description)

    # --- runs ---------------------------------------------------------------------------------

    async def run(
        self,
        source: Source,
        input: Json = None,
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
    ) -> Outcome:
        """Load, check and run a definition. What fails in a tool is in the outcome, not raised. An experience
        begins with `state` over its defaults; with `keep_state` also with the final state of its last run. With
        `park` a run in a durable store that only waits is released: the outcome has the status `waiting`, and
        `waiting_for`, and `resume` continues it. `request` says in words what the run is for; the selector learns."""
        check_run_id(run_id)
        loaded = await self.load_async(source)
        if concurrency is not None:
            loaded = self.definitions.limited(loaded, concurrency)
        if loaded.compiled.local:
            from .experiences import seeded

            variables = await seeded(self.store, loaded, {**(state or {}), **(variables or {})}, keep_state, run_id)
        check_variables(loaded.flow, variables or {})
        named: dict[str, Any] = {"run_id": run_id, "input": input, "variables": variables}
        how: dict[str, Any] = {"request": request, "executor": executor, "on_event": on_event, "park": park}
        result = await self.execute(loaded, definition_id=loaded.definition_id, **named, **how)
        if not result and run_id is not None:  # an earlier run of this id, which ended without one
            row = await off_loop(self.store, lambda: self.store.get_run(run_id))
            result = {"executionId": run_id, "success": False, "status": row.status if row else "stopped"}
        return outcome(result, loaded.kind)

    async def execute(
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
        park: bool = False,
    ) -> dict[str, Json]:
        """Run a compiled definition with everything checked first; returns the notation's result."""
        given = {"definition_id": definition_id, "run_id": run_id, "input": input, "variables": variables}
        job = await self.jobs.new(loaded, **given, request=request, executor=executor, on_event=on_event)
        job.park = park
        try:
            result = await self.engine.run(job)
        except DefinitionChanged as exc:
            from .runs.upgrade import shown

            raise shown(self, exc, run_id, loaded) from None
        await self.learn(job, result)
        return result

    async def submit(self, source: Source, input: Json = None, **how: Any) -> str:
        """Put a run in line for workers (`engine="dbos"`) and give its id at once; `how` is as in `Workers.submit`."""
        loaded = await self.load_async(source)
        check_variables(loaded.flow, how.get("variables") or {})
        return await self.workers.submit(loaded, input, **how)

    async def wait(
        self, run_id: str, *, on_event: Callable[[Event], None] | None = None, park: bool = False
    ) -> Outcome:
        """How a run ends that workers execute, as soon as it has ended; with `park` also that it only waits."""
        return await self.workers.wait(run_id, on_event, park)

    async def _take_turn(self, name: str, per_second: float, burst: int) -> float:
        """A place in a line that all processes with this store in Postgres share; in any other it is this one's."""
        return await self.workers.take_turn(name, per_second, burst)

    @cached_property
    def workers(self) -> Workers:
        """The workers of the store (`engine="dbos"`): who they are, waiting for their runs, being one."""
        from .workers.workers import Workers

        return Workers(self)

    @property
    def schedules(self) -> Schedules:
        """Runs that the clock starts (`engine="dbos"`)."""
        return self.workers.schedules

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
        """Go on with a run whose process died, or that waits; a finished run gives its recorded result. Given another
        definition as `source` it raises DefinitionChanged, with every difference; with `upgrade` it goes on under that
        one (default: as it is now where the run came from): a recorded call that no longer fits is a JournalConflict.
        """
        row = await off_loop(self.store, lambda: self.store.get_run(run_id))
        if row is None:
            raise NotFound("run", run_id)
        if row.parent is not None and row.status not in ENDS:
            raise PartOfRun(run_id, await off_loop(self.store, lambda: self.runs.outermost(run_id)))
        if row.status in ENDS:
            result = await self.runs.ended(row)
            return outcome({**(result or {}), "status": row.status, "executionId": run_id}, row.kind)
        if source is not None or upgrade:
            from .runs.upgrade import resume

            return outcome(await resume(self, row, source, upgrade, executor, on_event, park), row.kind)
        job = await self.jobs.again(row, executor=executor, on_event=on_event)
        job.park = park
        return outcome(await self.jobs.resumed(job, await self.store.reopen(run_id)), row.kind)


__all__ = ["App", "Executor", "Loaded", "Outcome", "new_run_id"]
