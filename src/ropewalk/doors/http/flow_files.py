"""The flows of the project in files, listed with the stored definitions. HTTP shows and starts them, and changes none.

The id in a request is compared with the listed ids. It never becomes a path.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...app.presenters import definition_line
from ...app.python_file import python_place
from ...config.project import PROJECT_FLOWS, change_stamp, flow_files
from ...draw import graph_data
from ...errors import NotFound, RopewalkError
from ...values import did_you_mean

if TYPE_CHECKING:
    from ...app.app import App
    from ...app.prepared import Prepared

FILE_KIND: Final = "file"
_MAX_AGE: Final = 1.0  # seconds for which a list of the files suffices to find one of them
log = logging.getLogger("ropewalk.http")


class _CachedItem(NamedTuple):
    """The item of the list for one file, and the stamp of the file that it was made from."""

    stamp: Any
    item: dict[str, Any]


class FlowFiles:
    """The flow files of one project."""

    def __init__(self, app: App, directory: Path | None = None, patterns: Sequence[str] = ()) -> None:
        self._app, self._directory, self._patterns = app, directory, tuple(patterns)
        self._reported: set[str] = set()
        self.lacks_tools = False
        """Whether the last list lacks plans, since servers have not listed the tools that they name."""
        self._cached_items: dict[str, _CachedItem] = {}
        self._known: dict[str, Path] = {}
        self._looked = -_MAX_AGE  # when the files were listed last, by the monotonic clock

    def list_items(self) -> Iterator[dict[str, Any]]:
        """Yield one item of the list for each valid file."""
        self.lacks_tools = False
        for id, file in self._files().items():
            try:
                yield self._list_item(id, file)
            except (RopewalkError, OSError) as error:
                if getattr(error, "unlisted", ()):
                    self.lacks_tools = True
                    continue
                if self._patterns and id not in self._reported:  # the user named it, so a silent omission would mislead
                    self._reported.add(id)
                    log.warning("%s is not listed: %s", file, error)

    def details(self, id: str) -> dict[str, Any]:
        """Return one flow with its document and its graph."""
        loaded = self.loaded(id)
        line = self._make_list_item(id, self._require(id), loaded)
        source = {"source": loaded.file.text, "sourceName": PurePath(loaded.file.file).name}
        fields = {"document": loaded.document, "inputSchema": loaded.flow.input_schema}
        return {**line, **fields, **source, "graph": graph_data(loaded.flow)}

    def loaded(self, id: str) -> Prepared:
        """Return the flow with this id, as its file is now."""

        # A document without an id gets this id, so that it has the same one each time.
        loaded = self._app.load(self._require(id))
        if "id" not in loaded.document or loaded.file is None or "id" in loaded.file.data:
            return loaded
        named = {**loaded.document, "kind": loaded.kind, "id": id}
        return self._app.definitions.get(named, loaded.file, loaded.root)

    def __contains__(self, id: str) -> bool:
        return self._find(id) is not None

    def id_of(self, path: str | None) -> str | None:
        """Return the id of the flow in this file, or None if the file is not listed."""
        return None if path is None else next((id for id, file in self._files().items() if str(file) == path), None)

    def _require(self, id: str) -> Path:
        file = self._find(id)
        if file is None:
            raise NotFound("definition", f"{FILE_KIND} {id}", suggestion=_nearest_file(id, self._known))
        return file

    def _find(self, id: str) -> Path | None:
        """Return the file of an id."""

        # A list of the last second suffices if it has the id, because the file itself is read for each request.
        file = self._known.get(id) if time.monotonic() < self._looked + _MAX_AGE else None
        return file if file is not None and os.path.exists(_file_of(file)) else self._files().get(id)

    def _files(self) -> dict[str, Path]:
        if self._directory is None:
            return {}
        self._looked = time.monotonic()
        directory = self._directory.resolve()
        result = flow_files(directory, self._patterns or PROJECT_FLOWS, self._app.definitions.is_test)
        named = {
            (file.relative_to(directory) if file.is_relative_to(directory) else file).as_posix(): file
            for file in result
        }
        self._known = {id: file for id, file in named.items() if os.path.exists(_file_of(file))}
        return self._known

    def _list_item(self, id: str, file: Path) -> dict[str, Any]:
        """Return the item of a file."""

        # An experience is read each time, as only that shows which files changed.
        stamp, cached = change_stamp(_file_of(file)), self._cached_items.get(id)
        if cached is not None and cached.stamp == stamp and not os.path.isdir(file):
            return cached.item
        line = self._make_list_item(id, file, self._app.load(file))
        self._cached_items[id] = _CachedItem(stamp, line)
        return line

    def _make_list_item(self, id: str, file: Path, loaded: Prepared) -> dict[str, Any]:
        changed_at = _file_of(file).stat().st_mtime
        line = definition_line(FILE_KIND, id, loaded.name, loaded.document, loaded.fingerprint, changed_at)
        return {**line, "notation": loaded.kind}


def _file_of(path: Path) -> Path:
    """Return the file of a path: that of `FILE.py:NAME` is `FILE.py`."""
    place = python_place(path)
    return path if place is None else place[0]


def _nearest_file(id: str, files: Iterable[str]) -> str | None:
    """Return the file with the nearest name, also for a name without its directory or its suffix."""
    names = {name: file for file in files for name in (PurePath(file).stem, PurePath(file).name, file)}
    near = did_you_mean(id, names)
    return None if near is None else names[near]
