"""Files that a definition names: only such as are inside its own directory.

Refused: absolute paths, `..`, links that lead out, what is missing and what is no regular file. Looked at when a
definition is checked and again when it runs; what is read is looked at once more after it was opened, so that a
link put in its place meanwhile gives nothing away. Nothing here runs or reads anything before that.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from typing import Final

from ..frozen import dataclass
from ..values import closest

MODULES: Final = {".py": "python", ".mjs": "javascript", ".js": "javascript"}
"""What runs a tool module, by its suffix."""

_TYPESCRIPT: Final = frozenset((".ts", ".mts", ".cts", ".tsx"))


class WrongPath(ValueError):
    """A definition names a file that it may not have, or that is not there."""

    retryable = False


@dataclass(frozen=True, slots=True)
class Impl:
    """A tool module that is there: its `file`, how messages call it, what runs it, the function asked for."""

    file: Path
    shown: str
    language: str
    function: str | None = None


def find_impl(root: Path, impl: object) -> Impl:
    """The module that `impl` names (`./tools/x.py`, `./tools/x.py:function`, ...); WrongPath says why not."""
    path, function = impl, None
    if isinstance(impl, str):
        head, colon, name = impl.rpartition(":")
        if colon and head.endswith(tuple(MODULES)):
            path, function = head, name
    shown = _checked(path)
    suffix = PurePosixPath(shown).suffix
    if suffix in _TYPESCRIPT:
        raise WrongPath(f"{shown} is TypeScript: compile it first (tsc), and name the .mjs or .js file")
    language = MODULES.get(suffix)
    if language is None:
        raise WrongPath(f"{shown}: a tool module is a file that ends in {', '.join(MODULES)}")
    if function is not None:
        if language != "python":
            raise WrongPath(f"{shown}: a function can be named in a Python module only; here it is the default export")
        if not function.isidentifier():
            raise WrongPath(f"{shown}: {function!r} is no name of a function")
    return Impl(find(root, path), shown, language, function)


def find(root: Path, path: object, *, directory: bool = False) -> Path:
    """The file (or directory) that `path` names inside `root`, with every link followed; WrongPath says why not."""
    shown = _checked(path)
    home = root.resolve()
    named = home / shown
    try:
        found = named.resolve()
        mode = found.stat().st_mode if found.is_relative_to(home) else 0
    except (FileNotFoundError, NotADirectoryError):
        raise WrongPath(_missing(home, shown, directory)) from None
    except (OSError, RuntimeError, ValueError) as error:  # a link that leads to itself, a name that is too long
        raise WrongPath(f"{shown} cannot be reached: {error}") from error
    if not mode:
        raise WrongPath(f"{shown} is a link that leads out of the directory of the definition")
    if directory:
        if not stat.S_ISDIR(mode):
            raise WrongPath(f"{shown} is no directory")
    elif not stat.S_ISREG(mode):
        raise WrongPath(f"{shown} is {'a directory' if stat.S_ISDIR(mode) else 'no regular file'}, not a file")
    return found


def read(root: Path, path: object, most: int) -> bytes:
    """The bytes of a file inside `root`; WrongPath where it is none, or holds more than `most` bytes."""
    found = find(root, path)
    shown = _checked(path)
    try:
        handle = os.open(found, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        raise WrongPath(f"{shown} cannot be read: {error.strerror}") from error
    with open(handle, "rb") as file:
        opened = os.fstat(handle)
        # What stands there may have been replaced between the look and the opening.
        if not os.path.samestat(opened, find(root, path).stat()):
            raise WrongPath(f"{shown} was replaced while it was opened")
        if opened.st_size > most:
            raise WrongPath(f"{shown} holds {opened.st_size:,} bytes; at most {most:,} are read")
        data = file.read(most + 1)
    if len(data) > most:
        raise WrongPath(f"{shown} holds more than the {most:,} bytes that are read")
    return data


def _checked(path: object) -> str:
    """The path as messages show it, without `./`; refused by its text alone where that is enough."""
    if not isinstance(path, str) or not path.strip():
        raise WrongPath(f"a path must be a text like ./tools/name.py, not {path!r}")
    if "\0" in path or "\\" in path:
        raise WrongPath(f"{path!r} is no path: parts are separated by /, and nothing is escaped")
    pure = PurePosixPath(path)
    if pure.is_absolute() or path[1:2] == ":":
        raise WrongPath(f"{path} is an absolute path; name it relative to the definition, like ./tools/name.py")
    if ".." in pure.parts:
        raise WrongPath(f"{path}: '..' is not allowed; only what is inside the directory of the definition can be used")
    return str(pure)


def _missing(home: Path, shown: str, directory: bool) -> str:
    """Says how far the path leads, and what may have been meant there."""
    here = home
    for i, part in enumerate(parts := PurePosixPath(shown).parts):
        last = i == len(parts) - 1
        if (here / part).exists() and not last:
            here = here / part
            continue
        try:
            names = [one.name for one in here.iterdir() if one.is_dir() == (directory or not last)]
        except OSError:  # no directory, or none that we may list
            names = []
        near = closest(part, names)
        hint = f"; did you mean {'/'.join((*parts[:i], near, *parts[i + 1 :]))}?" if near else ""
        what = "directory" if directory else "file"
        return f"there is no {what} {shown}{hint}"
    return f"there is no file {shown}"
