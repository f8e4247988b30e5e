"""The parts that the services of an app share: tools, definitions, store, engine and model.

`App` builds one `Context` and gives it to its services (jobs, runs, stored definitions), which do not
know the app. The store, the engine and the model are opened when they are first needed, so an app that
only checks a definition opens nothing. Refused here: anything about one run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ..config.settings import BudgetSettings, Config, Limits, PlanSettings, Retention, UndoSettings, WorkerSettings
from ..engine.engine import AfterRun, Engine
from ..journal.protocol import Entry, Store
from ..select.app_selector import Selection
from ..tools.output import LogLimits
from ..tools.runner import Runner
from ..tools.toolbox import Toolbox
from .definitions import Definitions
from .model_requests import answer_model_request
from .preflight import Cards
from .run_budget import project_accounts

if TYPE_CHECKING:
    from ..agents.model import ModelClient
    from ..config.models import ModelSettings
    from ..select.usage import Rate
    from ..workers.workers import Workers
    from .runs.retention import RetentionThread


class Context:
    """The tools, definitions, store, engine and model that the services of one app share."""

    retention: Retention | None = Retention()
    """How long ended runs are kept; None keeps them forever."""
    project: str | None = None
    """The directory of `ropewalk.toml`, which is recorded with each run; None without one."""
    http_secrets: frozenset[str] = frozenset()
    # The servers of a file that nobody has agreed to.
    untrusted: tuple[str, ...] = ()
    # The parts of the project that were left alone because they run code.
    unchecked: tuple[str, ...] = ()
    """The names in `secrets` that definitions sent over HTTP may read."""
    plans: PlanSettings = PlanSettings()
    """The limits of programs that models write."""
    undo: UndoSettings = UndoSettings()
    """How runs are undone."""
    budget: BudgetSettings = BudgetSettings()
    """What the runs of the project may use."""
    after_run: AfterRun | None = None
    """Undoes a run that has ended here, if its policy says so."""
    config: Config | None = None
    """The configuration of the project; None for an app without one."""
    store_settings: tuple[Any, ...] = ()
    """The configured store, its durability, and the engine; a server cannot change them while it is running."""

    def __init__(
        self,
        store: Store | Callable[[], Store],
        *,
        toolbox: Toolbox,
        limits: Limits,
        settings: WorkerSettings,
        distributed: bool,
        secrets: frozenset[str],
        tool_timeout: float,
        workers: Callable[[], Workers],
    ) -> None:
        """Open nothing yet."""
        self.toolbox, self.limits, self.settings = toolbox, limits, settings
        self.distributed, self.secrets = distributed, secrets
        self.models: Mapping[str, ModelSettings] = {}  # [model] in the project's configuration
        self.cache_ttl: Mapping[str, float] = {}  # `cache_ttl` in [tools]
        self.claude: Mapping[str, Any] = {}  # [claude], of earlier versions
        self.n8n_tools: Mapping[str, Sequence[str]] = {}  # [n8n.tools] in the project's configuration
        self.definitions = Definitions(Cards(toolbox), limits, store=lambda: self.store)
        self.definitions.secrets = secrets
        self.selection = Selection(
            toolbox, store=lambda: self.store, rates=self._success_rates, config=lambda: self.config
        )
        self.runner = Runner(
            index=toolbox,
            timeout=tool_timeout,
            get_engine=lambda: self.engine,
            pace=self._rate_limiter(),
            learner=self.selection.record,
        )
        self._given, self._workers = store, workers
        if toolbox.on_sample is None:
            toolbox.on_sample = partial(answer_model_request, self)
        self._store: Store | None = None
        self._engine: Engine | None = None
        self._borrows = False
        self._keeper: RetentionThread | None = None

    def _success_rates(self) -> Mapping[str, Rate]:
        from .runs.statistics import success_rates  # few apps select tools

        return success_rates(self)

    def _rate_limiter(self) -> Any:
        if not self.settings.rates:
            return None
        from ..tools.backends.http import RateLimiter

        # In a store in Postgres all processes share one queue of calls; in any other store it is this process's own.
        return RateLimiter(self.settings.rates, lambda *limits: self.workers.take_turn(*limits))

    @property
    def workers(self) -> Workers:
        """The workers of the store."""
        return self._workers()

    @property
    def is_store_open(self) -> bool:
        """True once the store has been needed."""
        return self._store is not None

    @property
    def store(self) -> Store:
        """The store; opened when it is first needed."""
        if self._store is None:
            given = self._given
            self._store = store = given() if callable(given) else given
            # The caller prunes a store that it opened itself.
            if self.retention is not None and store.durable and given is not store:
                from .runs.retention import RetentionThread

                self._keeper = RetentionThread(store, self.retention)
        return self._store

    @property
    def engine(self) -> Engine:
        """The engine that runs definitions here, or hands them to workers."""
        if self._engine is None:
            self.engine = self.workers.engine if self.distributed else Engine(self.store)
        assert self._engine is not None
        return self._engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self._engine = engine
        self.configure(engine)

    def configure(self, engine: Engine) -> None:
        """Let an engine undo runs and keep budgets by the settings of the project."""
        engine.after_run = self.after_run
        engine.log_limits = LogLimits(self.limits.log_lines, self.limits.log_characters)
        engine.project_budget = lambda job, is_part: project_accounts(self.budget, job, is_part)

    @cached_property
    def model(self) -> ModelClient:
        """The model that agents ask; made when it is first needed."""
        from ..agents.models import create_models

        return create_models(self.models, self.claude, self.toolbox.network)

    def client_of(self, model: str) -> ModelClient:
        """Return the client of one of the models, "" for the default; a ModelClient that was given serves all."""
        find = getattr(self.model, "client_of", None)
        client: ModelClient = self.model if find is None else find(model)
        return client

    def borrow(self, earlier: Context) -> None:
        """Use the store and the engine of an earlier version of the project, and share its servers."""

        # The first version closes the store.
        self._store, self._borrows = earlier.store, True
        self.engine = earlier.engine
        self.toolbox.share_servers(earlier.toolbox)

    def history(self, run_id: str) -> list[Entry]:
        """Return everything recorded of a run so far, in order."""
        live = self.engine.live.get(run_id)
        if live is not None and not self.store.durable:
            return live.entries()
        return self.store.history(run_id)

    async def close_model_and_tools(self) -> None:
        """Close the model's client and the connections of the tools."""

        # Idempotent.
        if "model" in self.__dict__:
            await self.model.close()
        await self.toolbox.close()

    def close_store(self) -> None:
        """Stop pruning and close the store."""

        # Idempotent.
        if self._keeper is not None:
            self._keeper.close()
        if self._store is not None and not self._borrows:
            self._store.close()
