"""Changes of values that a program may make: the type of a value is known only as far as nothing can change it.

A value is *fresh* where the program makes it: nothing else holds it, so that a change through its name is seen at this
name alone. Any other change may be one of a value that has another name, and then nothing is known of the elements of
lists, or of the members of objects. When in doubt a value counts as changed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from ...check.types import ARRAY, OBJECT
from ...expr.python.method_table import MUTATING, changed_argument
from ...expr.python.tree import walk
from .sizes import bound_names

_DEEP: Final = 99
"""The depth of a value that shares no part with another one."""
_ADDING: Final = frozenset(
    ("add", "append", "appendleft", "extend", "extendleft", "insert", "setdefault", "subtract", "update")
)
_SPREADING: Final = frozenset(("extend", "extendleft", "subtract", "update"))
_GETTING: Final = frozenset(("get", "pop", "setdefault"))
_TEXTS: Final = frozenset(
    ("format", "isoformat", "join", "lower", "replace", "split", "splitlines", "strftime", "strip", "title", "upper")
)
_SHALLOW: Final = frozenset(("dict", "deque", "list", "reversed", "set", "sorted", "tuple"))
_SCALAR: Final = frozenset(
    (
        "Counter",
        "abs",
        "bool",
        "deepcopy",
        "defaultdict",
        "float",
        "int",
        "len",
        "loads",
        "range",
        "repr",
        "round",
        "str",
    )
)
_HEAPS: Final = frozenset(("heappush", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right"))


class Store(NamedTuple):
    """A place at which a program changes a value."""

    # root: The name through which it is reached, None for another expression.
    # accesses: How many accesses below the value of the name.
    # key: The member of which it is the value, None for an element of a list or a member with a computed name.
    # member: The member that is set; None for elements, and for members with computed names.
    # is_list: Whether it is a list that changes.
    # depth: How many levels of the stored value are made here.
    # node: The statement, if it changes the value only if that is a list.

    root: str | None
    accesses: int
    key: str | None
    member: str | None
    is_list: bool
    depth: int
    node: ast.AugAssign | None


class Changes:
    """The changes that one program may make."""

    # names: The names whose values it changes, with the kinds of values that the change is of.
    # members: The members that it sets in values of tools, or in values that may have another name.
    # any_list: Whether it may add an element to a list that has another name.
    # any_object: Whether it may set any member of an object that has another name.
    # doubtful: The statements such as `x += y` that add to a list that has another name, if `x` is a list.

    def __init__(self, nodes: Sequence[ast.AST], tools: Iterable[str]) -> None:
        self._tools = frozenset(tools)
        self.names: dict[str, int] = {}
        self.members: set[str] = set()
        self.any_list = self.any_object = False
        self.doubtful: set[ast.AugAssign] = set()
        self._depths: dict[str, int] = {}  # how deep the values of a name are fresh
        self._from_tools: set[str] = set()
        self._stores: list[Store] = []
        self._read(nodes)
        if self._stores:
            self._weigh()

    def _read(self, nodes: Sequence[ast.AST]) -> None:
        called = set()
        for node in nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    shared = len(targets) > 1 and not isinstance(value, ast.Constant)
                    for target in targets:
                        self._bind(target, value, 0 if shared else self._fresh(value))
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._bind(target, value, self._fresh(value))
                case ast.NamedExpr(target=target, value=value):
                    self._bind(target, value, _DEEP if isinstance(value, ast.Constant) else 0)
                case ast.AugAssign():
                    self._augment(node)
                case ast.For() | ast.AsyncFor() | ast.comprehension():
                    self._bind(node.target, None, max(self._fresh(node.iter) - 1, 0))
                case ast.withitem(optional_vars=ast.expr() as target):
                    self._bind(target, None, 0)
                case ast.Call():
                    called.add(id(node.func))
                    self._call(node)
                case ast.Name() | ast.Attribute() | ast.Constant():
                    pass
                case _:
                    for name in bound_names([node]):
                        self._depths[name] = 0
        for node in nodes:
            if isinstance(node, ast.Attribute) and node.attr in _ADDING and id(node) not in called:
                self.any_list = self.any_object = True  # a method that somebody calls later

    # --- what is bound and stored ----------------------------------------------------------------

    def _bind(self, target: ast.expr, value: ast.expr | None, depth: int) -> None:
        if isinstance(target, ast.Name):
            self._depths[target.id] = min(self._depths.get(target.id, _DEEP), depth)
            if value is None or isinstance(value, ast.Await):
                self._from_tools.add(target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._bind(part, None, max(depth - 1, 0))
        elif isinstance(target, ast.Starred):
            self._bind(target.value, None, depth)
        elif isinstance(target, (ast.Subscript, ast.Attribute)):
            self._store(target, depth)

    def _store(self, target: ast.Subscript | ast.Attribute, depth: int) -> None:
        if isinstance(target, ast.Attribute):
            self._add(target.value, target.attr, False, depth)
            return
        key = target.slice
        if isinstance(key, ast.Slice):
            self._add(target.value, None, True, depth - 1)
        elif isinstance(key, ast.Constant):
            member = _text(key)
            self._add(target.value, member, member is None, depth)
        else:
            self._add(target.value, None, True, depth)
            self._add(target.value, None, False, depth)

    def _add(
        self, holder: ast.expr, member: str | None, is_list: bool, depth: int, node: ast.AugAssign | None = None
    ) -> None:
        """Add a store of a value, fresh to a depth, in what an expression gives."""
        accesses, key = 0, _key_of(holder)
        while True:
            match holder:
                case ast.Attribute(value=inner) | ast.Subscript(value=inner):
                    holder, accesses = inner, accesses + 1
                case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _GETTING:
                    holder, accesses = inner, accesses + 1
                case _:
                    break
        if isinstance(holder, ast.Name):
            self._stores.append(Store(holder.id, accesses, key, member, is_list, depth, node))
        elif self._fresh(holder) <= accesses:
            self._stores.append(Store(None, accesses, key, member, is_list, depth, node))

    def _augment(self, node: ast.AugAssign) -> None:
        is_number = isinstance(node.value, (ast.Constant, ast.JoinedStr)) or not isinstance(
            node.op, (ast.Add, ast.BitOr)
        )
        depth = self._fresh(node.value)
        if not isinstance(node.target, ast.Name):
            self._store(node.target, _DEEP if is_number else max(depth, 1))
        if is_number:
            return
        if isinstance(node.op, ast.Add):
            self._add(node.target, None, True, depth - 1, node)
        else:
            self._add(node.target, None, False, depth - 1)

    def _call(self, node: ast.Call) -> None:
        """Add what methods and functions such as `append` and `heappush` store."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        depths = [self._fresh(part) for part in node.args] or [_DEEP]
        if name in _HEAPS and len(node.args) > 1:
            self._add(node.args[0], None, True, depths[1])
        elif name == "setattr" and len(node.args) == 3:
            self._add(node.args[0], _text(node.args[1]), False, depths[2])
        elif isinstance(node.func, ast.Attribute) and name in _ADDING:
            named = [self._fresh(keyword.value) for keyword in node.keywords]
            self._method(node.func.value, name, node, min([depths[-1], *named]))

    def _method(self, holder: ast.expr, name: str, node: ast.Call, depth: int) -> None:
        members: list[str | None] = [keyword.arg for keyword in node.keywords] if name == "update" else []
        first = node.args[0] if node.args else None
        if name == "setdefault":
            members.append(_text(first))
        elif name == "update" and isinstance(first, ast.Dict):
            members += map(_text, first.keys)
        elif name == "update" and first is not None:
            members.append(None)
        for member in members:
            self._add(holder, member, False, depth - (name in _SPREADING))
        if name not in ("update", "setdefault"):
            self._add(holder, None, True, depth - (name in _SPREADING))

    # --- what that means -------------------------------------------------------------------------

    def _weigh(self) -> None:
        """Find which stores can only be of values that no other name has."""
        for store in self._stores:
            if store.root is not None:
                below = store.accesses + 1 + max(store.depth, 0)
                self._depths[store.root] = min(self._depths.get(store.root, _DEEP), below)
        # A value that is stored where it may have another name may be anywhere below.
        is_wild = any(not self._is_own(store, _DEEP) and store.depth <= 0 for store in self._stores)
        for store in self._stores:
            if self._is_own(store, 1 if is_wild else _DEEP):
                self._change_own(store)
            elif store.member is not None:
                self.members.add(store.member)
            elif store.node is not None:
                self.doubtful.add(store.node)
            elif store.is_list:
                self.any_list = True
            else:
                self.any_object = True

    def _is_own(self, store: Store, limit: int) -> bool:
        return store.root is not None and store.accesses < min(self._depths.get(store.root, _DEEP), limit)

    def _change_own(self, store: Store) -> None:
        root = str(store.root)
        if store.member is not None and root in self._from_tools:
            self.members.add(store.member)
        elif store.key is not None:
            self.members.add(store.key)
        else:
            kinds = ARRAY | OBJECT if store.accesses else ARRAY if store.is_list else OBJECT
            self.names[root] = self.names.get(root, 0) | kinds

    # --- fresh values ----------------------------------------------------------------------------

    def _fresh(self, node: ast.expr | None) -> int:
        """Return how many levels of a value are made here."""
        match node:
            case None | ast.Constant() | ast.JoinedStr() | ast.Compare() | ast.Lambda():
                return _DEEP
            case ast.List() | ast.Tuple() | ast.Set():
                return self._around(node.elts)
            case ast.Dict():
                spread = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
                return min(self._around(node.values), min(map(self._fresh, spread), default=_DEEP) or 1)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._around([node.elt])
            case ast.DictComp():
                return self._around([node.value])
            case ast.Await():
                return self._fresh(node.value)
            case ast.Starred():
                return max(self._fresh(node.value) - 1, 0)
            case ast.UnaryOp():
                return _DEEP
            case ast.BinOp():
                return max(1, min(self._fresh(node.left), self._fresh(node.right)))
            case ast.BoolOp():
                return min(map(self._fresh, node.values))
            case ast.IfExp():
                return min(self._fresh(node.body), self._fresh(node.orelse))
            case ast.Subscript(slice=ast.Slice()):
                return max(1, self._fresh(node.value))
            case ast.Subscript() | ast.Attribute():
                return max(self._fresh(node.value) - 1, 0)
            case ast.Call():
                return self._fresh_call(node)
        return 0

    def _around(self, parts: Iterable[ast.expr]) -> int:
        return min(1 + min(map(self._fresh, parts), default=_DEEP), _DEEP)

    def _fresh_call(self, node: ast.Call) -> int:
        match node.func:
            case ast.Name(id=name):
                is_method = False
            case ast.Attribute(value=ast.Name(id=holder), attr=name):
                if f"{holder}.{name}" in self._tools:
                    return _DEEP  # what a tool gives is a copy
                is_method = True
            case ast.Attribute(attr=name):
                is_method = True
            case _:
                return 0
        if not is_method and (name in self._tools or name in ("call_tool", "approve", "wait_for")):
            return _DEEP
        if name in _SCALAR or (is_method and name in _TEXTS):
            return _DEEP
        if name == "gather":
            return self._around(node.args)
        if not is_method and name in _SHALLOW:
            return max(1, min(map(self._fresh, _values(node)), default=_DEEP))
        return 1 if name == "copy" else 0


def _key_of(node: ast.expr) -> str | None:
    """Return the member that an access reads."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return _text(node.slice) if isinstance(node, ast.Subscript) else None


def _text(node: ast.AST | None) -> str | None:
    """Return the text that a node is, None if it is none."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _values(node: ast.Call) -> Iterator[Any]:
    yield from node.args
    yield from (keyword.value for keyword in node.keywords)


def changed_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names through which statements may change values."""
    names = set()
    for node in (part for root in nodes for part in walk(root)):
        changed: ast.AST | None = None
        match node:
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                changed = node.value
            case ast.AugAssign(target=ast.Name() as target, value=value) if not isinstance(value, ast.Constant):
                changed = target
            case ast.Call(func=ast.Attribute(value=holder, attr=attr)) if attr in MUTATING:
                changed = holder
            case ast.Call():
                changed = changed_argument(node)
        while isinstance(changed, (ast.Attribute, ast.Subscript, ast.Call)):
            changed = changed.func if isinstance(changed, ast.Call) else changed.value
        if isinstance(changed, ast.Name):
            names.add(changed.id)
    return names
