"""From the address of a store to the store: `memory`, `sqlite:///path`, `postgresql://...`, a plain path.

To add a store, name its scheme here.
"""

from __future__ import annotations

import os
from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING, Final, Literal

from ..errors import StoreError
from ..errors.given import wants
from ..values import closest
from .journal import Store
from .memory import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT: Final = ".ropewalk/ropewalk.db"
_SCHEMES: Final = ("memory", "sqlite", "postgresql")
_SQLITES_OWN: Final = (":memory:", "file:")
_RIGHT: Final = (
    "right are: memory, sqlite:///relative/path.db, sqlite:////absolute/path.db, postgresql://user@host/database,"
    " or a path"
)


def open_store(
    url: str | Path | None,
    directory: Path | str | None = None,
    sync: Literal["normal", "full"] = "normal",
    *,
    existing: bool = False,
) -> Store:
    """The store at `url`; None is `.ropewalk/ropewalk.db` under `directory` (the working directory),
    made on demand. `sync` is what a store in a file survives: "normal" the death of the process, "full"
    that of the machine; a server decides that for itself. With `existing` no file is made. Raises StoreError
    for an address that names no store."""
    if url == "memory":
        return MemoryStore()
    from pathlib import Path  # a store in memory does without

    if url is None:
        return _sqlite(_default_file(Path(directory or ".")), sync)
    if not isinstance(url, str):
        return _sqlite(Path(url), sync, existing)
    scheme, colon, rest = url.partition("://")
    if not colon:
        if url.startswith(("postgresql:", "postgres:")):
            raise StoreError(f"the address of a Postgres store begins with postgresql://; {_RIGHT}")
        if not url.strip():
            raise StoreError(f"the store's address is empty; {_RIGHT}")
        _refuse_sqlites_own(url, url)
        if "/" not in url and (near := _near(url)):
            raise StoreError(f"{url!r} is no store; did you mean {near!r}? ({_RIGHT}; ./{url} for a file)")
        return _sqlite(Path(url), sync, existing)
    if scheme == "sqlite":
        if not rest.startswith("/") or len(rest) == 1:
            raise StoreError(f"{url!r}: a file must follow three slashes, or four when absolute; {_RIGHT}")
        _refuse_sqlites_own(url, rest[1:])
        return _sqlite(Path(rest[1:]), sync, existing)
    if is_postgres(url):
        from .postgres import PostgresStore

        return PostgresStore(url)
    near = _near(scheme)
    hint = f"did you mean {near}? " if near else ""
    raise StoreError(f"{scheme}:// is no kind of store; {hint}{_RIGHT}")


def named_store(given: str | Path | Store | None) -> str | Path | Store | None:
    """What somebody gave as a store, when it is an address, a path or a store; it is opened later."""
    if given is None or isinstance(given, (str, PathLike)) or hasattr(given, "get_run"):
        return given
    raise wants("store", "an address, a path or a Store", given)


def file_of(url: str | Path | None, directory: Path | str | None = None) -> Path | None:
    """The file that an address names, there or not; None for memory, a server, and what is no address."""
    from pathlib import Path

    if url is None:
        return Path(directory or ".") / DEFAULT
    if not isinstance(url, str):
        return Path(url)
    scheme, colon, rest = url.partition("://")
    if colon:
        named = scheme == "sqlite" and len(rest) > 1 and rest.startswith("/") and not rest[1:].startswith(_SQLITES_OWN)
        return Path(rest[1:]) if named else None
    nothing = not url.strip() or url == "memory" or url.startswith(("postgresql:", "postgres:", *_SQLITES_OWN))
    return None if nothing or ("/" not in url and _near(url)) else Path(url)


def is_there(path: Path) -> bool:
    """Whether there is something at the path; raises StoreError where that cannot be told."""
    try:
        return path.exists()
    except OSError as error:
        raise StoreError(f"{path} cannot be looked for: {error.strerror}") from error


def _near(name: str) -> str | None:
    return name.lower() if name.lower() in _SCHEMES else closest(name.lower(), _SCHEMES)


def _refuse_sqlites_own(url: str, path: str) -> None:
    """What SQLite itself reads as an address would be the name of a file here."""
    if path.startswith(":memory:"):
        raise StoreError(f"{url!r} is no store; did you mean 'memory'? ({_RIGHT})")
    if path.startswith("file:"):
        raise StoreError(f"{url!r}: URIs of SQLite are not read, nor are their options; {_RIGHT} (./{path} for a file)")


class Unmade(MemoryStore):
    """Where the store will be that nobody has made yet: nothing is in it. Who only looks makes no file. `given` says
    that somebody chose the place: it may be a wrong one."""

    def __init__(self, path: Path, *, given: bool) -> None:
        super().__init__()
        self.path, self.given = path, given


def is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def _default_file(directory: Path) -> Path:
    file = directory / DEFAULT
    home = file.parent
    ignore = home / ".gitignore"
    try:
        home.mkdir(mode=0o700, exist_ok=True)  # what runs saw and did is nobody else's business
        with suppress(FileExistsError):  # also a link, which may lead elsewhere
            # Not `create_file`: a first run does not load that package.
            handle = os.open(ignore, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
            with open(handle, "wb") as file_of_git:
                file_of_git.write(b"# Runs and definitions of this machine.\n*\n")
    except OSError as error:
        taken = isinstance(error, FileExistsError | NotADirectoryError)
        why = "a file of that name is in its place; move it away" if taken else error.strerror
        raise StoreError(
            f"cannot make {home.name}/ in {directory.resolve()}: {why}, or choose another store (ROPEWALK_STORE)"
        ) from error
    if file.is_symlink() and not file.exists():
        # It may have come with the directory, and a new store would be a file of somebody else's choice.
        why = f"is a link to {file.readlink()}, where no store is"
        raise StoreError(f"{file} {why}; remove the link, or choose another store (ROPEWALK_STORE)")
    return file


def _sqlite(path: Path, sync: Literal["normal", "full"], existing: bool = False) -> Store:
    if existing and not is_there(path):
        raise StoreError(f"{path}: there is no such store")
    from .sqlite import SqliteStore  # Only those who use it pay for its import.

    return SqliteStore(path, sync)
