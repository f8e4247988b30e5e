"""Secrets of this process: which settings hold one, and how values and texts are freed of them.

A setting of `env` or `headers` is secret when its name says so, or that of a variable which it reads: a token, a key,
a password, a cookie. What it holds is taken out of everything that its server answers, so that it comes into no
result, journal or log. What else a setting reads from the environment is taken out of error texts only, where nothing
is computed with it. Values of less than six characters are left: they would be found everywhere. To have another
name say so, add its word to `_WORDS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote

import orjson

from ..errors import ConfigError
from ..errors.given import wants
from ..frozen import dataclass
from ..redaction import MARK, Redaction
from ..values import Json

SHORTEST: Final = 6
NEVER: Final = "ROPEWALK_TOKEN"
"""The variable that no definition may read."""
_WORDS: Final = frozenset(
    ("apikey", "auth", "authorization", "authtoken", "cookie", "credential", "credentials", "dsn", "jwt", "key",
     "pass", "passphrase", "passwd", "password", "pat", "pgpassword", "private", "pwd", "secret",
     "session", "signature", "token")
)  # fmt: skip
_HARMLESS: Final = frozenset(
    ("PWD", "OLDPWD", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DESKTOP_SESSION", "GDMSESSION", "SESSION_MANAGER",
     "XDG_SESSION_CLASS", "XDG_SESSION_DESKTOP", "XDG_SESSION_ID", "XDG_SESSION_PATH", "XDG_SESSION_TYPE")
)  # fmt: skip
"""Variables of shells and desktops: a directory, a socket, `wayland`."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SCHEME: Final = re.compile(r"(?:bearer|basic|token) +", re.I)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_known: set[str] = set()


@dataclass(frozen=True, slots=True)
class Secrets:
    """`read`: what was taken from the environment, for error texts. `named`: what is secret by name."""

    read: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()

    def hidden(self, text: str) -> str:
        """An error text without any of them."""
        return without(text, self.read | self.named)

    def out_of(self, value: Json) -> Json:
        """A value without those that are secret by name."""
        return _redaction(self.named).value(value) if self.named else value

    def out_of_bytes(self, body: bytes) -> bytes:
        """Bytes, mostly of text, without those that are secret by name."""
        return without(body.decode("utf-8", "surrogateescape"), self.named).encode("utf-8", "surrogateescape")

    def are_in(self, json: bytes) -> bool:
        """Whether JSON text holds one that is secret by name: to be asked before anything is taken apart."""
        # What is escaped there can be any letter: `\u0074` is a t, and some servers write `\/` for every slash.
        return bool(self.named) and (b"\\" in json or _redaction(self.named).finds(json.decode("utf-8", "replace")))


def secrets_of(settings: Mapping[str, str], read: Mapping[str, Mapping[str, str]]) -> Secrets:
    """Of `settings` with their values filled in; `read` has, by setting, the variables it read and what they held."""
    named: set[str] = set()
    for name, value in settings.items():
        variables = read.get(name, {})
        if says_secret(name):
            scheme = _SCHEME.match(value)
            named |= {value[scheme.end() :] if scheme else value, *variables.values()}
        named |= {held for variable, held in variables.items() if says_secret(variable)}
    every = {held for variables in read.values() for held in variables.values()}
    made = Secrets(_long(every), _long(named))
    note(made.named)
    return made


def spellings(secret: str) -> tuple[str, ...]:
    """A secret as tools repeat it: itself, inside JSON, inside an address."""
    return tuple(dict.fromkeys((secret, orjson.dumps(secret)[1:-1].decode(), quote(secret, safe=""))))


def says_secret(name: str) -> bool:
    """Whether what bears this name is a secret: GITHUB_TOKEN, X-Api-Key, dbPassword."""
    return name not in _HARMLESS and any(word.lower() in _WORDS for word in _WORD.findall(name))


def secret_names(names: Iterable[str]) -> frozenset[str]:
    """Return the names that `$secret` may read.

    Raises:
        InvalidInput: They are no list.
        ConfigError: One of them is no name of a variable, or that of the token of `ropewalk serve`.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise wants("secrets", "a list of names of environment variables", names)
    found = list(names)
    for name in found:
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise ConfigError(f"secrets: {name!r} is no name of an environment variable")
        if name == NEVER:
            raise ConfigError(f"secrets: {name} is the token of `ropewalk serve`, which no definition may read")
    return frozenset(found)


def refused(name: str) -> str:
    """Say that a definition may not read this secret, and what would let it."""
    if name == NEVER:
        return f"$secret.{name} is the token of `ropewalk serve`, which no definition may read"
    return f'$secret.{name} may not be read; add "{name}" to `allow` under [secrets], or to App(secrets=[...])'


def note(secrets: Iterable[str]) -> None:
    """Remember them for `Known`."""
    _known.update(_long(secrets))


class Known:
    """Every secret that this process has used so far, and those of its environment by their names; for logs."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = _long(value for name, value in environ.items() if says_secret(name))
        self._redaction = Redaction()
        self._seen = -1

    @property
    def marks(self) -> dict[str, str]:
        """What to write in their places."""
        return dict.fromkeys(self._environ | _known, MARK)

    @property
    def redaction(self) -> Redaction:
        """Takes all of them out of texts and values."""
        if self._seen != len(_known):
            self._seen = len(_known)
            self._redaction = _redaction(self._environ | _known)
        return self._redaction


def without(text: str, secrets: Iterable[str]) -> str:
    """The text with `***` in their place."""
    return _redaction(frozenset(secrets)).text(text)


@lru_cache(64)
def _redaction(secrets: frozenset[str]) -> Redaction:
    return Redaction(dict.fromkeys(sorted(secrets), MARK))


def _long(secrets: Iterable[str]) -> frozenset[str]:
    return frozenset(one for secret in secrets if len(secret) >= SHORTEST for one in spellings(secret))
