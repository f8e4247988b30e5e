"""`Loaded`, a definition that was read and compiled, and `Source`, the types that one can be loaded from."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import Problem
from ..fast_dataclass import dataclass
from ..ir import Flow
from ..notations.registry import Compiled
from ..values import Json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ..builder.flow import Built, FlowBuilder
    from .plan_function import Plan

    Source: TypeAlias = "Path | str | Mapping[str, Any] | Built | FlowBuilder | Plan[..., Any] | Loaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A compiled definition.

    Attributes:
        kind: Its notation, such as `chain`.
        name: Its name.
        document: The document in its normal form, with defaults.
        flow: The graph.
        fingerprint: The digest of the document without its id.
        warnings: Warnings of the notation.
        compiled: The result of the notation, with its renderer.
        file: The read file that the document comes from, or None.
        root: The directory that contains its tools as files, or None.
        origin: The path that a recorded definition was read from, or None.
        stored_id: The id of a stored definition, or None.
        read_result: Converts a result to the type that a flow written in Python declares, or None.
    """

    kind: str
    name: str
    document: dict[str, Json]
    flow: Flow
    fingerprint: str
    warnings: tuple[Problem, ...]
    compiled: Compiled
    file: Any = None
    root: str | None = None
    origin: str | None = None
    stored_id: str | None = None
    read_result: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)

    @property
    def definition_id(self) -> str | None:
        """The id or the directory under which the runs of this definition are listed; None for a document or file."""
        return self.stored_id or self.root
