"""The flows of the project in files, listed with the stored definitions. HTTP shows and starts them, and changes none.

The id in a request is compared with the listed ids. It never becomes a path.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...app.flow_list import FlowFile, FlowList, is_definition
from ...app.presenters import definition_details, definition_line
from ...app.project_problems import problems_within, project_problems, stored_names
from ...check import Checked
from ...deadline import in_thread
from ...errors import InvalidFlow, NotFound, Problem, RopewalkError

if TYPE_CHECKING:
    from ...app.app import App
    from ...app.prepared import Prepared

FILE_KIND: Final = "file"
PATIENCE: Final = 2.0  # seconds for servers to connect; a silent server must not delay the answer
log = logging.getLogger("ropewalk.http")


class FlowFiles:
    """The flow files of one project."""

    @classmethod
    def of_project(cls, app: App, named: Sequence[str] = ()) -> FlowFiles:
        """Return the definitions that the project of an app serves, and the named files; none without a project."""
        config = app.context.config
        return cls(app) if config is None else cls(app, config.directory, [*config.served_flows, *named])

    def __init__(self, app: App, directory: Path | None = None, patterns: Sequence[str] = ()) -> None:
        self._app = app
        self.are_of_project = directory is not None
        self._list = FlowList(None) if directory is None else app.jobs.flow_list(directory, patterns)
        self._reported: set[str] = set()
        self.lacks_tools = False
        """Whether the last list lacks plans, since servers have not listed the tools that they name."""
        self._items: dict[str, tuple[FlowFile, dict[str, Any]]] = {}
        # By id: the file and the version of the tools that were checked, and what is wrong.
        self._problems: dict[str, tuple[tuple[FlowFile, int], Sequence[Problem]]] = {}
        self._of_project: list[Problem] = []
        self._checking: asyncio.Task[None] | None = None
        self._looked: Mapping[str, FlowFile] = {}  # the files of the last list

    def list_items(self) -> Iterator[dict[str, Any]]:
        """Yield one item of the list for each valid file."""
        self.lacks_tools = False
        self._looked = self._list.look()
        for id, file in self._looked.items():
            try:
                if file.stamp:
                    yield self._list_item(id, file)
            except (RopewalkError, OSError) as error:
                if getattr(error, "unlisted", ()):
                    self.lacks_tools = True
                    continue
                if self._list.is_named and id not in self._reported:  # the user named it, so an omission would mislead
                    self._reported.add(id)
                    log.warning("%s is not listed: %s", file.path, error)

    async def problems(self) -> list[Problem]:
        """Return what is wrong with the project and the definitions of the last list; wait a moment for servers."""
        if self._checking is None or self._checking.done():  # else servers are silent, and the last check answers
            self._checking = asyncio.create_task(self._check())
            await asyncio.wait([self._checking], timeout=PATIENCE)
        if self._checking.done():
            self._checking.result()
        return self._of_project

    async def _check(self) -> None:
        """Check the definitions whose files or tools have changed, and the settings."""
        files = self._looked
        for id, file in files.items():
            # Without an item it is wrong, or files in its directory may have changed.
            known, item = self._problems.get(id), self._items.get(id)
            is_known = known is not None and known[0] == (file, self._app.toolbox.version)
            if file.stamp and not (is_known and item is not None and item[0] == file):
                problems = await problems_within(PATIENCE, self._checked(file))
                if problems is not None:
                    self._problems[id] = (file, self._app.toolbox.version), problems
        self._problems = {id: self._problems[id] for id in files if id in self._problems}
        wrong = [problem for _, problems in self._problems.values() for problem in problems]
        self._of_project = await project_problems(self._app, wrong, lambda: stored_names(self._app.store))

    async def _checked(self, file: FlowFile) -> Checked:
        """Check a definition, in a thread, and with its servers."""
        if not self._list.is_named and not await asyncio.to_thread(is_definition, file):
            return Checked(problems=(), warnings=())
        definitions = self._app.definitions
        try:
            loaded = await definitions.connecting(lambda: in_thread(lambda: self._app.load(file.path)))
        except InvalidFlow as error:
            raise await definitions.with_tool_problems(error) from None
        await self._app.connect_for(loaded.flow)
        return await in_thread(lambda: definitions.check(loaded, unknown_tools="problem"))

    def details(self, id: str) -> dict[str, Any]:
        """Return one flow with its document and its graph."""
        loaded = self.loaded(id)
        line = _make_list_item(id, self._require(id), loaded)
        return definition_details(line, loaded.document, loaded.flow, loaded.file)

    def loaded(self, id: str) -> Prepared:
        """Return the flow with this id, as its file is now."""

        # A document without an id gets this id, so that it has the same one each time.
        loaded = self._app.load(self._require(id).path)
        if "id" not in loaded.document or loaded.file is None or "id" in loaded.file.data:
            return loaded
        named = {**loaded.document, "kind": loaded.kind, "id": id}
        return self._app.definitions.get(named, loaded.file, loaded.root)

    def __contains__(self, id: str) -> bool:
        return self._list.find(id) is not None

    def id_of(self, path: str | None) -> str | None:
        """Return the id of the flow in this file, or None if the file is not listed."""
        return None if path is None else self._list.id_of(path)

    def nearest(self, id: str) -> str | None:
        """Return the id that is most like another one, or None."""
        return self._list.nearest(id)

    def _require(self, id: str) -> FlowFile:
        file = self._list.find(id)
        if file is None:
            raise NotFound("definition", f"{FILE_KIND} {id}", suggestion=self.nearest(id))
        return file

    def _list_item(self, id: str, file: FlowFile) -> dict[str, Any]:
        """Return the item of a file."""

        known = self._items.get(id)
        if known is not None and known[0] == file:
            return known[1]
        loaded = self._app.load(file.path)
        item = _make_list_item(id, file, loaded)
        if loaded.root is None:  # a flow with files in its directory is read each time, as any of them may have changed
            self._items[id] = file, item
        return item


def _make_list_item(id: str, file: FlowFile, loaded: Prepared) -> dict[str, Any]:
    changed_at = 0.0 if file.stamp is None else file.stamp.changed[0] / 1e9
    line = definition_line(FILE_KIND, id, loaded.name, loaded.document, loaded.fingerprint, changed_at)
    return {**line, "notation": loaded.kind}
