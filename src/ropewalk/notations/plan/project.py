"""A plan in its project: the tools that its names mean, their types, and the reader of its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...tools.reserved import OWN, VALUE
from ..project import Hooks, Located, Project
from ..registry import Compiled
from .readers import ORIGIN, prepare, reader_of, with_origin
from .tools import reading_plan, with_tools, with_types

if TYPE_CHECKING:
    from ...values import Json
    from ..project import Found


class PlanHooks(Hooks):
    """Reads the text of a plan where its origin says, with the tools of the project."""

    async def read_ahead(self, document: Mapping[str, Any], project: Project) -> None:
        if document.get(ORIGIN) is not None:
            await prepare(document, project)

    def prepare(self, document: Mapping[str, Any], project: Project, directory: str | None) -> Mapping[str, Any]:
        return with_tools(document, project.toolbox, reader_of(document), project.effects)

    def compile(
        self, document: Mapping[str, Any], project: Project, compile: Callable[[Mapping[str, Any]], Compiled]
    ) -> Compiled:
        reader = reader_of(document)
        with reading_plan(document, project, reader):
            return reader.compile(document)

    def check(self, definition: Located, project: Project, found: Found, must_exist: bool) -> Found:
        return with_types(definition.document, project, reader_of(definition.document), *found)

    def restore(self, document: dict[str, Any]) -> dict[str, Any]:
        return with_origin(document)  # type: ignore[no-any-return]  # models save plans; earlier versions did not record it

    def own_tools(self, document: Mapping[str, Any]) -> frozenset[str]:
        return frozenset((f"{OWN}:{VALUE}",))

    def infer_output(self, definition: Located, project: Project) -> tuple[dict[str, Json] | None]:
        return (reader_of(definition.document).types(definition.document, project).output,)


HOOKS: Final = PlanHooks()
