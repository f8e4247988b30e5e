"""Read chains: five modes over one list of nodes, with variables as state.

`read` turns a document into a ChainDocument with defaults. It collects every problem, in the words of the document.

The file also has the warnings about chains that are valid but probably wrong. `add_lints` finds delays and timeouts
that exceed the chain's timeout, and missing fallbacks. `unset_variable_warnings` and `unseen_write_warnings` find
variables that are read where no earlier node sets them, or in concurrent iterations, which do not see each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from ...check.structure import running_order
from ...errors import Problem
from ...expr.ast import Obj
from ...fast_dataclass import dataclass
from ...ir import Channel, Graph, Node, bodies, nodes_of
from ...ops import Loop, Map
from ...values import Json
from .. import fields as f
from ..binding import UNSET
from ..fields import Checker, Report, add_problem, join, read_document_with_nodes
from ..node_fields import DOCUMENT_FIELDS, POLICIES
from ..node_types import NODE_TYPES, DocumentNode, node_reader


class ChainMode(StrEnum):
    """The modes of a chain: how its nodes run."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    CONDITIONAL = "conditional"
    LOOP = "loop"
    DAG = "dag"


class ErrorStrategy(StrEnum):
    """The error strategies of chains and their nodes."""

    STOP = "stop"
    CONTINUE = "continue"
    RETRY = "retry"
    FALLBACK = "fallback"
    SKIP = "skip"


CHAIN_FIELDS: Final[dict[str, Checker]] = {
    "mode": f.word_of(ChainMode),
    "nodes": f.anything,
    "maxIterations": f.positive,
    "until": f.condition,
    **DOCUMENT_FIELDS,
}

DEFAULTS: Final[dict[str, Json]] = {
    "name": "",
    "description": "",
    "mode": "sequential",
    "errorStrategy": "stop",
    "maxRetries": 3,
    "retryDelay": 1000,
    "timeout": 0,  # no limit: a tool call has its own, and a model may take minutes
    "concurrency": 8,
    "maxIterations": 10,
}


@dataclass(frozen=True, slots=True)
class ChainDocument:
    """A chain as read, with defaults; `problems` is empty if it is valid so far."""

    fields: dict[str, Json]
    nodes: list[DocumentNode]
    problems: list[Problem]

    def to_dict(self) -> dict[str, Json]:
        """Return the document in its normal form, with defaults."""
        return {**self.fields, "nodes": [node.to_dict() for node in self.nodes]}


def read(config: Mapping[str, Json]) -> ChainDocument:
    """Read a chain."""
    fields, nodes, report = read_document_with_nodes(config, CHAIN_FIELDS, "chain", DEFAULTS, node_reader("chain"))
    _tell_policies_from_jumps(nodes)
    return ChainDocument(fields, nodes, report)


def _tell_policies_from_jumps(nodes: list[DocumentNode]) -> None:
    """Turn an `onError` that names a policy, and no node next to its own, into that policy."""
    ids = {node.id for node in nodes}
    for node in nodes:
        targets = node.failure_targets
        if len(targets) == 1 and targets[0] in POLICIES and targets[0] not in ids:
            node.fields["onError"] = {"policy": targets[0]}
        for inner in node.inner():
            _tell_policies_from_jumps(inner)


def add_lints(chain: ChainDocument, report: Report) -> None:
    """Warn of times that can never pass, and of nodes without a fallback where others have one."""
    nodes = [node for top in chain.nodes for node in top.with_inner()]
    _check_times(nodes, chain.fields["timeout"], report)
    # The strategy `fallback` needs fallbacks.
    if chain.fields["errorStrategy"] == "fallback":
        without_fallback = [n for n in nodes if _fails_from_outside(n) and not _has_handler(n)]
        if not any("fallback" in n.fields and _strategy(n) == "fallback" and not n.failure_targets for n in nodes):
            add_problem(report, "errorStrategy", "no node has a fallback, so this acts like stop")
            return
        for node in without_fallback:
            add_problem(
                report,
                node.path,
                "has no fallback, so its failure stops the chain; add one (`fallback: null` gives null)",
            )


def _fails_from_outside(node: DocumentNode) -> bool:
    return "tool" in node.fields or (node.type in NODE_TYPES and NODE_TYPES[node.type].fails_from_outside)


def _has_own_timeout(node: DocumentNode) -> bool:
    return node.type in NODE_TYPES and NODE_TYPES[node.type].has_own_timeout


def _strategy(node: DocumentNode) -> Json:
    return node.get("errorStrategy") or "fallback"


def _has_handler(node: DocumentNode) -> bool:
    """Return True if the node names what happens after its failure."""
    return bool("fallback" in node.fields or node.get("onError") or node.get("errorStrategy"))


def _check_times(nodes: list[DocumentNode], limit: Json, report: Report) -> None:
    if not limit:
        return  # none
    has = f"of the chain, {limit} ms"
    for node in nodes:
        delay, own_timeout = node.get("delay"), node.get("timeout")
        if type(delay) in (int, float):
            if own_timeout and delay >= own_timeout:
                add_problem(
                    report, join(node.path, "delay"), f"never ends: the timeout of this node is {own_timeout} ms"
                )
            elif delay >= limit:
                add_problem(
                    report, join(node.path, "delay"), f"never ends: it exceeds the timeout {has}; raise that timeout"
                )
        if not _has_own_timeout(node) and own_timeout and own_timeout > limit:
            add_problem(
                report, join(node.path, "timeout"), f"has no effect: it exceeds the timeout {has}; raise that timeout"
            )


IsSet = Callable[[str], bool]
"""Returns True if a variable may be set at a point of the chain."""


@dataclass(frozen=True, slots=True)
class VariableRead:
    """A read of a variable: its place in the document, and the node that reads it."""

    name: str
    path: str
    column: int
    node: str


def unset_variable_warnings(
    body: Graph, reads: Iterable[VariableRead], state: Mapping[str, Channel], setters: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield a warning for each read of a variable that only later or concurrent nodes set."""
    doubtful = [read for read in reads if read.node and read.name in setters and not state[read.name].present]
    if not doubtful:
        return
    is_set_before = _SettersBefore(body).of
    reported: set[tuple[str, str]] = set()
    for read in doubtful:
        if is_set_before[read.node](read.name) or (read.name, read.path) in reported:
            continue
        reported.add((read.name, read.path))
        setter = setters[read.name]
        setter_text = "this node itself" if setter == read.node else f"{setter!r}"
        message = (
            f"no node that finishes before this one sets the variable {read.name!r}, so it is null here; "
            f"{setter_text} sets it later or at the same time"
        )
        yield Problem(path=read.path, message=message, column=read.column, keyword=f"{UNSET} {read.name}")


def unseen_write_warnings(body: Graph, reads: Iterable[VariableRead]) -> dict[VariableRead, Problem]:
    """Return warnings for reads of a variable that only other, concurrent iterations set."""
    loops = [node for node in nodes_of(body) if isinstance(node.op, Map)]
    warnings: dict[VariableRead, Problem] = {}
    for loop in loops:
        assert isinstance(loop.op, Map)
        before = _SettersBefore(loop.op.body)
        setters = {
            name: node.id for node in reversed(list(nodes_of(loop.op.body))) for name in _written_variables(node)
        }
        for read in reads:
            is_set_before = before.of.get(read.node)
            if is_set_before is not None and read.name in setters and not is_set_before(read.name):
                setter = setters[read.name]
                setter_text = "this node itself" if setter == read.node else f"{setter!r}"
                message = (
                    f"the iterations of {loop.id!r} run concurrently and do not see each other: "
                    f"the variable {read.name!r} has its value from before the loop here, not what {setter_text} "
                    "set in another iteration; remove `concurrency`"
                )
                warnings[read] = Problem(path=read.path, message=message, column=read.column)
    return warnings


class _SettersBefore:
    """Find, for each node by its id, which variables may be set when it starts."""

    def __init__(self, body: Graph) -> None:
        self.of: dict[str, IsSet] = {}
        self._inside: dict[str, set[str]] = {}  # by node: the variables that the nodes inside it set
        self._gather(body)
        self._place(body, lambda name: False)

    def _gather(self, graph: Graph) -> set[str]:
        variables: set[str] = set()
        for node in graph.nodes:
            inside = self._inside[node.id] = set[str]().union(*map(self._gather, bodies(node)))
            variables |= inside
            variables.update(_written_variables(node))
        return variables

    def _place(self, graph: Graph, outer: IsSet) -> None:
        setters: dict[str, int] = {}
        order = running_order(graph)
        for node in graph.nodes:
            for name in (*self._inside[node.id], *_written_variables(node)):
                setters[name] = setters.get(name, 0) | 1 << order.places[node.id]
        for node in graph.nodes:
            # In an ordered region all earlier nodes come before, and their bits are those below its own.
            before_bits = (1 << order.places[node.id]) - 1 if graph.ordered else order.ancestors[node.id]
            self.of[node.id] = _set_by(outer, setters, before_bits)
            set_by_iterations = (
                self._inside[node.id] if isinstance(node.op, Loop) and node.op.limit != 1 else frozenset[str]()
            )
            for body in bodies(node):
                self._place(body, _or_named(self.of[node.id], set_by_iterations))


def _written_variables(node: Node) -> tuple[str, ...]:
    return tuple(name for name, _ in node.writes.fields) if isinstance(node.writes, Obj) else ()


def _set_by(outer: IsSet, setters: Mapping[str, int], bits: int) -> IsSet:
    return lambda name: bool(setters.get(name, 0) & bits) or outer(name)


def _or_named(outer: IsSet, names: set[str] | frozenset[str]) -> IsSet:
    return lambda name: name in names or outer(name)
