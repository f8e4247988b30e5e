"""Secrets of this process: which settings contain one, and how to remove them from values and texts.

A setting of `env` or `headers` is secret if its name, or the name of a variable that it reads, contains a word such as
token, key, password or cookie. Ropewalk removes the secret from every answer of the server, so that it reaches no
result, journal or log. Other values from the environment are removed from error texts only, because no program
computes with those. Values of less than six characters stay, because they would match everywhere. To recognize
another word in names, add it to `_WORDS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote

import orjson

from ..argument_checks import wrong_type
from ..errors import ConfigError
from ..fast_dataclass import dataclass
from ..redaction import MARK, Redaction
from ..values import Json

MIN_LENGTH: Final = 6
_LONG_LINE: Final = 16  # of a key, which programs print line by line
SERVER_TOKEN: Final = "ROPEWALK_TOKEN"
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
_remembered: set[str] = set()


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of one server."""

    # Values that settings read from the environment. They are removed from error texts.
    read: frozenset[str] = frozenset()
    # Values that are secret by the name of their setting or variable. They are removed everywhere.
    named: frozenset[str] = frozenset()

    def redact_error(self, text: str) -> str:
        """Return an error text without the secrets."""
        return redact_text(text, self.read | self.named)

    def redact_value(self, value: Json) -> Json:
        """Return a value without the secrets in `named`."""
        return _redaction(self.named).value(value) if self.named else value

    def redact_bytes(self, body: bytes) -> bytes:
        """Return bytes, mostly of text, without the secrets in `named`."""
        return redact_text(body.decode("utf-8", "surrogateescape"), self.named).encode("utf-8", "surrogateescape")

    def are_in(self, json: bytes) -> bool:
        """Return True if JSON text may contain a secret in `named`."""

        # This is cheap, so call it before parsing.
        # An escape can be any letter: `\u0074` is a t, and some servers write `\/` for every slash.
        return bool(self.named) and (
            b"\\" in json or _redaction(self.named).has_secret(json.decode("utf-8", "replace"))
        )


def secrets_of(settings: Mapping[str, str], read: Mapping[str, Mapping[str, str]]) -> Secrets:
    """Return the secrets among the settings of a server, and remember them for `ProcessSecrets`."""
    named: set[str] = set()
    for name, value in settings.items():
        variables = read.get(name, {})
        if is_secret_name(name):
            scheme = _SCHEME.match(value)
            named |= {value[scheme.end() :] if scheme else value, *variables.values()}
        named |= {secret for variable, secret in variables.items() if is_secret_name(variable)}
    every = {secret for variables in read.values() for secret in variables.values()}
    secrets = Secrets(_spellings_of_all(every), _spellings_of_all(named))
    remember_secrets(secrets.named)
    return secrets


def spellings(secret: str) -> tuple[str, ...]:
    """Return the forms in which tools repeat a secret: itself, inside JSON, inside an address, and line by line."""
    lines = [line for line in secret.splitlines() if len(line) >= _LONG_LINE and not line.startswith("-----")]
    forms = (secret, orjson.dumps(secret)[1:-1].decode(), quote(secret, safe=""))
    return tuple(dict.fromkeys((*forms, *(lines if "\n" in secret else ()))))


@lru_cache(4096)
def is_secret_name(name: str) -> bool:
    """Return True if a setting or variable of this name is secret: GITHUB_TOKEN, X-Api-Key, dbPassword."""
    return name not in _HARMLESS and any(word.lower() in _WORDS for word in _WORD.findall(name))


def secret_names(names: Iterable[str]) -> frozenset[str]:
    """Return the names that `$secret` may read."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise wrong_type("secrets", "a list of names of environment variables", names)
    result = list(names)
    for name in result:
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise ConfigError(f"secrets: {name!r} is not the name of an environment variable")
        if name == SERVER_TOKEN:
            raise ConfigError(f"secrets: {name} is the token of the server, which no definition may read")
    return frozenset(result)


def refusal_message(name: str) -> str:
    """Return the message that a definition may not read this secret, with the setting that allows it."""
    if name == SERVER_TOKEN:
        return f"$secret.{name} is the token of the server, which no definition may read"
    return f'$secret.{name} may not be read; add "{name}" to `allow` under [secrets], or to App(secrets=[...])'


def remember_secrets(secrets: Iterable[str]) -> None:
    """Remember secrets for `ProcessSecrets`."""
    _remembered.update(_spellings_of_all(secrets))


class ProcessSecrets:
    """The secrets for logs: every one that this process has used, and those that the environment names."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = _spellings_of_all(value for name, value in environ.items() if is_secret_name(name))
        self._redaction = Redaction()
        self._built_from = -1

    @property
    def replacements(self) -> dict[str, str]:
        """The replacement of each secret."""
        return dict.fromkeys(self._environ | _remembered, MARK)

    @property
    def redaction(self) -> Redaction:
        """The object that removes all secrets from texts and values."""
        if self._built_from != len(_remembered):
            self._built_from = len(_remembered)
            self._redaction = _redaction(self._environ | _remembered)
        return self._redaction


def process_redaction() -> Redaction:
    """Return the object that removes the secrets of this process as they are now."""
    global _process, _named
    named = tuple(value for name, value in os.environ.items() if is_secret_name(name))
    if _process is None or named != _named:
        _process, _named = ProcessSecrets(os.environ), named
    return _process.redaction


_process: ProcessSecrets | None = None
_named: tuple[str, ...] = ()


def redact_text(text: str, secrets: Iterable[str]) -> str:
    """Return the text with `***` in place of each secret."""
    return _redaction(frozenset(secrets)).text(text)


@lru_cache(64)
def _redaction(secrets: frozenset[str]) -> Redaction:
    return Redaction(dict.fromkeys(sorted(secrets), MARK))


def _spellings_of_all(secrets: Iterable[str]) -> frozenset[str]:
    return frozenset(spelling for secret in secrets if len(secret) >= MIN_LENGTH for spelling in spellings(secret))
