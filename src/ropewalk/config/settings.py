"""Everything that can be configured, as frozen data.

`Config` is the whole; the other classes are its parts: limits, retention, workers, MCP servers,
providers, backends and what `ropewalk mcp` offers. `fill_variables` is the one place that gives `${NAME}`
and `${NAME:-default}` a meaning. To add a setting, add a field here and its key to the tables of
keys in toml.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from ..errors import ConfigError, Place
from ..fast_dataclass import dataclass
from ..values import Json

if TYPE_CHECKING:
    from pathlib import Path

    from .servers_file import ServersFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a call may take, and how large a definition may be."""

    # Seconds per tool call.
    tool_timeout: float = 60.0
    # Nodes of a definition.
    nodes: int = 10_000
    # Depth of regions, and of collections in the text of a definition.
    nesting: int = 64
    # Bytes of a definition's file.
    file_size: int = 10_000_000
    # YAML aliases in it.
    aliases: int = 1_000
    # Lines, and characters of them, that are kept of what the tool of one step prints.
    log_lines: int = 1_000
    log_characters: int = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which finished runs are kept: those of the last `days`, at most `runs`."""

    # None means no limit.

    days: float | None = 30.0
    runs: int | None = 10_000


Location: TypeAlias = Callable[..., Place] | None
"""Returns the place of a path of keys in its file; None for settings made in Python."""


def check_engine(name: str) -> str:
    """Return the name of the engine."""
    if name not in ("local", "dbos"):
        raise ConfigError(f'engine="{name}": use "local" (this process) or "dbos" (workers)')
    return name


CatchUp: TypeAlias = Literal["run_once", "skip", "run_all"]
CATCH_UP: Final = get_args(CatchUp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue in which runs wait for workers. None means no limit.

    Attributes:
        concurrency: Runs at once, over all workers.
        worker_concurrency: Runs at once in one worker.
        limit: Runs that may begin within `period`.
        period: Seconds.
    """

    concurrency: int | None = None
    worker_concurrency: int | None = None
    limit: int | None = None
    period: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast tools may be called: calls that may begin in a second, and at once after a pause (`burst`)."""

    per_second: float
    burst: int = 1
    where: Location = field(default=None, compare=False, repr=False)


CRON_NAMES: Final[Mapping[str, str]] = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
"""Names of cron lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A definition that runs at set times."""

    # When it runs, in the time of `timezone`.
    cron: str
    # The file of the definition, relative to `ropewalk.toml`.
    flow: str
    # The input of each run.
    input: Json = None
    # A name such as "Europe/Berlin".
    timezone: str = "UTC"
    # The queue of the runs.
    queue: str | None = None
    # What to start for due times that no worker could handle: "run_once" starts one run for all of them, "skip" none,
    # "run_all" one for each.
    catch_up: CatchUp = "run_once"
    # Returns the place of a key.
    where: Location = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """The limits of each worker."""

    concurrency: int = 10
    # Seconds without a heartbeat after which a worker counts as dead.
    lease: float = 2.5
    # Seconds that its runs have to finish when it is stopped.
    grace: float = 30.0
    # How often in a row a run may lose its worker before it is parked.
    recoveries: int = 5
    # Seconds for which a tool may block the Python interpreter of a worker before the worker counts as dead.
    longest_block: float = 600.0
    # Whether a server executes queued runs and schedules, with a store in a file.
    in_server: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """All settings of workers.

    Attributes:
        terms: The limits of each worker.
        queues: The queues by name.
        rates: How fast tools may be called, by pattern of tool ids.
        schedules: The schedules by name.
    """

    limits: WorkerLimits = WorkerLimits()
    queues: Mapping[str, Queue] = field(default_factory=dict)
    rates: Mapping[str, Rate] = field(default_factory=dict)
    schedules: Mapping[str, Schedule] = field(default_factory=dict)


NO_EMBEDDER: Final = "none"
EMBEDDERS: Final = (NO_EMBEDDER, "minilm", "multilingual")
"""The embedding models of packages, by which tools are selected."""


def is_embedder_name(value: object) -> bool:
    """Return True for a name in EMBEDDERS, and for MODULE:CLASS."""
    return isinstance(value, str) and (value in EMBEDDERS or re.fullmatch(r"[\w.]+:\w+", value) is not None)


MODES: Final = ("auto", "legacy", "2026-07-28")
"""How to speak with an MCP server: ask it, with the older handshake, without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingLimits:
    """How much an MCP server may ask the model of the project."""

    # The longest answer, in tokens. A request for more gets this many.
    max_tokens: int = 1000
    # Requests of the server, as long as the process lives. Further ones are refused.
    max_requests: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """An MCP server: a `command` with `args` (stdio), or a `url` (streamable HTTP)."""

    # `env` is added to the allow-listed environment of the child; `env`, `headers` and `auth` are as written, their
    # variables unread; `roots` are the directories that the server may ask for; `timeout` is seconds per call,
    # `connect_timeout` those to connect in; `mode` is one of MODES; with `trust` "hints" what the server says of its
    # tools (`readOnlyHint`) counts; `questions` is one of QUESTIONS; `cwd` is where the child starts: the directory of
    # the file that names it, unless set.

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: str | Mapping[str, Any] | None = field(default=None, repr=False)
    roots: tuple[str, ...] = ()
    sampling: bool | Mapping[str, int] | None = None
    timeout: float | None = None
    connect_timeout: float | None = None
    mode: str | None = None
    trust: str | None = None
    questions: str | None = None
    # The only tools that may be used, and those that may not, by name or pattern.
    tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    where: Location = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An HTTP tool provider."""

    name: str
    url: str | None = None
    # Path or address of an OpenAPI document, whose operations are the tools.
    openapi: str | None = None
    # The tools, without such a document: `{name, description, inputSchema, ...}`.
    tools: tuple[Mapping[str, Any], ...] = ()
    # As written; variables are filled in at each call.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float | None = None
    # The operations of the document that change nothing.
    read_only: tuple[str, ...] = ()
    # The operations that are tools; without it, all are. Then those that are none, and new names by name.
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    # The values of variables in the addresses of the document's servers.
    server_variables: Mapping[str, str] = field(default_factory=dict)
    # By security scheme, as written; variables are filled in at each call. False: the server asks for none.
    credentials: Mapping[str, Any] | bool = field(default_factory=dict, repr=False)
    where: Location = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSource:
    """A `[backends.NAME]` table: a source of tools of a registered kind."""

    name: str
    # The kind of backend.
    kind: str
    # The other keys, with variables filled in. The kind checks them when it opens the source.
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    where: Location = field(default=None, compare=False, repr=False)


RESOURCES: Final = ("runs", "definitions", "values")
"""What the MCP server of a project can let its clients read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServed:
    """The tools that the MCP server of the project offers."""

    # Files, directories and globs of definitions, relative to `ropewalk.toml`.
    flows: tuple[str, ...] = ()
    stored: bool = True
    # Offer all tools of the toolbox.
    tools: bool = False
    # Offer the tools of the MCP servers.
    gateway: bool = False
    # Put `SERVER__` before the names of their tools and prompts. Without it they keep their names.
    prefix: bool = True
    # If there are more tools in all, `find_tools` is listed in place of them.
    max_listed: int = 100
    # A text about the server for its clients.
    instructions: str | None = None
    # Seconds from the start for which a list waits for MCP servers that have not answered.
    wait_for_servers: float = 1.0
    # Sessions over HTTP that are open at the same time; a new one ends the one that has been idle longest.
    max_sessions: int = 1_000
    # Names of flows that run only as tasks, because they take too long for a call.
    task_only: tuple[str, ...] = ()
    # Names of flows that are also prompts.
    prompts: tuple[str, ...] = ()
    # What clients may read, of RESOURCES.
    resources: tuple[str, ...] = ()


Parallel: TypeAlias = Literal["none", "reads"]
"""Which calls of a plan may overlap where Python makes one after another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """The limits of what models may do with plans."""

    # Offer the operations on plans in `ropewalk mcp`.
    offer: bool = False
    # Which calls of a model's plan wait for an approval: "destructive", "writes" (these and those whose effect is not
    # known), or "none".
    approve: Literal["destructive", "writes", "none"] = "destructive"
    # "ask" makes `save_plan` wait for an approval, "allow" does not.
    save: Literal["ask", "allow"] = "ask"
    # Accept an approval that an MCP client sends with `resume_run`. By default a person answers elsewhere.
    decide: bool = False
    # Which calls of a model's plan may overlap where Python makes one after another: "reads" (those of tools that only
    # read), "all" or "none".
    parallel: Parallel = "reads"
    # Bytes of JSON above which a result is returned as a handle.
    max_result: int = 20_000
    # Processor time that a program of a model may take to be checked, and between two of its calls.
    cpu_seconds: float = 3.0
    # Seconds that this may take on a busy machine.
    wall_seconds: float = 8.0
    # What tools do, by id or pattern: "read", "write" or "destructive". It overrides their hints.
    effects: Mapping[str, str] = field(default_factory=dict)


ON_REQUEST: Final = "on_request"
POLICIES: Final = (ON_REQUEST, "on_failure")
"""When a run is undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettings:
    """The limits of the runs of a project, together and by definition."""

    calls: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None
    # "day": all runs that begin on one day (UTC) together; "run": each run with its corrections.
    per: Literal["day", "run"] = "day"
    # The limits of single definitions, by id or name.
    definitions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoSettings:
    """How runs are undone."""

    # "on_request", or "on_failure": a run that fails, is stopped or exceeds its timeout is undone by itself.
    policy: Literal["on_request", "on_failure"] = "on_request"
    # Maximum number of attempts of each undo call.
    attempts: int = 3
    # Seconds before the second attempt; each further pause is twice as long.
    delay: float = 1.0
    # The undo of each tool by its id: `tool`, and `args` unless they follow from the names of the parameters.
    tools: Mapping[str, Any] = field(default_factory=dict)
    # Returns the place of a tool's undo in `ropewalk.toml`.
    where: Callable[[str], Place] | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The configuration of a directory."""

    # The directory of `file`, or the one that was asked about.
    directory: Path
    # `ropewalk.toml`, if there is one.
    file: Path | None = None
    # The files that were read for it, or would be if they existed.
    files: tuple[Path, ...] = ()
    # Python modules with tools.
    modules: tuple[str, ...] = ()
    # Files, directories and globs of definitions that are tools of each other.
    flows: tuple[str, ...] = ()
    # Whether results must fit the output schemas of their tools, or the patterns of the ids of tools where they must.
    strict_output: bool | Sequence[str] = False
    # Seconds for which models get the result of an earlier call of a read-only tool, by pattern of ids of tools.
    cache_ttl: Mapping[str, float] = field(default_factory=dict)
    servers: Mapping[str, McpServer] = field(default_factory=dict)
    # The servers file to whose servers nobody has agreed, so that they are left out.
    untrusted: ServersFile | None = None
    providers: Mapping[str, Provider] = field(default_factory=dict)
    backends: Mapping[str, BackendSource] = field(default_factory=dict)
    # The address of the journal; None means the default.
    store: str | None = field(default=None, repr=False)  # it may contain a password
    # How the journal writes to disk.
    sync: Literal["normal", "full"] = "normal"
    # Who executes runs: "local" (this process) or "dbos" (workers).
    engine: Literal["local", "dbos"] = "local"
    # The settings of workers, queues and schedules.
    worker_settings: WorkerSettings = field(default_factory=WorkerSettings)
    limits: Limits = field(default_factory=Limits)
    # Which finished runs are kept; None keeps all.
    retention: Retention | None = field(default_factory=Retention)
    # Hosts that an address from data may name although they are not public.
    allow_hosts: tuple[str, ...] = ()
    # The embedding model by which tools are selected: a name in EMBEDDERS, or MODULE:CLASS.
    selector_model: str = NO_EMBEDDER
    # The models by name; the default has the name "".
    models: Mapping[str, Any] = field(default_factory=dict)
    # Settings of Claude, of earlier versions.
    claude: Mapping[str, Any] = field(default_factory=dict)
    # Tools of the project for the phases of the n8n builder, by phase.
    n8n_tools: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # What the MCP server of the project offers.
    mcp_server: McpServed = field(default_factory=McpServed)
    # What models may do with plans.
    plans: PlanSettings = field(default_factory=PlanSettings)
    # What runs may use.
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    # How runs are undone.
    undo: UndoSettings = field(default_factory=UndoSettings)
    # The environment variables that `$secret` may read.
    secrets: tuple[str, ...] = ()
    # Those of them that definitions sent over HTTP may read, too.
    http_secrets: tuple[str, ...] = ()
    # Why servers, providers and backends cannot be used, by name.
    failures: Mapping[str, str] = field(default_factory=dict)
    # What is odd about the servers, providers and backends that can be used.
    warnings: tuple[str, ...] = ()
    # Returns the place of a path of keys in `file`.
    where: Callable[[tuple[str, ...]], Place] = field(default=lambda _: Place("", 1, 1), compare=False, repr=False)

    @property
    def tool_flows(self) -> tuple[str, ...]:
        """The files of the flows that are tools of each other; without any, the definitions next to the file count."""
        return self.flows or self.mcp_server.flows

    @property
    def served_flows(self) -> tuple[str, ...]:
        """The files of the flows that clients are offered."""
        return self.mcp_server.flows or self.flows


INPUT_PREFIX: Final = "ROPEWALK_INPUT_"
SECRET_INPUT_PREFIX: Final = "ROPEWALK_SECRET_"
"""The beginnings of the variables that hold the `${input:NAME}` of a servers file; values of the second are masked."""
TRUST_HINTS: Final = "hints"
"""The value of `trust` with which hints of an MCP server count, such as `readOnlyHint`."""
WAIT: Final = "wait"
REFUSE: Final = "refuse"
QUESTIONS: Final = (WAIT, REFUSE)
"""The values of `questions`: what a durable run does with a question of an MCP server that nobody answers at once."""

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def fill_variables(text: str, environ: Mapping[str, str], used: dict[str, str] | None = None) -> str:
    """Replace each `${NAME}` and `${NAME:-default}` of a text."""

    # Values are not read again.

    def read(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if default is not None and not environ.get(name):
            return default
        value = environ[name]
        if used is not None:
            used[name] = value
        return value

    return _VARIABLE.sub(read, text)
