"""What of a run is done again, as a pure function of its flow, what it has recorded, and where it begins anew.

With a node everything that depends on it is done again: what needs it in its region, all later rounds of a loop that
carries something from one to the next, and whatever needs the nodes around it. Nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..errors import NotFound
from ..frozen import dataclass
from ..ir import Flow, Graph, nodes_of
from ..journal.journal import Entry, Key
from ..ops import Loop, Wait
from ..values import closest
from .instances import Attempt, Instance, Instances, without_attempts

ENDED = frozenset(("attempt", "call_failed", "node", "skip"))
"""What says how an attempt ended; the rest says what it did."""
_CARRIED = frozenset(("prev", "state"))


@dataclass(frozen=True, slots=True)
class Failure:
    """A node that gave up, at its last attempt; `fatal` when nothing around it made up for that."""

    attempt: Attempt
    fatal: bool


class Cone:
    """What is done again: of the paths in `redo` everything is forgotten, of the attempts in `ended` how they ended."""

    def __init__(self) -> None:
        self.redo: set[str] = set()
        self.ended: set[str] = set()
        self._seen: set[str] = set()
        self._after: dict[int, dict[str, list[str]]] = {}

    def again(self, instance: Instance) -> None:
        """All of a node, from its first attempt."""
        self.redo.add(instance.base)
        self._onward(instance)

    def go_on(self, attempt: Attempt) -> None:
        """An attempt goes on: what it has done stays, how it ended does not."""
        self.ended.add(attempt.path)
        self._onward(attempt.instance)

    def holds(self, path: str) -> bool:
        """Whether everything at this path is done again."""
        return any(part in self.redo for part in _around(path))

    def forgotten(self, entries: Iterable[Entry]) -> list[Key]:
        """The facts that no longer hold."""
        return [
            (entry.path, entry.kind)
            for entry in entries
            if self.holds(entry.path) or (entry.path in self.ended and entry.kind in ENDED)
        ]

    def _onward(self, instance: Instance) -> None:
        while instance.base not in self._seen:
            self._seen.add(instance.base)
            region = instance.region
            self.redo.update(region.prefix + id for id in self._dependents(region.graph, instance.node.id))
            owner = region.owner
            if owner is None:
                return
            self.ended.add(owner.path)
            op = owner.instance.node.op
            if isinstance(op, Loop) and carries(op):
                if region.label:
                    later = [label for label in owner.inside if int(label) > int(region.label)]
                    self.redo.update(f"{owner.path}[{label}]" for label in later)
                else:  # of the flow, not of a run: any round
                    self.redo.update(region.prefix + node.id for node in region.graph.nodes)
            instance = owner.instance

    def _dependents(self, graph: Graph, node_id: str) -> set[str]:
        after = self._after.get(id(graph))
        if after is None:
            after = self._after[id(graph)] = following(graph)
        return reached(after, [node_id]) - {node_id}


def _around(path: str) -> Iterator[str]:
    """The path, and every node instance and region instance around it."""
    for at, char in enumerate(path):
        if char in "@[/":
            yield path[:at]
    yield path


def failures(found: Instances) -> Iterator[Failure]:
    """The nodes that gave up and whose failure nobody handled: those a retry begins with."""
    waiting = [(found.root, True)]
    while waiting:
        region, fatal = waiting.pop()
        for instance in region.nodes.values():
            last, on_error = instance.last, instance.node.policy.on_error
            fact = last.facts.get("attempt")
            if fact is not None and (fact.data["due"] is not None or (on_error is not None and not on_error.reported)):
                continue  # about to be tried once more; or made up for
            mine = fatal and not (fact is not None and on_error is not None)
            if fact is not None or ("call_failed" in last.facts and "call" not in last.facts) or _refused(last):
                yield Failure(last, mine)
            waiting += ((inner, mine) for inner in last.inside.values())


def _refused(attempt: Attempt) -> bool:
    """Whether a wait came to nothing: nobody answered in time, or the answer was no."""
    op, signal = attempt.instance.node.op, attempt.facts.get("signal")
    if not isinstance(op, Wait) or signal is None:
        return False
    said = signal.data.get("value")
    return "late" in signal.data or (op.approval is not None and not (isinstance(said, dict) and said.get("approved")))


def following(graph: Graph) -> dict[str, list[str]]:
    """For each node of a region the nodes that start right after it."""
    after: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for id, needs in graph.needs.items():
        for need in needs:
            after[need].append(id)
    return after


def reached(after: dict[str, list[str]], ids: Iterable[str]) -> set[str]:
    """These nodes, and all that start after them, directly or not."""
    found = set(ids)
    waiting = list(found)
    while waiting:
        for id in after[waiting.pop()]:
            if id not in found:
                found.add(id)
                waiting.append(id)
    return found


def carries(loop: Loop) -> bool:
    """Whether a round of a loop may depend on the rounds before."""
    if loop.items is None or loop.again is not None or loop.until is not None:
        return True
    return not loop.body.roots.isdisjoint(_CARRIED)


def named(found: Instances, flow: Flow, name: str) -> list[Instance]:
    """The instances of a node, by its id, its name or a path of it (`each[3]/fetch`). Raises NotFound when the flow
    has no such node, or when it has not run."""
    path = without_attempts(name)
    current = list(found.current())
    got = [one for one in current if name in (one.node.id, one.node.meta.name) or without_attempts(one.base) == path]
    if got:
        return got
    known = {said for node in nodes_of(flow.body) for said in (node.id, node.meta.name) if said}
    if name in known:
        raise NotFound("record of node", name, why="it has not run, so it runs by itself once it is reached")
    paths = {without_attempts(one.base) for one in current}
    raise NotFound("node", name, suggestion=closest(name, sorted(known | paths)))


def all_named(found: Instances, flow: Flow, names: Iterable[str]) -> list[Instance]:
    """The instances of several nodes; NotFound tells of all that there are not."""
    got: list[Instance] = []
    missing: list[NotFound] = []
    for name in names:
        try:
            got += named(found, flow, name)
        except NotFound as error:
            missing.append(error)
    if len(missing) > 1:
        first = missing[0]
        why = "; ".join(filter(None, (first.why, *map(str, missing[1:]))))
        raise NotFound(first.what, first.id, suggestion=first.suggestion, why=why)
    if missing:
        raise missing[0]
    return got
