"""What a schema says of values that were not given: its `default`s.

Filled in are those of properties, and of the properties of objects and of elements of lists that are given, through
`$ref` and `allOf`. What stands under `anyOf`, `oneOf` or a condition may be meant for another value, and says nothing.
A property that is null is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from ..errors import Problem, UnsupportedSchema
from ..values import Json, fresh
from .pointer import at_pointer

_HOPS: Final = 16
_MOST: Final = 10_000  # values that one schema speaks of
_NOTHING: Final = frozenset[int]()


class Defaults:
    """What is said of one value: `own` where it is not given at all, else of what is in it."""

    __slots__ = ("inner", "items", "own", "parts")

    def __init__(self) -> None:
        self.parts: list[tuple[str, dict[str, Any]]] = []  # the schemas that hold for it, each with its place
        self.own: tuple[Json, str] | None = None  # and where it says so
        self.inner: dict[str, Defaults] = {}
        self.items: Defaults | None = None

    def fill(self, value: Json, inside: frozenset[int] = _NOTHING) -> Json:
        """The value with what is missing in it; only what changes is copied. `inside` are the defaults that are
        being filled in. Raises UnsupportedSchema for one that would be filled in inside itself, without end."""
        if type(value) is dict:
            found = value
            for name, inner in self.inner.items():
                if name in value:
                    got = inner.fill(value[name], inside)
                    if got is value[name]:
                        continue
                elif inner.own is not None:
                    if id(inner) in inside:
                        raise UnsupportedSchema(f"schema{inner.own[1]}: it is filled in inside itself, without end")
                    got = inner.fill(fresh(inner.own[0]), inside | {id(inner)})
                else:
                    continue
                if found is value:
                    found = value.copy()
                found[name] = got
            return found
        if type(value) is list and self.items is not None:
            items = [self.items.fill(item, inside) for item in value]
            return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
        return value

    def relaxed(self, root: dict[str, Any]) -> dict[str, Any]:
        """A copy of the root schema in which no property with a default is required."""
        free = {
            place: {name for name, inner in one.inner.items() if inner.own is not None}
            for one in self._all()
            for place, _ in one.parts
        }

        def copy(node: Json, place: str) -> Json:
            if type(node) is list:
                return [copy(item, f"{place}[{i}]") for i, item in enumerate(node)]
            if type(node) is not dict:
                return node
            made = {key: copy(inner, f"{place}{_segment(key)}") for key, inner in node.items()}
            left = free.get(place)
            if left and type(node.get("required")) is list:
                made["required"] = [name for name in node["required"] if name not in left]
            return made

        taken: dict[str, Any] = copy(root, "")
        return taken

    def misfits(self, problems: Callable[[Json, str], list[Problem]]) -> Iterator[tuple[str, str]]:
        """Each default that the relaxed root schema, whose `problems` these are, refuses at its place."""
        told = set()
        for one, way in self._ways():
            if one.own is None or one.own[1] in told:
                continue
            value, place = one.own
            told.add(place)
            try:
                one.fill(value, frozenset((id(one),)))
            except UnsupportedSchema as wrong:
                yield place, str(wrong).partition(": ")[2]
                continue
            for key in reversed(way):
                value = [value] if key is None else {key: value}
            at = "value" + "".join("[0]" if key is None else _segment(key) for key in way)
            for problem in problems(value, "value"):
                rest = problem.path.removeprefix(at)
                if problem.path.startswith(at) and rest[:1] in ("", ".", "["):
                    yield place + rest, problem.message

    def _all(self) -> list[Defaults]:
        return [one for one, _ in self._ways()]

    def _ways(self) -> list[tuple[Defaults, tuple[str | None, ...]]]:
        """Each of them once, with the shortest way to it: names of properties, None for an element."""
        found: list[tuple[Defaults, tuple[str | None, ...]]] = [(self, ())]
        seen = {id(self)}
        for one, way in found:
            steps: list[tuple[str | None, Defaults]] = list(one.inner.items())
            if one.items is not None:
                steps.append((None, one.items))
            for key, inner in steps:
                if id(inner) not in seen:
                    seen.add(id(inner))
                    found.append((inner, (*way, key)))
        return found


def defaults_of(root: dict[str, Any]) -> Defaults | None:
    """The defaults of a schema that compiles; None when it has none that could be filled in."""
    try:
        return _Reader(root).read()
    except RecursionError as error:
        raise UnsupportedSchema("schema: its references are nested too deep to look for defaults") from error


class _Reader:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[tuple[str, ...], Defaults] = {}  # by the places of the schemas that hold

    def read(self) -> Defaults | None:
        found = self._of([("", self._root)])
        self._prune()
        return found if found.own is not None or found.inner or found.items is not None else None

    def _of(self, nodes: list[tuple[str, Json]]) -> Defaults:
        """What the schemas say that hold for one value."""
        parts: dict[str, dict[str, Any]] = {}
        for place, node in nodes:
            self._gather(place, node, parts, 0)
        key = tuple(parts)
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= _MOST:
            raise UnsupportedSchema(f"schema: it speaks of more than {_MOST:,} values; defaults cannot be looked for")
        made = self._known[key] = Defaults()
        made.parts = list(parts.items())
        properties: dict[str, list[tuple[str, Json]]] = {}
        items: list[tuple[str, Json]] = []
        for place, node in made.parts:
            if "default" in node and made.own is None:
                made.own = node["default"], f"{place}.default"
            declared = node.get("properties")
            for name, inner in declared.items() if type(declared) is dict else ():
                properties.setdefault(name, []).append((f"{place}.properties{_segment(name)}", inner))
            if type(node.get("items")) is dict and "prefixItems" not in node:
                items.append((f"{place}.items", node["items"]))
        made.inner = {name: self._of(inner) for name, inner in properties.items()}
        made.items = self._of(items) if items else None
        return made

    def _gather(self, place: str, node: Json, parts: dict[str, dict[str, Any]], hops: int) -> None:
        """A schema and what holds beside it: what it refers to, and its `allOf`."""
        if type(node) is not dict or place in parts or hops > _HOPS:
            return
        parts[place] = node
        ref = node.get("$ref")
        if ref == "#":
            self._gather("", self._root, parts, hops + 1)
        elif type(ref) is str and ref.startswith("#/"):
            from urllib.parse import unquote

            pointer = unquote(ref[1:])
            way = "".join(_segment(part.replace("~1", "/").replace("~0", "~")) for part in pointer.split("/")[1:])
            self._gather(way, at_pointer(self._root, pointer), parts, hops + 1)
        for i, inner in enumerate(node["allOf"] if type(node.get("allOf")) is list else ()):
            self._gather(f"{place}.allOf[{i}]", inner, parts, hops + 1)

    def _prune(self) -> None:
        """Leave out what has no default anywhere in it."""
        useful = {id(one) for one in self._known.values() if one.own is not None}
        grown = True
        while grown:
            grown = False
            for one in self._known.values():
                inside = [*one.inner.values(), *([one.items] if one.items is not None else [])]
                if id(one) not in useful and any(id(inner) in useful for inner in inside):
                    useful.add(id(one))
                    grown = True
        for one in self._known.values():
            one.inner = {name: inner for name, inner in one.inner.items() if id(inner) in useful}
            if one.items is not None and id(one.items) not in useful:
                one.items = None


def _segment(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{name!r}]"
