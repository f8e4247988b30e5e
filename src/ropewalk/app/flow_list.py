"""The list of a project's flow files, by id. No flow is prepared for it.

A look goes through every file of the project, so no call of a known flow makes one: the file of that flow is checked
by itself, each time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from ..config.project import DEFINITION_SUFFIXES, PROJECT_FLOWS, flow_files
from ..config.python_flows import python_flows
from ..engine.flow_tool import tool_name
from ..errors import InvalidFlow, NotFound
from ..notations.registry import NOTATIONS, is_test, kind_of_file, notation_of
from ..values import did_you_mean
from .file_stamp import Stamp, stamp_of
from .python_file import python_place

MAX_AGE: Final = 1.0  # seconds for which a look suffices to name files


class FlowFile(NamedTuple):
    """A file of the list."""

    path: Path
    stamp: Stamp | None
    """None if there is no such file."""
    name: str
    """The name of the flow as a tool, as far as its file says it."""
    is_flow: bool
    """False for another document that a pattern matches, such as a recorded test."""
    kind: str | None
    """The notation that its document names."""

    def is_unchanged(self) -> bool:
        """Return True if the file is as it was in this list."""
        return self.stamp is not None and self.stamp.still_fits(self.path)


class FlowList:
    """The flow files of one project: those that match patterns, or those in its directory."""

    def __init__(self, directory: Path | None, patterns: Sequence[str] = ()) -> None:
        self._directory = None if directory is None else directory.resolve()
        self._patterns = tuple(patterns) or PROJECT_FLOWS
        self._exact = set() if directory is None else {directory.resolve() / each for each in self._patterns}
        self.is_named = bool(patterns)
        """Whether the user named the files, so that a wrong one must be reported."""
        self.revision = 0
        """Increases with each look that finds a change."""
        self._files: dict[str, FlowFile] = {}  # also recorded tests
        self._ids: dict[str, str] = {}  # by path
        self._looked = -MAX_AGE  # when all files were looked at, by the monotonic clock

    def is_of(self, directory: Path, patterns: Sequence[str]) -> bool:
        """Return True if it is the list of these patterns in this directory."""
        return self._directory == directory.resolve() and self._patterns == (tuple(patterns) or PROJECT_FLOWS)

    def remember(self, earlier: FlowList) -> None:
        """Know the files of an earlier list: one that cannot be read any more keeps its name."""
        self._files = dict(earlier._files)

    def look(self) -> dict[str, FlowFile]:
        """Look at all files now, and return the flows among them by id, in the order of the patterns."""
        looked = time.monotonic()
        files = {id: self._look_at(path, self._files.get(id)) for id, path in self._paths()}
        if files != self._files:
            self.revision += 1
            self._files = files
            self._ids = {str(file.path): id for id, file in files.items() if file.is_flow and file.stamp}
        self._looked = looked
        return {id: file for id, file in files.items() if file.is_flow}

    def find(self, id: str) -> FlowFile | None:
        """Return the flow with this id, as it is now; look at all files only if it has changed or is not known."""
        file = self._files.get(id)
        if file is None or not file.is_unchanged():
            file = self.look().get(id)
        return file if file is not None and file.is_flow and file.stamp else None

    def id_of(self, path: str) -> str | None:
        """Return the id of the flow with this path, or None if the list of the last second lacks it."""
        if time.monotonic() >= self._looked + MAX_AGE:
            self.look()
        return self._ids.get(path)

    def nearest(self, id: str) -> str | None:
        """Return the id that is most like another one, which may lack its directory or its suffix."""
        names = {name: id for id in self._ids.values() for name in (PurePath(id).stem, PurePath(id).name, id)}
        near = did_you_mean(id, names)
        return None if near is None else names[near]

    def _paths(self) -> Iterator[tuple[str, Path]]:
        """Yield the id and the path of each file: the id is the path in the directory of the project."""
        if self._directory is None:
            return
        start = os.path.join(self._directory, "")
        for path in flow_files(self._directory, self._patterns):
            yield str(path).removeprefix(start).replace(os.sep, "/"), path

    def _look_at(self, path: Path, known: FlowFile | None) -> FlowFile:
        """Return a file as it is now; it is read only if it has changed."""
        if known is not None and known.is_unchanged():
            return known
        file = read_flow_file(path, known)
        # Most JSON files are no definitions.
        if not self.is_named and path.suffix == ".json" and file.kind not in NOTATIONS:
            return file._replace(is_flow=False)
        # A test that the user named is offered as a flow, so that its error is reported.
        return file._replace(is_flow=True) if path in self._exact else file


def read_flow_file(path: Path, known: FlowFile | None = None) -> FlowFile:
    """Return a file as it is now; one that cannot be read keeps the name and the kind of an earlier look."""
    stamp, data = stamp_of(path), _data_of(path)
    if data is None and known is not None and python_place(path) is None:
        return known._replace(stamp=stamp)
    kind = data.get("kind") if isinstance(data, dict) else None
    return FlowFile(path, stamp, _name_in(data, path), not is_test(data), kind if isinstance(kind, str) else None)


def is_definition(file: FlowFile) -> bool:
    """Return True for a definition, also a broken one, and False for another document in the project directory."""
    from ..source.load import load

    is_other = file.path.suffix in DEFINITION_SUFFIXES and file.kind not in NOTATIONS
    if not is_other or kind_of_file(str(file.path)) is not None:
        return True
    try:
        document = load(file.path).data
    except (InvalidFlow, NotFound):
        return True
    try:
        notation_of(document)
    except InvalidFlow as error:
        return any(problem.suggestion for problem in error.problems)
    return True


def _data_of(path: Path) -> Any:
    """Return the document in a file as it is written; None if nobody can read it, which its reader reports."""
    from ..source.load import load

    if python_place(path) is not None:
        return None
    with suppress(InvalidFlow, NotFound, OSError):
        return load(path).data
    return None


def _name_in(data: Any, path: Path) -> str:
    """Return the name that a file gives its flow, without preparing it."""
    if (place := python_place(path)) is not None:
        return python_flows(place[0]).get(place[1], place[1])
    names = (data.get(key) for key in ("name", "id")) if isinstance(data, dict) else ()
    return tool_name(next((name for name in names if isinstance(name, str)), path.stem))
