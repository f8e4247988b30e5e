"""`Prepared`, a definition that was read and compiled, and `Source`, the types that one can be loaded from."""

from __future__ import annotations

from dataclasses import field
from os.path import abspath
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import Problem
from ..fast_dataclass import dataclass
from ..ir import Flow
from ..notations.registry import Compiled
from ..values import Json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ..builder.flow import Built, FlowBuilder
    from ..tools.toolbox import Toolbox

    Source: TypeAlias = "Path | str | Mapping[str, Any] | Built | FlowBuilder | PlanFunction | Prepared"


class PlanFunction(Protocol):
    """A function with `@plan`; this file cannot import its class, which runs it in an app."""

    def document_for(self, toolbox: Toolbox, effects: Mapping[str, str] | None = None) -> dict[str, Json]:
        """Return the plan as a document."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A compiled definition."""

    # Its notation, such as `chain`.
    kind: str
    name: str
    # The document in its normal form, with defaults.
    document: dict[str, Json]
    flow: Flow
    # The digest of the document without its id.
    fingerprint: str
    # Warnings of the notation.
    warnings: tuple[Problem, ...]
    # The result of the notation, with its renderer.
    compiled: Compiled
    # The read file that the document comes from, or None.
    file: Any = None
    # The directory that contains its tools as files, or None.
    root: str | None = None
    # The path that a recorded definition was read from, or None.
    origin: str | None = None
    # The files of flows that the document calls by their files, by the ids that stand for them.
    flow_files: tuple[tuple[str, str], ...] = ()
    # The id of a stored definition, or None.
    stored_id: str | None = None
    # Converts a result to the type that a flow written in Python declares, or None.
    read_result: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)

    def with_concurrency(self, concurrency: int) -> dict[str, Json]:
        """Return the document with at most `concurrency` nodes running at once."""
        document: dict[str, Any] = {**self.document, "kind": self.kind}
        inside, *way = document, *self.compiled.at_once
        for key in way[:-1]:
            inside[key] = inside = dict(inside.get(key) or {})
        inside[way[-1]] = concurrency
        return document

    @property
    def read_from(self) -> str | None:
        """The path that it was read from, with the name of a flow in Python; None for a document or a text."""
        if self.file is None:
            return self.origin
        member = f":{self.file.name}" if hasattr(self.file, "name") else ""
        return f"{abspath(self.file.file)}{member}"

    @property
    def definition_id(self) -> str | None:
        """The id or the directory under which the runs of this definition are listed; None for a document or file."""
        return self.stored_id or self.root
