"""Which values two names may hold, and changes that a plan could not show through both.

Between nodes a value is copied, so a change through one name is not seen through another. Inside one piece sharing is
exact, if the names came to share the value in this piece. A change of a value that another name holds, and that is
read later, is otherwise refused: the plan would continue with another value than Python. `subset.py` asks
`problems_of_sharing` for these changes, and the types of plans (`types.py`) ask `changed_places`.

For example, after `first = users[0]` the names share an object. `first["seen"] = True` changes it, so `users` must not
be read in a later piece. Here `first` at the depth 0 and `users` at the depth 1 are *places* (`Place`) of one object.
Every statement that may let two places be one object is noted as a `Join`; the joins up to a question give classes of
places, by union and find.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from ...expr.python.method_table import MUTATING, changed_argument
from .facts import parts_of, walk
from .program import FUNCTIONS_OF_PROGRAMS, KNOWN, PlanError, Program
from .syntax import inner_blocks, mutations, names_read, stored


class Place(NamedTuple):
    """The objects at a depth inside a name: `users` at the depth 1 stands for the elements of users."""

    name: str
    depth: int


class Share(NamedTuple):
    """A part of a name that the value of an expression contains."""

    # `[users[0]]` contains `users` at the depth 1, inside its own depth 1.

    name: str
    # The depth of the part in the name.
    depth: int
    # The depth of the part in the value.
    inside: int


class Join(NamedTuple):
    """Two places that may be one object from a line on; `function` is the local function whose call joined them."""

    line: int
    first: Place
    second: Place
    function: str


Classes: TypeAlias = dict[Place, Place]
"""Classes of places that may be one object, as a forest: for each place another one of its class, up to the root."""


class PlaceClass(NamedTuple):
    """Places that may be one object after any statement, and the joins between them."""

    places: set[Place]
    joins: list[Join]


MAX_DEPTH = 4
"""How deep the sharing of values is followed."""
_SCALARS = frozenset(
    "len sum str int float bool round abs any all isinstance range repr divmod print ord chr format pow".split()  # noqa: SIM905
)
_ADDING_METHODS = frozenset(("append", "add", "insert", "extend", "update", "setdefault", "appendleft", "extendleft"))


class Aliases:
    """The places of a program, joined where they may be one object."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.functions = {node.name: node for node in program.all(*FUNCTIONS_OF_PROGRAMS)}
        self.elements: dict[str, str] = {}
        """For the target of a loop over a name that name: changes of elements are written back."""
        self._joins: list[Join] = []
        self._line, self._function = 1, ""  # of the statement that is being read
        self._leaving_blocks = list(_blocks_that_leave(program))
        self._class_by_place: dict[Place, PlaceClass] = {}
        for node in program.all(ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.Call):
            self._line = node.lineno
            self._read(node)
        self._note_classes()

    # --- classes of places ---------------------------------------------------------------------

    def _join(self, name: str, depth: int, other: str, other_depth: int) -> None:
        """Let two places be one object from this line on; what is inside them is then the same, too."""
        for more in range(MAX_DEPTH):
            if depth + more > MAX_DEPTH or other_depth + more > MAX_DEPTH:
                break
            first, second = Place(name, depth + more), Place(other, other_depth + more)
            self._joins.append(Join(self._line, first, second, self._function))

    def sharing(
        self,
        place: Place,
        window: range | None,
        line: int,
        function: ast.AST | None,
        lines: frozenset[int] | None = None,
    ) -> set[str]:
        """Return the other names through which the object at a place may be seen."""
        if function is not None:
            inside = _others(place, self._join_places(place, window, line, function.name, lines))  # type: ignore[attr-defined]
            own = stored(function.body) - {node.arg for node in walk(function) if isinstance(node, ast.arg)}  # type: ignore[attr-defined]
            if inside | {place.name} <= own:
                return inside
        return _others(place, self._join_places(place, window, line, lines=lines))

    def may_share(self, place: Place) -> set[str]:
        """Return the other names through which the object at a place may be seen after any statement."""
        known = self._class_by_place.get(place)
        return set() if known is None else {other.name for other in known.places} - {place.name}

    def places_with(self, place: Place) -> set[Place]:
        """Return the places that may hold the object at a place after any statement."""
        return self._class_by_place[place].places if self.may_share(place) else {place}

    def _note_classes(self) -> None:
        """Note the classes that all joins make, so that a question is answered from the joins of one class."""
        classes = _united(self._joins)
        by_root: dict[Place, PlaceClass] = {}
        for join in self._joins:
            own = by_root.setdefault(_root(join.first, classes), PlaceClass(set(), []))
            own.joins.append(join)
            own.places.update((join.first, join.second))
        self._class_by_place = {place: own for own in by_root.values() for place in own.places}

    def _join_places(
        self, place: Place, window: range | None, at: int, function: str = "", lines: frozenset[int] | None = None
    ) -> Classes:
        """Return the classes of places, as far as they may concern a place."""

        # Left out are joins of its name outside the lines of a window, joins in a block that never reaches the line
        # `at`, results of calls of `function`, and joins outside of `lines`.
        known = self._class_by_place.get(place)
        joins = []
        for join in known.joins if known is not None else ():
            if (function and join.function == function) or (lines is not None and join.line not in lines):
                continue
            is_of_name = place.name in (join.first.name, join.second.name)
            if window is None or not is_of_name or self._reaches(join.line, at, window):
                joins.append(join)
        return _united(joins)

    def _reaches(self, line: int, at: int, window: range) -> bool:
        """Return True if a statement at `line`, in the window, may be followed by one at the line `at`."""
        return line in window and not any(line in block and at not in block for block in self._leaving_blocks)

    # --- what statements share -----------------------------------------------------------------

    def _read(self, node: ast.AST) -> None:
        value = getattr(node, "value", None)
        call = value.value if isinstance(value, ast.Await) else value
        calls_name = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        self._function = call.func.id if calls_name and call.func.id in self.functions else ""  # type: ignore[union-attr]
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self._bind(node.target, self.shares(node.value), 0)
        elif isinstance(node, ast.For):
            self._bind(node.target, self.shares(node.iter), 1)
            if isinstance(node.iter, ast.Name) and isinstance(node.target, ast.Name):
                self.elements[node.target.id] = node.iter.id
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING_METHODS:
            self._read_adding_method(node, node.func)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        lists = (ast.Tuple, ast.List)
        if isinstance(target, lists) and isinstance(value, lists) and len(target.elts) == len(value.elts):
            for part, item in zip(target.elts, value.elts, strict=True):
                self._assign(part, item)
            return
        if isinstance(target, (ast.Name, ast.Tuple, ast.List)):
            self._bind(target, self.shares(value), 0)
            return
        place = place_of(target)
        if place is not None:
            for name, depth, inside in self.shares(value):
                self._join(place.name, place.depth + inside, name, depth)

    def _bind(self, target: ast.expr, shares: Iterable[Share], down: int) -> None:
        """Bind a target to the value, or to what is `down` levels inside it."""
        shares = list(shares)
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, ast.Name):
            for name, depth, inside in shares:
                if inside == 0:
                    self._join(target.id, 0, name, depth + down)
                elif inside >= down:
                    self._join(target.id, inside - down, name, depth)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._bind(part, shares, down + (0 if isinstance(part, ast.Starred) else 1))

    def _read_adding_method(self, call: ast.Call, method: ast.Attribute) -> None:
        """`items.append(x)` lets the elements of items share x."""
        place = place_of(method.value)
        if place is None:
            return
        spreads = method.attr in ("extend", "update", "extendleft")
        # A key or an index is no value that the container holds.
        for argument in call.args[1:] if method.attr in ("setdefault", "insert") else call.args:
            for name, depth, inside in self.shares(argument):
                if spreads:
                    self._join(place.name, place.depth + 1, name, depth + 1)
                else:
                    self._join(place.name, place.depth + 1 + inside, name, depth)

    # --- what expressions share ----------------------------------------------------------------

    def shares(self, node: ast.expr) -> list[Share]:
        """Return which parts of names the value of an expression holds."""
        if isinstance(node, ast.Name):
            is_value = node.id in self.program.names or node.id not in (*self.program.tools, *KNOWN)
            return [Share(node.id, 0, 0)] if is_value else []
        if isinstance(node, ast.Await):
            return self._call(node.value) if isinstance(node.value, ast.Call) else []
        if isinstance(node, (ast.Subscript, ast.Attribute)):
            return self._member(node)
        # Which operand becomes the value is known only at run time, so all of them count.
        if isinstance(node, (ast.IfExp, ast.BoolOp, ast.NamedExpr)):
            parts = [node.value] if isinstance(node, ast.NamedExpr) else []
            parts += [node.body, node.orelse] if isinstance(node, ast.IfExp) else []
            parts += node.values if isinstance(node, ast.BoolOp) else []
            return [share for part in parts for share in self.shares(part)]
        # A display makes a new container, but it contains the same objects, one level deeper.
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            shares: list[Share] = []
            for element in node.elts:
                is_spread = isinstance(element, ast.Starred)
                shares += _elements(self.shares(element.value)) if is_spread else _inside(self.shares(element))  # type: ignore[attr-defined]
            return shares
        if isinstance(node, ast.Dict):
            shares = []
            for key, value in zip(node.keys, node.values, strict=True):
                shares += _inside(self.shares(value)) if key is not None else _elements(self.shares(value))
            return shares
        # Adding lists makes a new list of the same elements.
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.BitOr, ast.Mult)):
            return [share for part in (node.left, node.right) for share in _elements(self.shares(part))]
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
            for part in node.generators:
                self._bind(part.target, self.shares(part.iter), 1)
            return _inside(self.shares(node.value if isinstance(node, ast.DictComp) else node.elt))
        return self._call(node) if isinstance(node, ast.Call) else []

    def _member(self, node: ast.Subscript | ast.Attribute) -> list[Share]:
        shares = self.shares(node.value)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return _elements(shares)
        return [_member_share(share) for share in shares]

    def _call(self, node: ast.Call) -> list[Share]:
        function = node.func
        if isinstance(function, ast.Attribute):
            if self.program.tool_name(function) is not None or self.program.path(function).startswith("asyncio."):
                return []
            if function.attr in ("get", "pop", "setdefault", "popitem", "popleft"):
                # The value is a member, or the default in the second argument.
                members = [_member_share(share) for share in self.shares(function.value)]
                return members + [share for part in node.args[1:] for share in self.shares(part)]
            if function.attr in ("values", "items", "copy", "most_common"):
                return _elements(self.shares(function.value))
            return []
        if (
            not isinstance(function, ast.Name)
            or function.id in _SCALARS
            or self.program.tool_name(function) is not None
        ):
            return []
        local = self.functions.get(function.id)
        if local is not None:
            return self._local(local, node)
        if function.id in ("min", "max", "next"):
            return [Share(share.name, share.depth + 1, 0) for part in node.args for share in self.shares(part)]
        return [share for part in node.args for share in _elements(self.shares(part))]

    def _local(self, function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.Call) -> list[Share]:
        """Join the parameters of a local function with the arguments; its value shares what it returns."""
        names = [part.arg for part in (*function.args.posonlyargs, *function.args.args)]
        pairs = [*zip(names, node.args, strict=False), *((key.arg, key.value) for key in node.keywords if key.arg)]
        for parameter, value in pairs:
            for name, depth, inside in self.shares(value):
                self._join(parameter, inside, name, depth)
        return [
            share
            for part in walk(function)
            if isinstance(part, ast.Return) and part.value is not None and not isinstance(part.value, ast.Call)
            for share in self.shares(part.value)
        ]


def _blocks_that_leave(program: Program) -> Iterator[range]:
    """Yield the lines of each block of an `if` that ends with a jump, so that nothing after it follows."""
    for node in program.all(ast.If):
        for block in inner_blocks(node):
            if block and isinstance(block[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break)):
                yield range(block[0].lineno, (block[-1].end_lineno or block[-1].lineno) + 1)


def _united(joins: Iterable[Join]) -> Classes:
    """Return the classes that some joins make."""
    classes: Classes = {}
    for join in joins:
        left, right = _root(join.first, classes), _root(join.second, classes)
        if left != right:
            classes[left] = right
    return classes


def _root(place: Place, classes: Classes) -> Place:
    """Return the place that stands for the class of a place."""
    while (above := classes.get(place, place)) != place:
        place = above
    return place


def _others(place: Place, classes: Classes) -> set[str]:
    """Return the names of the other places in the class of a place."""
    root = _root(place, classes)
    if root == place and place not in classes.values():
        return set()
    places = {*classes, *classes.values()}
    return {other.name for other in places if other.name != place.name and _root(other, classes) == root}


def _member_share(share: Share) -> Share:
    """Return a share of a value as it is in a member of the value."""
    if share.inside <= 1:
        return Share(share.name, share.depth + 1 - share.inside, 0)
    return Share(share.name, share.depth, share.inside - 1)


def _inside(shares: Iterable[Share]) -> list[Share]:
    """Return shares as they are in a container around the value."""
    return [Share(share.name, share.depth, share.inside + 1) for share in shares]


def _elements(shares: Iterable[Share]) -> list[Share]:
    """Return the shares of a new container with the same elements."""
    return [Share(share.name, share.depth + 1, 1) if share.inside == 0 else share for share in shares]


def place_of(node: ast.expr) -> Place | None:
    """Return the place of the value that an expression such as `a.b[0]` reads; None if it begins in no name."""
    depth = 0
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(node, ast.Call):
            node = node.func
            continue
        node, depth = node.value, depth + 1
    return Place(node.id, depth) if isinstance(node, ast.Name) else None


def problems_of_sharing(program: Program) -> Iterator[PlanError]:
    """Yield the changes that a plan could not show through every name that holds the value."""
    aliases = Aliases(program)
    context: _Context | None = None
    for node, place in _changes(program):
        if not aliases.may_share(place):
            continue  # most changes are of values that only one name ever holds
        context = context or _Context(program)
        line, function = getattr(node, "lineno", 1), context.functions.get(id(node))
        window = context.windows.of(node, place.name)
        # Names that shared the value before this piece hold a copy in it, so reading them in it is no better.
        exact = aliases.sharing(place, window, line, function, context.lines_of_piece(node))
        for name in sorted(aliases.sharing(place, window, line, function)):
            if aliases.elements.get(place.name) == name and place.depth == 0:
                continue  # changed elements are written back
            if context.is_read_later(name, node, is_exact_here=name in exact):
                advice = f"{name} may hold the value that is changed here through {place.name}"
                yield PlanError(node, f"{advice}; change a copy: dict(...), list(...) or copy.deepcopy(...)")
                break
    yield from _changes_after_return(program)


def changed_places(program: Program) -> frozenset[Place]:
    """Return the places at which values that statements may change are seen."""
    changed: set[Place] = set()
    aliases: Aliases | None = None
    for _, place in _changes(program):
        aliases = aliases or Aliases(program)
        changed |= {place, *aliases.places_with(place)}
    return frozenset(changed)


class _Context:
    """Where the nodes of a program are: in which piece and loop, and after which statements."""

    def __init__(self, program: Program) -> None:
        self.windows = _Windows(program.tree)
        self._pieces, self._loops = _pieces(program.tree.body, program), _outermost_loops(program)
        self.functions = {
            id(part): function for function in program.all(*FUNCTIONS_OF_PROGRAMS) for part in walk(function)
        }
        self._lines, self._pieces_of_loops = self._lines_and_loops(program)
        self._readers: dict[str, list[ast.Name]] = {}
        for node in program.all(ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._readers.setdefault(node.id, []).append(node)

    def _lines_and_loops(self, program: Program) -> tuple[dict[int | None, frozenset[int]], dict[int, set[int | None]]]:
        """Return the lines of each piece, and the pieces in each outermost loop, by the id of its nodes in `_loops`."""
        lines: dict[int | None, set[int]] = {}
        pieces: dict[int, set[int | None]] = {}
        for leaf in walk(program.tree):
            if isinstance(leaf, ast.stmt) and not list(inner_blocks(leaf)):
                piece = self._pieces.get(id(leaf))
                if piece is not None:
                    lines.setdefault(piece, set()).add(leaf.lineno)
                if (loop := self._loops.get(id(leaf))) is not None:
                    pieces.setdefault(id(loop), set()).add(piece)
        # The target of a loop is bound in the piece of the loop's body.
        for node in program.all(ast.For):
            lines.setdefault(self._pieces.get(id(node.body[0])), set()).add(node.lineno)
        return {piece: frozenset(of_piece) for piece, of_piece in lines.items()}, pieces

    def lines_of_piece(self, node: ast.AST) -> frozenset[int]:
        """Return the lines of the piece of a node; without those behind the node if a loop enters the piece again."""
        own = self._pieces.get(id(node))
        lines = self._lines.get(own, frozenset())
        is_repeated = bool(self._pieces_of_loops.get(id(self._loops.get(id(node))), set()) - {own})
        return frozenset(line for line in lines if line <= node.lineno) if is_repeated else lines  # type: ignore[attr-defined]

    def is_read_later(self, name: str, node: ast.AST, *, is_exact_here: bool) -> bool:
        """Return True if a name may be read after a node, also in a later iteration of a loop."""

        # Readers in the piece of the node do not count if the name shares the value exactly there.
        own, inside = self._pieces.get(id(node)), self._loops.get(id(node), frozenset())
        return any(
            (own is None or not is_exact_here or self._pieces.get(id(reader)) != own)
            and (reader.lineno > node.lineno or id(reader) in inside)  # type: ignore[attr-defined]
            for reader in self._readers.get(name, ())
        )


def _outermost_loops(program: Program) -> dict[int, frozenset[int]]:
    """Return for each node in a loop the nodes of the outermost loop around it."""
    loops: dict[int, frozenset[int]] = {}
    for node in sorted(program.all(ast.For, ast.While), key=lambda loop: loop.lineno):  # outer loops come first
        if id(node) not in loops:
            inside = frozenset(map(id, walk(node)))
            loops.update(dict.fromkeys(inside, inside))
    return loops


class _Position(NamedTuple):
    """A statement in a block: the node that has the block, the block, and the position of the statement."""

    owner: ast.AST
    block: Sequence[ast.stmt]
    position: int


class _Windows:
    """Since which line a name has held the value that it holds at a node."""

    def __init__(self, tree: ast.Module) -> None:
        self._paths: dict[int, tuple[_Position, ...]] = {}  # of each node, from the outermost block inwards
        self._visit(tree, tree.body, ())

    def _visit(self, owner: ast.AST, block: Sequence[ast.stmt], path: tuple[_Position, ...]) -> None:
        for index, statement in enumerate(block):
            here = (*path, _Position(owner, block, index))
            blocks = list(inner_blocks(statement))
            inner = {id(part) for block in blocks for part in block}
            stack: list[ast.AST] = [statement]
            while stack:
                node = stack.pop()
                self._paths[id(node)] = here
                stack += [part for part in parts_of(node) if id(part) not in inner]
            for part in blocks:
                self._visit(statement, part, here)

    def of(self, node: ast.AST, name: str) -> range | None:
        """Return the lines from the assignment that gave `name` its value up to the node; None if that is not
        certain."""

        # With a loop between them, earlier iterations count, too: the lines then reach to the end of the loop.
        last = int(getattr(node, "lineno", 1))
        for owner, block, index in reversed(self._paths.get(id(node), ())):
            for statement in reversed(block[:index]):
                if _assigns(statement, name):
                    return range(statement.lineno, last)
                if name in stored(statement):
                    return None
            if isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return None
            if isinstance(owner, ast.For) and name in stored(owner.target):
                return range(owner.lineno, last)
            if isinstance(owner, (ast.For, ast.While)):
                last = (owner.end_lineno or last) + 1
        return None


def _assigns(statement: ast.stmt, name: str) -> bool:
    """Return True if a statement gives a name a value in any case."""
    if isinstance(statement, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)
    return (
        isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.target.id == name
    )


def _changes(program: Program) -> Iterator[tuple[ast.AST, Place]]:
    """Yield each node that may change a value, and the place of that value."""
    for node in program.all(ast.Call, ast.Subscript, ast.Attribute, ast.AugAssign):
        place: Place | None = None
        if isinstance(node, ast.Call):
            changed = changed_argument(node)
            if isinstance(node.func, ast.Attribute) and node.func.attr in MUTATING:
                place = place_of(node.func.value)
            elif changed is not None:
                place = place_of(changed)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.value, (ast.List, ast.ListComp)) and isinstance(node.target, ast.Name):
                place = place_of(node.target)
        elif isinstance(node.ctx, (ast.Store, ast.Del)):
            place = place_of(node.value)
        if place is not None:
            yield node, place


def _pieces(body: Sequence[ast.stmt], program: Program) -> dict[int, int]:
    """Return the number of the piece that each node is in."""

    # Nodes outside of pieces are not listed.
    numbers: dict[int, int] = {}
    count = 0

    def visit(statements: Sequence[ast.stmt]) -> None:
        nonlocal count
        count += 1
        for statement in statements:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                visit(statement.body)
                count += 1
            elif program.is_pure(statement):
                numbers.update(dict.fromkeys(map(id, walk(statement)), count))
            elif isinstance(statement, ast.For) and all(map(program.is_pure, (*statement.body, *statement.orelse))):
                # Its list is computed before; the loop and what follows are one piece.
                count += 1
                for part in (*statement.body, *statement.orelse):
                    numbers.update(dict.fromkeys(map(id, walk(part)), count))
            else:
                for block in inner_blocks(statement):
                    visit(block)
                count += 1

    visit(body)
    return numbers


def _changes_after_return(program: Program) -> Iterator[PlanError]:
    """Yield values that a `try` returns and that its `finally` changes afterwards."""
    for node in program.all(ast.Try):
        if not node.finalbody:
            continue
        changed = mutations(node.finalbody)
        for part in walk((*node.body, *node.handlers, *node.orelse)):
            if isinstance(part, ast.Return) and part.value is not None:
                for name in sorted(names_read(part.value) & changed.keys()):
                    yield PlanError(part, f"{name} is returned here and changed by the finally; return list({name})")
