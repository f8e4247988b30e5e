"""How one MCP server is reached: the checked form of its configuration.

A server is a program (`command`, `args`, `env`, `cwd`) or an address (`url`, `headers`). Refused
here: unknown keys, shell lines, other addresses than http and https, NUL and line breaks where
they would smuggle something in. To add a key, add a field and a check.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlsplit

from ...config.secrets import Secrets, secrets_of
from ...config.settings import MODES, TRUST_HINTS, SamplingLimits, fill_variables
from ...config.toml import SAMPLING
from ...errors import ConfigError
from ...fast_dataclass import dataclass
from ...values import did_you_mean
from ..child_process import inherited_environment
from .auth_settings import AuthSettings, auth_settings

_COMMON: Final = ("timeout", "connect_timeout", "mode", "trust", "roots", "sampling")
_STDIO: Final = ("command", "args", "env", "cwd")
_HTTP: Final = ("url", "headers", "auth")
_KEYS: Final = _STDIO + _HTTP + _COMMON

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BREAKS: Final = re.compile(r"[\0\r\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server. Exactly one of `command` and `url` is set; times are in seconds.

    `env` and `headers` are as written, `${VAR}` unread: `resolved` reads them at each connect. `roots` are the
    directories that the server may ask for; with `sampling` it may ask the program's model, within these limits.
    """

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

    def __str__(self) -> str:
        return f"MCP server {self.name!r}"


def server_config(name: str, config: Mapping[str, Any]) -> ServerConfig:
    """Check the settings of one server.

    Args:
        name: The name of the server.
        config: Its table of settings.

    Returns:
        The settings, with defaults.

    Raises:
        ConfigError: A setting is wrong; the message names the key and a valid value.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError(f"an MCP server needs a name, not {name!r}")
    where = f"MCP server {name!r}"
    if not isinstance(config, Mapping):
        raise ConfigError(f"{where}: expected a table of settings, not {type(config).__name__}")
    for key in config:
        if key not in _KEYS:
            near = did_you_mean(str(key), _KEYS)
            raise ConfigError(f"{where}: unknown key {key!r}" + (f"; did you mean {near!r}?" if near else _known()))
    # The transport follows from the keys, so keys of both cannot be combined.
    if ("command" in config) == ("url" in config):
        raise ConfigError(f"{where}: needs either command (a program) or url (an address), and not both")
    kind, foreign = ("command", _HTTP) if "command" in config else ("url", _STDIO)
    if wrong := [key for key in foreign if key in config]:
        raise ConfigError(f"{where}: {wrong[0]} cannot be combined with {kind}")
    mode = config.get("mode", "auto")
    if mode not in MODES:
        near = did_you_mean(str(mode), MODES)
        raise ConfigError(
            f"{where}: mode {mode!r} is not one of {', '.join(MODES)}" + (f"; did you mean {near}?" if near else "")
        )
    trust = config.get("trust")
    if trust not in (None, TRUST_HINTS):
        raise ConfigError(f"{where}: trust must be {TRUST_HINTS!r}, or left out, not {trust!r:.100}")
    return ServerConfig(
        name=name,
        command=_command(where, config["command"]) if kind == "command" else "",
        args=_args(where, config.get("args", ())),
        env=_strings(where, "env", config.get("env")),
        cwd=_cwd(where, config.get("cwd")),
        url=_url(where, config["url"]) if kind == "url" else "",
        headers=_headers(where, config.get("headers")),
        auth=auth_settings(where, config.get("auth")),
        roots=_roots(where, config.get("roots", ())),
        sampling=_sampling(where, config.get("sampling", False)),
        timeout=_seconds(where, "timeout", config.get("timeout", 60.0)),
        connect_timeout=_seconds(where, "connect_timeout", config.get("connect_timeout", 30.0)),
        mode=mode,
        trust=trust,
    )


def resolved(config: ServerConfig, key: str) -> tuple[dict[str, str], Secrets]:
    """Fill in the `${VAR}` and `${VAR:-default}` of a setting from the present environment.

    Args:
        config: The settings of the server.
        key: `env` or `headers`.

    Returns:
        The values by name, and the secrets in them, which no message may show.

    Raises:
        ConfigError: A variable is not set, or a value contains a line break or NUL.
    """
    read: dict[str, dict[str, str]] = {}
    values: dict[str, str] = {}
    for name, text in getattr(config, key).items():
        try:
            values[name] = fill_variables(text, os.environ, read.setdefault(name, {}))
        except KeyError as unset:
            missing = f"${{{unset.args[0]}}}"
            raise ConfigError(f"{config}: {key}.{name} reads {missing}, which is not set in the environment") from None
        if _BREAKS.search(values[name]) and (key == "headers" or "\0" in values[name]):
            raise ConfigError(f"{config}: {key}.{name} contains a line break or NUL")
    return values, secrets_of(values, read)


def child_environment(config: ServerConfig) -> tuple[dict[str, str], Secrets]:
    """The whole environment of a child: the allow-list, then the server's own `env`."""
    own, secrets = resolved(config, "env")
    return inherited_environment() | own, secrets


def _known() -> str:
    return f"; known keys: {', '.join(_KEYS)}"


def _command(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ConfigError(f"{where}: command must be the name or path of one program, not {value!r}")
    return value


def _args(where: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise ConfigError(f"{where}: args must be a list of strings (no shell reads them), not {value!r}")
    for i, arg in enumerate(value):
        if not isinstance(arg, str) or "\0" in arg:
            raise ConfigError(f"{where}: args[{i}] must be a string without NUL, not {arg!r}")
    return tuple(value)


def _cwd(where: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)) or "\0" in os.fspath(value):
        raise ConfigError(f"{where}: cwd must be a path, not {value!r}")
    return os.fspath(value)


def _roots(where: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise ConfigError(f"{where}: roots must be a list of directories, not {value!r:.100}")
    for root in value:
        if not isinstance(root, (str, os.PathLike)) or not os.fspath(root) or "\0" in os.fspath(root):
            raise ConfigError(f"{where}: roots: {root!r:.100} is not a path")
    return tuple(os.path.abspath(root) for root in value)


def _sampling(where: str, value: Any) -> SamplingLimits | None:
    if not SAMPLING.accepts(value):
        raise ConfigError(f"{where}: sampling must be {SAMPLING.expected}, not {value!r:.100}")
    if isinstance(value, Mapping):
        return SamplingLimits(**value)
    return SamplingLimits() if value else None


def _strings(where: str, key: str, value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: {key} must be a table of strings, not {type(value).__name__}")
    for name, text in value.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise ConfigError(f"{where}: {key}: {name!r} cannot be a name")
        if not isinstance(text, str) or "\0" in text:
            raise ConfigError(f"{where}: {key}.{name} must be a string, not {type(text).__name__}")
    return dict(value)


def _headers(where: str, value: Any) -> dict[str, str]:
    headers = _strings(where, "headers", value)
    for name, text in headers.items():
        if not _HEADER_NAME.fullmatch(name) or _BREAKS.search(text):
            raise ConfigError(f"{where}: headers: {name!r} is not a valid header")
    return headers


def _url(where: str, value: Any) -> str:
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        bad = parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        bad = True
    if bad or re.search(r"[\s\0-\x1f\x7f]", value):
        raise ConfigError(f"{where}: url must be an http or https address, not {value!r}")
    return str(value)


def _seconds(where: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise ConfigError(f"{where}: {key} must be a number of seconds above 0, not {value!r}")
    return float(value)
