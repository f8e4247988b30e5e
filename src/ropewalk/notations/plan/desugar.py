"""Rewrite effects inside expressions as statements before them.

`f(xs.pop()) + await g()` becomes names for what stands left of the call, then the call, then the sum: Python's order of
evaluation stays. The result is a statement whose expressions have no effect, or are one effect with pure arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from .facts import derived
from .program import KNOWN, PlanError, Program
from .syntax import Rename, assign, at, load, store, stored


class Hoister:
    """Takes effects out of expressions."""

    def __init__(self, program: Program, before: list[ast.stmt]) -> None:
        self.program, self.before = program, before

    def pure(self, node: ast.expr) -> ast.expr:
        """Return an expression without effect that is equal once the statements before have run."""
        if not self.program.has_effect(node):
            return node
        if is_effect(self.program, node):
            return self._named(node)
        if isinstance(node, ast.Name):
            raise PlanError(node, f"{node.id} holds a call that is not awaited here; write await {node.id}")
        # `len(tasks)` counts calls without awaiting them, so they stay where they are awaited.
        count = self._count_of_kept(node)
        if count is not None:
            return count
        # A recorded random number makes the choice, so that a replay chooses the same.
        choice = self.program.choice_by_chance(node)
        if choice is not None:
            assert isinstance(node, ast.Call)
            number = ast.Call(load(self.program.chance), [], [])
            return self.pure(at(ast.Call(load(f"{choice}·"), [number, *node.args], node.keywords), node))
        hoist = _HOISTS.get(type(node))
        if hoist is not None:
            pure: ast.expr = hoist(self, node)
            return pure
        if self.program.is_coroutine(node):
            raise PlanError(node, f"{ast.unparse(node)[:60]} is never awaited; write await before it")
        return self._children(node)

    def _count_of_kept(self, node: ast.expr) -> ast.expr | None:
        """Return how many calls `len(tasks)` counts, where the name holds calls that are awaited elsewhere."""
        if not isinstance(node, ast.Call) or self.program.path(node.func) != "len" or len(node.args) != 1:
            return None
        held = self.program.kept.get(node.args[0].id) if isinstance(node.args[0], ast.Name) else None
        if isinstance(held, ast.List):
            return at(ast.Constant(len(held.elts)), node)
        if isinstance(held, ast.ListComp) and len(held.generators) == 1 and not held.generators[0].ifs:
            return derived(node, args=[held.generators[0].iter])
        return None

    def _named(self, node: ast.expr) -> ast.expr:
        name = self.program.fresh("t")
        if isinstance(node, ast.FormattedValue):  # a part of an f-string is its text at this moment
            self.before.append(assign(name, at(ast.JoinedStr([node]), node), node))
            return at(ast.FormattedValue(load(name), -1, None), node)
        self.before.append(assign(name, node, node))
        return at(load(name), node)

    def conditional(self, node: ast.IfExp) -> ast.expr:
        """`await f() if test else y` becomes an `if` statement."""
        name = self.program.fresh("t")
        then, otherwise = assign(name, node.body, node.body), assign(name, node.orelse, node.orelse)
        self.before.append(at(ast.If(node.test, [then], [otherwise]), node))
        return at(load(name), node)

    def logical(self, node: ast.BoolOp) -> ast.expr:
        """`a and await b` becomes `if` statements, so that the second call is made only where Python makes it."""
        name = self.program.fresh("t")
        rows: list[ast.stmt] = [assign(name, node.values[-1], node.values[-1])]
        for value in reversed(node.values[:-1]):
            test: ast.expr = load(name)
            if isinstance(node.op, ast.Or):
                test = ast.UnaryOp(ast.Not(), test)
            rows = [assign(name, value, value), at(ast.If(test, rows, []), node)]
        self.before += rows
        return at(load(name), node)

    def walrus(self, node: ast.NamedExpr) -> ast.expr:
        """`(x := await f())` becomes an assignment before."""
        self.before.append(at(ast.Assign([store(node.target.id)], node.value), node))
        return at(load(node.target.id), node)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp) -> ast.expr:
        """A comprehension with an effect becomes loops that fill a list, set or dict."""
        program = self.program
        items, count = program.fresh("items"), program.fresh("c")
        own = {name: f"{count}_{name}" for part in node.generators for name in stored(part.target)}
        program.names |= set(own.values())
        # The first iterable belongs to the scope outside.
        first = node.generators[0].iter
        leaf, generators = _renamed_parts(node, own)
        if isinstance(node, ast.DictComp):
            body: list[ast.stmt] = [at(ast.Assign([ast.Subscript(load(items), leaf[0], ast.Store())], leaf[1]), node)]
            empty: ast.expr = ast.Dict([], [])
        else:
            is_list = isinstance(node, ast.ListComp)
            add = ast.Attribute(load(items), "append" if is_list else "add", ast.Load())
            body = [at(ast.Expr(ast.Call(add, [leaf[0]], [])), node)]
            empty = ast.List([], ast.Load()) if is_list else ast.Call(load("set"), [], [])
        for index, part in reversed(list(enumerate(generators))):
            if part.is_async:
                raise PlanError(part.target, "async for over a list, which Python refuses; write for")
            for test in reversed(part.ifs):
                body = [at(ast.If(test, body, []), node)]
            source = first if index == 0 else part.iter
            body = [at(ast.For(part.target, source, body, []), node)]
        self.before += [assign(items, empty, node), *body]
        return at(load(items), node)

    def generator(self, node: ast.GeneratorExp) -> ast.expr:
        """A generator whose first iterable has an effect keeps the rest."""
        parts = node.generators
        inner: list[ast.expr] = [
            node.elt,
            *(test for part in parts for test in part.ifs),
            *(part.iter for part in parts[1:]),
        ]
        if any(self.program.has_effect(part) for part in inner):
            raise PlanError(node, "await in a generator expression; write a list: [...]")
        first = derived(parts[0], iter=self.pure(parts[0].iter))
        return derived(node, generators=[first, *parts[1:]])

    def refuse_lambda(self, node: ast.Lambda) -> ast.expr:
        """Refuse a call of a tool inside a lambda."""
        raise PlanError(node, "a lambda cannot call a tool; write an async def")

    def _children(self, node: Any) -> ast.expr:
        """Take the effects out of the parts of an expression, and what is evaluated before them, in Python's order."""
        node, parts = _with_own_parts(node)
        last = max(index for index, part in enumerate(parts) if self.program.has_effect(part.get()))
        for index, part in enumerate(parts[: last + 1]):
            value = part.get()
            if isinstance(value, ast.Starred):
                part.set(derived(value, value=self.pure(value.value)))
            elif self.program.has_effect(value):
                part.set(self.pure(value))
            elif not self._is_stable(value, [other.get() for other in parts[index + 1 :]]):
                part.set(self._named(value))
        return node  # type: ignore[no-any-return]

    def _is_stable(self, node: ast.expr, later: Sequence[ast.expr]) -> bool:
        """Return True if an expression has the same value before and after what follows it."""
        if isinstance(node, (ast.Constant, ast.Lambda, ast.Slice)):
            return True
        if not isinstance(node, ast.Name):
            return False
        if node.id in KNOWN or node.id in self.program.functions or node.id in self.program.imports:
            return True
        # A change of the value is seen through the name, as in Python; only another value is not.
        return node.id not in stored(self.before).union(*(stored(part) for part in later))


_HOISTS: dict[type[ast.AST], Any] = {
    ast.IfExp: Hoister.conditional,
    ast.BoolOp: Hoister.logical,
    ast.NamedExpr: Hoister.walrus,
    ast.ListComp: Hoister.comprehension,
    ast.SetComp: Hoister.comprehension,
    ast.DictComp: Hoister.comprehension,
    ast.GeneratorExp: Hoister.generator,
    ast.Lambda: Hoister.refuse_lambda,
}


def is_effect(program: Program, node: ast.AST) -> bool:
    """Return True for an expression that is one effect: an await, a world call, or a function that reads the world."""
    if isinstance(node, ast.Await) or program.world_call(node) is not None:
        return True
    if not isinstance(node, ast.Call):
        return False
    if program.path(node.func) in ("asyncio.run", "approve", "wait_for"):
        return True
    return isinstance(node.func, ast.Name) and program.reads_world(node.func.id)


def _renamed_parts(node: Any, names: dict[str, str]) -> tuple[list[ast.expr], list[ast.comprehension]]:
    """Return the element (or key and value) and the clauses of a comprehension with its own names renamed."""
    rename = Rename(names)
    leaf = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    first = derived(node.generators[0], iter=ast.copy_location(ast.Constant(None), node.generators[0].iter))
    generators = [rename.renamed(part) for part in (first, *node.generators[1:])]
    return [rename.renamed(part) for part in leaf], generators


class _Part:
    """A part of an expression that can be replaced."""

    def __init__(self, holder: Any, key: Any) -> None:
        self.holder, self.key = holder, key

    def get(self) -> ast.expr:
        value: ast.expr = (
            self.holder[self.key] if isinstance(self.holder, list) else getattr(self.holder, str(self.key))
        )
        return value

    def set(self, node: ast.expr) -> None:
        if isinstance(self.holder, list):
            self.holder[self.key] = node
        else:
            setattr(self.holder, str(self.key), node)


def _with_own_parts(node: ast.expr) -> tuple[ast.expr, list[_Part]]:
    """Return a copy of an expression, and its parts in the order in which Python evaluates them."""

    # The parts of the copy can be replaced while the expression itself stays as it is.
    node = derived(node)
    fields = node.__dict__
    parts: list[_Part] = []
    for field in node._fields:
        value = fields.get(field)
        if isinstance(node, ast.Call) and field == "func":
            # What a call names is no value; the object of a method is.
            if isinstance(value, ast.Attribute):
                fields[field] = value = derived(value)
                parts.append(_Part(value, "value"))
        elif isinstance(value, ast.expr):
            parts.append(_Part(node, field))
        elif isinstance(value, list):
            fields[field] = value = [derived(part) if isinstance(part, ast.keyword) else part for part in value]
            parts += [
                _Part(part, "value") if isinstance(part, ast.keyword) else _Part(value, index)
                for index, part in enumerate(value)
                if isinstance(part, (ast.expr, ast.keyword))
            ]
    if isinstance(node, ast.Dict):  # each key before its value
        keys = {part.key: part for part in parts if part.holder is node.keys}
        values = [part for part in parts if part.holder is node.values]
        parts = [part for value in values for part in (keys.get(value.key), value) if part is not None]
    return node, parts


def hoist_statement(program: Program, node: ast.stmt, field: str) -> list[ast.stmt]:
    """Return the statements before, and the statement without an effect in the expression `field`."""
    before: list[ast.stmt] = []
    hoister = Hoister(program, before)
    if isinstance(node, ast.AugAssign):
        return _augmented(program, node, hoister)
    changes: dict[str, Any] = {field: hoister.pure(getattr(node, field))}
    if isinstance(node, ast.Assign):
        changes["targets"] = [_pure_target(hoister, target) for target in node.targets]
    return [*before, derived(node, **changes)]


def _augmented(program: Program, node: ast.AugAssign, hoister: Hoister) -> list[ast.stmt]:
    """`x += await f()` reads the old x before the call, as Python does."""
    before = hoister.before
    if isinstance(node.target, ast.Name):
        old = program.fresh("old")
        before.append(assign(old, load(node.target.id), node))
        value = hoister.pure(node.value)
        # `+=` on a list changes it in place, so the operation stays an augmented one on the old value.
        return [*before, at(ast.AugAssign(store(old), node.op, value), node), assign(node.target.id, load(old), node)]
    target = _pure_target(hoister, node.target)
    key = program.fresh("old")
    before.append(assign(key, derived(target, ctx=ast.Load()), node))
    value = hoister.pure(node.value)
    return [*before, at(ast.AugAssign(store(key), node.op, value), node), at(ast.Assign([target], load(key)), node)]


def _pure_target(hoister: Hoister, target: ast.expr) -> ast.expr:
    """Return a target whose key has no effect; the key is evaluated once."""
    if not isinstance(target, ast.Subscript):
        return target
    if hoister.program.has_effect(target.slice) or not isinstance(target.slice, (ast.Constant, ast.Name)):
        name = hoister.program.fresh("key")
        hoister.before.append(assign(name, hoister.pure(target.slice), target))
        return derived(target, slice=at(load(name), target))
    return target
