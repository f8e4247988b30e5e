"""What is answered, for the OpenAPI document. Answers are made elsewhere, as they are; a fuzzer holds them to this.

Fields that only some notations have are not listed: `Result` and `Tool` may have more than they say.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .answers import Told

Status = Literal["running", "waiting", "completed", "partial", "failed", "stopped", "timeout", "parked"]


class Open(BaseModel):
    """May have further fields."""

    model_config = ConfigDict(extra="allow")


class Begun(BaseModel):
    """It has begun here and goes on by itself."""

    runId: str
    status: Literal["running"]
    new: Literal[True] = Field(True, description="Of one that was started; a run of before is answered 200.")
    forkedFrom: str = Field("", description="Of a fork: the run it was made from.")


class Result(Open):
    """How a run ended, in the words of its notation: `results` and `variables` of a chain, `data` of a composition,
    `finalState` of an experience. Of a run that has not ended yet only its status."""

    runId: str
    status: Status
    # Not there, rather than some value: a client that fills defaults in must not take a run that goes on for a success.
    new: bool | None = Field(None, description="Of one that was to be started: false where there was one of this id.")
    success: bool | None = Field(None, description="Of a run that has ended.")
    errors: list[Any] | None = Field(None, description="What failed, with the node, and what the run had to say of it.")
    duration: float | None = Field(None, description="Milliseconds, of a run that has ended.")
    forkedFrom: str | None = Field(None, description="Of a fork: the run it was made from.")


class RunLine(Open):
    """A run in a line."""

    id: str
    name: str
    kind: str
    status: Status
    startTime: str
    endTime: str | None
    currentNode: str | None
    resultCount: int
    errorCount: int
    interrupted: bool = Field(description="Its process is gone: `resume` goes on with it.")
    queued: bool = Field(description="A worker will take it.")
    answered: bool = Field(description="It waited, and has got what it waited for: `resume` goes on with it.")


class ListedRun(RunLine):
    errorMessage: str | None


class RunList(BaseModel):
    runs: list[ListedRun]


class Of(BaseModel):
    """The definition of a run, as `GET /api/definitions` lists it."""

    kind: str
    id: str


class Run(RunLine):
    """A run with everything that is recorded of it."""

    definition: Of | None = Field(description="null where it was started from a document.")
    definitionId: str | None
    version: int | None = Field(description="Of its stored definition.")
    fingerprint: str
    duration: float | None = Field(description="Milliseconds in which it was executed.")
    elapsed: float = Field(description="Milliseconds from its start to its end, or until now.")
    forkedFrom: str | None
    parent: str | None = Field(description="The run that this one is part of.")
    owner: str | None
    input: Any
    result: dict[str, Any] | None
    error: Any
    endings: list[dict[str, Any]] = Field(description="How it had ended before it was retried.")
    waitingFor: list[dict[str, Any]]
    nodes: list[dict[str, Any]] = Field(description="Every recorded step, or a page of them.")
    next: int | None = Field(description="Where the next page of steps begins: `after`. null for the last.")
    events: list[dict[str, Any]] = Field([], description="Not where they are not wanted.")


class Stopped(BaseModel):
    runId: str
    stopped: bool = Field(description="false where it had ended.")
    status: Status


class CallArguments(BaseModel):
    arguments: dict[str, Any] = Field(description="By the path of the call.")


class Wait(Open):
    """An `event` or an `approval` that a run waits for."""

    runId: str
    name: str = Field(description="That of the run.")
    path: str
    node: str
    event: str = Field("", description="Of an event: its name.")
    approval: str = Field("", description="Of an approval: what is asked.")
    since: str
    due: str | None


class Waits(BaseModel):
    waiting: list[Wait]


class Answered(BaseModel):
    runId: str
    status: Status
    answered: dict[str, Any] = Field(description="The approval, with `approved`, `by` and `note`.")


class Delivered(BaseModel):
    runId: str
    status: Status
    sent: bool = Field(description="false where an event with this `id` was sent before.")


class Difference(BaseModel):
    """`a` and `b` are the two runs. Values that differ stand with their path, each as `a` and as `b`."""

    a: dict[str, Any]
    b: dict[str, Any]
    definition: list[dict[str, Any]] = Field(description="The nodes that are otherwise, and in what.")
    input: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    nodesLeftOff: int
    same: int = Field(description="How many nodes do not differ.")
    result: list[dict[str, Any]]
    error: list[Any] | None


class Node(BaseModel):
    path: str = Field(description="Ids from the outside in.")
    id: str
    kind: str
    title: str
    lines: list[str]
    groups: list[Group] = Field(description="The graphs inside.")


class Group(BaseModel):
    label: str
    nodes: list[Node]
    edges: list[list[str]]


class Graph(BaseModel):
    name: str
    nodes: list[Node]
    edges: list[list[str]] = Field(description="Pairs of ids: the one before, the one after.")


class DefinitionLine(BaseModel):
    kind: str = Field(description="chain, composition, or file.")
    id: str
    name: str
    description: str
    fingerprint: str
    created: str = Field(description="Of a file: when it was changed.")
    notation: str = Field("", description="Of a file.")
    runCount: int = Field(0, description="Of a stored one.")


class DefinitionList(BaseModel):
    definitions: list[DefinitionLine]


class WholeDefinition(DefinitionLine):
    document: dict[str, Any]
    graph: Graph


class Validity(BaseModel):
    valid: bool
    problems: list[Told]
    warnings: list[Told]
    graph: Graph | None = Field(None, description="Where there is one to be made of it.")


class Plan(BaseModel):
    name: str
    kind: str
    nodes: list[dict[str, Any]] = Field(description="In an order in which they may run, with their tools and types.")
    warnings: list[str]


class Tool(Open):
    """In the spelling of MCP."""

    name: str
    namespace: str = ""
    description: str = ""
    inputSchema: dict[str, Any]
    outputSchema: dict[str, Any] = {}


class ToolList(BaseModel):
    tools: list[Tool]
    total: int = Field(description="How many tools there are with this text, in all pages.")
    next: str | None = Field(description="Give it as `after` for the next page; null where this is the last one.")
    failures: dict[str, str] = Field(description="Why tools are missing, by the name of their server.")
    connecting: list[str] = Field(description="Servers that have not answered yet; their tools are missing until then.")


class Fit(Open):
    name: str
    description: str | None
    score: float
    inputSchema: dict[str, Any] | None


class Selection(Open):
    success: bool
    query: str
    strategy: str
    results: list[Fit]
    totalMatches: int


class Called(BaseModel):
    tool: str
    result: Any
