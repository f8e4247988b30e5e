"""The registry of notations. A notation is a kind, a test of shape, and a pure function from document to Flow.

To add one, write a file here with `fits(document)` and `compile_document(document)`, and add it to
NOTATIONS. A document names its notation with `kind:`; without it, its shape decides. A notation that
flows can be converted to also has `write(flow)`. A file is imported when the first document of its kind
is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from os.path import basename
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..check import check
from ..errors import InvalidFlow, NodeFailed, NotFound, Problem, failure_data, retry_data
from ..fast_dataclass import dataclass
from ..ir import Flow
from ..ops import Program
from ..values import Json, did_you_mean
from .project import PLAIN, Hooks

if TYPE_CHECKING:
    from ..check.inference import Source


Schemas: TypeAlias = Callable[[str], Json]
"""Returns the schema of what a tool gives; None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A compiled document."""

    kind: str
    # The id of the definition.
    id: str
    # The name of the definition.
    name: str
    # The document in its normal form, with defaults.
    document: dict[str, Json]
    flow: Flow
    # Warnings that the graph does not show.
    warnings: tuple[Problem, ...]
    # Writes an ending of the engine (`engine.run.Ending`) as a result of the notation.
    render: Callable[[Any], dict[str, Json]]
    # A namespace under which it is also found as a tool, besides its plain name.
    namespace: str | None = None
    # True if its tools may be files next to the document.
    local: bool = False
    # The environment variables that those tools get.
    env: tuple[str, ...] = ()
    # The path of the key that limits concurrent nodes.
    at_once: tuple[str, ...] = ("concurrency",)
    # The place of the declared type of the result.
    typed_at: str = "result"
    # The part of the ending that is the run's value (`Notation.value`).
    value_from: Source = "result"
    # The JSON Schema of that value, if the notation knows more than the graph.
    output_schema: Json = None


@dataclass(frozen=True, slots=True)
class Notation:
    """A kind of document, the module that reads it, and the field of a run's result that is the run's value."""

    # Every caller gets that value: as the result of a tool made from the document, as `Outcome.result`, as the content
    # of an MCP answer. Stored results keep the notation's own field names, so the same field reads runs of any version.

    kind: str
    file: str
    value: str
    # The file with the hooks of a notation whose documents need their project.
    hooks_file: str | None = None
    # The names of files whose documents are of this notation without saying it.
    file_names: tuple[str, ...] = ()
    # False for documents that are still read, but that nobody should write by hand any more.
    is_listed: bool = True

    @property
    def hooks(self) -> Hooks:
        """The hooks of documents that need their project."""
        if self.hooks_file is None:
            return PLAIN
        return import_module(f".{self.hooks_file}", __package__).HOOKS  # type: ignore[no-any-return]

    @property
    def fits(self) -> Callable[[Mapping[str, Json]], bool]:
        """Return the function that tells if a document without `kind` has the shape of this notation."""
        return self._attribute("fits")  # type: ignore[no-any-return]

    @property
    def compile(self) -> Callable[[Mapping[str, Json]], Compiled]:
        """Return the function that reads a document, or raises InvalidFlow with every problem."""
        return self._attribute("compile_document")  # type: ignore[no-any-return]

    @property
    def write(self) -> Callable[..., dict[str, Json]] | None:
        """Return the function that writes a flow as a document, None if the notation has none."""

        # It raises InvalidFlow with everything that the document cannot hold, or adds that to the list `losses`.
        return self._attribute("write")  # type: ignore[no-any-return]

    def _attribute(self, name: str) -> Any:
        return getattr(import_module(f".{self.file}", __package__), name, None)


_EXPERIENCE_FILES: Final = ("experience.yaml", "experience.yml", "experience.json")
NOTATIONS: Final[dict[str, Notation]] = {
    notation.kind: notation
    for notation in (  # the broadest shape first
        Notation("agent", "agent", value="result", hooks_file="agent"),
        Notation("chain", "chain.render", value="results"),
        Notation("composite", "composite", value="result"),
        Notation("composition", "composition.render", value="data"),
        Notation("experience", "experience.render", "finalState", "experience.project", _EXPERIENCE_FILES),
        Notation("flow", "flow", value="result", is_listed=False),
        Notation("plan", "plan.render", value="result", hooks_file="plan.project"),
        Notation("runchain", "runchain", value="result", is_listed=False),
    )
}
LISTED: Final = tuple(kind for kind, notation in NOTATIONS.items() if notation.is_listed)
"""The kinds that messages offer."""


def value_in(result: Mapping[str, Json], kind: str) -> Json:
    """Return the value in the result of a run."""
    notation = NOTATIONS.get(kind)
    return None if notation is None else result.get("result", result.get(notation.value))


def kind_of_file(file: str) -> str | None:
    """Return the notation of the document in a file, if the name of the file tells."""
    name = basename(file)
    return next((notation.kind for notation in NOTATIONS.values() if name in notation.file_names), None)


TEST: Final = "test"


def is_test(document: Json) -> bool:
    """Return True if a document is a recorded test (`testing/recording.py`), which is not a flow."""
    return isinstance(document, Mapping) and document.get("kind") == TEST


def notation_of(document: Json) -> Notation:
    """Return the notation of a document: the one that its `kind` names, else the last one whose shape it has."""
    if not isinstance(document, Mapping):
        raise InvalidFlow([Problem(path="", message="a definition must be an object with named fields")])
    kind = document.get("kind")
    if kind is not None:
        notation = NOTATIONS.get(str(kind))
        if is_test(document):
            message = "a recorded test is not a flow; run it as a test"
            raise InvalidFlow([Problem(path="kind", message=message)])
        if notation is None:
            message = f"unknown kind {kind!r}; expected one of: {', '.join(LISTED)}"
            raise InvalidFlow([Problem(path="kind", message=message, suggestion=did_you_mean(str(kind), NOTATIONS))])
        return notation
    for candidate in reversed(NOTATIONS.values()):
        if candidate.fits(document):
            return candidate
    message = f"cannot recognise this definition; add kind: {' | '.join(LISTED)}"
    if "steps" in document:
        message = "steps belong to a composite tool; add kind: composite"
    raise InvalidFlow([Problem(path="", message=message)])


def write(
    flow: Flow, kind: str, losses: list[Problem] | None = None, schemas: Schemas = lambda tool: None
) -> dict[str, Json]:
    """Write a flow as a document."""
    notation = NOTATIONS.get(kind) if isinstance(kind, str) else None
    writers = [name for name, candidate in NOTATIONS.items() if candidate.write is not None]
    if notation is None or notation.write is None:
        suggestion = did_you_mean(kind, writers)
        why = None if suggestion else f"available: {', '.join(name for name in writers if name in LISTED)}"
        raise NotFound("notation that flows are written in", kind, suggestion=suggestion, why=why)
    if flow.body.nodes and isinstance(flow.body.nodes[0].op, Program):
        flow = _without_program(flow, flow.body.nodes[0].op, kind, losses, schemas)
    document = notation.write(flow, losses)
    # The notation may have rules that its writer does not know, so read the document back.
    try:
        notation.compile(document)
    except InvalidFlow as error:
        problems = [replace(problem, message=f"{kind}: {problem.message}") for problem in error.problems]
        raise InvalidFlow(problems) from None
    return document


def _without_program(flow: Flow, op: Program, kind: str, losses: list[Problem] | None, schemas: Schemas) -> Flow:
    """Return the flow of a plan with nodes in place of its program."""
    from .plan.nodes import without_program  # only conversions need it

    flow, problems = without_program(flow, op, kind, schemas)
    if losses is None and problems:
        raise InvalidFlow(problems)
    if losses is not None:
        losses += problems
    return flow


def failures(ending: Any) -> list[dict[str, Json]]:
    """Return the failures of a run as results list them."""

    # The path of a failure names the iteration of each loop around it.
    errors: list[dict[str, Json]] = [
        {
            "nodeId": failure.node,
            "path": failure.path,
            "tool": failure.tool,
            "message": failure.message,
            "kind": failure.kind,
            "attempts": failure.attempts,
            **failure_data(failure, failure.path),
        }
        for failure in ending.failures
    ]
    # A run can also fail outside of every node.
    if ending.error is not None and not isinstance(ending.error, NodeFailed):
        kind = type(ending.error).__name__
        message = str(ending.error)
        error: dict[str, Json] = {"nodeId": None, "path": None, "tool": None, "message": message, "kind": kind}
        if budgets := getattr(ending.error, "budgets", ()):
            error["budgets"] = list(budgets)
        errors.append({**error, "attempts": 1, **retry_data(ending.error.__cause__)})
    return errors


def all_problems(problems: list[Problem], flow: Flow | None) -> list[Problem]:
    """Return the problems of a document and of its flow, in the order of the document."""
    return merge_problems(problems, check(flow).problems if flow is not None else ())


def merge_problems(problems: Iterable[Problem], flow_problems: Iterable[Problem]) -> list[Problem]:
    """Merge the problems of a document with those of its flow, in the order of the document."""

    # A problem of the document explains every problem of the flow at the same place or inside it, so one mistake is
    # reported once.
    problems = list(problems)
    # The place "result" exists only in the flow.
    explained = {problem.path for problem in problems} | {"result"}
    more = (problem for problem in flow_problems if not _is_inside(problem.path, explained))
    return sorted(dict.fromkeys([*problems, *more]), key=_position)


def _is_inside(path: str, outers: Collection[str]) -> bool:
    """Return True if the path is one of the others or leads into one."""
    return any(path.startswith(outer) and path[len(outer) : len(outer) + 1] in ("", ".", "[") for outer in outers)


def _position(problem: Problem) -> int:
    at = re.match(_NODE, problem.path)
    return int(at[1]) if at else -1


_NODE = r"(?:graph\.)?nodes\[(\d+)\]"
