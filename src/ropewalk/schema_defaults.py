"""Defaults in a JSON Schema: where they are, how they are filled in, and which of them are wrong.

Defaults of missing properties are filled in at any depth, through `$ref` and `allOf`. Those under `anyOf`, `oneOf` or
a condition are ignored, because they may belong to another alternative. A null property is not missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from .errors import Problem, UnsupportedSchema
from .values import Json, fresh

_MAX_HOPS: Final = 16
_MAX_VALUES: Final = 10_000  # places of values that one schema describes
_NO_DEFAULTS: Final = frozenset[int]()


def at_pointer(node: Json, pointer: str) -> Json:
    """Follow a JSON pointer (`/$defs/name`) in a schema."""
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isdecimal() and int(part) < len(node):
            node = node[int(part)]
        else:
            return True
    return node


class Defaults:
    """The defaults of one value and of the values inside it."""

    # `schemas`: The schemas that apply to the value, each with its place.
    # `default`: The default of the value itself, with its place; None without one.
    # `properties`: The defaults of its properties, by name.
    # `items`: The defaults of its elements.

    __slots__ = ("default", "items", "properties", "schemas")

    def __init__(self) -> None:
        self.schemas: list[tuple[str, dict[str, Any]]] = []
        self.default: tuple[Json, str] | None = None
        self.properties: dict[str, Defaults] = {}
        self.items: Defaults | None = None

    def fill(self, value: Json, ancestors: frozenset[int] = _NO_DEFAULTS) -> Json:
        """Fill in the defaults of a value; only parts that change are copied."""
        if type(value) is dict:
            filled = value
            for name, child in self.properties.items():
                if name in value:
                    member = child.fill(value[name], ancestors)
                    if member is value[name]:
                        continue
                elif child.default is not None:
                    # A default may itself lack properties with defaults, even its own.
                    if id(child) in ancestors:
                        raise UnsupportedSchema(f"schema{child.default[1]}: the default contains itself without end")
                    member = child.fill(fresh(child.default[0]), ancestors | {id(child)})
                else:
                    continue
                if filled is value:
                    filled = value.copy()
                filled[name] = member
            return filled
        if type(value) is list and self.items is not None:
            items = [self.items.fill(item, ancestors) for item in value]
            return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
        return value

    def relax_required(self, root: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of the root schema in which no property with a default is required."""
        optional_by_place = {
            place: {name for name, child in node.properties.items() if child.default is not None}
            for node in self._nodes()
            for place, _ in node.schemas
        }

        def copy(node: Json, place: str) -> Json:
            if type(node) is list:
                return [copy(item, f"{place}[{i}]") for i, item in enumerate(node)]
            if type(node) is not dict:
                return node
            relaxed = {key: copy(child, f"{place}{_step_text(key)}") for key, child in node.items()}
            optional = optional_by_place.get(place)
            if optional and type(node.get("required")) is list:
                relaxed["required"] = [name for name in node["required"] if name not in optional]
            return relaxed

        result: dict[str, Any] = copy(root, "")
        return result

    def errors(self, problems: Callable[[Json, str], list[Problem]]) -> Iterator[tuple[str, str]]:
        """Yield each default that its own schema refuses: its place and a message."""
        reported = set()
        for node, path in self._paths():
            if node.default is None or node.default[1] in reported:
                continue
            value, place = node.default
            reported.add(place)
            try:
                node.fill(value, frozenset((id(node),)))
            except UnsupportedSchema as error:
                yield place, str(error).partition(": ")[2]
                continue
            # Validate the default inside a minimal document, so that the whole schema applies to it.
            for key in reversed(path):
                value = [value] if key is None else {key: value}
            prefix = "value" + "".join("[0]" if key is None else _step_text(key) for key in path)
            for problem in problems(value, "value"):
                rest = problem.path.removeprefix(prefix)
                if problem.path.startswith(prefix) and rest[:1] in ("", ".", "["):
                    yield place + rest, problem.message

    def _nodes(self) -> list[Defaults]:
        return [node for node, _ in self._paths()]

    def _paths(self) -> list[tuple[Defaults, tuple[str | None, ...]]]:
        """Return each node once, with the shortest path to it: names of properties, and None for an element."""
        paths: list[tuple[Defaults, tuple[str | None, ...]]] = [(self, ())]
        seen_ids = {id(self)}
        for node, path in paths:
            steps: list[tuple[str | None, Defaults]] = list(node.properties.items())
            if node.items is not None:
                steps.append((None, node.items))
            for key, child in steps:
                if id(child) not in seen_ids:
                    seen_ids.add(id(child))
                    paths.append((child, (*path, key)))
        return paths


def defaults_of(root: dict[str, Any]) -> Defaults | None:
    """Read the defaults of a valid schema."""
    try:
        return _DefaultsReader(root).read()
    except RecursionError as error:
        raise UnsupportedSchema("schema: its references are nested too deep to look for defaults") from error


class _DefaultsReader:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._by_places: dict[tuple[str, ...], Defaults] = {}  # by the places of the schemas that apply

    def read(self) -> Defaults | None:
        defaults = self._defaults_for([("", self._root)])
        self._prune()
        return defaults if defaults.default is not None or defaults.properties or defaults.items is not None else None

    def _defaults_for(self, nodes: list[tuple[str, Json]]) -> Defaults:
        """Return the defaults of a value to which several schemas apply."""
        parts: dict[str, dict[str, Any]] = {}
        for place, node in nodes:
            self._collect_parts(place, node, parts, 0)
        key = tuple(parts)
        existing = self._by_places.get(key)
        if existing is not None:
            return existing
        if len(self._by_places) >= _MAX_VALUES:
            raise UnsupportedSchema(
                f"schema: it describes more than {_MAX_VALUES:,} places, too many to look for defaults"
            )

        # Enter the result before its parts: a recursive schema then refers to it.
        defaults = self._by_places[key] = Defaults()
        defaults.schemas = list(parts.items())
        properties: dict[str, list[tuple[str, Json]]] = {}
        items: list[tuple[str, Json]] = []
        for place, node in defaults.schemas:
            if "default" in node and defaults.default is None:
                defaults.default = node["default"], f"{place}.default"
            declared = node.get("properties")
            for name, inner in declared.items() if type(declared) is dict else ():
                properties.setdefault(name, []).append((f"{place}.properties{_step_text(name)}", inner))
            if type(node.get("items")) is dict and "prefixItems" not in node:
                items.append((f"{place}.items", node["items"]))
        defaults.properties = {name: self._defaults_for(inner) for name, inner in properties.items()}
        defaults.items = self._defaults_for(items) if items else None
        return defaults

    def _collect_parts(self, place: str, node: Json, parts: dict[str, dict[str, Any]], hops: int) -> None:
        """Collect a schema and those that apply to the same value: the target of its `$ref`, and its `allOf`."""
        if type(node) is not dict or place in parts or hops > _MAX_HOPS:
            return
        parts[place] = node
        ref = node.get("$ref")
        if ref == "#":
            self._collect_parts("", self._root, parts, hops + 1)
        elif type(ref) is str and ref.startswith("#/"):
            from urllib.parse import unquote

            pointer = unquote(ref[1:])
            target_place = "".join(
                _step_text(part.replace("~1", "/").replace("~0", "~")) for part in pointer.split("/")[1:]
            )
            self._collect_parts(target_place, at_pointer(self._root, pointer), parts, hops + 1)
        for i, inner in enumerate(node["allOf"] if type(node.get("allOf")) is list else ()):
            self._collect_parts(f"{place}.allOf[{i}]", inner, parts, hops + 1)

    def _prune(self) -> None:
        """Remove nodes without any default inside."""
        useful = {id(node) for node in self._by_places.values() if node.default is not None}
        changed = True
        while changed:
            changed = False
            for node in self._by_places.values():
                children = [*node.properties.values(), *([node.items] if node.items is not None else [])]
                if id(node) not in useful and any(id(child) in useful for child in children):
                    useful.add(id(node))
                    changed = True
        for node in self._by_places.values():
            node.properties = {name: child for name, child in node.properties.items() if id(child) in useful}
            if node.items is not None and id(node.items) not in useful:
                node.items = None


def _step_text(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{name!r}]"
