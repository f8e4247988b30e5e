"""Plan of a rerun: which steps of a run are repeated, computed from its flow, its record and the first nodes to repeat.

A repeated node repeats everything that depends on it, and nothing else: the nodes after it in its region, all later
iterations of a loop that carries values from one iteration to the next, and the nodes after the ones around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...errors import NotFound
from ...fast_dataclass import dataclass
from ...ir import Flow, Graph, nodes_of
from ...journal.protocol import Entry, Key
from ...ops import Loop, Program, Wait
from ...values import did_you_mean
from .instances import Attempt, Instance, Instances, without_attempts
from .program_rows import repeated_rows, row_entries, step_in

ENDED = frozenset(("attempt", "call_failed", "node", "row", "skip"))
"""Kinds of entries that record how an attempt ended. The other kinds record what it did."""
_CARRIED = frozenset(("prev", "state"))


@dataclass(frozen=True, slots=True)
class Failure:
    """The last attempt of a failed node; `fatal` if nothing around the node handled the failure."""

    attempt: Attempt
    fatal: bool


class RerunPlan:
    """The steps of a run to repeat."""

    # Everything below the paths in `redo` is forgotten; of the attempts in `ended` only how they ended.

    def __init__(self) -> None:
        self.redo: set[str] = set()
        self.ended: set[str] = set()
        self._visited: set[str] = set()
        self._after: dict[int, dict[str, list[str]]] = {}

    def rerun(self, instance: Instance) -> None:
        """Repeat a node from its first attempt, with all that depends on it."""
        self.redo.add(instance.base)
        # An approval answers one call: who repeats the call asks again.
        region, id = instance.region, instance.node.id
        for node in region.graph.nodes:
            if isinstance(node.op, Wait) and node.op.call is not None and node.op.call.made_by == id:
                self.redo.add(region.prefix + node.id)
        self._rerun_later_nodes(instance)

    def continue_attempt(self, attempt: Attempt) -> None:
        """Continue an attempt: keep what it did, and forget how it ended."""
        self.ended.add(attempt.path)
        self._rerun_later_nodes(attempt.instance)

    def ask_again(self, program: Attempt, step: str) -> None:
        """Repeat a question of a program, which continues."""
        self.redo.add(f"{program.path}[{step}]")
        self.continue_attempt(program)

    def holds(self, path: str) -> bool:
        """Return True if everything at this path is repeated."""
        return any(part in self.redo for part in _around(path))

    def changes(self, entries: Iterable[Entry]) -> tuple[list[Key], list[Entry]]:
        """Return the keys of the entries to forget, and what the programs of the run are offered."""
        listed = list(entries)
        keys = [
            (entry.path, entry.kind)
            for entry in listed
            if self.holds(entry.path) or (entry.path in self.ended and entry.kind in ENDED)
        ]
        offers: list[Entry] = []
        for program in row_entries(listed):
            if program in self.ended and not self.holds(program):
                more, made = repeated_rows(program, listed, self.steps_of(program))
                keys += more
                offers += made
        return list(dict.fromkeys(keys)), offers

    def steps_of(self, program: str) -> set[str]:
        """Return the keys of the steps of a program that are repeated or continued."""
        steps = (step_in(program, path) for path in (*self.redo, *self.ended))
        return {step for step in steps if step is not None}

    def _rerun_later_nodes(self, instance: Instance) -> None:
        while instance.base not in self._visited:
            self._visited.add(instance.base)
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
            after = self._after[id(graph)] = successors(graph)
        return reachable(after, [node_id]) - {node_id}


def _around(path: str) -> Iterator[str]:
    """Yield the path of every node instance and region instance around a path, then the path itself."""
    for at, char in enumerate(path):
        if char in "@[/":
            yield path[:at]
    yield path


def latest_failures(instances: Instances) -> Iterator[Failure]:
    """Yield the failed nodes with a failure that nothing handled: a retry begins with them."""
    waiting = [(instances.root, True)]
    while waiting:
        region, fatal = waiting.pop()
        for instance in region.nodes.values():
            last, on_error = instance.last, instance.node.policy.on_error
            fact = last.facts.get("attempt")
            if fact is not None and (fact.data["due"] is not None or (on_error is not None and not on_error.reported)):
                continue  # a retry is due, or an error strategy handled it
            is_fatal = fatal and not (fact is not None and on_error is not None)
            inside = list(last.inside.values())
            if isinstance(instance.node.op, Program):  # its last row names the steps that its failure comes from
                end = last.facts.get("row")
                inside = [inner for inner in inside if end is not None and inner.label in end.data["failed"]]
            if fact is not None or ("call_failed" in last.facts and "call" not in last.facts) or _is_refused(last):
                yield Failure(last, is_fatal)
            waiting += ((inner, is_fatal) for inner in inside)


def failed_questions(instances: Instances) -> Iterator[tuple[Attempt, str]]:
    """Yield the unanswered and rejected questions that programs failed with, as a program and a step of it."""
    for instance in instances.current():
        last = instance.last
        end = last.facts.get("row")
        for step in () if end is None else end.data["failed"]:
            region = last.inside.get(step)
            if region is not None and not region.nodes:  # a question calls no tool
                yield last, step


def _is_refused(attempt: Attempt) -> bool:
    """Return True if a wait was not answered in time, or was rejected."""
    op, signal = attempt.instance.node.op, attempt.facts.get("signal")
    if not isinstance(op, Wait) or signal is None:
        return False
    message = signal.data.get("value")
    return "late" in signal.data or (op.asks and not (isinstance(message, dict) and message.get("approved")))


def successors(graph: Graph) -> dict[str, list[str]]:
    """Map each node of a region to the nodes that directly depend on it."""
    after: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for id, needs in graph.needs.items():
        for need in needs:
            after[need].append(id)
    return after


def reachable(after: dict[str, list[str]], ids: Iterable[str]) -> set[str]:
    """Return these nodes and all nodes that depend on them, directly or indirectly."""
    result = set(ids)
    waiting = list(result)
    while waiting:
        for id in after[waiting.pop()]:
            if id not in result:
                result.add(id)
                waiting.append(id)
    return result


def carries(loop: Loop) -> bool:
    """Return True if an iteration of a loop can depend on earlier ones."""

    # `loop`: The loop.
    if loop.items is None or loop.again is not None or loop.until is not None:
        return True
    return not loop.body.roots.isdisjoint(_CARRIED)


def instances_named(instances: Instances, flow: Flow, name: str) -> list[Instance]:
    """Return the instances of a node, by its id, its name or its path (`each[3]/fetch`)."""
    path = without_attempts(name)
    current = list(instances.current())
    matches = [
        item for item in current if name in (item.node.id, item.node.meta.name) or without_attempts(item.base) == path
    ]
    if matches:
        return matches
    known = {label for node in nodes_of(flow.body) for label in (node.id, node.meta.name) if label}
    if name in known:
        raise NotFound("record of node", name, why="it has not run yet, and runs anyway as soon as the run reaches it")
    paths = {without_attempts(item.base) for item in current}
    raise NotFound("node", name, suggestion=did_you_mean(name, sorted(known | paths)))


def instances_of_nodes(instances: Instances, flow: Flow, names: Iterable[str]) -> list[Instance]:
    """Return the instances of several nodes."""
    instances_found: list[Instance] = []
    missing: list[NotFound] = []
    for name in names:
        try:
            instances_found += instances_named(instances, flow, name)
        except NotFound as error:
            missing.append(error)
    if len(missing) > 1:
        first = missing[0]
        why = "; ".join(filter(None, (first.why, *map(str, missing[1:]))))
        raise NotFound(first.what, first.id, suggestion=first.suggestion, why=why)
    if missing:
        raise missing[0]
    return instances_found
