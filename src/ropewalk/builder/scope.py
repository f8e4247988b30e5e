"""The regions of a flow while it is written: their nodes, and what can be read from where.

References carry the number of the scope in which they were made (`out#7`). `Trace.resolve` turns them
into references of the graph, or reports why the value cannot be read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

from ..errors import Place
from ..expr.ast import Each, Expr, Obj, Ref, Var, children, rebind
from ..fast_dataclass import dataclass
from ..ir import Channel, Graph, Meta, Node
from ..ops import Compute
from ..tools.tool import Tool
from .function import pause_tracing
from .refs import Ref as Reference
from .values import expression, mistake, place, readable

_numbers = count(1)  # of scopes, over all flows: a reference of another flow is noticed
_LABELS = {
    "args": "", "value": "", "policy.on_error.value": "fallback", "policy.retry": "", "policy.timeout": "timeout",
    "items": "items", "arms[0][0]": "condition", "default": "otherwise", "again": "while_", "until": "until",
    "seconds": "seconds", "limit": "concurrency",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Binds:
    """The roots that a scope binds, with the names that its function gave them."""

    item: str = ""
    index: str = ""
    round: str = ""
    prev: str = ""
    """The value of the previous iteration."""


NOTHING: Final = Binds()


class Scope:
    """One region while it is written: its nodes so far, and its parent."""

    def __init__(
        self, parent: Scope | None, owner: str = "", *, ordered: bool, binds: Binds, has_outputs: bool
    ) -> None:
        self.number = next(_numbers)
        self.parent, self.owner, self.ordered, self.binds = parent, owner, ordered, binds
        self.has_outputs = (
            has_outputs  # its value is the object of its nodes' outputs, so that they can be read from outside
        )
        self.nodes: list[Node] = []
        self.saved: dict[str, str] = {}  # by bound root: the node that saves its value for inner scopes

    def ref(self, root: str, *path: str | int) -> Ref:
        """Return a reference that belongs to this scope."""
        return Ref(f"{root}#{self.number}", path)

    def outputs(self) -> Expr:
        """Return the object of the outputs of all its nodes."""
        return Obj(tuple((node.id, Ref("out", (node.id,))) for node in self.nodes))


class Trace:
    """One flow while it is written: its scopes, ids, channels and tools."""

    def __init__(self) -> None:
        self.root = Scope(None, ordered=True, binds=NOTHING, has_outputs=True)
        self.current = self.root
        self.scopes = {self.root.number: self.root}
        self.ids: dict[str, Scope] = {}
        self.channels: dict[str, Channel] = {}
        self.tools: dict[str, Tool] = {}
        self.places: dict[str, Place] = {}
        self.failing: set[str] = set()
        self.waiting: dict[int, Place] = {}  # options that no node has used yet, with their lines
        self.option_numbers = count(1)
        self.closed = False

    # --- nodes and scopes -----------------------------------------------------------------------

    def claim(self, name: str, *, exact: bool) -> str:
        """Reserve the id of a new node."""
        if exact and name in self.ids:
            raise mistake(f"there is a node {name!r} already; names are unique in a flow")
        id, n = name, 1
        while id in self.ids:
            n += 1
            id = f"{name}_{n}"
        self.ids[id] = self.current
        return id

    def meta(self, description: str = "") -> Meta:
        """Return the meta data of a node at the current line."""
        where = place()
        self.places[where.spot] = where
        return Meta(source=where.spot, labels=_LABELS, description=description)

    @contextmanager
    def inside(
        self, owner: str, *, ordered: bool = True, binds: Binds = NOTHING, has_outputs: bool = False
    ) -> Iterator[Scope]:
        """Open a new scope for the nodes that are added meanwhile."""
        outer = self.current
        scope = self.current = Scope(outer, owner, ordered=ordered, binds=binds, has_outputs=has_outputs)
        self.scopes[scope.number] = scope
        try:
            with pause_tracing():
                yield scope
        finally:
            self.current = outer

    def region(
        self, owner: str, body: object, roots: Sequence[str] = (), binds: Binds = NOTHING, tests: Sequence[object] = ()
    ) -> tuple[Graph, list[Expr]]:
        """Write the region of a body."""
        with self.inside(owner, binds=binds) as scope:
            value = body
            if callable(body) and not isinstance(body, Reference):
                value = body(*(Reference[Any](scope.ref(root)) for root in roots))
            result = expression(value, "the value of the body")
            value_ref = Reference[Any](result)
            conditions = [
                test(value_ref) if callable(test) and not isinstance(test, Reference) else test for test in tests
            ]
            lowered = [self.lower(test) for test in conditions]
            resolved = self.resolve(result)
            # Collect the nodes last, because resolving may add one.
            return Graph(nodes=tuple(scope.nodes), result=resolved, ordered=True), lowered

    # --- references -----------------------------------------------------------------------------

    def lower(self, value: object, at: str = "") -> Expr:
        """Return the expression of a Python value, resolved at the current scope."""
        try:
            return self.resolve(expression(value, at))
        except RecursionError as error:
            raise mistake(f"{at or 'the value'} contains itself, or is nested far too deep") from error

    def resolve(self, expr: Expr) -> Expr:
        """Return an expression with references of the graph, as seen from the current scope."""
        loose = next(free_variables(expr), None)
        if loose is not None:
            raise mistake(f"{loose.name!r} is an element inside a lambda and cannot be used outside of it")
        return rebind(expr, self._bind)

    def _bind(self, ref: Ref) -> Expr:
        root, _, number = ref.root.partition("#")
        if not number:
            return ref
        scope = self.scopes.get(int(number))
        if scope is None:
            raise mistake(f"{readable(ref)} belongs to another flow; pass its value as input")
        if root in ("out", "status"):
            return self._resolve_output(ref, root, scope)
        if root in ("item", "index", "round"):
            return self._resolve_element(ref, root, scope)
        if root == "prev":
            return self._resolve_previous(ref, scope)
        if root == "error":
            id, *path = ref.path
            if id not in self.failing:
                raise mistake("the error of a failure is known only to its fallback")
            return Ref("error", tuple(path))
        return Ref(root, ref.path)

    def _open_scopes(self) -> list[Scope]:
        """Return the scopes that are being written, innermost first."""
        scopes, scope = [], self.current
        while scope.parent is not None:
            scopes.append(scope)
            scope = scope.parent
        return [*scopes, scope]

    def _resolve_output(self, ref: Ref, root: str, scope: Scope) -> Expr:
        open_scopes, path = self._open_scopes(), ref.path
        if path[0] in {open_scope.owner for open_scope in open_scopes}:
            raise mistake(f"{path[0]!r} has no value here, because this node is inside it")
        while scope not in open_scopes:
            if not scope.has_outputs or root == "status" or scope.parent is None:
                raise mistake(
                    f"{path[0]!r} is inside {scope.owner!r}, which may run it several times or not at all; return "
                    f"it from the function of {scope.owner!r}, and use the value of {scope.owner!r}"
                )
            path, scope = (scope.owner, *path), scope.parent
        return Ref(root, path)

    def _resolve_element(self, ref: Ref, root: str, scope: Scope) -> Expr:
        open_scopes = self._open_scopes()
        name = getattr(scope.binds, root)
        if scope not in open_scopes:
            raise mistake(f"{name!r} is an element inside {scope.owner!r} and cannot be used outside of it")
        nearest = next(open_scope for open_scope in open_scopes if getattr(open_scope.binds, root))
        if nearest is scope:
            return Ref(root, ref.path)
        # The graph binds one element at a time, so a node saves this one for inner scopes.
        return self._saved_value(ref, root, scope, len(scope.nodes))

    def _resolve_previous(self, ref: Ref, scope: Scope) -> Expr:
        """Resolve the previous iteration's value: only the first node can read it, which saves it for the others."""
        if scope not in self._open_scopes():
            raise mistake(f"{scope.binds.prev!r} exists only inside {scope.owner!r} and cannot be used outside of it")
        if scope is self.current and not scope.nodes:
            return Ref("prev", ref.path)
        return self._saved_value(ref, "prev", scope, 0)

    def _saved_value(self, ref: Ref, root: str, scope: Scope, at: int) -> Ref:
        """Return the output of the node that saves a bound value; the node is added at the first use."""
        if root not in scope.saved:
            outer, self.current = self.current, scope
            id = scope.saved[root] = self.claim(getattr(scope.binds, root), exact=False)
            scope.nodes.insert(at, Node(id=id, op=Compute(value=Ref(root)), meta=self.meta()))
            self.current = outer
        return Ref("out", (scope.saved[root], *ref.path))


def free_variables(expr: Expr, bound: frozenset[str] = frozenset()) -> Iterator[Var]:
    """Yield the variables that nothing inside binds."""
    if isinstance(expr, Var):
        if expr.name not in bound:
            yield expr
    elif isinstance(expr, Each):
        for part in (expr.source, *expr.extra):
            yield from free_variables(part, bound)
        yield from free_variables(expr.body, bound | frozenset(expr.names))
    else:
        for part in children(expr):
            yield from free_variables(part, bound)


def as_name(text: str) -> str:
    """Return a text as a name that references can spell."""
    return re.sub(r"\W+", "_", text).strip("_") or "node"
