"""The regions of a flow while it is written: what nodes there are, and what can be read from where.

References carry the number of the scope they were made in (`out#7`); `Trace.resolve` turns them
into what the graph knows, or says why the value cannot be read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

from ..errors import Place
from ..expr.ast import Each, Expr, Obj, Ref, Var, children, rebind
from ..frozen import dataclass
from ..ir import Channel, Graph, Meta, Node
from ..ops import Compute
from ..tools.tool import Tool
from .function import untraced
from .mistake import mistake, place, spot
from .ref import Ref as Reference
from .value import expression, written

_numbers = count(1)  # of scopes, over all flows: a reference of another flow is noticed
_LABELS = {
    "args": "", "value": "", "policy.on_error.value": "fallback", "policy.retry": "", "policy.timeout": "timeout",
    "items": "items", "arms[0][0]": "condition", "again": "while_", "until": "until",
    "seconds": "seconds", "limit": "concurrency",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Binds:
    """What a scope binds, by root, and the names its function gave them."""

    item: str = ""
    index: str = ""
    round: str = ""
    prev: str = ""
    """What the round before gave."""


NOTHING: Final = Binds()


class Scope:
    """One region: its nodes so far, and where it stands."""

    def __init__(self, parent: Scope | None, owner: str = "", *, ordered: bool, binds: Binds, named: bool) -> None:
        self.number = next(_numbers)
        self.parent, self.owner, self.ordered, self.binds = parent, owner, ordered, binds
        self.named = named  # its value is the object of its nodes, so that they can be read from outside
        self.nodes: list[Node] = []
        self.kept: dict[str, str] = {}  # what it binds, held by a node for the scopes inside

    def ref(self, root: str, *path: str | int) -> Ref:
        return Ref(f"{root}#{self.number}", path)

    def outputs(self) -> Expr:
        """The object of all its nodes."""
        return Obj(tuple((node.id, Ref("out", (node.id,))) for node in self.nodes))


class Trace:
    """One flow being written: its scopes, ids, channels and tools."""

    def __init__(self) -> None:
        self.root = Scope(None, ordered=True, binds=NOTHING, named=True)
        self.here = self.root
        self.scopes = {self.root.number: self.root}
        self.ids: dict[str, Scope] = {}
        self.channels: dict[str, Channel] = {}
        self.tools: dict[str, Tool] = {}
        self.places: dict[str, Place] = {}
        self.failing: set[str] = set()
        self.waiting: dict[int, Place] = {}  # options that no node has taken yet, and where they stand
        self.said = count(1)
        self.closed = False

    # --- nodes and scopes -----------------------------------------------------------------------

    def claim(self, name: str, *, exact: bool) -> str:
        """The id of a new node: `name`, or numbered where it is taken and nobody asked for it."""
        if exact and name in self.ids:
            raise mistake(f"there is a node {name!r} already; names are unique in a flow")
        id, n = name, 1
        while id in self.ids:
            n += 1
            id = f"{name}_{n}"
        self.ids[id] = self.here
        return id

    def meta(self, description: str = "") -> Meta:
        """Where the node is written, for what is said of it later."""
        where = place()
        self.places[spot(where)] = where
        return Meta(source=spot(where), labels=_LABELS, description=description)

    @contextmanager
    def inside(
        self, owner: str, *, ordered: bool = True, binds: Binds = NOTHING, named: bool = False
    ) -> Iterator[Scope]:
        """A new scope for what is written meanwhile."""
        outer = self.here
        scope = self.here = Scope(outer, owner, ordered=ordered, binds=binds, named=named)
        self.scopes[scope.number] = scope
        try:
            with untraced():
                yield scope
        finally:
            self.here = outer

    def region(
        self, owner: str, body: object, given: Sequence[str] = (), binds: Binds = NOTHING, tests: Sequence[object] = ()
    ) -> tuple[Graph, list[Expr]]:
        """The region of a function, called once with references to the roots in `given`; of another
        value, that value. Besides it the `tests`, which are of the region's value or of none."""
        with self.inside(owner, binds=binds) as scope:
            value = body
            if callable(body) and not isinstance(body, Reference):
                value = body(*(Reference[Any](scope.ref(root)) for root in given))
            result = expression(value, "the value of the body")
            shown = Reference[Any](result)
            found = [test(shown) if callable(test) and not isinstance(test, Reference) else test for test in tests]
            lowered = [self.lower(test) for test in found]
            resolved = self.resolve(result)
            # The nodes last: resolving may add one.
            return Graph(nodes=tuple(scope.nodes), result=resolved, ordered=True), lowered

    # --- references -----------------------------------------------------------------------------

    def lower(self, value: object, at: str = "") -> Expr:
        """What a Python value is here, in the graph."""
        try:
            return self.resolve(expression(value, at))
        except RecursionError as error:
            raise mistake(f"{at or 'the value'} contains itself, or is nested far too deep") from error

    def resolve(self, expr: Expr) -> Expr:
        """References as the graph knows them, at the scope that is being written."""
        loose = next(free(expr), None)
        if loose is not None:
            raise mistake(f"{loose.name!r} is an element inside the lambda of a function, and used outside of it")
        return rebind(expr, self._bind)

    def _bind(self, ref: Ref) -> Expr:
        root, _, number = ref.root.partition("#")
        if not number:
            return ref
        scope = self.scopes.get(int(number))
        if scope is None:
            raise mistake(f"{written(ref)} belongs to another flow; hand its value over as input")
        if root in ("out", "status"):
            return self._output(ref, root, scope)
        if root in ("item", "index", "round"):
            return self._bound(ref, root, scope)
        if root == "prev":
            return self._carried(ref, scope)
        if root == "error":
            id, *path = ref.path
            if id not in self.failing:
                raise mistake("the error of a failure is known only to its fallback")
            return Ref("error", tuple(path))
        return Ref(root, ref.path)

    def _around(self) -> list[Scope]:
        """The scopes that are being written, innermost first."""
        found, scope = [], self.here
        while scope.parent is not None:
            found.append(scope)
            scope = scope.parent
        return [*found, scope]

    def _output(self, ref: Ref, root: str, scope: Scope) -> Expr:
        around, path = self._around(), ref.path
        if path[0] in {one.owner for one in around}:
            raise mistake(f"{path[0]!r} is still running here: this is inside it")
        while scope not in around:
            if not scope.named or root == "status" or scope.parent is None:
                raise mistake(
                    f"{path[0]!r} is inside {scope.owner!r}, which may run it often or not at all; "
                    f"let the function of {scope.owner!r} return it and use its value"
                )
            path, scope = (scope.owner, *path), scope.parent
        return Ref(root, path)

    def _bound(self, ref: Ref, root: str, scope: Scope) -> Expr:
        around = self._around()
        name = getattr(scope.binds, root)
        if scope not in around:
            raise mistake(f"{name!r} is an element inside {scope.owner!r}, and used outside of it")
        nearest = next(one for one in around if getattr(one.binds, root))
        if nearest is scope:
            return Ref(root, ref.path)
        # The graph knows one element at a time: a node holds this one for those further inside.
        return self._held(ref, root, scope, len(scope.nodes))

    def _carried(self, ref: Ref, scope: Scope) -> Expr:
        """What the round before gave: known to the first node of a round, which holds it for the others."""
        if scope not in self._around():
            raise mistake(f"{scope.binds.prev!r} is known inside {scope.owner!r}, and used outside of it")
        if scope is self.here and not scope.nodes:
            return Ref("prev", ref.path)
        return self._held(ref, "prev", scope, 0)

    def _held(self, ref: Ref, root: str, scope: Scope, at: int) -> Ref:
        """The output of the node that holds what a scope binds, written when it is first asked for."""
        if root not in scope.kept:
            here, self.here = self.here, scope
            id = scope.kept[root] = self.claim(getattr(scope.binds, root), exact=False)
            scope.nodes.insert(at, Node(id=id, op=Compute(value=Ref(root)), meta=self.meta()))
            self.here = here
        return Ref("out", (scope.kept[root], *ref.path))


def free(expr: Expr, bound: frozenset[str] = frozenset()) -> Iterator[Var]:
    """The variables that nothing inside binds."""
    if isinstance(expr, Var):
        if expr.name not in bound:
            yield expr
    elif isinstance(expr, Each):
        for part in (expr.source, *expr.extra):
            yield from free(part, bound)
        yield from free(expr.body, bound | frozenset(expr.names))
    else:
        for part in children(expr):
            yield from free(part, bound)


def as_name(text: str) -> str:
    """A text as a name that references can spell."""
    return re.sub(r"\W+", "_", text).strip("_") or "node"
