"""How one MCP server is reached: the checked form of its configuration.

A server is a program (`command`, `args`, `env`, `cwd`) or an address (`url`, `headers`). Refused
here: unknown keys, shell lines, other addresses than http and https, NUL and line breaks where
they would smuggle something in. To add a key, add a field and a check (`_CHECKS`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import urlsplit

from ...config.secrets import Secrets, secrets_of
from ...config.settings import MODES, QUESTIONS, TRUST_HINTS, SamplingLimits
from ...config.toml import SAMPLING
from ...duration import EXAMPLES, read_duration
from ...errors import ConfigError
from ...fast_dataclass import dataclass
from ...values import did_you_mean
from ..child_process import inherited_environment
from .auth_settings import AuthSettings, auth_settings, read_variables, unknown_key

_STDIO: Final = ("command", "args", "env", "cwd")
_HTTP: Final = ("url", "headers", "auth")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BREAKS: Final = re.compile(r"[\0\r\n]")
SWITCHED_OFF: Final = "the settings of its server switch it off (tools, exclude_tools)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server."""

    # Exactly one of `command` and `url` is set; times are in seconds.
    # `env` and `headers` are as written, `${VAR}` unread: `resolved` reads them at each connect. `roots` are the
    # directories that the server may ask for; with `sampling` it may ask the program's model, within these limits.
    # `questions` says what a durable run does with a question that nobody answers at once: "wait" or "refuse"; None
    # waits only for a server of the 2026-07-28 revision, where the call does not stay open meanwhile.

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: AuthSettings = field(default_factory=AuthSettings)
    roots: tuple[str, ...] = ()
    sampling: SamplingLimits | None = None
    timeout: float = 60.0
    connect_timeout: float = 30.0
    mode: str = "auto"
    trust: str | None = None
    questions: str | None = None
    # The only tools that may be used (None: all), and those that may not, by name or pattern.
    tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()

    @property
    def transport(self) -> str:
        """The key that says how the server is reached."""
        return "url" if self.url else "command"

    def offers(self, tool: str) -> bool:
        """Return True if the settings let a tool be used."""
        is_allowed = self.tools is None or any(_matches(tool, name) for name in self.tools)
        return is_allowed and not any(_matches(tool, name) for name in self.exclude_tools)

    def unmatched(self, tools: Collection[str]) -> Iterator[ConfigError]:
        """Yield an error for each name and pattern of the settings that matches none of these tools."""
        for key in ("tools", "exclude_tools"):
            for name in getattr(self, key) or ():
                if name != "*" and not any(_matches(tool, name) for tool in tools):
                    near = did_you_mean(name, tools)
                    message = f"{name!r} matches no tool of the server" + (f"; did you mean {near!r}?" if near else "")
                    yield ConfigError(message).at_key(key, name)

    def __str__(self) -> str:
        return f"MCP server {self.name!r}"


def _matches(tool: str, name: str) -> bool:
    return tool == name or fnmatchcase(tool, name)


def server_config(name: str, config: Mapping[str, Any]) -> ServerConfig:
    """Check the settings of one server."""
    if not isinstance(name, str) or not name:
        raise ConfigError(f"an MCP server needs a name, not {name!r}")
    where = f"MCP server {name!r}"
    if not isinstance(config, Mapping):
        raise ConfigError(f"{where}: expected a table of settings, not {type(config).__name__}")
    for key in config:
        if key not in _CHECKS:
            raise ConfigError(f"{where}: {unknown_key(key, _CHECKS)}").at_key(key)
    # The transport follows from the keys, so keys of both cannot be combined.
    if ("command" in config) == ("url" in config):
        raise ConfigError(f"{where}: needs either command (a program) or url (an address), and not both")
    kind, foreign = ("command", _HTTP) if "command" in config else ("url", _STDIO)
    if wrong := [key for key in foreign if key in config]:
        raise ConfigError(f"{where}: {wrong[0]} cannot be combined with {kind}").at_key(wrong[0])
    settings = {}
    for key, check in _CHECKS.items():
        try:
            if key in config:
                settings[key] = check(f"{where}: {key}", config[key])
        except ConfigError as error:
            raise error.at_key(key) from error.__cause__
    return ServerConfig(name=name, **settings)


def resolved(config: ServerConfig, key: str) -> tuple[dict[str, str], Secrets]:
    """Fill in the `${VAR}` and `${VAR:-default}` of a setting from the present environment."""
    read: dict[str, dict[str, str]] = {}
    values: dict[str, str] = {}
    for name, text in getattr(config, key).items():
        what = f"{config}: {key}.{name}"
        try:
            values[name] = read_variables(what, text, read.setdefault(name, {}))
        except ConfigError as error:
            raise error.at_key(key, name) from None
        if _BREAKS.search(values[name]) and (key == "headers" or "\0" in values[name]):
            raise ConfigError(f"{what} contains a line break or NUL").at_key(key, name)
    return values, secrets_of(values, read)


def child_environment(config: ServerConfig) -> tuple[dict[str, str], Secrets]:
    """The whole environment of a child: the allow-list, then the server's own `env`."""
    own, secrets = resolved(config, "env")
    return inherited_environment() | own, secrets


def _require(what: str, value: Any, expected: str, accepted: bool) -> None:
    if not accepted:
        raise ConfigError(f"{what} must be {expected}, not {value!r:.100}")


def _command(what: str, value: Any) -> str:
    is_program = isinstance(value, str) and bool(value.strip()) and "\0" not in value
    _require(what, value, "the name or path of one program", is_program)
    return str(value)


def _args(what: str, value: Any) -> tuple[str, ...]:
    _require(what, value, "a list of strings (no shell reads them)", isinstance(value, (list, tuple)))
    for i, arg in enumerate(value):
        _require(f"{what}[{i}]", arg, "a string without NUL", isinstance(arg, str) and "\0" not in arg)
    return tuple(value)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and "\0" not in os.fspath(value)


def _cwd(what: str, value: Any) -> str | None:
    _require(what, value, "a path", value is None or _is_path(value))
    return None if value is None else os.fspath(value)


def _roots(what: str, value: Any) -> tuple[str, ...]:
    _require(what, value, "a list of directories", isinstance(value, (list, tuple)))
    for root in value:
        if not _is_path(root) or not os.fspath(root):
            raise ConfigError(f"{what}: {root!r:.100} is not a path")
    return tuple(os.path.abspath(root) for root in value)


def _sampling(what: str, value: Any) -> SamplingLimits | None:
    _require(what, value, SAMPLING.expected, SAMPLING.accepts(value))
    if isinstance(value, Mapping):
        return SamplingLimits(**value)
    return SamplingLimits() if value else None


def _questions(what: str, value: Any) -> str | None:
    _require(what, value, f"one of {', '.join(QUESTIONS)}", value in (None, *QUESTIONS))
    return None if value is None else str(value)


def _env(what: str, value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{what} must be a table of strings, not {type(value).__name__}")
    for name, text in value.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise ConfigError(f"{what}: {name!r} cannot be a name")
        if not isinstance(text, str) or "\0" in text:
            raise ConfigError(f"{what}.{name} must be a string, not {type(text).__name__}")
    return dict(value)


def _headers(what: str, value: Any) -> dict[str, str]:
    headers = _env(what, value)
    for name, text in headers.items():
        if not _HEADER_NAME.fullmatch(name) or _BREAKS.search(text):
            raise ConfigError(f"{what}: {name!r} is not a valid header")
    return headers


def _url(what: str, value: Any) -> str:
    try:
        parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    is_address = is_address and not re.search(r"[\s\0-\x1f\x7f]", value)
    _require(what, value, "an http or https address", is_address)
    return str(value)


def _seconds(what: str, value: Any) -> float:
    value = read_duration(value)
    is_limit = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e9
    _require(what, value, f"a number of seconds above 0, or {EXAMPLES}", is_limit)
    return float(value)


def _tool_names(what: str, value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)
    _require(what, value, "a list of names and patterns of tools", is_list)
    return tuple(value)


def _mode(what: str, value: Any) -> str:
    if value not in MODES:
        near = did_you_mean(str(value), MODES)
        hint = f"; did you mean {near}?" if near else ""
        raise ConfigError(f"{what} {value!r} is not one of {', '.join(MODES)}{hint}")
    return str(value)


def _trust(what: str, value: Any) -> str | None:
    _require(what, value, f"{TRUST_HINTS!r}, or left out", value in (None, TRUST_HINTS))
    return None if value is None else str(value)


_CHECKS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "command": _command,
    "args": _args,
    "env": _env,
    "cwd": _cwd,
    "url": _url,
    "headers": _headers,
    "auth": auth_settings,
    "timeout": _seconds,
    "connect_timeout": _seconds,
    "mode": _mode,
    "trust": _trust,
    "roots": _roots,
    "sampling": _sampling,
    "questions": _questions,
    "tools": _tool_names,
    "exclude_tools": _tool_names,
}
"""What checks the value of each key; it takes the words that name the key in errors."""
