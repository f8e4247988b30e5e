"""Open a store by its URL: `memory`, `sqlite:///path`, `postgresql://...`, or a plain path.

To add a store, call `register_store` with its scheme, or name it as an entry point in the group `ropewalk.stores`.

This module also calls a store from an event loop without blocking the loop.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from ..argument_checks import wrong_type
from ..errors import ConfigError, Place, StoreError
from ..values import did_you_mean
from .memory import MemoryStore
from .protocol import Store

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT: Final = ".ropewalk/ropewalk.db"
_SCHEMES: Final = ("memory", "sqlite", "postgresql")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,31}")
GROUP: Final = "ropewalk.stores"
"""The entry point group in which an installed package names what opens its addresses, by scheme."""
_registered: Final[dict[str, Callable[[str], Store]]] = {}
_SQLITES_OWN: Final = (":memory:", "file:")
_VALID_ADDRESSES: Final = (
    "valid addresses: memory, sqlite:///relative/path.db, sqlite:////absolute/path.db, postgresql://user@host/database,"
    " or a path"
)


def register_store(scheme: str, open_url: Callable[[str], Store]) -> None:
    """Have addresses that begin with `scheme://` open a store of your own.

    Args:
        scheme: The part before `://`: lower case letters, digits, `+`, `.` and `-`.
        open_url: Gets the whole address and returns the store; raises StoreError for an address it cannot use.

    Raises:
        StoreError: The scheme is not usable, or belongs to a built-in store.
    """
    if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
        raise StoreError(f"the scheme of a store is lower case letters, digits, +, . and -, not {scheme!r}")
    if scheme in (*_SCHEMES, "postgres", "file"):
        raise StoreError(f"the scheme {scheme!r} is built in; choose another")
    if not callable(open_url):
        raise StoreError(f"the scheme {scheme!r} needs a function of an address, not {type(open_url).__name__}")
    _registered[scheme] = open_url


def _opener(scheme: str) -> Callable[[str], Store] | None:
    """Return the function that opens addresses of a scheme: a registered one, or that of an installed package."""
    opener = _registered.get(scheme)
    if opener is None and _SCHEME.fullmatch(scheme):
        from importlib.metadata import entry_points  # imported only for schemes that are not built in

        for point in entry_points(group=GROUP, name=scheme):
            try:
                register_store(scheme, point.load())
            except ImportError as error:
                raise StoreError(f"{scheme}:// cannot be opened: {point.value} cannot be imported: {error}") from error
            opener = _registered[scheme]
    return opener


def open_store(
    url: str | Path | None,
    directory: Path | str | None = None,
    sync: Literal["normal", "full"] = "normal",
    *,
    existing: bool = False,
) -> Store:
    """Open a store."""

    # `sync`: "normal" if a store in a file must survive the death of the process, "full" if it must survive the death
    # of the machine. A server decides that itself.
    return _find_opener(url, directory, sync, existing)()


def _find_opener(
    url: str | Path | None, directory: Path | str | None, sync: Literal["normal", "full"], existing: bool = False
) -> Callable[[], Store]:
    """Return what opens the store at an address; raise StoreError for an address that no store has."""
    if url == "memory":
        return MemoryStore
    from pathlib import Path  # a store in memory does without

    if url is None:
        return lambda: _sqlite(_default_file(Path(directory or ".")), sync)
    if not isinstance(url, str):
        return lambda: _sqlite(Path(url), sync, existing)
    scheme, colon, rest = url.partition("://")
    if not colon:
        if url.startswith(("postgresql:", "postgres:")):
            raise StoreError(f"the address of a Postgres store begins with postgresql://; {_VALID_ADDRESSES}")
        if not url.strip():
            raise StoreError(f"the store's address is empty; {_VALID_ADDRESSES}")
        _refuse_sqlites_own(url, url)
        if "/" not in url and (near := _near(url)):
            raise StoreError(f"{url!r} is not a store; did you mean {near!r}? ({_VALID_ADDRESSES}; ./{url} for a file)")
        return lambda: _sqlite(Path(url), sync, existing)
    if scheme == "sqlite":
        if not rest.startswith("/") or len(rest) == 1:
            raise StoreError(f"{url!r}: a file must follow three slashes, or four when absolute; {_VALID_ADDRESSES}")
        _refuse_sqlites_own(url, rest[1:])
        return lambda: _sqlite(Path(rest[1:]), sync, existing)
    if is_postgres(url):
        return lambda: _postgres(url)
    if (opener := _opener(scheme)) is not None:
        return lambda: _open_registered(opener, scheme, url)
    near = _near(scheme)
    hint = f"did you mean {near}? " if near else ""
    raise StoreError(f"unsupported store URL {scheme}://; {hint}{_VALID_ADDRESSES}")


def _postgres(url: str) -> Store:
    from .postgres.store import PostgresStore

    return PostgresStore(url)


def _open_registered(opener: Callable[[str], Store], scheme: str, url: str) -> Store:
    store = opener(url)
    if named_store(store) is None or isinstance(store, (str, PathLike)):
        raise StoreError(f"the function for {scheme}:// returned {type(store).__name__}, not a Store")
    return store


class WrongStoreAddress(StoreError, ConfigError):
    """The address in a settings file is one that no store has, or names a file in a directory that does not exist."""


class StoreOpener:
    """Opens the store at an address when it is first needed."""

    # `place`: Returns where a settings file has the address, for errors about it.

    def __init__(
        self,
        url: str | Path | None,
        directory: Path | str | None,
        sync: Literal["normal", "full"],
        place: Callable[[], Place] | None = None,
    ) -> None:
        self._url, self._directory, self._sync, self._place = url, directory, sync, place

    def check_address(self) -> None:
        """Raise StoreError for an address that no store has."""
        with self._placed():
            _find_opener(self._url, self._directory, self._sync)

    def check_directory(self) -> None:
        """Raise StoreError for a file in a directory that does not exist."""
        if self._url is None or self._url == "memory":  # a first run loads little
            return
        file = file_of(self._url)
        if file is not None and not os.path.isdir(file.parent):
            why = "is a file" if os.path.exists(file.parent) else "does not exist; create it first"
            with self._placed():
                raise StoreError(f"{file}: directory {file.parent} {why}")

    def __call__(self) -> Store:
        """Open the store."""
        self.check_directory()
        with self._placed():
            opener = _find_opener(self._url, self._directory, self._sync)
        return opener()

    @contextmanager
    def _placed(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            if self._place is None:
                raise
            raise WrongStoreAddress(f"[store] url: {error}", place=self._place()) from error


def named_store(store: str | Path | Store | None) -> str | Path | Store | None:
    """Check an argument that selects a store."""
    if store is None or isinstance(store, (str, PathLike)) or hasattr(store, "get_run"):
        return store
    raise wrong_type("store", "an address, a path or a Store", store)


def store_or_opener(
    store: str | Path | Store | StoreOpener | None, directory: Path | str | None, sync: Literal["normal", "full"]
) -> Store | Callable[[], Store]:
    """Return a store, or what opens the one that an address names; an address that is wrong is refused at once."""
    if isinstance(store, StoreOpener):
        return store
    named = named_store(store)
    if named is not None and not isinstance(named, (str, PathLike)):
        return named
    opener = StoreOpener(named, directory, sync)
    if named is not None:
        opener.check_address()
        opener.check_directory()
    return opener


def file_of(url: str | Path | None, directory: Path | str | None = None) -> Path | None:
    """Find the file that an address names."""
    from pathlib import Path

    if url is None:
        return Path(directory or ".") / DEFAULT
    if not isinstance(url, str):
        return Path(url)
    scheme, colon, rest = url.partition("://")
    if colon:
        names_file = (
            scheme == "sqlite" and len(rest) > 1 and rest.startswith("/") and not rest[1:].startswith(_SQLITES_OWN)
        )
        return Path(rest[1:]) if names_file else None
    nothing = not url.strip() or url == "memory" or url.startswith(("postgresql:", "postgres:", *_SQLITES_OWN))
    return None if nothing or ("/" not in url and _near(url)) else Path(url)


def is_there(path: Path) -> bool:
    """Return True if the path exists."""
    try:
        return path.exists()
    except OSError as error:
        raise StoreError(f"{path}: cannot check if it exists: {error.strerror}") from error


def _near(name: str) -> str | None:
    schemes = (*_SCHEMES, *_registered)
    return name.lower() if name.lower() in schemes else did_you_mean(name.lower(), schemes)


def _refuse_sqlites_own(url: str, path: str) -> None:
    """Refuse special names of SQLite, which would be names of files here."""
    if path.startswith(":memory:"):
        raise StoreError(f"{url!r} is not a store; did you mean 'memory'? ({_VALID_ADDRESSES})")
    if path.startswith("file:"):
        raise StoreError(f"{url!r}: URIs of SQLite are not supported; {_VALID_ADDRESSES} (./{path} for a file)")


class MissingStore(MemoryStore):
    """An empty store in the place of one that does not exist yet, so that reading commands make no file."""

    # `is_explicit` is True if the user chose the place, which may then be a wrong one.

    def __init__(self, path: Path, *, is_explicit: bool) -> None:
        super().__init__()
        self.path, self.is_explicit = path, is_explicit


def has_scheme_of_others(url: str | Path | None) -> bool:
    """Return True if the address begins with a scheme that is not built in."""
    scheme, colon, _ = url.partition("://") if isinstance(url, str) else ("", "", "")
    return bool(colon) and scheme not in (*_SCHEMES, "postgres")


def is_postgres(url: str) -> bool:
    """Check an address."""
    return url.startswith(("postgresql://", "postgres://"))


def _default_file(directory: Path) -> Path:
    """Return the path of the project's store, and make its directory with a .gitignore."""
    file = directory / DEFAULT
    home = file.parent
    ignore = home / ".gitignore"
    try:
        home.mkdir(mode=0o700, exist_ok=True)  # runs may contain private data
        with suppress(FileExistsError):  # also a link, which may lead elsewhere
            # Not `create_file`: a first run does not load that package.
            handle = os.open(ignore, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
            with open(handle, "wb") as file_of_git:
                file_of_git.write(b"# Runs and definitions of this machine.\n*\n")
    except OSError as error:
        is_occupied = isinstance(error, FileExistsError | NotADirectoryError)
        why = "a file of that name is in its place; move it away" if is_occupied else error.strerror
        raise StoreError(
            f"cannot make {home.name}/ in {directory.resolve()}: {why}, or choose another store (ROPEWALK_STORE)"
        ) from error
    if file.is_symlink() and not file.exists():
        # The link may have come with the directory; a new store would be at a place that somebody else chose.
        why = f"is a link to {file.readlink()}, which does not exist"
        raise StoreError(f"{file} {why}; remove the link, or choose another store (ROPEWALK_STORE)")
    return file


def _sqlite(path: Path, sync: Literal["normal", "full"], existing: bool = False) -> Store:
    if existing and not is_there(path):
        raise StoreError(f"{path}: this store does not exist")
    from .sqlite.store import SqliteStore  # imported only by programs that use it

    return SqliteStore(path, sync)


T = TypeVar("T")


async def run_sync_in_thread(store: Store, work: Callable[[], T]) -> T:
    """Call plain methods of a store without blocking the event loop."""

    # The work runs on another thread, unless the store is in memory: its methods are look-ups, which cost less than a
    # thread.
    return work() if type(store) is MemoryStore else await asyncio.to_thread(work)


class Lookups:
    """Short queries of a store, answered on another thread."""

    # A thread costs more than a short query. So while some are answered, further ones collect, and the next call of the
    # thread answers all of them. A query always starts after its `ask`, so no answer is older than that.

    def __init__(self, store: Store) -> None:
        self.store = store
        self._waiting: dict[asyncio.AbstractEventLoop, list[tuple[Callable[[], Any], asyncio.Future[Any]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, query: Callable[[], T]) -> T:
        """Return what `query` gives, or raise what it raises."""

        # `query`: Calls plain methods of the store, and takes milliseconds at most in a store that is well.
        if type(self.store) is MemoryStore:
            return query()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        waiting = self._waiting.get(loop)
        if waiting is None:
            self._waiting[loop] = [(query, answer)]
            task = loop.create_task(self._answer(loop))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            waiting.append((query, answer))
        return await answer

    async def _answer(self, loop: asyncio.AbstractEventLoop) -> None:
        batch: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        try:
            while batch := self._waiting[loop]:
                self._waiting[loop] = []
                results = await asyncio.to_thread(_run_all, [query for query, _ in batch])
                for (_, answer), (value, error) in zip(batch, results, strict=True):
                    if answer.done():  # its asker was cancelled
                        continue
                    if error is None:
                        answer.set_result(value)
                    else:
                        answer.set_exception(error)
        finally:
            # If this task is cancelled, nobody else would wake the waiting callers.
            for _, answer in (*batch, *self._waiting.pop(loop)):
                answer.cancel()


def _run_all(queries: list[Callable[[], Any]]) -> list[tuple[Any, BaseException | None]]:
    """Run each query; an error of one does not keep the others from their answers."""
    results: list[tuple[Any, BaseException | None]] = []
    for query in queries:
        try:
            results.append((query(), None))
        except BaseException as error:  # noqa: BLE001 - `_answer` passes it to the caller of `ask`
            results.append((None, error))
    return results
