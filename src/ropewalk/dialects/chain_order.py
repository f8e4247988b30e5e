"""Variables that are read where what was meant can hardly be seen: before any node can have set them, when they are
null, or in rounds that run at the same time, each of which has them as they were before the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ..check.writers import ancestors
from ..errors import Problem
from ..expr.ast import Obj
from ..frozen import dataclass
from ..ir import Channel, Graph, Node, bodies, nodes_of
from ..ops import Loop, Map
from .binding import UNSET

Set = Callable[[str], bool]
"""Whether something may have set a variable by then."""


@dataclass(frozen=True, slots=True)
class Read:
    """A variable that is read: where in the document, and by which node."""

    name: str
    path: str
    column: int
    node: str


def unset(
    body: Graph, reads: Iterable[Read], state: Mapping[str, Channel], setters: Mapping[str, str]
) -> Iterator[Problem]:
    """Warnings of the variables that some node sets (the first one is in `setters`), but none that is finished before
    they are read."""
    doubtful = [read for read in reads if read.node and read.name in setters and not state[read.name].present]
    if not doubtful:
        return
    before = _Before(body).of
    told: set[tuple[str, str]] = set()
    for read in doubtful:
        if before[read.node](read.name) or (read.name, read.path) in told:
            continue
        told.add((read.name, read.path))
        setter = setters[read.name]
        who = "this node itself" if setter == read.node else f"{setter!r}"
        message = (
            f"nothing that is finished before this sets the variable {read.name!r}, so that it is null here; "
            f"{who} sets it, later or at the same time"
        )
        yield Problem(path=read.path, message=message, column=read.column, keyword=f"{UNSET} {read.name}")


def unseen(body: Graph, reads: Iterable[Read]) -> dict[Read, Problem]:
    """Warnings of the variables that a round reads, and only other rounds, which run at the same time, set."""
    loops = [node for node in nodes_of(body) if isinstance(node.op, Map)]
    found: dict[Read, Problem] = {}
    for loop in loops:
        assert isinstance(loop.op, Map)
        before = _Before(loop.op.body)
        setters = {name: node.id for node in reversed(list(nodes_of(loop.op.body))) for name in _own(node)}
        for read in reads:
            inside = before.of.get(read.node)
            if inside is not None and read.name in setters and not inside(read.name):
                setter = setters[read.name]
                who = "this node itself" if setter == read.node else f"{setter!r}"
                message = (
                    f"the rounds of {loop.id!r} run at the same time (`concurrency`) and do not see each other: "
                    f"this is the variable {read.name!r} as it was before the loop, never what {who} set in another "
                    "round; leave out `concurrency`"
                )
                found[read] = Problem(path=read.path, message=message, column=read.column)
    return found


class _Before:
    """For every node by its id, what may be set when it starts."""

    def __init__(self, body: Graph) -> None:
        self.of: dict[str, Set] = {}
        self._inside: dict[str, set[str]] = {}  # what the nodes inside a node set
        self._gather(body)
        self._place(body, lambda name: False)

    def _gather(self, graph: Graph) -> set[str]:
        found: set[str] = set()
        for node in graph.nodes:
            inside = self._inside[node.id] = set[str]().union(*map(self._gather, bodies(node)))
            found |= inside
            found.update(_own(node))
        return found

    def _place(self, graph: Graph, outer: Set) -> None:
        setters: dict[str, int] = {}
        place, above = ancestors(graph)
        for node in graph.nodes:
            for name in (*self._inside[node.id], *_own(node)):
                setters[name] = setters.get(name, 0) | 1 << place[node.id]
        for node in graph.nodes:
            # In order each comes after all that stand before it, whose bits are those below its own.
            bits = (1 << place[node.id]) - 1 if graph.ordered else above[node.id]
            self.of[node.id] = _among(outer, setters, bits)
            rounds = self._inside[node.id] if isinstance(node.op, Loop) and node.op.limit != 1 else frozenset[str]()
            for body in bodies(node):
                self._place(body, _or(self.of[node.id], rounds))


def _own(node: Node) -> tuple[str, ...]:
    return tuple(name for name, _ in node.writes.fields) if isinstance(node.writes, Obj) else ()


def _among(outer: Set, setters: Mapping[str, int], bits: int) -> Set:
    return lambda name: bool(setters.get(name, 0) & bits) or outer(name)


def _or(outer: Set, names: set[str] | frozenset[str]) -> Set:
    return lambda name: name in names or outer(name)
