"""What an expression may read at the point where it stands, and what is known of its value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..config.secret import refused
from ..expr.ast import Arr, Each, Expr, Fn, Lit, Obj, Path, Ref, Var
from ..expr.show import show
from ..ir import Flow, Node
from ..values import Json, closest
from . import types
from .absence import Absence
from .report import SECRET, At, Owners, Report, listing
from .schemas import ALL, ARRAY, BOOLEAN, INTEGER, NULL, NUMBER, OBJECT, STRING, Sub
from .secrets import passed, refusal
from .structure import Layout
from .types import Nothing, Secret, Type, either, element, items_of, kinds_of, say, secret_in
from .updates import Updates
from .writers import Steps

ROOTS: Final = ("input", "out", "status", "state", "item", "index", "round", "prev", "error", "secret")
MAX_DEPTH: Final = 100
_ANY_NUMBER: Final = INTEGER | NUMBER
_TYPES: Final = {
    "boolean": BOOLEAN, "integer": INTEGER, "number": _ANY_NUMBER, "string": STRING, "array": ARRAY, "object": 64,
    "null": NULL,
}  # fmt: skip
_OPERATORS: Final = {
    **dict.fromkeys(("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in"), BOOLEAN),
    **dict.fromkeys(("-", "*", "/", "%", "neg"), _ANY_NUMBER),
    "+": _ANY_NUMBER | STRING | ARRAY,
}  # fmt: skip
_COUNTS: Final[dict[str, tuple[int, int | None]]] = {
    **dict.fromkeys(_OPERATORS, (2, 2)),
    **dict.fromkeys(("&&", "||", "+", "*"), (2, None)),
    **dict.fromkeys(("!", "neg"), (1, 1)),
    "?:": (3, 3),
    "[]": (2, 2),
}
_ARITHMETIC: Final = frozenset(("-", "*", "/", "%", "neg"))
_ASKS: Final = frozenset(("has", "exists", "coalesce"))
"""Functions for values that may be missing: what they ask for is no mistake, here or later in the node."""
_FAILURE: Final[dict[str, Type]] = {
    "node": STRING, "tool": STRING | NULL, "message": STRING, "kind": STRING, "ran": BOOLEAN,
}  # fmt: skip
_GOING_OVER: Final = "a loop over items, a map, a for_each or a pipeline"
_PRECISE: Final = frozenset(("?:", "coalesce", "[]"))
"""Those whose type says by itself where in a value a secret is."""
_TESTS: Final = frozenset(("all", "exists", "exists_one", "filter"))
"""The macros whose body decides whether an element fits."""
_EACH: Final = {"all": BOOLEAN, "exists": BOOLEAN, "exists_one": BOOLEAN, "any": BOOLEAN, "flat_map": ARRAY}


class Reading:
    """A point in the flow. `done` are the nodes whose outputs can be read there, with their types."""

    def __init__(self, flow: Flow, layout: Layout, report: Report) -> None:
        self.flow, self.layout, self.report = flow, layout, report
        self.input: Type = Sub(flow.input_schema, flow.input_schema) if type(flow.input_schema) is dict else None
        self.absence = Absence(flow)
        self.channels: dict[str, Type] = {
            name: Sub(channel.schema, channel.schema) if type(channel.schema) is dict else None
            for name, channel in flow.state.items()
        }
        self.updates = Updates(flow)
        self.position: Callable[[], Steps] = tuple  # set by who passes over the flow
        self.node: Node | None = None
        self.owners: Owners = None
        self.field = ""
        self.done: dict[str, Type] = {}
        self.doubtful: frozenset[str] = frozenset()  # nodes in a cycle: already reported
        self.prev: Type = None
        self.ordered = self.mapped = self.looped = self.failing = False
        self.item: Type = None
        self.names: dict[str, Type] = {}
        self.asked: tuple[tuple[str, Path], ...] = ()
        self.depth = 0
        self.quiet = False
        self.secrets: frozenset[str] | None = None  # those that may be read; None: any
        self._roots: dict[str, Callable[[Ref, At], tuple[Type, Path] | None]] = {
            "out": self._out, "prev": self._prev, "input": self._input, "state": self._state, "item": self._item,
            "index": self._index, "round": self._round, "status": self._status, "error": self._error,
            "secret": self._secret,
        }  # fmt: skip

    def tell(
        self, message: str, at: At, *, suggestion: str | None = None, column: int | None = None, warning: bool = False,
        keyword: str | None = None,
    ) -> None:  # fmt: skip
        """Report at the present node and field."""
        if self.quiet:
            return
        self.report.add(message, node=self.node, owners=self.owners, field=self.field, at=at, suggestion=suggestion,
                        column=column, warning=warning, keyword=keyword)  # fmt: skip

    def look(self, expr: Expr, at: At = None) -> Type:
        """The type of an expression, after reporting what it reads and must not."""
        kind = type(expr)
        if kind is Lit:
            return expr
        if isinstance(expr, Ref):
            read = self._roots.get(expr.root)
            if read is None:
                near = closest(expr.root, ROOTS)
                self.tell(f"unknown reference {expr.root!r}", at, suggestion=near, column=expr.column)
                return None
            found = read(expr, at)
            if found is None:
                return None
            known, path = found
            return known if known is None or not path else self._descend(known, path, expr, at)
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                self.tell(f"expression nested deeper than {MAX_DEPTH}", None)
                return None
            if isinstance(expr, Obj):
                return {key: self.look(inner, (at, key)) for key, inner in expr.fields}
            if isinstance(expr, Arr):
                return [self.look(inner, (at, i)) for i, inner in enumerate(expr.items)]
            if isinstance(expr, Fn):
                return self._fn(expr, at)
            if isinstance(expr, Each):
                return self._each(expr, at)
        finally:
            self.depth -= 1
        assert isinstance(expr, Var)
        if expr.name not in self.names:
            self.tell(f"unknown name {expr.name!r}", at, suggestion=closest(expr.name, self.names))
            return None
        return self._walk(self.names[expr.name], expr.path, expr.name, at, None)

    # --- roots: (type, path left), or None when reading it was reported or says nothing ---------

    def _out(self, ref: Ref, at: At) -> tuple[Type, Path] | None:
        path = ref.path
        if not path:
            self.tell("the name of a node is missing", at, column=ref.column)
            return None
        name = path[0]
        if name in self.done:
            known = self.done[name]
            return None if known is None else (known, path[1:])
        if name not in self.doubtful:
            self._unreachable(str(name), ref, at)
        return None

    def _status(self, ref: Ref, at: At) -> tuple[Type, Path] | None:
        self._out(ref, at)
        return (STRING, ()) if ref.path else None

    def _prev(self, ref: Ref, at: At) -> tuple[Type, Path] | None:
        if not self.ordered:
            self.tell("'prev' is the step before, and nothing here is in a fixed order", at, column=ref.column)
            return None
        return self.prev, ref.path

    def _input(self, ref: Ref, at: At) -> tuple[Type, Path] | None:
        return self.input, ref.path

    def _state(self, ref: Ref, at: At) -> tuple[Type, Path] | None:
        if not ref.path:
            return None
        name = ref.path[0]
        if name not in self.channels:
            near = closest(str(name), self.channels)
            has = f"; there are: {listing(self.channels)}" if self.channels else "; the flow declares no state"
            self.tell(f"reads undeclared state field {name!r}{has}", at, suggestion=near, column=ref.column)
            return None
        return self.channel(str(name)), ref.path[1:]

    def channel(self, name: str) -> Type:
        """The type of a channel here: of what was written before, else the declared one."""
        if name in self.updates.found and self.node is not None:
            written, known = self.updates.read(name, self.position())
            if written and known is not None:
                return known
        return self.channels[name]

    def _item(self, ref: Ref, at: At) -> tuple[Type, Path] | None:
        return (self.item, ref.path) if self._inside(ref, at, self.mapped, _GOING_OVER) else None

    def _index(self, ref: Ref, at: At) -> tuple[Type, Path] | None:
        return (INTEGER, ref.path) if self._inside(ref, at, self.mapped, _GOING_OVER) else None

    def _round(self, ref: Ref, at: At) -> tuple[Type, Path] | None:
        return (INTEGER, ref.path) if self._inside(ref, at, self.looped, "a loop") else None

    def _error(self, ref: Ref, at: At) -> tuple[Type, Path] | None:
        return (_FAILURE, ref.path) if self._inside(ref, at, self.failing, "a fallback") else None

    def _secret(self, ref: Ref, at: At) -> tuple[Type, Path] | None:
        if not ref.path:
            self.tell("the name of the secret is missing", at, column=ref.column)
            return None
        name = str(ref.path[0])
        if self.secrets is not None and name not in self.secrets:
            near = closest(name, self.secrets)
            self.tell(refused(name), at, suggestion=near, column=ref.column, keyword=SECRET)
        return Secret(name), ref.path[1:]

    def _inside(self, ref: Ref, at: At, there: bool, where: str) -> bool:
        if not there:
            root = ref.root if ref.said is None else ref.said.root
            self.tell(f"${root} exists only inside {where}", at, column=ref.column)
        return there

    def _unreachable(self, name: str, ref: Ref, at: At) -> None:
        """Say why a node cannot be read here, and what can."""
        visible = [id for id in self.done if not self.layout.nodes[id].meta.hidden]
        finished = f"finished before it: {listing(reversed(visible))}" if visible else "nothing is finished before it"
        around = _ids(self.owners)
        suggestion = None
        if name not in self.layout.nodes:
            message = f"reads {name!r}, which is no node of this flow; {finished}"
            suggestion = self._in_quotes(ref) or closest(name, self.done)
        elif self.node is not None and name == self.node.id:
            message = f"reads its own output, which is not there yet; {finished}"
        elif name in around:
            message = f"reads {name!r}, which is still running: this is inside it; {finished}"
        else:
            holders = [id for id in reversed(_ids(self.layout.owners_of(name))) if id not in around]
            if holders:
                message = f"reads {name!r}, which is inside {holders[0]!r} and not visible from here; {finished}"
                suggestion = holders[0] if holders[0] in self.done else None
            else:
                message = f"reads {name!r}, which is not finished before this point; {finished}"
        self.tell(message, at, suggestion=suggestion, column=ref.column)

    def _in_quotes(self, ref: Ref) -> str | None:
        """The reference to a node whose id has dots, which end a name where it is not in quotes."""
        said = ref.said or ref
        for end in range(2, len(ref.path) + 1):
            id = ".".join(map(str, ref.path[:end]))
            if id in self.done:
                return show(Ref(said.root, (id, *ref.path[end:])))
        return None

    # --- paths ----------------------------------------------------------------------------------

    def _descend(self, known: Type, path: Path, ref: Ref, at: At) -> Type:
        if ref.elide and path[0] == "output" and type(element(known, "output")) is Nothing:
            path = path[1:]
        if self.is_asked(ref):
            return None
        name = f"{ref.root}.{ref.path[0]}" if ref.root in ("out", "state") else ref.root
        if ref.root in ("round", "index") and ref.said is not None:  # which have other names in documents
            name = show(Ref(ref.said.root, ref.said.path[: len(ref.said.path) - len(ref.path)]))
        return self._walk(known, path, name, at, ref.column)

    def is_asked(self, ref: Ref) -> bool:
        """Return True if the node asks elsewhere whether this is there."""
        return any(ref.root == root and ref.path[: len(p)] == p for root, p in self.asked)

    def _walk(self, known: Type, path: Path, name: str, at: At, column: int | None) -> Type:
        for i, key in enumerate(path):
            if known is None:
                return None
            found = element(known, key)
            if type(found) is Nothing:
                self._absent(found, path, i, name, at, column)
                return None
            known = found
        return known

    def _absent(self, miss: Nothing, path: Path, i: int, name: str, at: At, column: int | None) -> None:
        way = name.removeprefix("out.") + "".join(f"[{k}]" if type(k) is int else f".{k}" for k in path[:i])
        what = f"the output of {way!r}" if name.startswith("out.") else f"{way!r}"
        if miss.kinds:
            sort = "list" if type(path[i]) is int else "object"
            self.tell(f"{what} is {say(miss.kinds)}, no {sort}: it has no {path[i]!r}", at, column=column)
            return
        has = f"; it has: {listing(miss.known)}" if miss.known else ""
        near = closest(str(path[i]), miss.known)
        self.tell(f"{what} has no {path[i]!r}{has}", at, suggestion=near, column=column)

    # --- functions ------------------------------------------------------------------------------

    def _fn(self, expr: Fn, at: At) -> Type:
        name = expr.name
        if name in _ASKS:
            self.asked += tuple((arg.root, arg.path) for arg in expr.args if isinstance(arg, Ref))
        got = [self.look(arg, at) for arg in expr.args]
        from ..expr.calls import FUNCTIONS

        known = FUNCTIONS.get(name)
        least, most = (known.least, known.most) if known is not None else _COUNTS.get(name, (-1, None))
        if least < 0:
            near = closest(name, FUNCTIONS)
            self.tell(f"unknown function {name!r}", at, suggestion=near, column=expr.column)
            return None
        if len(got) < least or (most is not None and len(got) > most):
            asked = f"at least {least}" if most is None else f"{least}" if least == most else f"{least} to {most}"
            self.tell(
                f"{name!r} takes {asked} argument{'s' if asked != '1' else ''}, not {len(got)}", at, column=expr.column
            )
            return None
        said = refusal(name, got)
        if said is not None:
            self.tell(said, at, column=expr.column)
        returns = _OPERATORS.get(name) or (_TYPES.get(known.returns or "") if known is not None else None)
        secret = passed(name, got, returns) if name not in _PRECISE else None
        if secret is not None:
            return secret
        bits = _OPERATORS.get(name)
        if bits is not None:
            if name in _ARITHMETIC:
                self._needs_numbers(expr, got, at)
            return bits
        if name == "?:":
            return either(*got[1:])
        if name == "coalesce":
            return either(*got)
        if name == "[]":
            key = got[1].value if type(got[1]) is Lit else None
            if type(key) is not str and type(key) is not int:
                return passed(name, got, None)
            found = element(got[0], key)
            return None if type(found) is Nothing else found
        return returns

    def _needs_numbers(self, expr: Fn, got: list[Type], at: At) -> None:
        word = "-" if expr.name == "neg" else expr.name
        for arg, known in zip(expr.args, got, strict=True):
            bits = kinds_of(known)
            if bits != NULL and not bits & _ANY_NUMBER and bits != ALL:
                self.tell(f"{word!r} needs numbers; this is {say(bits)}", at,
                          column=getattr(arg, "column", expr.column))  # fmt: skip

    def _each(self, expr: Each, at: At) -> Type:
        from ..expr.calls import RUNNERS

        field, labels = self.field, self.node.meta.labels if self.node is not None else {}
        if at is None and f"{field}.source" in labels:
            self.field = f"{field}.source"  # the document has a name of its own for what is gone over
        source = self.look(expr.source, at)
        bits = kinds_of(source)
        if not bits & (ARRAY | NULL | OBJECT):
            self.tell(f"must be a list; this is {say(bits)}", at, column=getattr(expr.source, "column", None))
        self.field = field
        if expr.kind not in RUNNERS:
            near = closest(expr.kind, RUNNERS)
            self.tell(f"unknown function {expr.kind!r}", at, suggestion=near, column=expr.column)
        extra = [self.look(inner, at) for inner in expr.extra]
        before = self.names
        item = items_of(source) if not kinds_of(source) & ~(ARRAY | NULL) else None
        held = secret_in(source)
        if item is None and held is not None and type(source) is not dict:  # whose keys the definition says
            item = Secret(held.name)
        bound: dict[str, Any] = dict.fromkeys(expr.names)
        if expr.kind == "reduce":  # which may name its accumulator anywhere
            bound = dict.fromkeys(expr.names, self._accumulated(expr, [item, *extra], at))
        elif expr.names:
            bound[expr.names[0]] = item
        self.names = {**before, **bound}
        try:
            body = self.look(expr.body, at)
        finally:
            self.names = before
        self._for_each(expr, body, at)
        if expr.kind == "map":
            return types.Each(body)
        kinds = _EACH.get(expr.kind, ALL)
        if expr.kind in ("filter", "sort"):
            if not kinds_of(source) & ~(ARRAY | NULL):
                return source
            kinds = ARRAY
        kept = None if kinds == BOOLEAN else next(filter(None, map(secret_in, (source, body, *extra))), None)
        return Secret(kept.name, kinds) if kept is not None else _EACH.get(expr.kind)

    def _accumulated(self, expr: Each, first: list[Type], at: At) -> Secret | None:
        """The secret that the names of a reduction may hold: of its elements, of what it begins with, or of its body,
        which is looked at for that without a word."""
        found = next(filter(None, map(secret_in, first)), None)
        if found is None and not self.quiet:  # inside another one, only whether there is a secret matters
            before = self.names
            self.names, self.quiet = {**before, **dict.fromkeys(expr.names)}, True
            try:
                found = secret_in(self.look(expr.body, at))
            finally:
                self.names, self.quiet = before, False
        return None if found is None else Secret(found.name)

    def _for_each(self, expr: Each, body: Type, at: At) -> None:
        """Report a body that can never do for the elements what its macro is for."""
        if expr.kind in _TESTS and not kinds_of(body) & (BOOLEAN | NULL):
            self.tell(f"the condition of {expr.kind} must be true or false; this is {say(kinds_of(body))}", at,
                      column=expr.column)  # fmt: skip
        elif expr.kind == "reduce" and isinstance(expr.body, Lit):
            self.tell(f"reduce gives {show(expr.body)} whatever the elements are", at, column=expr.column)
        elif expr.kind in ("sort", "group_by"):
            keys = expr.body.items if isinstance(expr.body, Arr) else (expr.body,)
            for key in keys:
                if isinstance(key, Lit):
                    self.tell(f"the key of {expr.kind} is {show(key)} for every element", at, column=expr.column,
                              suggestion=_key_meant(expr, key.value))  # fmt: skip


def _key_meant(expr: Each, key: Json) -> str:
    """The key that was probably meant: the field of this name, or in a sort the elements themselves in this order."""
    element = expr.names[0]
    if expr.kind == "sort" and key in ("asc", "desc") and not expr.extra:
        return f'{element}, "{key}"'
    if type(key) is list and key and all(type(one) is str for one in key):
        return show(Arr(tuple(Var(element, (one,)) for one in key)))
    return show(Var(element, (key,) if type(key) is str else ()))


def _ids(owners: Owners) -> list[str]:
    found = []
    while owners is not None:
        owners, owner = owners
        found.append(owner.id)
    return found
