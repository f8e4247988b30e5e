"""Models of requests and answers, for the OpenAPI document. Other modules make the answers; a fuzzer compares them.

Fields of only some notations are not listed: `Result` and `Tool` may have more fields.

A request names a stored definition or contains a document, never a path and never code.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import orjson
from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ...app.client_documents import internal_tool
from ...app.lookup import STORED, can_be
from ...check import SECRET, check
from ...duration import read_duration
from ...errors import InvalidFlow, InvalidValue, NotFound, Problem
from ...notations.plan.readers import with_origin
from ...source.document import with_places
from ...source.load import load
from ...source.locations import Limits
from ...values import did_you_mean
from .errors import ProblemModel
from .flow_files import FILE_KIND, FlowFiles

if TYPE_CHECKING:
    from ...app.app import App
    from ...app.prepared import Prepared

Since: TypeAlias = Annotated[
    str | None,
    Query(max_length=50, description="Earliest start: seconds since the epoch, or 2026-11-01T12:30:00Z (else UTC)."),
]
Until: TypeAlias = Annotated[str | None, Query(max_length=50, description="Time before which the runs started.")]


_YEAR_10000: Final = 253_402_300_800.0


def instant(name: str, text: str | None) -> float | None:
    """Return a time in seconds since the epoch; one without a zone is UTC."""
    if text is None:
        return None
    try:
        at = float(text)
    except ValueError:
        try:
            at = (time if (time := datetime.fromisoformat(text)).tzinfo else time.replace(tzinfo=UTC)).timestamp()
        except ValueError:
            at = math.nan
    if not 0 <= at < _YEAR_10000:  # also nan; answers show times as dates
        form = "seconds since the epoch, or 2026-11-01T12:30:00Z"
        raise InvalidValue(f"query.{name}", f"{text!r} is not a time; write {form}")
    return at


Status = Literal["running", "waiting", "completed", "partial", "failed", "stopped", "timeout", "parked"]


class Open(BaseModel):
    """A model that may have further fields."""

    model_config = ConfigDict(extra="allow")


class Begun(BaseModel):
    """The run has begun here and continues without the client."""

    runId: str
    status: Literal["running"]
    new: Literal[True] = Field(True, description="Always true: an id that already ran is answered with status 200.")
    forkedFrom: str = Field("", description="For a fork: the id of the earlier run.")
    note: str = Field("", description="For a retry: that the run keeps its definition, although its file has changed.")


class Result(Open):
    """The result of a run: its value as `result`, and the fields of its notation, such as `variables` of a chain.

    A chain that declares a `result` also has the outputs of its nodes as `results`, an experience its state as
    `finalState`. A run that has not ended has only its status.
    """

    runId: str
    status: Status
    result: Any = Field(None, description="The value of the run; absent while it is unfinished.")
    # Absent rather than a default: a client must not take an unfinished run for a success.
    new: bool | None = Field(None, description="False if a run with this id existed before; only for started runs.")
    success: bool | None = Field(None, description="True if the run succeeded; absent while it is unfinished.")
    errors: list[Any] | None = Field(None, description="The failures, each with its node, message and place.")
    duration: float | None = Field(None, description="Milliseconds; absent while the run is unfinished.")
    forkedFrom: str | None = Field(None, description="For a fork: the id of the earlier run.")
    note: str | None = Field(None, description="For a retry: that the file of the run has another definition now.")


class RunLine(Open):
    """One run of a list."""

    runId: str
    name: str
    kind: str
    status: Status
    startTime: str
    endTime: str | None
    currentNode: str | None
    resultCount: int
    errorCount: int
    executing: bool = Field(description="A process executes the run, also while it only waits.")
    interrupted: bool = Field(description="The run lost its process; somebody must resume it.")
    queued: bool = Field(description="A worker will take the run.")
    answered: bool = Field(description="The wait of the run was answered; somebody must resume the run.")


class ListedRun(RunLine):
    errorMessage: str | None
    waiting: bool = Field(description="The run waits for an event or an approval, with or without a process.")
    undoStatus: Literal["undone", "undoing", "incomplete"] | None = Field(
        description="How far the undo of the run is; null if it was not undone."
    )


class RunList(BaseModel):
    runs: list[ListedRun]


class Of(BaseModel):
    """The definition of a run, as `GET /api/definitions` lists it."""

    kind: str
    id: str


class UndoReport(Open):
    """The undo of a run: the steps that are undone, those that are left, and those that cannot be undone."""

    runId: str
    undoRun: str | None = Field(description="The id of the run that makes the undo calls.")
    status: Literal["undone", "undoing", "incomplete", "due", "none"]
    policy: str | None = Field(None, description='"on_failure": each run that fails is undone; null: only on request.')
    rejected: dict[str, Any] | None = Field(None, description="`by` and `note`, if a person rejected the undo.")
    undone: list[dict[str, Any]] = Field(
        [],
        description=(
            "The undone steps, the latest first: `path`, `of`, `tool` and `args` of each; `madeBy` if another run made "
            "the call."
        ),
    )
    left: list[dict[str, Any]] = Field(
        [], description="The steps that are not undone yet; `error` if the undo of a step failed."
    )
    notUndoable: list[dict[str, Any]] = Field(
        [],
        description=(
            "The steps that cannot be undone: `path`, `tool` and `reason` of each; `undoRun` if that run undoes it."
        ),
    )


_FACTS: Final = (
    "Of each flow that waits for an approval: `flow`, `kind`, `tools` with effect and undo, `effect`, `maxCalls`, "
    "`loops`, `secrets` and `waits`."
)


class Budget(BaseModel):
    """The limits of an account, and how much of each is used by everything that shares the account."""

    account: str = Field(description="A run with its corrections, a definition, or the project.")
    limits: dict[str, float] = Field(description="By amount: calls, seconds, tokens, cost in US dollars.")
    used: dict[str, float]


class Run(RunLine):
    """One run with its recorded steps, and the fields of its `Result`."""

    definition: Of | None = Field(description="null for a run that was started from a document.")
    definitionId: str | None
    version: int | None = Field(description="The version of its stored definition.")
    fingerprint: str
    duration: float | None = Field(description="Milliseconds of execution, without waits.")
    elapsed: float = Field(description="Milliseconds from the start to the end, or until now.")
    forkedFrom: str | None
    parent: str | None = Field(description="The id of the run that contains this run.")
    undo: UndoReport | None = Field(description="null if no call of the run was undone.")
    budgets: list[Budget] = Field(description="The budgets that the run counts for.")
    owner: str | None
    resumed: int = Field(description="How often a process continued the run after a wait or a crash.")
    input: Any
    result: Any = Field(description="The value of the run; null while it is unfinished.")
    error: Any
    success: bool | None = Field(None, description="True if the run succeeded; absent while it is unfinished.")
    errors: list[Any] | None = Field(None, description="The failures; absent while the run is unfinished.")
    endings: list[dict[str, Any]] = Field(
        description="How the run had ended before each retry, with up to 1,000 failed steps that were repeated."
    )
    waitingFor: list[dict[str, Any]]
    facts: list[dict[str, Any]] = Field(description=_FACTS)
    nodes: list[dict[str, Any]] = Field(description="Every recorded step, or a page of them.")
    next: int | None = Field(description="The value of `after` for the next page; null on the last page.")
    events: list[dict[str, Any]] = Field([], description="Empty with `events=false`.")


class Stopped(BaseModel):
    runId: str
    stopped: bool = Field(description="False if the run had ended before.")
    status: Status


class Actions(BaseModel):
    actions: list[Literal["stop", "resume", "retry", "undo", "fork"]]
    next: str | None = Field(None, description="The next step after a scheduled run that could not begin.")


class LogLine(BaseModel):
    """A line that the tool of a step has printed or logged; or `leftOut`, the number of lines that are not kept."""

    path: str
    node: str
    number: int = Field(description="The number of the line in its step, from 1.")
    at: float = Field(description="Seconds since the epoch.")
    stream: str = Field("", description="stdout, stderr, log, or server: printed by an MCP server during the call.")
    level: str = ""
    text: str = ""
    leftOut: int | None = None


class Logs(BaseModel):
    lines: list[LogLine]


class CallArguments(BaseModel):
    arguments: dict[str, Any] = Field(description="The arguments, by the path of the call.")


class Question(Open):
    """A question of an MCP server: a form with a `schema`, or a `url` to open."""

    server: str
    message: str
    schema_: dict[str, Any] | None = Field(None, alias="schema", description="JSON Schema of the answer's fields.")
    url: str = Field("", description="The address to open; empty for a form.")


class ApprovedCall(BaseModel):
    """The call that an approval is for. The approval fits no other call."""

    tool: str
    version: str | None = Field(None, description="The version of the tool.")
    digest: str = Field(description="A digest of the tool, its version and the arguments.")


class Wait(Open):
    """An `event` or an `approval` that a run waits for. With `question`, the event answers an MCP server."""

    runId: str
    name: str = Field(description="The name of the run.")
    path: str
    node: str
    event: str = Field("", description="The name of the event; empty for an approval.")
    approval: str = Field("", description="The question of the approval; empty for an event.")
    question: Question | None = Field(None, description="A question of an MCP server; null for any other wait.")
    call: ApprovedCall | None = Field(None, description="The call that an approval is for; null for a question.")
    since: str
    due: str | None


class Waits(BaseModel):
    waiting: list[Wait]


class RunWaits(Waits):
    """The waits of one run, and what its flows may do that ask for an approval."""

    facts: list[dict[str, Any]] = Field(description=_FACTS)


class Answered(BaseModel):
    runId: str
    status: Status
    answered: dict[str, Any] = Field(description="The approval, with `approved`, `by` and `note`.")
    error: dict[str, Any] | None = Field(None, description="Why the run could not continue here.")


class Delivered(BaseModel):
    runId: str
    status: Status
    sent: bool = Field(description="False if an event with this `id` was sent before.")
    error: dict[str, Any] | None = Field(None, description="Why the run could not continue here.")


class Difference(BaseModel):
    """The differences between the runs `a` and `b`: each differing value with its path, as `a` and as `b`."""

    a: dict[str, Any]
    b: dict[str, Any]
    definition: list[dict[str, Any]] = Field(description="The changed nodes, each with its changed fields.")
    input: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    nodesLeftOff: int
    same: int = Field(description="Number of nodes without a difference.")
    result: list[dict[str, Any]]
    error: list[Any] | None


class Node(BaseModel):
    path: str = Field(description="The ids of the nodes around it and its own, from the outside in.")
    id: str
    kind: str
    title: str
    lines: list[str]
    groups: list[Group] = Field(description="The graphs inside the node.")


class Group(BaseModel):
    label: str
    nodes: list[Node]
    edges: list[list[str]]


class Graph(BaseModel):
    name: str
    nodes: list[Node]
    edges: list[list[str]] = Field(description="Pairs of ids: a node, and a node that waits for it.")


class DefinitionLine(BaseModel):
    kind: str = Field(description="chain, composition, or file.")
    id: str
    name: str
    description: str
    fingerprint: str
    created: str = Field(description="When it was stored, or when its file was changed.")
    notation: str = Field("", description="The notation of a file; empty for a stored definition.")
    runCount: int = Field(0, description="Number of runs of a stored definition.")


class DefinitionList(BaseModel):
    definitions: list[DefinitionLine]
    problems: list[ProblemModel] = Field(description="Problems of the project's flow files and schedules.")
    hasFiles: bool = Field(description="Whether the server has a project, whose flow files it lists.")
    keepsGood: bool = Field(
        description="Whether runs use the last good version of a wrong file, as under `ropewalk dev`."
    )


class WholeDefinition(DefinitionLine):
    document: dict[str, Any]
    inputSchema: dict[str, Any] | bool | None = Field(description="JSON Schema of the input; null if there is none.")
    source: str | None = Field(
        description="The text of the file, with its comments. null for a stored definition, which keeps no text."
    )
    sourceName: str | None = Field(description="The name of the definition's file.")
    graph: Graph


class Validity(BaseModel):
    valid: bool
    problems: list[ProblemModel]
    warnings: list[ProblemModel]
    graph: Graph | None = Field(None, description="The graph; null if the document cannot be compiled.")


class Preview(BaseModel):
    name: str
    kind: str
    nodes: list[dict[str, Any]] = Field(
        description="The nodes in an order in which they can run, with their tools and types."
    )
    warnings: list[str]
    facts: dict[str, Any] = Field(
        description="Tools with effect and undo, the maximum number of calls, loops without a limit, secrets, waits."
    )


class PlanTools(BaseModel):
    stubs: str = Field(description="Python stubs of the best, and a comment line for each of the others.")
    tools: list[dict[str, Any]] = Field(description="Name, effect and score of each.")
    queries: dict[str, list[str]] | None = Field(None, description="For several queries, the names that each found.")
    note: str | None = Field(None, description="Which queries no tool fits.")


class PlanCheck(Open):
    """The check of a program: `problems`, or `facts` and `graph`."""

    ok: bool


class PlanAnswer(Open):
    """`result` when completed, `waitingFor` when waiting, `error` and `partial` when failed, `problems` when invalid,
    `recorded` and `changed` on a conflict."""

    status: str
    runId: str | None = None


class Schedule(BaseModel):
    """A schedule: when it starts runs, and what came of the last due times."""

    name: str
    cron: str
    times: str | None = Field(description="The cron line in words, if it has short ones.")
    timezone: str
    flow: str
    input: Any
    paused: bool
    last: str | None = Field(description="The last due time for which a run was started.")
    status: str | None = Field(description="The status of that run.")
    error: str | None = Field(description="Why that run failed.")
    runId: str | None = Field(description="The id of that run, if it still exists.")
    next: str | None = Field(description="The next due time; null while the schedule is paused.")
    upcoming: list[str] = Field(description="The next due times, at most three.")
    catchUp: str
    missed: list[dict[str, Any]] = Field(description="Due times at which no worker was connected, the latest last.")


class ScheduleList(BaseModel):
    schedules: list[Schedule]
    idle: list[str] = Field(description="Configured schedules that no worker executes at the moment.")
    unavailable: str | None = Field(description="Why this server can neither start nor pause schedules.")


class ScheduleChanged(BaseModel):
    schedule: str
    done: Literal["started", "paused", "resumed"]
    runId: str | None = Field(None, description="The id of the run that was started.")
    unattended: str | None = Field(None, description="Why no worker takes the run.")


class DefinitionCount(BaseModel):
    kind: str
    id: str | None
    name: str
    runs: int
    periods: list[int] = Field(description="Number of runs in each period.")
    statuses: dict[str, int]


class FailureLine(BaseModel):
    """Runs of one definition that failed with the same first line of the error, but for numbers."""

    kind: str
    id: str | None
    name: str
    node: str | None
    errorKind: str
    message: str
    count: int
    last: str | None
    runId: str = Field(description="The run that started last.")


class QueueLine(BaseModel):
    name: str
    waiting: int
    running: int
    concurrency: int | None = Field(description="Maximum number of runs at once, over all workers.")
    workerConcurrency: int | None = Field(description="Maximum number of runs at once in one worker.")
    limit: int | None = Field(description="Maximum number of runs that begin within `period` seconds.")
    period: float | None


class OpenWaits(BaseModel):
    approvals: int
    events: int
    questions: int


class Overview(BaseModel):
    """The runs that started between `since` and `until`, and what is in progress now."""

    since: str
    until: str
    periods: list[str] = Field(description="When each period starts.")
    runs: int
    statuses: dict[str, list[int]] = Field(description="Number of runs in each period, by status.")
    definitions: list[DefinitionCount] = Field(description="The definitions with the most runs.")
    definitionCount: int
    failures: list[FailureLine] = Field(description="The most frequent failures.")
    failureCount: int = Field(description="Number of different failures.")
    waiting: OpenWaits
    schedules: list[Schedule]
    queues: list[QueueLine]
    workers: list[dict[str, Any]] | None = Field(description="null for a store without workers.")


class ToolStat(BaseModel):
    tool: str
    calls: int
    failed: int
    p50Ms: float
    p95Ms: float
    tokens: int
    lastError: str | None
    lastFailure: str | None = Field(description="When a call failed last.")
    lastFailedRun: str | None


class ToolStats(BaseModel):
    tools: list[ToolStat]
    runs: int = Field(description="Number of runs that were read.")
    unread: int = Field(description="Number of those whose definition can no longer be read.")


class Tool(Open):
    """A tool, in the spelling of MCP."""

    name: str
    namespace: str = ""
    description: str = ""
    inputSchema: dict[str, Any]
    outputSchema: dict[str, Any] = {}


class ListedTool(Tool):
    effect: Literal["read", "write", "destructive"]
    undo: str | None = Field(description="The tool that takes a call back.")
    source: str = Field(description="Where it runs: local, flow, mcp, provider, or a kind of your own.")
    sourceName: str | None = Field(description="The name of that server, provider or source.")


class ToolList(BaseModel):
    tools: list[ListedTool]
    total: int = Field(description="Number of matching tools, in all pages.")
    next: str | None = Field(description="The value of `after` for the next page; null on the last page.")
    failures: dict[str, str] = Field(description="Why tools are missing, by the name of their server.")
    connecting: list[str] = Field(description="Servers that have not answered yet; their tools are missing until then.")


class Fit(Open):
    name: str
    description: str | None
    score: float
    inputSchema: dict[str, Any] | None
    source: str | None = Field(description="`flow`, `plan` (a saved one), or the kind of backend: `local`, `mcp`, ...")
    flow: str | None = Field(None, description="The id of a flow of the project, by which it is run as a file.")


class Selection(Open):
    success: bool
    query: str
    strategy: str
    results: list[Fit]
    totalMatches: int
    failures: dict[str, str] = Field(description="Why tools are missing, by the name of their server.")


class Called(BaseModel):
    tool: str
    result: Any


Seconds = Annotated[float, BeforeValidator(read_duration, json_schema_input_type=float | str)]


class RequestBody(BaseModel):
    """The body of a request. Unknown keys are refused, and so are values of another type (`"no"` for a boolean)."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)


class Definition(RequestBody):
    """The name of a definition from `GET /api/definitions`: a stored one, or with `kind: file` a flow in a file."""

    kind: Literal["chain", "composition", "file"]
    id: str = Field(max_length=500)

    @staticmethod
    def object_for(text: str) -> dict[str, str]:
        """Return what to write in place of the name of a file."""
        return {"kind": "file", "id": text if "." in text else f"{text}.yaml"}


OWN = "ropewalk:"
"""The prefix of the ids of tools that belong to agents."""

Document = dict[str, Any] | str
"""A whole definition, as an object or as YAML or JSON text."""


def loaded_of(
    app: App, files: FlowFiles, named: Definition | None, document: Document | None
) -> tuple[Prepared, str | None]:
    """Load the definition that a request names or contains."""
    if (named is None) == (document is None):
        raise InvalidFlow([Problem(path="", message="give either definition {kind, id} or document")])
    if named is not None and named.kind == FILE_KIND:
        loaded = files.loaded(named.id)
        return loaded, loaded.root or named.id
    if named is not None:
        return app.definitions.get(stored(app, files, named.kind, named.id)), named.id
    assert document is not None
    return read(app, document), None


def size_of(document: Document | None) -> int:
    """Return about how many bytes a document has."""
    return len(document) if isinstance(document, str) else len(orjson.dumps(document))


def stored(app: App, files: FlowFiles, kind: str, id: str) -> Any:
    """Return a stored definition."""
    result = app.store.get_definition(kind, id) if can_be(kind) and can_be(id) else None
    if result is not None:
        return result
    what = f"{kind} {id}"
    if id in files:
        raise NotFound("definition", what, why=f"it is a file; name it with kind {FILE_KIND}")
    others = [each for each in STORED if each != kind]
    shown = {item.id: f"{each} {item.id}" for each in others for item in app.store.list_definitions(each)}
    shown |= {item.id: item.id for item in app.store.list_definitions(kind)}
    near = shown.get(did_you_mean(id, shown) or "")
    if near is None and (file := files.nearest(id)) is not None:
        near = f"{FILE_KIND} {file}"
    raise NotFound("definition", what, suggestion=near)


def read(app: App, document: Document) -> Prepared:
    """Compile a document of a request."""
    if isinstance(document, str):
        maximum = app.limits
        limits = Limits(size=maximum.file_size, nesting=maximum.nesting, aliases=maximum.aliases)
        # With a form it is always a text: what looks like a path is never opened.
        text = load(document, form="yaml", name="document", limits=limits)
        try:
            loaded = app.definitions.get(with_origin(text.data), text)
        except InvalidFlow as error:
            wrong = InvalidFlow(with_places(error.problems, text), error.flow)
            wrong.file, wrong.unlisted, wrong.unknown = text, error.unlisted, error.unknown
            raise wrong from None
    else:
        loaded = app.definitions.get(with_origin(document))
    own = internal_tool(loaded)
    if own is not None:
        message = f"{own} is a part of agents and cannot be called alone; send an agent instead"
        raise InvalidFlow([Problem(path="", message=message)])
    if loaded.compiled.local:
        message = (
            f"an {loaded.kind} names files of its directory; run it with `ropewalk run`, or as a flow of the project"
        )
        raise InvalidFlow([Problem(path="kind", message=message)])
    _check_secrets(app, loaded)
    return loaded


def _check_secrets(app: App, loaded: Prepared) -> None:
    """Raise InvalidFlow for a document that reads secrets which are not allowed over HTTP."""
    if "secret" not in loaded.flow.body.roots:
        return
    result = check(loaded.flow, secrets=app.http_secrets).problems
    refused = [problem for problem in result if problem.keyword == SECRET]
    if refused:
        message = "a definition that is sent over HTTP may not read it; add its name to `http` under [secrets]"
        reported = [
            replace(item, message=f"{item.message.partition(' ')[0]}: {message}", suggestion=None) for item in refused
        ]
        raise InvalidFlow(with_places(reported, loaded.file))
