"""What a notation is: a kind, a test of shape, and a pure function from document to Flow.

To add one, write a file here with `fits(document)` and `compile_document(document)`, and name it in
NOTATIONS. Documents are told apart by `kind:` or else by shape. One that can hold a flow made elsewhere
also has `write(flow)`. A file is imported when the first document of its kind comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ..check import check
from ..errors import InvalidFlow, NodeFailed, NotFound, Problem
from ..frozen import dataclass
from ..ir import Flow
from ..values import Json, closest

if TYPE_CHECKING:
    from ..check.inference import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A document compiled: its normalised form, its graph, what is doubtful in it, and how an
    ending of the engine (`engine.run.Ending`) is written in the words of the notation. `namespace` is
    that of its id as a tool. With `local` its tools may be files beside the document, which are given the
    environment variables named in `env`. `at_once` is where the document says how many nodes run at once, `typed_at`
    where the type of the result. The value of a run (`Notation.value`) is made of `value_from`; `output_schema` is its
    JSON Schema where the notation knows more than the graph does."""

    kind: str
    id: str
    name: str
    document: dict[str, Json]
    flow: Flow
    warnings: tuple[Problem, ...]
    render: Callable[[Any], dict[str, Json]]
    namespace: str | None = None
    local: bool = False
    env: tuple[str, ...] = ()
    at_once: tuple[str, ...] = ("concurrency",)
    typed_at: str = "result"
    value_from: Source = "result"
    output_schema: Json = None


@dataclass(frozen=True, slots=True)
class Notation:
    """One kind of document, the file here that knows it, and which field of a run's result is the run's value.

    The value is what a caller gets: the result of a tool made from the document, `Outcome.result`, the content of an
    MCP answer. Results in a store keep the notation's own field names, so the same field reads runs of any version.
    """

    kind: str
    file: str
    value: str

    @property
    def fits(self) -> Callable[[Mapping[str, Json]], bool]:
        """Whether a document without `kind` has the shape of this one."""
        return self._named("fits")  # type: ignore[no-any-return]

    @property
    def compile(self) -> Callable[[Mapping[str, Json]], Compiled]:
        """Reads a document; raises InvalidFlow with every problem."""
        return self._named("compile_document")  # type: ignore[no-any-return]

    @property
    def write(self) -> Callable[..., dict[str, Json]] | None:
        """Makes a document of a flow, or raises InvalidFlow with everything in the flow that it cannot hold;
        None where flows are not written in it. A second argument is a list that collects the losses instead."""
        return self._named("write")  # type: ignore[no-any-return]

    def _named(self, name: str) -> Any:
        return getattr(import_module(f".{self.file}", __package__), name, None)


NOTATIONS: Final[dict[str, Notation]] = {
    notation.kind: notation
    for notation in (  # the broadest shape first
        Notation("agent", "agent", value="result"),
        Notation("chain", "chain_result", value="results"),
        Notation("composite", "composite", value="result"),
        Notation("composition", "composition_result", value="data"),
        Notation("experience", "experience_result", value="finalState"),
        Notation("flow", "flow", value="result"),
        Notation("runchain", "runchain_document", value="result"),
    )
}
VALUE_NAMES: Final = frozenset(notation.value for notation in NOTATIONS.values()) - {"result"}
"""The names that notations have for their value, where that is not `result`."""


def value_in(result: Mapping[str, Json], kind: str) -> Json:
    """Return the value in the result of a run.

    Args:
        result: What the notation's `render` made of the ending, from the engine or from a store.
        kind: The notation of the run's definition.

    Returns:
        The value; None where the run ended without one, or where no notation has this kind.
    """
    notation = NOTATIONS.get(kind)
    return None if notation is None else result.get(notation.value)


TEST: Final = "test"


def is_test(document: Json) -> bool:
    """Whether it is a recorded test (`testing/recording.py`), which is no flow."""
    return isinstance(document, Mapping) and document.get("kind") == TEST


def notation_of(document: Json) -> Notation:
    """The notation of a document: what its `kind` says, else the last one whose shape it has."""
    if not isinstance(document, Mapping):
        raise InvalidFlow([Problem(path="", message="a definition is an object with named fields")])
    kind = document.get("kind")
    if kind is not None:
        found = NOTATIONS.get(str(kind))
        if is_test(document):
            message = "a recorded test is no flow; `ropewalk test FILE` runs it again"
            raise InvalidFlow([Problem(path="kind", message=message)])
        if found is None:
            message = f"unknown kind {kind!r}; it is one of {', '.join(NOTATIONS)}"
            raise InvalidFlow([Problem(path="kind", message=message, suggestion=closest(str(kind), NOTATIONS))])
        return found
    for candidate in reversed(NOTATIONS.values()):
        if candidate.fits(document):
            return candidate
    message = f"cannot tell what this is; say it with kind: {' | '.join(NOTATIONS)}"
    if "steps" in document:
        message = "steps are those of a composite tool: say kind: composite"
    raise InvalidFlow([Problem(path="", message=message)])


def write(flow: Flow, kind: str, losses: list[Problem] | None = None) -> dict[str, Json]:
    """Return the document of a notation that does what the flow does.

    Args:
        flow: The flow to write.
        kind: The notation.
        losses: A list to which everything is added that the notation cannot hold.

    Returns:
        The document. Without losses it makes the same calls and gives the same value.

    Raises:
        InvalidFlow: With everything that the notation cannot hold, where `losses` is None, or with what is wrong with
            the document that was written.
        NotFound: Where there is no such notation.
    """
    found = NOTATIONS.get(kind) if isinstance(kind, str) else None
    writers = [name for name, known in NOTATIONS.items() if known.write is not None]
    if found is None or found.write is None:
        near = closest(kind, writers)
        why = None if near else f"there are {', '.join(writers)}"
        raise NotFound("notation that flows are written in", kind, suggestion=near, why=why)
    document = found.write(flow, losses)
    try:
        found.compile(document)
    except InvalidFlow as error:  # a rule of the notation that its writer does not know
        problems = [replace(problem, message=f"{kind}: {problem.message}") for problem in error.problems]
        raise InvalidFlow(problems) from None
    return document


def failures(ending: Any) -> list[dict[str, Json]]:
    """What failed in a run, as results list it; the path says in which round of which loop."""
    errors: list[dict[str, Json]] = [
        {
            "nodeId": e.node,
            "path": e.path,
            "tool": e.tool,
            "message": e.message,
            "kind": e.kind,
            "attempts": e.attempts,
            **({"ran": True} if e.ran else {}),
        }
        for e in ending.failures
    ]
    if ending.error is not None and not isinstance(ending.error, NodeFailed):
        kind = type(ending.error).__name__
        said = str(ending.error)
        errors.append({"nodeId": None, "path": None, "tool": None, "message": said, "kind": kind, "attempts": 1})
    return errors


def told_together(found: list[Problem], flow: Flow | None) -> list[Problem]:
    """What is wrong with the document, and with what could be made of it, in the document's order."""
    told = {problem.path for problem in found} | {"result"}  # which is ours: what it reads is told elsewhere
    more = [p for p in check(flow).problems if not _inside(p.path, told)] if flow is not None else []
    return sorted(dict.fromkeys([*found, *more]), key=_position)


def _inside(path: str, others: Collection[str]) -> bool:
    """Return True if the path is one of the others or leads into one: what is said of that explains this."""
    return any(path.startswith(other) and path[len(other) : len(other) + 1] in ("", ".", "[") for other in others)


def _position(problem: Problem) -> int:
    at = re.match(_NODE, problem.path)
    return int(at[1]) if at else -1


_NODE = r"(?:graph\.)?nodes\[(\d+)\]"
