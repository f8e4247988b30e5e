"""The directory of an experience: the texts of the files that it names, and the files that are its tools.

The texts are read when the definition is read. So a run keeps the prompts that it began with, and a changed prompt is
a changed definition. Paths stay inside the directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import path
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...check import ToolCard
from ...errors import InvalidFlow, NotFound, Problem
from ...ir import Flow
from ...ops import MODEL, calls_of
from ...tools.directory.paths import PathError, find, read
from ...tools.reserved import LOCAL
from ...values import Json
from ..agent import APPROVAL
from ..project import Hooks, Located, Project
from .models import named_files

if TYPE_CHECKING:
    from ...check import Tools
    from ..project import Found

MOST: Final = 1_000_000
"""Bytes that such a file may hold."""


class ExperienceHooks(Hooks):
    """Reads and checks the files in the directory of an experience."""

    def prepare(self, document: Mapping[str, Any], project: Project, directory: str | None) -> Mapping[str, Any]:
        if directory is None or "graph" not in document:
            return document
        known = document.get("files")
        texts: dict[str, Any] = dict(known) if isinstance(known, Mapping) else {}
        for name in named_files(document):
            if not isinstance(texts.get(name), str):
                texts[name] = _text(directory, name)
        return {**document, "files": texts} if texts else document

    def own_tools(self, document: Mapping[str, Any]) -> frozenset[str]:
        return frozenset((MODEL, APPROVAL))

    def tools(self, project: Project, directory: str | None) -> Tools:
        return DirectoryTools(project, directory)

    def check(self, definition: Located, project: Project, found: Found, must_exist: bool) -> Found:
        from ...tools.directory.directory import check_no_directory

        problems, warnings = found
        if definition.root is not None:
            files = self.check_files(definition.flow, definition.root)
            inside = _check_inside(definition.flow, definition.root, project)
            problems = [*problems, *files, *inside]
        elif must_exist:
            problems = [*problems, *check_no_directory(calls_of(definition.flow.body))]
        return problems, warnings

    def check_files(self, flow: Flow, directory: str) -> Iterable[Problem]:
        from ...tools.directory.directory import check_files

        return check_files(calls_of(flow.body), directory)


HOOKS: Final = ExperienceHooks()


class DirectoryTools:
    """The tools of the project, and the files of a directory, as the check sees them."""

    # Of files, only experiences have a schema: their result follows from their state.

    def __init__(self, project: Project, directory: str | None) -> None:
        self._project, self._directory = project, directory

    def __getattr__(self, name: str) -> Any:
        return getattr(self._project, name)

    def __call__(self, tool_id: str) -> ToolCard | None:
        if not tool_id.startswith(LOCAL):
            return self._project(tool_id)
        if self._directory is None or not tool_id.startswith("experience:"):
            return _FILE
        try:
            state = self._project.output_in(find(Path(self._directory), tool_id.partition(":")[2], directory=True))
        except (PathError, InvalidFlow, NotFound):  # which the check of the files reports
            state = None
        return _FILE if state is None else ToolCard(None, _run_of(state))


_FILE: Final = ToolCard()


def _run_of(state: dict[str, Json]) -> dict[str, Json]:
    """Return the schema of what a node gives that runs an experience with this final state."""
    inner: dict[str, Json] = {key: value for key, value in state.items() if key != "$defs"}
    properties: dict[str, Json] = {"runId": {"type": "string"}, "status": {"type": "string"}, "finalState": inner}
    defs: dict[str, Json] = {"$defs": state["$defs"]} if "$defs" in state else {}
    return {"type": "object", "properties": properties, "required": ["finalState"], **defs}


def _check_inside(flow: Flow, root: str, project: Project) -> Iterator[Problem]:
    """Check the experiences in directories that this one runs."""
    from ...tools.directory.directory import directories_of

    for node, directory in directories_of(calls_of(flow.body), root):
        place = f"{node.meta.source}.impl"
        try:
            inside = project.problems_in(directory)
        except InvalidFlow as exc:
            inside = exc.problems
        except NotFound as exc:
            yield Problem(path=place, message=str(exc))
            continue
        for problem in inside:
            yield Problem(path=place, message=f"the definition that it names is wrong: {_placed(problem, root)}")


def _placed(problem: Problem, root: str) -> str:
    """Render a problem of another document, followed by its place there."""
    at = problem.place
    return str(problem) if at is None else f"{problem} ({path.relpath(at.file, root)}:{at.line}:{at.column})"


def _text(root: str, name: str) -> Any:
    try:
        return read(Path(root), name, MOST).decode("utf-8-sig").replace("\r\n", "\n")
    except PathError as wrong:
        return {"problem": str(wrong)}
    except UnicodeDecodeError as error:
        return {"problem": f"{name} is not UTF-8 at byte {error.start}; write it as UTF-8"}
