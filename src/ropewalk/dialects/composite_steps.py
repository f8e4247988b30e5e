"""The steps of a composite as nodes, and what `$input`, `$prev` and `$steps` mean in them.

A string that begins with `$` and is no reference to one of these, or to a step that stands before,
is *unresolved*: the text itself and a warning or, when strict, a problem. Either has the keyword
`unresolved`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ..errors import ExpressionError, Problem
from ..errors.collected import Warnings
from ..expr import lift
from ..expr.ast import Arr, Expr, Lit, Obj, Ref, rebind
from ..frozen import dataclass
from ..ir import Meta, Node
from ..ops import Call
from ..values import Json
from . import fields as f
from .fields import Checker, Report, join, known_keys, say

ROOTS: Final = frozenset(("input", "prev", "steps"))
LABELS: Final = {"args": "inputMapping", "when": "condition", "tool": "tool"}
FIELDS: Final[dict[str, Checker]] = {
    "name": f.text,
    "tool": f.anything,  # which `spec_problems` looks at
    "inputMapping": f.anything,
    "condition": f.condition,
    "description": f.text,
}
_AS_TEXT: Final = ('Unresolved reference "', '" treated as literal')
"""What `lift` says of a string that it takes as it is."""
_NO_ID: Final = re.compile(r"[/\[\]@\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Steps:
    """The nodes, and the document of each, at the same positions."""

    nodes: list[Node]
    documents: list[dict[str, Json]]


class Unresolved(Exception):
    """A reference here means nothing."""


class StepReader:
    """Reads the steps of one composite into `steps`; what is wrong is added to `report`, what is
    doubtful to `warnings`."""

    def __init__(self, strict: bool, report: Report) -> None:
        self.strict, self.report = strict, report
        self.warnings: Report = Warnings()
        self.steps = Steps([], [])
        self._ids: set[str] = set()
        self._counts: dict[str, int] = {}

    def read(self, steps: Sequence[Json]) -> None:
        for i, step in enumerate(steps):
            self._step(step, f"steps[{i}]")

    def _step(self, step: Json, path: str) -> None:
        given = known_keys(step, FIELDS, path, self.report) if isinstance(step, Mapping) else {}
        given = {key: value for key, value in given.items() if value is not None}
        for key, value in given.items():
            given[key] = FIELDS[key](value, join(path, key), self.report)
        tool = str(given.get("tool", ""))
        document = {"name": str(given.get("name") or tool), "tool": tool, "inputMapping": {}, **given}
        mapping, condition = document["inputMapping"], given.get("condition")
        args = self._args(mapping, join(path, "inputMapping"))
        node = Node(
            id=self._id(document["name"]),
            op=Call(tool=tool, args=args),
            when=self._condition(condition, join(path, "condition")) if condition is not None else None,
            meta=Meta(source=path, labels=LABELS, description=str(given.get("description", ""))),
        )
        self.steps.nodes.append(node)
        self.steps.documents.append(document)

    def _id(self, name: str) -> str:
        """The name as the id of a node: other steps may have the same name, and any character may be in it."""
        wanted = _NO_ID.sub("_", name).strip() or "step"
        id, count = wanted, self._counts.get(wanted, 1)
        while id in self._ids:
            count += 1
            id = f"{wanted}~{count}"
        self._counts[wanted] = count  # the same name is counted on, not from the beginning
        self._ids.add(id)
        return id

    # --- values and conditions --------------------------------------------------------------------

    def _args(self, mapping: Json, path: str) -> Expr:
        text = isinstance(mapping, str)
        if not isinstance(mapping, dict) and not text:
            say(self.report, path, f"must be an object, not {f.kind(mapping)}")
            return Lit({})
        before = len(self.report)
        found = self._value(mapping, path)
        if text and isinstance(found, Lit) and len(self.report) == before:
            say(self.report, path, "must be an object or a reference to one, not a string")
        return found

    def _value(self, value: Json, path: str) -> Expr:
        told: Report = []
        found = self._bound(value, lift(value, ROOTS, unknown="literal", path=path, problems=told), path, told)
        for problem in told:
            if problem.keyword != "unresolved":
                self.report.append(problem)
            elif self.strict:
                text = problem.message.removeprefix(_AS_TEXT[0]).removesuffix(_AS_TEXT[1])
                self.report.append(unresolved(problem.path, text, problem.suggestion))
            else:
                self.warnings.append(problem)
        return found

    def _bound(self, value: Json, found: Expr, path: str, told: Report) -> Expr:
        """The tree of `value` with its references to steps bound; a string in which one is unresolved
        is itself."""
        if type(value) is dict and isinstance(found, Obj):
            fields = zip(value.items(), found.fields, strict=True)
            return Obj(tuple((k, self._bound(item, tree, f"{path}.{k}", told)) for (k, item), (_, tree) in fields))
        if type(value) is list and isinstance(found, Arr):
            items = zip(value, found.items, strict=True)
            return Arr(tuple(self._bound(item, tree, f"{path}[{i}]", told) for i, (item, tree) in enumerate(items)))
        if isinstance(found, Lit):
            return found
        try:
            return rebind(found, self._bind)
        except Unresolved:
            message = str(value).join(_AS_TEXT)
            told.append(Problem(path=path, message=message, keyword="unresolved"))
            return Lit(value)

    def _bind(self, ref: Ref) -> Expr:
        if ref.root not in ROOTS:
            raise Unresolved
        if ref.root != "steps":
            return ref
        documents, nodes = self.steps.documents, self.steps.nodes
        head = ref.path[0] if ref.path else None
        at = head if isinstance(head, int) else next(
            (i for i in reversed(range(len(documents))) if documents[i]["name"] == head), len(nodes))  # fmt: skip
        if head is None or at >= len(nodes):
            raise Unresolved
        return Ref("out", (nodes[at].id, *ref.path[1:]), elide=True, column=ref.column, said=ref)

    def _condition(self, text: Json, path: str) -> Expr | None:
        if isinstance(text, bool):
            return Lit(text)
        if not isinstance(text, str) or not text.strip():
            return None  # which has been reported
        from ..expr import parse

        try:
            return rebind(parse(text), self._bind)
        except ExpressionError as exc:
            if exc.message.startswith("unknown reference"):
                self.report.append(unresolved(path, text, exc.suggestion))
            else:
                self.report.append(
                    Problem(path=path, message=exc.message, column=exc.at + 1, suggestion=exc.suggestion)
                )
        except Unresolved:
            # A condition is no text: what is unresolved in it is wrong in any case.
            self.report.append(unresolved(path, text))
        return None


def unresolved(path: str, text: str, suggestion: str | None = None) -> Problem:
    """An expression that means nothing, where that is wrong."""
    message = f'Unresolved reference expression: "{text}". Available: $input, $prev, $steps[N]'
    return Problem(path=path, message=message, suggestion=suggestion, keyword="unresolved")
