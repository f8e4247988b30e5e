"""The project's flows in files, listed beside the stored definitions: to look at and to start, never to change here.

What a request names is compared with those that are listed; no path is ever made from it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...config.flow_files import flow_files
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
        self._lines: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {}  # with what says that a file is unchanged

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
        """The flow of this id, as its file is now; NotFound with what was probably meant."""
        files = self._files()
        if id not in files:
            raise NotFound("definition", f"{FILE} {id}", suggestion=closest(id, files))
        return self._app.load(files[id])

    def _files(self) -> dict[str, Path]:
        if self._home is None:
            return {}
        home = self._home.resolve()
        found = flow_files(home, self._places or ("*.yaml", "*.yml"))
        tests = (".test.yaml", ".test.yml", ".test.json")
        named = {(file.relative_to(home) if file.is_relative_to(home) else file).as_posix(): file for file in found}
        return {id: file for id, file in named.items() if file.exists() and not id.endswith(tests)}

    def _known(self, id: str, file: Path) -> dict[str, Any]:
        """Its line. An experience is read each time: which of its files has changed only reading them tells."""
        state = file.stat()
        mark, known = (state.st_mtime_ns, state.st_size), self._lines.get(id)
        if known is not None and known[0] == mark and not file.is_dir():
            return known[1]
        line = self._line(id, file, self._app.load(file))
        self._lines[id] = mark, line
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
