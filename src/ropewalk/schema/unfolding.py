"""How far the references of a schema unfold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ..errors import UnsupportedSchema
from .pointer import at_pointer

_UNFOLDED: Final = 50_000
_IN_PLACE_ONE: Final = ("not", "if", "then", "else")
_IN_PLACE_MANY: Final = ("allOf", "anyOf", "oneOf")


class Unfolding:
    """How many schemas one value is tried against: references can double that at every step."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._nodes: list[dict[str, Any]] = []
        self._bases: dict[int, str] = {}
        self._targets: dict[str, Any] = {"": root}
        self._sizes: dict[int, int] = {}
        stack: list[tuple[Any, str]] = [(root, "")]
        while stack:
            node, base = stack.pop()
            if isinstance(node, list):
                stack.extend((item, base) for item in node)
            elif isinstance(node, dict):
                base = self._enter(node, base)
                stack.extend((item, base) for item in node.values())

    def _enter(self, node: dict[str, Any], base: str) -> str:
        named = node.get("$id")
        if isinstance(named, str):
            from urllib.parse import urljoin

            base = urljoin(base, named).rstrip("#")
            self._targets[base] = node
        for anchor in (node.get("$anchor"), node.get("$dynamicAnchor")):
            if isinstance(anchor, str):
                self._targets[f"{base}#{anchor}"] = node
        self._bases[id(node)] = base
        self._nodes.append(node)
        return base

    def check(self) -> None:
        try:
            most = max(map(self._size, self._nodes))
        except RecursionError as error:
            raise UnsupportedSchema("schema: its chain of references is too long") from error
        if most > _UNFOLDED:
            raise UnsupportedSchema(f"schema: its references unfold to more than {_UNFOLDED:,} schemas for one value")

    def _size(self, node: Any) -> int:
        """Schemas tried on the same value as `node`, itself included; a cycle counts once."""
        if not isinstance(node, dict):
            return 1
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        self._sizes[id(node)] = 1
        total = 1 + sum(map(self._size, self._beside(node)))
        self._sizes[id(node)] = min(total, _UNFOLDED + 1)
        return total

    def _beside(self, node: dict[str, Any]) -> Iterator[Any]:
        for key in _IN_PLACE_ONE:
            if key in node:
                yield node[key]
        for key in _IN_PLACE_MANY:
            if isinstance(node.get(key), list):
                yield from node[key]
        for key in ("dependentSchemas", "dependencies"):
            if isinstance(node.get(key), dict):
                yield from node[key].values()
        for key in ("$ref", "$dynamicRef"):
            if isinstance(node.get(key), str):
                yield self._target(node[key], self._bases[id(node)])

    def _target(self, ref: str, base: str) -> Any:
        """What a reference names; True (any value) where the native code will complain anyway."""
        from urllib.parse import unquote, urljoin

        full = ref if not base else urljoin(base, ref)
        if full in self._targets:
            return self._targets[full]
        document, _, pointer = full.partition("#")
        return at_pointer(self._targets.get(document, True), unquote(pointer))
