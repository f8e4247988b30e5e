"""Where logins at MCP servers are kept: the system's keyring, or a file that only its owner can read.

The key of a login is the server's name and address: another address under the same name has another login. The file
is created with mode 0600 and replaced in one step. Refused here: following a symbolic link, and reading a file that
others can read or that belongs to another user. A login of the keyring is used if the package `keyring` is installed
and has a backend that keeps secrets; `PYTHON_KEYRING_BACKEND=keyring.backends.null.Keyring` chooses the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from ...errors import ConfigError

_SERVICE: Final = "ropewalk"  # of entries in a keyring
_LOCK_POLL: Final = 0.05  # seconds between attempts to lock a login that another process refreshes
_MAX_FILE: Final = 2**20  # bytes
_PLAIN: Final = 1.0  # priority below which a backend of `keyring` keeps nothing, or keeps it readable


class LoginFiles:
    """Keeps each login in a file of the user's state directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __str__(self) -> str:
        return str(self._directory)

    def read(self, key: str) -> bytes | None:
        """Return the data of a key, or None."""
        path = self._path(key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"cannot read the login in {path}: {error.strerror}") from error
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise ConfigError(f"the login in {path} is readable by others; delete the file and log in again")
            return file.read(_MAX_FILE)

    def write(self, key: str, data: bytes) -> None:
        """Replace the data of a key in one step; a reader sees the old or the new data."""
        path = self._path(key)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise ConfigError(f"cannot keep the login in {path}: {error.strerror}") from error

    def delete(self, key: str) -> bool:
        """Delete the data of a key; return False if there was none."""
        try:
            self._path(key).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConfigError(f"cannot delete the login in {self._path(key)}: {error.strerror}") from error
        return True

    def _path(self, key: str) -> Path:
        return self._directory / f"{_file_name(key)}.json"


class KeyringEntries:
    """Keeps each login in the system's keyring."""

    # A file without content says that there is an entry: reading a locked keyring asks the person for its password,
    # which must not happen for servers without a login.

    def __init__(self, backend: Any, directory: Path) -> None:
        self._backend = backend
        self._directory = directory

    def __str__(self) -> str:
        return "the system's keyring"

    def read(self, key: str) -> bytes | None:
        """Return the data of a key, or None."""
        if not self._mark(key).exists():
            return None
        text = self._ask("get_password", key)
        return None if text is None else str(text).encode()

    def write(self, key: str, data: bytes) -> None:
        """Replace the data of a key."""
        self._ask("set_password", key, data.decode())
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._mark(key).touch(mode=0o600)
        except OSError as error:
            raise ConfigError(f"cannot record the login in {self._directory}: {error.strerror}") from error

    def delete(self, key: str) -> bool:
        """Delete the data of a key; return False if there was none."""
        if not self._mark(key).exists() or self._ask("get_password", key) is None:
            return False
        self._ask("delete_password", key)
        self._mark(key).unlink(missing_ok=True)
        return True

    def _mark(self, key: str) -> Path:
        return self._directory / f"{_file_name(key)}.keyring"

    def _ask(self, method: str, key: str, *more: str) -> Any:
        from keyring.errors import KeyringError

        try:
            return getattr(self._backend, method)(_SERVICE, key, *more)
        except (KeyringError, OSError) as error:
            why = f"the system's keyring refuses: {str(error) or type(error).__name__}"
            raise ConfigError(
                f"{why}; unlock it, or set PYTHON_KEYRING_BACKEND=keyring.backends.null.Keyring"
            ) from error


def login_keeper() -> LoginFiles | KeyringEntries:
    """Return the keyring of the system if there is one that keeps secrets, else files."""
    try:
        import keyring
    except ImportError:
        return LoginFiles(_state_directory())
    backend = keyring.get_keyring()
    directory = _state_directory()
    return KeyringEntries(backend, directory) if backend.priority >= _PLAIN else LoginFiles(directory)


class LoginStore:
    """The login of one server."""

    def __init__(self, name: str, url: str) -> None:
        self._key = f"{name} {url}"
        self._keeper = login_keeper()

    async def load(self) -> bytes | None:
        """Return the login; None if nobody has logged in."""
        return await asyncio.to_thread(self._keeper.read, self._key)

    async def save(self, login: bytes) -> None:
        """Replace the login."""
        await asyncio.to_thread(self._keeper.write, self._key, login)

    async def delete(self) -> bool:
        """Delete the login; return False if there was none."""
        return await asyncio.to_thread(self._keeper.delete, self._key)

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Hold the login against other processes and connections, so that one of them refreshes its token."""

        # Authorization servers accept a refresh token once. A second use may end the login.
        path = _state_directory() / f"{_file_name(self._key)}.lock"
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"cannot lock the login with {path}: {error.strerror}") from error
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_LOCK_POLL)
            yield
        finally:
            os.close(descriptor)


def _state_directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    return root / "ropewalk" / "logins"


def _file_name(key: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", key.partition(" ")[0])[:40]
    return f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}"
