"""What a caller may leave out of the input: neither required nor with a default, it is null then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ..expr.ast import Expr, Path, refs
from ..ir import Flow, Graph, Node, bodies, parts
from ..ops import Branch
from ..schema import compile_schema
from ..schema.defaults import Defaults
from .schemas import resolve

# Any of these may say that a property must be there which is not listed under `required`.
_CLOUDED: Final = frozenset(("allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependentRequired", "dependencies"))


class Absence:
    """What is known of the input of one flow."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._asked: set[Path] | None = None
        self._known: dict[Path, str | None] = {}

    def of(self, path: Path) -> str | None:
        """The name on the way that may be missing; None when none may, when it is not certain that it may, and
        when some condition of the flow looks at it first."""
        if path not in self._known:
            self._known[path] = self._of(path)
        return self._known[path]

    def _of(self, path: Path) -> str | None:
        root = self.flow.input_schema
        node: Any = root
        known: Defaults | None = compile_schema(root).defaults
        for i, key in enumerate(path):
            node = resolve(root, node)
            if type(node) is not dict or not _CLOUDED.isdisjoint(node):
                return None
            declared = node.get("properties")
            if type(declared) is not dict or key not in declared:
                return None
            known = known.inner.get(str(key)) if known is not None else None
            if key not in node.get("required", ()) and (known is None or known.own is None):
                return None if path[: i + 1] in self._looked_at() else str(key)
            node = declared[key]
        return None

    def _looked_at(self) -> set[Path]:
        """The parts of the input that conditions read, and what these are in."""
        if self._asked is None:
            read = [ref.path for expr in _conditions(self.flow.body) for ref in refs(expr) if ref.root == "input"]
            self._asked = {path[:i] for path in read for i in range(len(path) + 1)}
        return self._asked


def _conditions(body: Graph) -> Iterator[Expr]:
    stack: list[Node] = list(body.nodes)
    while stack:
        node = stack.pop()
        yield from (expr for expr in (node.gate, node.when) if expr is not None)
        if type(node.op) is Branch:
            yield from (part for _, part in parts(node.op) if not isinstance(part, Graph))
        for inner in bodies(node):
            stack.extend(inner.nodes)
