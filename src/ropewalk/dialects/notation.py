"""What a notation is: a kind, a test of shape, and a pure function from document to Flow.

To add one, write a file here with a function decorated by `@notation("kind", fits=...)` and import
it in this folder's `__init__`. Documents are told apart by `kind:` or else by shape. One that can hold
a flow made elsewhere also has a writer, beside its reader and imported when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..check import check
from ..errors import InvalidFlow, NodeFailed, NotFound, Problem
from ..frozen import dataclass
from ..ir import Flow
from ..values import Json, closest


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A document compiled: its normalised form, its graph, what is doubtful in it, and how an
    ending of the engine (`engine.run.Ending`) is written in the words of the notation. `namespace` is
    that of its id as a tool. With `local` its tools may be files beside the document, which are given the
    environment variables named in `env`. `at_once` is where the document says how many nodes run at once."""

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


@dataclass(frozen=True, slots=True)
class Notation:
    """`fits` tells its documents by their shape, `compile` reads one, `write` (None: it has no writer)
    makes one of a flow, or raises InvalidFlow with everything in the flow that it cannot hold."""

    kind: str
    fits: Callable[[Mapping[str, Json]], bool]
    compile: Callable[[Mapping[str, Json]], Compiled]
    write: Callable[[Flow], dict[str, Json]] | None = None


NOTATIONS: dict[str, Notation] = {}


def notation(
    kind: str,
    *,
    fits: Callable[[Mapping[str, Json]], bool],
    write: Callable[[Flow], dict[str, Json]] | None = None,
) -> Callable[[Callable[[Mapping[str, Json]], Compiled]], Callable[[Mapping[str, Json]], Compiled]]:
    """Register a compiler of documents of `kind`; it raises InvalidFlow with every problem."""

    def register(compile: Callable[[Mapping[str, Json]], Compiled]) -> Callable[[Mapping[str, Json]], Compiled]:
        NOTATIONS[kind] = Notation(kind, fits, compile, write)
        return compile

    return register


def notation_of(document: Json) -> Notation:
    """The notation of a document: what its `kind` says, else the last one whose shape it has: the
    broadest is registered first."""
    if not isinstance(document, Mapping):
        raise InvalidFlow([Problem(path="", message="a definition is an object with named fields")])
    kind = document.get("kind")
    if kind is not None:
        found = NOTATIONS.get(str(kind))
        if found is None:
            message = f"unknown kind {kind!r}; it is one of {', '.join(NOTATIONS)}"
            raise InvalidFlow([Problem(path="kind", message=message, suggestion=closest(str(kind), NOTATIONS))])
        return found
    for candidate in reversed(NOTATIONS.values()):
        if candidate.fits(document):
            return candidate
    message = f"cannot tell what this is; say it with kind: {' | '.join(NOTATIONS)}"
    raise InvalidFlow([Problem(path="", message=message)])


def write(flow: Flow, kind: str) -> dict[str, Json]:
    """The document of a notation that does what the flow does; compiling it gives the same results,
    state and journal. InvalidFlow lists everything that the notation cannot hold."""
    found = NOTATIONS.get(kind)
    writers = [name for name, known in NOTATIONS.items() if known.write is not None]
    if found is None or found.write is None:
        raise NotFound("notation that flows are written in", kind, suggestion=closest(kind, writers))
    return found.write(flow)


def failures(ending: Any) -> list[dict[str, Json]]:
    """What failed in a run, as results list it."""
    errors: list[dict[str, Json]] = [
        {"nodeId": e.node, "tool": e.tool, "message": e.message, "kind": e.kind, "attempts": e.attempts}
        for e in ending.failures
    ]
    if ending.error is not None and not isinstance(ending.error, NodeFailed):
        kind = type(ending.error).__name__
        errors.append({"nodeId": None, "tool": None, "message": str(ending.error), "kind": kind, "attempts": 1})
    return errors


def told_together(found: list[Problem], flow: Flow | None) -> list[Problem]:
    """What is wrong with the document, and with what could be made of it, in the document's order."""
    told = {problem.path for problem in found} | {"result"}  # which is ours: what it reads is told elsewhere
    more = [p for p in check(flow).problems if told.isdisjoint(_around(p.path))] if flow is not None else []
    return sorted(dict.fromkeys([*found, *more]), key=_position)


def _around(path: str) -> list[str]:
    """The path and those of everything it is in: what is said of those explains this."""
    return [path, *(path[: cut.start()] for cut in re.finditer(r"[.\[]", path))]


def _position(problem: Problem) -> int:
    at = _NODE.match(problem.path)
    return int(at[1]) if at else -1


_NODE = re.compile(r"(?:graph\.)?nodes\[(\d+)\]")
