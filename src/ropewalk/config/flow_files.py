"""The files that places name: documents, directories of them, experiences, globs. Nothing is read here but when they
were changed. What may not be looked at is a file like any other here: whoever reads it says so. (Path.is_file and
Path.is_dir raise then.)"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from os.path import isdir, isfile
from pathlib import Path
from typing import Any, Final

SUFFIXES: Final = (".yaml", ".yml", ".json")
EXPERIENCE: Final = ("experience.yaml", "experience.yml", "experience.json")


def flow_files(home: Path, places: Sequence[str], but: Callable[[Path], bool]) -> list[Path]:
    """What stands behind places beside `home`, each once, in their order; without those that `but` names, unless
    a place is that very file."""
    named = {home / place for place in places}
    found = dict.fromkeys(file for place in places for file in _found(home, place))
    return [file for file in found if file in named or not but(file)]


def stamp(path: Path) -> Any:
    """Unequal after a change; of an experience that of its document."""
    documents = [path / name for name in EXPERIENCE] if isdir(path) else [path]
    found = []
    for document in documents:
        try:
            about = document.stat()
        except OSError:
            continue
        found.append((about.st_mtime_ns, about.st_size, about.st_ino))
    return tuple(found)


def _found(home: Path, place: str) -> Iterator[Path]:
    """The files behind a place: itself; the documents and experiences in a directory; what a glob matches."""
    path = home / place
    if isdir(path):
        if is_experience(path) or not os.access(path, os.R_OK):
            yield path
            return
        for inner in sorted(path.iterdir()):
            if isdir(inner):
                if is_experience(inner):
                    yield inner
            elif inner.suffix in SUFFIXES:
                yield inner
    elif any(sign in place for sign in "*?["):
        yield from (found for found in sorted(home.glob(place)) if found.suffix in SUFFIXES or isdir(found))
    else:
        yield path


def is_experience(path: Path) -> bool:
    return any(isfile(path / name) for name in EXPERIENCE)
