"""Where logins at MCP servers are kept: the system's keyring, or a file that only its owner can read.

A login has the tokens, the client that the authorization server registered, and what its metadata said. Its key is the
server's name and address: another address under the same name has another login. The file is created with mode 0600 and
replaced in one step. Refused here: following a symbolic link, and reading a file that others can read or that belongs
to another user. A login of the keyring is used if the package `keyring` is installed and has a backend that keeps
secrets; `PYTHON_KEYRING_BACKEND=keyring.backends.null.Keyring` chooses the file.
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
from collections.abc import AsyncIterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from ...config.secrets import remember_secrets
from ...errors import ConfigError
from ...fast_dataclass import dataclass
from ...values import Json

_SERVICE: Final = "ropewalk"  # of entries in a keyring
_LOCK_POLL: Final = 0.05  # seconds between attempts to lock a login that another process refreshes
_MAX_FILE: Final = 2**20  # bytes
_PLAIN: Final = 1.0  # priority below which a backend of `keyring` keeps nothing, or keeps it readable


@dataclass(slots=True)
class Login:
    """A login at one server.

    Attributes:
        tokens: The answer of the token endpoint, or None.
        expires_at: When the access token expires, in seconds since 1970; None if that is unknown.
        client: The client as the authorization server registered it, or None.
        server: The metadata of the authorization server, or None.
        resource: The metadata of the MCP server, or None.
        key: The private key that the tokens are bound to, as PEM, or None.
    """

    tokens: Mapping[str, Json] | None = field(default=None, repr=False)
    expires_at: float | None = None
    client: Mapping[str, Json] | None = field(default=None, repr=False)
    server: Mapping[str, Json] | None = None
    resource: Mapping[str, Json] | None = None
    key: str | None = field(default=None, repr=False)

    def to_json(self) -> bytes:
        """Return the login as JSON."""
        return orjson.dumps({name: getattr(self, name) for name in self.__slots__})

    def secrets(self) -> set[str]:
        """Return the texts that nobody may be shown."""
        texts = [(self.tokens or {}).get(name) for name in ("access_token", "refresh_token", "id_token")]
        texts += [(self.client or {}).get("client_secret"), self.key]
        return {text for text in texts if isinstance(text, str) and text}


class Keeper(Protocol):
    """Keeps one text per key. The methods may block."""

    def read(self, key: str) -> bytes | None: ...
    def write(self, key: str, data: bytes) -> None: ...
    def delete(self, key: str) -> bool: ...


class LoginFiles:
    """Keeps each login in a file of the user's state directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __str__(self) -> str:
        return str(self._directory)

    def read(self, key: str) -> bytes | None:
        """Return the data of a key, or None.

        Raises:
            ConfigError: The file is a link, belongs to another user, or others can read it.
        """
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
        """Replace the data of a key in one step; a reader sees the old or the new data.

        Raises:
            ConfigError: The file cannot be written.
        """
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
    """Keeps each login in the system's keyring.

    A file without content says that there is an entry: reading a locked keyring asks the person for its password,
    which must not happen for servers without a login.
    """

    def __init__(self, backend: Any, directory: Path) -> None:
        self._backend = backend
        self._directory = directory

    def __str__(self) -> str:
        return "the system's keyring"

    def read(self, key: str) -> bytes | None:
        """Return the data of a key, or None.

        Raises:
            ConfigError: The keyring cannot be read.
        """
        if not self._mark(key).exists():
            return None
        text = self._ask("get_password", key)
        return None if text is None else str(text).encode()

    def write(self, key: str, data: bytes) -> None:
        """Replace the data of a key.

        Raises:
            ConfigError: The keyring cannot be written.
        """
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
    """The login of one server, in a keeper.

    Args:
        name: The server's name.
        url: Its address.
        keeper: Where the login is kept; `login_keeper()` chooses.
    """

    def __init__(self, name: str, url: str, keeper: Keeper) -> None:
        self._key = f"{name} {url}"
        self._keeper = keeper

    async def load(self) -> Login:
        """Return the login; an empty one if nobody has logged in.

        Raises:
            ConfigError: The login cannot be read.
        """
        data = await asyncio.to_thread(self._keeper.read, self._key)
        try:
            values = orjson.loads(data) if data is not None else {}
            login = Login(**{name: values.get(name) for name in Login.__slots__})
        except (ValueError, AttributeError):
            login = Login()  # damaged: as if there were none
        remember_secrets(login.secrets())
        return login

    async def save(self, login: Login) -> None:
        """Replace the login.

        Raises:
            ConfigError: The login cannot be written.
        """
        remember_secrets(login.secrets())
        await asyncio.to_thread(self._keeper.write, self._key, login.to_json())

    async def delete(self) -> bool:
        """Delete the login; return False if there was none."""
        return await asyncio.to_thread(self._keeper.delete, self._key)

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Hold the login against other processes and connections, so that one of them refreshes its token.

        Authorization servers accept a refresh token once. A second use may end the login.
        """
        if isinstance(self._keeper, NoKeeper):
            yield
            return
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


class NoKeeper:
    """Keeps logins in this object only: those of machines, which get new tokens whenever they need them."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    def read(self, key: str) -> bytes | None:
        """Return the data of a key, or None."""
        return self._data.get(key)

    def write(self, key: str, data: bytes) -> None:
        """Replace the data of a key."""
        self._data[key] = data

    def delete(self, key: str) -> bool:
        """Delete the data of a key; return False if there was none."""
        return self._data.pop(key, None) is not None


def _state_directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    return root / "ropewalk" / "logins"


def _file_name(key: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", key.partition(" ")[0])[:40]
    return f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}"
