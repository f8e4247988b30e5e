"""The project's flows in files, listed beside the stored definitions: to look at and to start, never to change here.

What a request names is compared with those that are listed; no path is ever made from it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from ...config.flow_files import flow_files, stamp
from ...draw import graph_data
from ...errors import NotFound, RopewalkError
from ...runs import iso
from ...values import closest

if TYPE_CHECKING:
    from ...app import App, Loaded

FILE: Final = "file"
log = logging.getLogger("ropewalk.http")


class FlowFiles:
    """`places` are files, directories and globs beside `home`; with none, the documents in `home`."""

    def __init__(self, app: App, home: Path | None = None, places: Sequence[str] = ()) -> None:
        self._app, self._home, self._places = app, home, tuple(places)
        self._told: set[str] = set()
        self._lines: dict[str, tuple[Any, dict[str, Any]]] = {}  # with what says that a file is unchanged

    def listed(self) -> Iterator[dict[str, Any]]:
        """A line for each that is a sound document."""
        for id, file in self._files().items():
            try:
                yield self._known(id, file)
            except (RopewalkError, OSError) as error:
                if self._places and id not in self._told:  # somebody has named it
                    self._told.add(id)
                    log.warning("%s is not listed: %s", file, error)

    def whole(self, id: str) -> dict[str, Any]:
        """One with its document and its graph."""
        loaded = self.loaded(id)
        line = self._line(id, self._files()[id], loaded)
        return {**line, "document": loaded.document, "graph": graph_data(loaded.flow)}

    def loaded(self, id: str) -> Loaded:
        """The flow of this id, as its file is now; NotFound with what was probably meant. Where the document has no
        id of its own this is it, so that it is the same one each time."""
        files = self._files()
        if id not in files:
            raise NotFound("definition", f"{FILE} {id}", suggestion=_meant(id, files))
        loaded = self._app.load(files[id])
        if "id" not in loaded.document or "id" in loaded.file.data:
            return loaded
        named = {**loaded.document, "kind": loaded.kind, "id": id}
        return self._app.definitions.loaded(named, loaded.file, loaded.root)

    def __contains__(self, id: str) -> bool:
        return id in self._files()

    def id_of(self, path: str | None) -> str | None:
        """The id of the flow in this file, where it is one of those that are listed."""
        return None if path is None else next((id for id, file in self._files().items() if str(file) == path), None)

    def _files(self) -> dict[str, Path]:
        if self._home is None:
            return {}
        home = self._home.resolve()
        found = flow_files(home, self._places or ("*.yaml", "*.yml"), self._app.definitions.is_test)
        named = {(file.relative_to(home) if file.is_relative_to(home) else file).as_posix(): file for file in found}
        return {id: file for id, file in named.items() if os.path.exists(file)}

    def _known(self, id: str, file: Path) -> dict[str, Any]:
        """Its line. An experience is read each time: which of its files has changed only reading them tells."""
        now, known = stamp(file), self._lines.get(id)
        if known is not None and known[0] == now and not os.path.isdir(file):
            return known[1]
        line = self._line(id, file, self._app.load(file))
        self._lines[id] = now, line
        return line

    def _line(self, id: str, file: Path, loaded: Loaded) -> dict[str, Any]:
        return {
            "kind": FILE,
            "notation": loaded.kind,
            "id": id,
            "name": loaded.name,
            "description": (loaded.document or {}).get("description", ""),
            "fingerprint": loaded.fingerprint,
            "created": iso(file.stat().st_mtime),
        }


def _meant(id: str, known: Iterable[str]) -> str | None:
    """The file that somebody means who leaves out its directory or its ending, or misspells it."""
    names = {name: file for file in known for name in (PurePath(file).stem, PurePath(file).name, file)}
    near = closest(id, names)
    return None if near is None else names[near]
