"""Loops of a written plan: one iteration after another, or all items at the same time with `asyncio.gather`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from ...expr.ast import Arr, Expr, Lit, Ref, refs
from ...ir import Graph, Node, nodes_of
from ...ops import Call, Loop, Map, Sleep, Wait
from .write_expressions import Typed, called, negated
from .write_state import written_channels
from .write_types import INT, UNKNOWN, Certain, of_value
from .write_values import Here, ValueWriter, channels_read, is_plain_call, variable


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
        has_effects = any(isinstance(inner.op, (Call, Sleep, Wait)) for inner in nodes_of(op.body))
        if has_effects and not writes and op.limit != 1 and not (op.select and name is None):
            return self._gathered(op, items, path, here, name)
        if not has_effects and not writes:
            return self._computed(op, items, path, here, name)
        values = name or (self.names.fresh("values") if op.select else None)
        source = self._named(items, "items") if op.select and values else items
        if values is not None:
            self.lines.add(f"{values} = []")
        with self._each(op.body, source, path, here, False) as inner:
            result = self.region(op.body, inner, f"{path}/result")
            if op.select and values is not None:
                assert inner.item is not None
                with self.lines.block(f"if {ast.unparse(self._holding(result))}:"):
                    self.lines.add(f"{values}.append({ast.unparse(inner.item.node)})")
            elif values is not None:
                self.lines.add(f"{values}.append({ast.unparse(result.node)})")
        return Certain(frozenset(("list",)), items=items.certain.items if op.select else result.certain)

    def _computed(self, op: Map, items: Typed, path: str, here: Here, name: str | None) -> Certain:
        """Write a loop without calls as a list comprehension."""
        inner = here.inside(path)
        item, index = self.names.fresh("item"), self.names.fresh("index")
        inner.item, inner.index = variable(item, items.certain.items or UNKNOWN), variable(index, INT)
        counts = "index" in op.body.roots
        parameters = f"{index}, {item}" if counts else item
        # Write a function first: only then is it known whether the body is a single expression.
        count, each = len(self.lines.lines), self.names.fresh(f"each_{path.rpartition('/')[2]}")
        with self.lines.block(f"def {each}({parameters}):"):
            result = self.region(op.body, inner, f"{path}/result")
            is_short = len(self.lines.lines) == count + 1
            self.lines.add(f"return {ast.unparse(result.node)}")
        value = result.node if is_short else ast.parse(f"{each}({parameters})", mode="eval").body
        if is_short:
            del self.lines.lines[count:]
        over = f"{parameters} in {f'enumerate({ast.unparse(items.node)})' if counts else ast.unparse(items.node)}"
        if op.select:
            test = self._holding(Typed(value, result.certain))
            text = f"[{item} for {over} if {ast.unparse(test)}]"
        else:
            text = f"[{ast.unparse(value)} for {over}]"
        self.lines.add(text if name is None else f"{name} = {text}")
        return Certain(frozenset(("list",)), items=items.certain.items if op.select else result.certain)

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

    def _gathered(self, op: Map, items: Typed, path: str, here: Here, name: str | None) -> Certain:
        """Write a loop whose iterations run at the same time."""
        inner = here.inside(path, in_function=True)
        item, index = self.names.fresh("item"), self.names.fresh("index")
        inner.item, inner.index = variable(item, items.certain.items or UNKNOWN), variable(index, INT)
        # The list is used twice, for the calls and for the selection, so compute it once.
        if op.select:
            items = self._named(items, "items")
        counts = "index" in op.body.roots
        body, only = op.body, op.body.nodes[0]
        # A list that is no longer than the limit needs no semaphore.
        slots = ""
        if op.limit is not None and not _is_short(op.items, op.limit):
            slots = self.names.fresh("slots")
            self.lines.add(f"{slots} = asyncio.Semaphore({op.limit})")
        certain = UNKNOWN
        # A body of one plain call needs no local function.
        if (
            is_plain_call(only)
            and only.writes is None
            and body == Graph(nodes=body.nodes, result=Ref("out", (only.id,)), ordered=body.ordered, limit=body.limit)
            and len(body.nodes) == 1
            and not slots
        ):
            self.refuse_unsupported(only, f"{path}/{only.id}")
            call = self.timed_call(only, f"{path}/{only.id}", inner)
        else:
            each = self.names.fresh(f"each_{path.rpartition('/')[2]}")
            with self.lines.block(f"async def {each}({f'{index}, ' if counts else ''}{item}):"):
                if slots:
                    with self.lines.block(f"async with {slots}:"):
                        certain = self._returned(body, inner, path)
                else:
                    certain = self._returned(body, inner, path)
            call = called(each, *([ast.Name(index)] if counts else []), ast.Name(item))
        head = f"{index}, {item} in enumerate({ast.unparse(items.node)})" if counts else ""
        calls = f"*[{ast.unparse(call)} for {head or f'{item} in {ast.unparse(items.node)}'}]"
        values = self.names.fresh("values") if op.select else name
        self.lines.add(f"{f'{values} = ' if values else ''}await asyncio.gather({calls})")
        if not op.select:
            return Certain(frozenset(("list",)), items=certain)
        value = self.names.fresh("value")
        test = ast.unparse(self._holding(variable(value, certain)))
        pairs = f"for {item}, {value} in zip({ast.unparse(items.node)}, {values}) if {test}"
        self.lines.add(f"{name} = [{item} {pairs}]")
        return Certain(frozenset(("list",)), items=items.certain.items)

    def _returned(self, body: Graph, inner: Here, path: str) -> Certain:
        value = self.region(body, inner, f"{path}/result")
        self.lines.add(f"return {ast.unparse(value.node)}")
        return value.certain

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
