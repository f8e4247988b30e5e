"""Check the shape of a flow: ids, sizes, order, policies, uses of secrets, writers of `set_once` channels.

Everything here is iterative, so a chain of 10,000 nodes or a hostile tree of regions needs no deep stack.

**Secrets.** Redaction replaces the exact text of a secret. A function that changes a secret (upper case, a part of
it) makes a text that redaction cannot recognise, so the check refuses it, and so does the run (`expr/calls.py`).
Tools may change secrets, because their arguments are never recorded. A function refuses secrets unless its
definition allows them (`expr/function_registry.py`); the operators are listed here.

**Writers.** A `set_once` channel accepts one write, so two writers without an order are a problem. Other reducers
need no such check: writes are folded in declared order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from ..expr.function_registry import EVERY, FUNCTIONS, Positions, secret_change_message
from ..ir import Flow, Graph, Node, Policy, part_fields, parts
from ..ops import Loop, Map, Program
from ..values import did_you_mean
from .report import ExprPath, Owners, Report
from .types import ALL, Secret, Type, find_secret

MAX_NODES: Final = 10_000
MAX_NESTING: Final = 64

_FORBIDDEN: Final = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff/\[\]@]"
_without_regions: dict[type[Any], bool] = {}


class Layout:
    """Index every node by id and every region with its owners."""

    # `is_sound` is False if the flow is too large to check further.

    def __init__(self, flow: Flow, report: Report, max_nodes: int, max_nesting: int) -> None:
        self.report = report
        self.nodes: dict[str, Node] = {}
        self.nested: list[tuple[Graph, Owners]] = []
        self.is_sound = True
        self._gather(flow.body, max_nodes, max_nesting)

    def _gather(self, body: Graph, max_nodes: int, max_nesting: int) -> None:
        stack: list[tuple[Graph, Owners, int]] = [(body, None, 1)]
        count = 0
        nodes_by_id = self.nodes
        while stack:
            graph, owners, depth = stack.pop()
            count += sum(not node.meta.hidden for node in graph.nodes)
            if count > max_nodes:
                self._refuse(f"more than {max_nodes:,} nodes; split the flow", None, None)
                return
            if depth > max_nesting:
                assert owners is not None
                self._refuse(f"nested deeper than {max_nesting} levels; split the flow", owners[1], owners[0])
                continue
            if owners is not None:
                self.nested.append((graph, owners))
            # Collect nested regions; ops that cannot hold regions are skipped by their type.
            inner: list[tuple[Graph, Owners, int]] = []
            for node in graph.nodes:
                if node.id in nodes_by_id:
                    self._report_repeated(node, owners)
                else:
                    nodes_by_id[node.id] = node
                if not (_without_regions.get(type(node.op)) or has_no_regions(type(node.op))):
                    inner += [(p, (owners, node), depth + 1) for _, p in parts(node.op) if type(p) is Graph]
            stack += reversed(inner)
            # Search for forbidden characters only where the joined ids do not form one identifier.
            ids = [node.id for node in graph.nodes]
            together = "".join(ids)  # one test for all ids: identifiers need no search
            if "" in ids or (not together.isidentifier() and re.search(_FORBIDDEN, together)):
                self._report_illegal(graph, owners)

    def _refuse(self, message: str, node: Node | None, owners: Owners) -> None:
        self.is_sound = False
        self.report.add(message, node=node, owners=owners)

    def _report_repeated(self, node: Node, owners: Owners) -> None:
        first = self.nodes[node.id]
        where = f" by {first.meta.source}" if first.meta.source else ""
        self.report.add(f"the id {node.id!r} is already used{where}", node=node, owners=owners, field="id")

    def _report_illegal(self, graph: Graph, owners: Owners) -> None:
        for node in graph.nodes:
            forbidden = re.search(_FORBIDDEN, node.id)
            if not node.id:
                self.report.add("an id cannot be empty", node=node, owners=owners, field="id")
            elif forbidden:
                self.report.add(
                    f"the id {node.id!r} contains {forbidden[0]!r}; control characters and / [ ] @ are not allowed",
                    node=node,
                    owners=owners,
                    field="id",
                )

    def owners_of(self, id: str) -> Owners:
        """Return the nodes that enclose the node with this id."""
        for graph, owners in self.nested:
            if any(node.id == id for node in graph.nodes):
                return owners
        return None

    def order(self, body: Graph) -> Iterator[Node]:
        """Yield nodes in document order, each before the nodes inside it."""
        stack: list[Node] = list(reversed(body.nodes))
        while stack:
            node = stack.pop()
            yield node
            inner = [n for _, p in parts(node.op) if type(p) is Graph for n in p.nodes]
            stack += reversed(inner)


def has_no_regions(kind: type[Any]) -> bool:
    """Return True if no op of this type can hold a region; decided once per type from its annotations."""
    answer = _without_regions.get(kind)
    if answer is None:
        annotated = getattr(kind, "__annotations__", {})
        answer = _without_regions[kind] = all(
            annotated.get(name) in ("Expr", "Expr | None") for name in part_fields(kind)
        )
    return answer


def check_after(graph: Graph, report: Report, owners: Owners) -> None:
    """Report names in `after` that are not a node that can finish earlier."""
    positions: dict[str, int] = {}
    for i, node in enumerate(graph.nodes):
        positions.setdefault(node.id, i)
    for i, node in enumerate(graph.nodes):
        for name in sorted(node.after):
            position = positions.get(name)
            if position is None:
                suggestion = did_you_mean(name, (id for id in positions if id != node.id))
                message = f"unknown node {name!r}"
            elif name == node.id:
                suggestion, message = None, "a node cannot start after itself"
            elif graph.ordered and position > i:
                suggestion, message = None, f"{name!r} comes later in this ordered list"
            else:
                continue
            report.add(message, node=node, owners=owners, field="after", suggestion=suggestion)


def sort_nodes(graph: Graph, report: Report, owners: Owners) -> tuple[list[Node], frozenset[str]]:
    """Sort the nodes of an unordered region by their needs, and report each cycle once."""
    needs = graph.needs
    by_id = {node.id: node for node in reversed(graph.nodes)}
    waiting: dict[str, int] = {}
    after: dict[str, list[str]] = {}
    ready: list[str] = []
    for id in dict.fromkeys(node.id for node in graph.nodes):
        needed = needs[id]
        if not needed:
            ready.append(id)
        else:
            waiting[id] = len(needed)
            for before in needed:
                after.setdefault(before, []).append(id)
    # A node is ready when its last need is. The list grows while it is read.
    for id in ready:
        for next_id in after.get(id, ()):
            waiting[next_id] -= 1
            if not waiting[next_id]:
                ready.append(next_id)
    in_cycles = [id for id, count in waiting.items() if count]
    if in_cycles:
        for cycle in cycles(in_cycles, needs):
            first = by_id[cycle[0]]
            report.add(f"these nodes wait for each other: {_arrows(cycle)}", node=first, owners=owners)
    return [by_id[id] for id in dict.fromkeys([*ready, *in_cycles])], frozenset(in_cycles)


def _arrows(cycle: list[str]) -> str:
    ids = cycle if len(cycle) <= 12 else [*cycle[:6], f"… {len(cycle) - 8:,} more …", *cycle[-2:]]
    return " -> ".join([*ids, cycle[0]])


def cycles(ids: list[str], needs: Any) -> list[list[str]]:
    """Return one shortest cycle for each group of nodes that wait for each other, in document order."""

    # `needs`: By id, the nodes that must end before.
    shortest = []
    place = {id: i for i, id in enumerate(ids)}
    for component in _components(ids, needs):
        members = set(component)
        start = min(component, key=place.__getitem__)
        # Search breadth-first along "needs" until the start comes again; each node remembers which node needs it.
        needed_by: dict[str, str] = {}
        queue = [start]
        for id in queue:
            for before in sorted(needs[id] & members):
                if before not in needed_by:
                    needed_by[before] = id
                    queue.append(before)
            if start in needed_by:
                break
        cycle = [start]
        while needed_by[cycle[-1]] != start:
            cycle.append(needed_by[cycle[-1]])
        shortest.append(cycle)
    return shortest


def _components(ids: list[str], needs: Any) -> Iterator[list[str]]:
    """Yield the strongly connected components of more than one node (Tarjan's algorithm with its own stack)."""
    members = set(ids)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in ids:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = []

        def enter(id: str, work: list[tuple[str, Iterator[str]]] = work) -> None:
            index[id] = low[id] = len(index)
            path.append(id)
            on_path.add(id)
            work.append((id, iter(needs[id] & members)))

        # Depth first: enter a need that is new, else take over the lowest index that can be reached.
        enter(root)
        while work:
            id, remaining = work[-1]
            for before in remaining:
                if before not in index:
                    enter(before)
                    break
                if before in on_path:
                    low[id] = min(low[id], index[before])
            else:
                # All needs are done: a node that reaches nothing lower closes a component.
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[id])
                if low[id] == index[id]:
                    component = [path.pop()]
                    while component[-1] != id:
                        component.append(path.pop())
                    on_path.difference_update(component)
                    if len(component) > 1:
                        yield component


class AddFieldProblem(Protocol):
    """Add a problem at a field of the current node."""

    def __call__(self, field: str, message: str, *, warning: bool = False) -> None:
        """Add the problem."""


def check_policy(policy: Policy, add_problem: AddFieldProblem) -> None:
    """Report impossible numbers in a policy."""
    retry = policy.retry
    if retry.attempts < 1:
        add_problem("policy.retry.attempts", f"must be at least 1 (the first try counts), not {retry.attempts}")
    for field, value in (
        ("policy.retry.delay", retry.delay),
        ("policy.retry.factor", retry.factor),
        ("policy.retry.max_delay", retry.max_delay),
    ):
        check_number(field, value, add_problem)
    check_timeout("policy.timeout", policy.timeout, add_problem)


def check_number(field: str, value: float, add_problem: AddFieldProblem) -> None:
    """Report a number that is negative, infinite or NaN."""
    if not math.isfinite(value):
        add_problem(field, f"must be a finite number, not {value}")
    elif value < 0:
        add_problem(field, f"must not be negative; it is {value:g}")


def check_timeout(field: str, value: float | None, add_problem: AddFieldProblem) -> None:
    """Report a timeout that is 0, negative, infinite or NaN."""

    # None means no timeout.
    if value is None:
        return
    if value == 0:
        add_problem(field, "a timeout of 0 leaves no time; omit it for no limit", warning=True)
    check_number(field, value, add_problem)


def check_limit(field: str, value: int | None, add_problem: AddFieldProblem) -> None:
    """Report a limit below 1 on iterations or on concurrency."""
    if value is not None and value < 1:
        add_problem(field, f"must be at least 1, not {value}")


_KEEPS: Final[dict[str, Positions]] = {"+": EVERY, "?:": (1, 2), "[]": (0,)}
"""Operators whose result contains the unchanged arguments at these positions."""
_GIVES_BOOLEAN: Final = frozenset(("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in"))
"""Operators that give true or false."""
_OPERATORS: Final = (*_KEEPS, *_GIVES_BOOLEAN, "-", "*", "/", "%", "neg")


def secret_passed_on(name: str, args: Sequence[Type], kinds: int | None) -> Secret | None:
    """Return the type of a function's result if its arguments may leave a secret in it."""
    if name in _OPERATORS:
        positions = _KEEPS.get(name, () if name in _GIVES_BOOLEAN else EVERY)
    else:
        function = FUNCTIONS.get(name)
        # A refused use is reported once, but its result is still secret.
        positions = (
            EVERY if function is None else () if function.asks is EVERY else (*function.keeps, *function.refuses)
        )
    if name == "keys" and type(args[0]) is dict:
        return None  # these keys are in the definition, so they are not secret
    secret = next(filter(None, (find_secret(arg) for i, arg in enumerate(args) if i in positions)), None)
    return None if secret is None else Secret(secret.name, ALL if kinds is None else kinds)


def secret_refusal(name: str, args: Sequence[Type]) -> str | None:
    """Return the message for a function that would change a secret, or None."""
    if name in _OPERATORS:
        refused: Positions = () if name in _KEEPS or name in _GIVES_BOOLEAN else EVERY
    else:
        function = FUNCTIONS.get(name)
        refused = EVERY if function is None else function.refuses
    secret = next(filter(None, (find_secret(arg) for i, arg in enumerate(args) if i in refused)), None)
    return None if secret is None else secret_change_message(name, f"$secret.{secret.name}")


class Step(NamedTuple):
    """A step into a flow: a region, a node of it, and the field of the node whose region is entered; "" at the end."""

    graph: Graph
    node: Node
    field: str


Steps: TypeAlias = tuple[Step, ...]
"""The path to a node, from the flow's own region inwards."""


class Writer(NamedTuple):
    """A node that writes a channel: the path to it, the nodes around it, and the place of its update."""

    steps: Steps
    owners: Owners
    at: ExprPath


class RunningOrder(NamedTuple):
    """An order in which the nodes of a region can run."""

    graph: Graph
    # The place of each node by id.
    places: dict[str, int]
    # By id, the nodes that always run before, as a bit set of their places. Empty for an ordered region, where each
    # node runs after all earlier ones.
    ancestors: dict[str, int]

    def is_before(self, first: Node, second: Node) -> bool:
        """Return True if `first` always runs before `second` in an unordered region."""
        return bool(self.ancestors[second.id] >> self.places[first.id] & 1)


class Writers:
    """Collect the writers of `set_once` channels during the walk; `check` judges them at its end."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._writers: dict[str, list[Writer]] = {}
        self._orders: dict[int, RunningOrder] = {}

    def add(self, channel: str, steps: Steps, owners: Owners, at: ExprPath) -> None:
        """Record that the node at the end of `steps` writes a channel."""
        self._writers.setdefault(channel, []).append(Writer(steps, owners, at))

    def check(self) -> None:
        """Report each writer that is not ordered with the one before it."""

        # Sorted by position, neighbours suffice: order within a region is transitive.
        for channel, writers in self._writers.items():
            for steps, owners, at in writers:
                if any(_may_repeat(step.node) for step in steps[:-1]):
                    self.report.add(
                        f"writes {channel!r} in each iteration, but a set_once field accepts one write: "
                        "a second iteration that writes it will fail",
                        node=steps[-1].node,
                        owners=owners,
                        field="writes",
                        at=at,
                        warning=True,
                    )
            # Two writers need an order between them.
            if len(writers) < 2:
                continue
            writers.sort(key=lambda writer: [self._place(step) for step in writer.steps])
            for before, (steps, owners, at) in pairwise(writers):
                if not self._are_ordered(before.steps, steps):
                    earlier = before.steps[-1].node
                    where = f" ({earlier.meta.source})" if earlier.meta.source else ""
                    self.report.add(
                        f"{earlier.id!r}{where} also writes {channel!r}, and neither runs after the other; "
                        "a set_once field accepts one write",
                        node=steps[-1].node,
                        owners=owners,
                        field="writes",
                        at=at,
                    )

    def _are_ordered(self, first: Steps, second: Steps) -> bool:
        # Follow both paths inwards until they part: the region where they do decides.
        for step, other in zip(first, second, strict=False):
            if step.node is other.node:
                if step.field != other.field:
                    return True  # different branches of one choice: only one of them runs
                continue
            if step.graph.ordered:
                return True
            order = self._order(step.graph)
            return order.is_before(step.node, other.node) or order.is_before(other.node, step.node)
        return True

    def _place(self, step: Step) -> int:
        return self._order(step.graph).places[step.node.id]

    def _order(self, graph: Graph) -> RunningOrder:
        order = self._orders.get(id(graph))  # the order keeps the region alive, so its id stays its own
        if order is None:
            order = self._orders[id(graph)] = running_order(graph)
        return order


def _may_repeat(node: Node) -> bool:
    """Return True if the nodes inside may run more than once."""
    return isinstance(node.op, (Map, Program)) or (isinstance(node.op, Loop) and node.op.limit != 1)


def running_order(graph: Graph) -> RunningOrder:
    """Return an order in which the nodes of a region can run."""
    needs = graph.needs
    if graph.ordered:
        return RunningOrder(graph, {node.id: i for i, node in enumerate(graph.nodes)}, {})
    places: dict[str, int] = {}
    ancestors: dict[str, int] = {}
    # Depth first: a node gets its place when all of its needs have one.
    for first in graph.nodes:
        stack = [first.id]
        entered: set[str] = set()
        while stack:
            id = stack[-1]
            if id in places:
                stack.pop()
                continue
            waiting = (
                [] if id in entered else [need for need in needs[id] if need not in places and need not in entered]
            )
            entered.add(id)
            if waiting:  # needs that are still missing at the second visit are in a cycle, which is reported elsewhere
                stack += waiting
                continue
            # A node's ancestors are its needs and all their ancestors.
            mask = 0
            for before in needs[id]:
                if before in places:
                    mask |= ancestors[before] | 1 << places[before]
            places[id], ancestors[id] = len(places), mask
            stack.pop()
    return RunningOrder(graph, places, ancestors)
