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
from typing import Final
from urllib.parse import quote

import orjson

from ..frozen import dataclass
from ..values import Json, replaced

MARK: Final = "***"
SHORTEST: Final = 6
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
        return replaced(value, dict.fromkeys(_longest_first(self.named), MARK)) if self.named else value

    def are_in(self, json: bytes) -> bool:
        """Whether JSON text holds one that is secret by name: to be asked before anything is taken apart."""
        return any(one.encode() in json for secret in self.named for one in spellings(secret))


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


def note(secrets: Iterable[str]) -> None:
    """Remember them for `Known`."""
    _known.update(_long(secrets))


class Known:
    """Every secret that this process has used so far, and those of its environment by their names; for logs."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = _long(value for name, value in environ.items() if says_secret(name))
        self._marks: dict[str, str] = {}
        self._seen = -1

    @property
    def marks(self) -> dict[str, str]:
        """What to write in their places."""
        if self._seen != len(_known):
            self._seen = len(_known)
            self._marks = dict.fromkeys(_longest_first(self._environ | _known), MARK)
        return self._marks


def without(text: str, secrets: Iterable[str]) -> str:
    """The text with `***` in their place."""
    for secret in _longest_first(secrets):
        text = text.replace(secret, MARK)
    return text


def _long(secrets: Iterable[str]) -> frozenset[str]:
    return frozenset(one for secret in secrets if len(secret) >= SHORTEST for one in spellings(secret))


def _longest_first(secrets: Iterable[str]) -> list[str]:
    """One that holds another one goes first, or its rest would stay."""
    return sorted(secrets, key=len, reverse=True)
