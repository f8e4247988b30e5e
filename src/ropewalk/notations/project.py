"""The hooks of a notation whose documents need the project around them, and what they may ask of it.

A document that says everything by itself needs no hook: `PLAIN` does nothing. A notation whose documents name files
next to them, or tools by the names of a program, has a subclass of `Hooks` in a file of its own, as `HOOKS`, and names
that file in `registry.NOTATIONS`. Refused here: finding and storing definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from ..check import ToolCard, Tools
    from ..errors import Problem
    from ..ir import Flow
    from ..tools.toolbox import Toolbox
    from ..values import Json
    from .registry import Compiled

    Found: TypeAlias = tuple[list[Problem], list[Problem]]
    """Problems and warnings."""


class Project(Protocol):
    """The project as a notation sees it: schemas by tool id (by calling it), tools, and other definitions."""

    toolbox: Toolbox
    effects: Mapping[str, str]
    """What tools do, where the project overrides their hints."""

    def __call__(self, tool_id: str) -> ToolCard | None:
        """Return what is known of a tool."""
        ...

    def names(self) -> list[str]:
        """Return the ids of all tools, for suggestions."""
        ...

    def why(self, tool_id: str) -> str | None:
        """Return why a tool is not there, if that is known."""
        ...

    def problems_in(self, directory: Path) -> Iterable[Problem]:
        """Check the definition in a directory."""
        ...

    def output_in(self, directory: Path) -> dict[str, Json] | None:
        """Return the JSON Schema of the value of the definition in a directory."""
        ...


class Located(Protocol):
    """A compiled document and the directory of its files."""

    @property
    def document(self) -> dict[str, Json]:
        """The document in its normal form."""
        ...

    @property
    def flow(self) -> Flow:
        """Its flow."""
        ...

    @property
    def root(self) -> str | None:
        """The directory, or None."""
        ...


class Hooks:
    """The hooks of a notation whose documents say everything."""

    async def read_ahead(self, document: Mapping[str, Any], project: Project) -> None:
        """Do what would block the event loop in the other hooks."""

    def prepare(self, document: Mapping[str, Any], project: Project, directory: str | None) -> Mapping[str, Any]:
        """Return a document with what it needs of its project."""
        return document

    def compile(
        self, document: Mapping[str, Any], project: Project, compile: Callable[[Mapping[str, Any]], Compiled]
    ) -> Compiled:
        """Compile a prepared document."""
        return compile(document)

    def tools(self, project: Project, directory: str | None) -> Tools:
        """Return the tools that a definition can call, as the check sees them."""
        return project

    def check(self, definition: Located, project: Project, found: Found, must_exist: bool) -> Found:
        """Add what only the project shows to the problems and warnings of the graph."""
        return found

    def check_files(self, flow: Flow, directory: str) -> Iterable[Problem]:
        """Check the files that a flow calls, of a document that has other problems."""
        return ()

    def restore(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a document from the store as this version stores it."""
        return document

    def own_tools(self, document: Mapping[str, Any]) -> frozenset[str]:
        """Return the internal tools that flows of this notation call although their documents cannot name them."""
        return frozenset()

    def infer_output(self, definition: Located, project: Project) -> tuple[dict[str, Json] | None] | None:
        """Return the JSON Schema of the value of a definition, or that none is known; None if the graph shows it."""
        return None


PLAIN: Final = Hooks()
