"""Loops of a written plan: one iteration after another, or all items at the same time with `asyncio.gather`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from textwrap import dedent
from typing import Any

from ...expr.ast import Arr, Expr, Lit, refs
from ...ir import Graph, Node, nodes_of
from ...ops import Call, Loop, Map, Sleep, Wait
from .write_expressions import Typed, called, negated
from .write_state import written_channels
from .write_types import INT, UNKNOWN, Certain, of_value
from .write_values import Here, ValueWriter, channels_read, variable


class LoopWriter(ValueWriter):
    """Writes the loops of one flow."""

    def items(self, expr: Expr, path: str, here: Here, most: int | None) -> Typed:
        """Return the elements that a loop goes over: None counts as no elements."""
        value = self.expr(expr, f"{path}/items", here)
        if isinstance(expr, Lit) and expr.value is None:
            value = Typed(ast.List([], ast.Load()), of_value([]))
        elif not value.certain.is_a("list"):
            self.needed.add("items_of")
            value = Typed(called("items_of", value.node), Certain(frozenset(("list",)), items=value.certain.items))
        if most is None:
            return value
        limit = ast.Slice(None, ast.Constant(most))
        return Typed(ast.Subscript(value.node, limit, ast.Load()), value.certain)

    @contextmanager
    def _each(self, body: Graph, items: Typed, path: str, here: Here, more: bool) -> Iterator[Here]:
        """Write the head of a loop over items, and give the surroundings inside."""
        item, index = self.names.fresh("item"), self.names.fresh("index")
        inner = here.inside(path)
        inner.item, inner.index = variable(item, items.certain.items or UNKNOWN), variable(index, INT)
        inner.round = inner.index
        counts = more or bool(body.roots & {"index", "round"})
        head = f"{index}, {item} in enumerate({ast.unparse(items.node)})" if counts else ""
        with self.lines.block(f"for {head or f'{item} in {ast.unparse(items.node)}'}:"):
            yield inner

    def map_items(self, node: Node, op: Map, path: str, here: Here, name: str | None) -> Certain:
        """Write one run per item: at the same time with `gather`, or one after another."""
        items = self.items(op.items, path, here, op.most)
        writes = written_channels(node, inside=True)
        if writes & channels_read(op.body):
            message = "each item reads the state from before all items, which a plan's loop changes"
            self.refuse(path, message, decisive=True)
        certain = (self._in_turn if writes else self._mapped)(op, items, path, here, name)
        return Certain(frozenset(("list",)), items=items.certain.items if op.select else certain)

    def _in_turn(self, op: Map, items: Typed, path: str, here: Here, name: str | None) -> Certain:
        """Write a loop whose iterations set state."""
        values = name or (self.names.fresh("values") if op.select else None)
        if values is not None:
            items = self._named(items, "items") if op.select else items
            self.lines.add(f"{values} = []")
        with self._each(op.body, items, path, here, False) as inner:
            result = self.region(op.body, inner, f"{path}/result")
            if op.select and values is not None:
                assert inner.item is not None
                with self.lines.block(f"if {ast.unparse(self._holding(result))}:"):
                    self.lines.add(f"{values}.append({ast.unparse(inner.item.node)})")
            elif values is not None:
                self.lines.add(f"{values}.append({ast.unparse(result.node)})")
        return result.certain

    def _mapped(self, op: Map, items: Typed, path: str, here: Here, name: str | None) -> Certain:
        """Write a loop as a comprehension, or as one `gather`."""
        has_effects = any(isinstance(inner.op, (Call, Sleep, Wait)) for inner in nodes_of(op.body))
        is_gathered = has_effects and op.limit != 1
        # The list is used twice, for the calls and for the selection, so compute it once.
        items = self._named(items, "items") if op.select and is_gathered else items
        item, index = self.names.fresh("item"), self.names.fresh("index")
        inner = here.inside(path, in_function=True)
        inner.item, inner.index = variable(item, items.certain.items or UNKNOWN), variable(index, INT)
        # A list that is no longer than the limit needs no semaphore.
        slots = ""
        if is_gathered and op.limit is not None and not _is_short(op.items, op.limit):
            slots = self.names.fresh("slots")
            self.lines.add(f"{slots} = asyncio.Semaphore({op.limit})")
        counts, source = "index" in op.body.roots, ast.unparse(items.node)
        parameters = f"{index}, {item}" if counts else item
        over = f"{parameters} in {f'enumerate({source})' if counts else source}"
        each = self.names.fresh(f"each_{path.rpartition('/')[2]}")
        head = f"{'async ' if has_effects else ''}def {each}({parameters})"
        value, certain = self._item_value(op.body, head, slots, path, inner)
        if is_gathered:
            values = self.names.fresh("values") if op.select else name
            gathered = f"await asyncio.gather(*[{ast.unparse(value)} for {over}])"
            self.lines.add(f"{values} = {gathered}" if values else gathered)
            if not op.select:
                return certain
            chosen = self.names.fresh("value")
            value, over = ast.Name(chosen), f"{item}, {chosen} in zip({source}, {values})"
        elif has_effects:
            value = ast.Await(value)
        if op.select:
            over, value = f"{over} if {ast.unparse(self._holding(Typed(value, certain)))}", ast.Name(item)
        text = f"[{ast.unparse(value)} for {over}]"
        self.lines.add(text if name is None else f"{name} = {text}")
        return certain

    def _item_value(self, body: Graph, head: str, slots: str, path: str, inner: Here) -> tuple[ast.expr, Certain]:
        """Return the value of an item, or its coroutine: of a local function, unless one expression is enough."""
        count = len(self.lines.lines)
        with self.lines.block(f"{head}:"), self.lines.block(f"async with {slots}:") if slots else nullcontext():
            result = self.region(body, inner, f"{path}/result")
            self.lines.add(f"return {ast.unparse(result.node)}")
        function: Any = ast.parse(dedent("\n".join(self.lines.lines[count:]))).body[0]
        value: ast.expr = called(function.name, *(ast.Name(part.arg) for part in function.args.args))
        match function.body:
            case [ast.Return(value=ast.expr() as only)] if isinstance(function, ast.FunctionDef):
                value = only
            case [ast.Assign([ast.Name(id=name)], ast.Await(only)), ast.Return(ast.Name(id=returned))] if (
                name == returned
            ):
                value = only
            case _:
                return value, result.certain
        del self.lines.lines[count:]
        return value, result.certain

    def _holding(self, result: Typed) -> ast.expr:
        if result.certain.is_a("bool", "NoneType"):
            return result.node
        self.needed.add("holds")
        return called("holds", result.node)

    def _named(self, value: Typed, hint: str) -> Typed:
        """Return a value under a name, so that it is computed once."""
        if isinstance(value.node, ast.Name):
            return value
        name = self.names.fresh(hint)
        self.lines.set(name, value.node)
        return variable(name, value.certain)

    def loop(self, op: Loop, path: str, here: Here, name: str | None) -> Certain:
        """Write iterations one after another as `for`, which ends by `break`."""
        keeps = op.body.ordered and ("prev" in op.body.roots or self._reads_prev(op))
        if name is not None:
            initial = op.initial if not op.collect and op.initial is not None else None
            empty: ast.expr = ast.List([], ast.Load()) if op.collect else ast.Constant(None)
            if initial is not None:
                empty = self.expr(initial, f"{path}/initial", here).node
            self.lines.set(name, empty)
        # `$prev` is the value of the iteration before; the first iteration reads the initial value.
        last = self.names.fresh("last") if keeps else None
        if last is not None:
            first = here.prev if op.initial is None else self.expr(op.initial, f"{path}/initial", here)
            self.lines.set(last, first.node)
        body = op.body
        if op.items is not None:
            items = self.items(op.items, path, here, op.limit)
            opened = self._each(body, items, path, here, self._reads_count(op))
        else:
            opened = self._rounds(op, path, here)
        # `again` is tested before the nodes of an iteration run, so their names must exist before the loop.
        used = {str(ref.path[0]) for ref in (refs(op.again) if op.again is not None else ()) if ref.root == "out"}
        early = {node.id: self.names.fresh(node.id) for node in body.nodes if node.id in used}
        for name_before in early.values():
            self.lines.add(f"{name_before} = None")
        with opened as inner:
            if last is not None:
                inner.prev = variable(last, UNKNOWN)
            if op.again is not None:
                before = inner.inside()
                before.names |= {id: variable(name, UNKNOWN) for id, name in early.items()}
                self.lines.add(f"if {ast.unparse(negated(self.test(op.again, f'{path}.again', before)))}:")
                self.lines.add("    break")
            result = self.region(body, inner, f"{path}/result")
            self._after_round(op, path, inner, result, name, last)
            for id, name_before in early.items():
                self.lines.set(name_before, inner.names[id].node)
            # `until` is tested last, because it reads the values of this iteration.
            if op.until is not None:
                self.lines.add(f"if {ast.unparse(self.test(op.until, f'{path}.until', inner))}:")
                self.lines.add("    break")
        if op.collect:
            return Certain(frozenset(("list",)), items=result.certain)
        return UNKNOWN

    def _after_round(self, op: Loop, path: str, inner: Here, result: Typed, name: str | None, last: str | None) -> None:
        """Write what an iteration hands on: its value, to the list or as the last one."""
        if last is not None:
            self.lines.set(last, result.node)
            result = variable(last, result.certain)
        if name is not None:
            self.lines.add(
                f"{name}.append({ast.unparse(result.node)})" if op.collect else f"{name} = {ast.unparse(result.node)}"
            )
        elif self.writer(inner, path).may_fail(op.body.result):
            self.lines.set(None, result.node)

    @contextmanager
    def _rounds(self, op: Loop, path: str, here: Here) -> Iterator[Here]:
        inner = here.inside(path)
        count = self.names.fresh("round")
        inner.round = variable(count, INT)
        with self.lines.block(f"for {count} in range({op.limit}):"):
            yield inner

    @staticmethod
    def _reads_prev(op: Loop) -> bool:
        return any(ref.root == "prev" for part in (op.again, op.until) if part is not None for ref in refs(part))

    @staticmethod
    def _reads_count(op: Loop) -> bool:
        parts = [part for part in (op.again, op.until) if part is not None]
        return any(ref.root in ("index", "round") for part in parts for ref in refs(part))


def _is_short(items: Expr, limit: int) -> bool:
    """Return True if a list has no more elements than may run at the same time."""
    if isinstance(items, Lit):
        return items.value is None or (isinstance(items.value, list) and len(items.value) <= limit)
    return isinstance(items, Arr) and len(items.items) <= limit
