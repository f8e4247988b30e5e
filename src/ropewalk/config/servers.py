"""The sections of `ropewalk.toml` that name tools and workers.

- MCP servers, from `[mcp]` and from an `mcpServers` JSON file that other programs may share;
- HTTP providers, from `[providers]`; tool backends of registered kinds, from `[backends]`;
- settings of workers: `[workers]`, `[queues]`, `[limits.tools]`, `[schedules]`.

A fault in one table does not hide those in others: `TomlFile.collecting_errors` collects them. To add a key,
add it to the tables of toml.py and a field to settings.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from ..errors import ConfigError, InvalidFlow, Place
from ..source.document import Document
from ..source.load import load
from ..source.locations import Limits
from ..values import did_you_mean
from .settings import (
    TRUST_HINTS,
    BackendSource,
    Location,
    McpServer,
    Provider,
    Queue,
    Rate,
    Schedule,
    WorkerLimits,
    WorkerSettings,
    fill_variables,
)
from .toml import (
    PROVIDER_KEYS,
    QUEUE_KEYS,
    RATE_KEYS,
    SCHEDULE_KEYS,
    SECTIONS,
    SERVER_KEYS,
    TomlFile,
    ValueType,
    display_path,
    file_exists,
    is_text,
)

SERVERS_FILE: Final = ".mcp.json"
_FOREIGN: Final = """
    type transport disabled autoApprove alwaysAllow description envFile httpUrl serverUrl name model envVars
    title icon version tools includeTools excludeTools enabledTools disabledTools oauth auth
    authorization_token headersHelper initTimeout networkTimeout roots dev sandbox sandboxEnabled settings
    source instructions tags metadata gallery isActive inputs notes"""
FOREIGN_KEYS: Final = frozenset(_FOREIGN.split())
"""Keys of a server that other programs read (Claude, Cursor, VS Code, Cline, Gemini, Zed) and we do not.

The exceptions are `disabled`, and `type` where it is "sse"."""
_OTHER_FORMS: Final = ("auth", "roots", "sampling")
"""Keys of a server that have other forms in other programs; only ropewalk.toml has ours."""
_SERVERS: Final = "mcpServers"
_FILE_LIMITS: Final = Limits(repeats=True)  # keys repeated in other parts of the file belong to other programs
_FILLED_AT_CONNECT: Final = (
    "env",
    "headers",
    "auth",
    "credentials",
)  # so that the one who connects can redact the values


def read_servers(
    table: TomlFile, directory: Path, environ: Mapping[str, str], failures: dict[str, str], warnings: list[str]
) -> dict[str, McpServer]:
    """Read the MCP servers: those of the `mcpServers` file first, then the tables `[mcp.NAME]`, which replace them."""
    section = dict(table.get_table(("mcp",)))
    file_name = section.pop("file", None) if not isinstance(section.get("file"), dict) else None
    servers: dict[str, McpServer] = {}

    # A fault in the file breaks one server: other programs may need what we cannot read.
    with table.collecting_errors():
        file = _find_servers_file(table, file_name, directory)
        if file is not None:
            document, entries = _read_servers_file(file)
            for name, written in entries.items():
                settings = written
                if isinstance(written, dict):
                    settings = {key: value for key, value in written.items() if key not in _OTHER_FORMS}
                problem = _problem_of_entry(document, name, settings)
                if problem is not None:
                    failures[name] = problem
                    continue
                if name not in section:
                    for key in _unknown_keys(settings):
                        message = f"unknown key {key!r} is not read; known are: {', '.join(SERVER_KEYS)}"
                        warnings.append(f"{_position(document, name, key)}: server {name!r}: {message}")
                _add_unless_disabled(servers, failures, name, settings, file.parent, environ)

    # A fault in ropewalk.toml is an error.
    for name, settings in section.items():
        with table.collecting_errors():
            if not isinstance(settings, dict):
                raise table.unknown_key_error(("mcp", name), ("file",))
            values = table.check_table(("mcp", name), SERVER_KEYS)
            if ("command" in values) == ("url" in values):
                table.raise_at(("mcp", name), f"[mcp.{name}] needs either a command or a url")
            servers.pop(name, None)
            failures.pop(name, None)
            _add_unless_disabled(servers, failures, name, values, directory, environ)
    return servers


def _find_servers_file(table: TomlFile, name: Any, directory: Path) -> Path | None:
    """Return the `mcpServers` file that is named, or else the default one if it exists."""
    key_path = ("mcp", "file")
    if name is not None and not is_text(name):
        table.raise_at(key_path, "[mcp] file: must be text, the path of an mcpServers JSON file")
    file = directory / (name or SERVERS_FILE)
    if file_exists(file):
        return file
    if name is not None:
        table.raise_at(key_path, f"[mcp] file: {name!r} does not exist in {directory}")
    return None


def _read_servers_file(path: Path) -> tuple[Document, dict[str, Any]]:
    """Read an `mcpServers` JSON file, and return it with its servers; its other keys belong to other programs."""
    try:
        document = load(path, name=display_path(path), form="json", limits=_FILE_LIMITS)
    except InvalidFlow as error:
        raise ConfigError(error.problems) from None
    repetition = document.repeated.get((_SERVERS,))
    if repetition:
        raise ConfigError(f"{_SERVERS} is defined twice", place=repetition)
    data = document.data
    servers = data.get(_SERVERS) if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f'needs {{"{_SERVERS}": {{"name": {{"command": ...}}}}}}', place=document.locate(_SERVERS))
    return document, servers


def _position(document: Document, name: str, key: str | None = None) -> str:
    """Return `file:line:column` of a server, or of a key of it."""
    path = f"{_SERVERS}[{name!r}]"
    if key is not None:
        path += f"[{key!r}]"
    return _format_place(document.locate(path, at_key=True))


def _format_place(place: Place) -> str:
    return f"{place.file}:{place.line}:{place.column}"


def _unknown_keys(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of a server that neither we nor the programs we know of read, except comments."""
    for key in settings:
        is_comment = key.startswith(("_", "$", "/", "#", "x-"))
        if key not in SERVER_KEYS and key not in FOREIGN_KEYS and not is_comment:
            yield key


def _problem_of_entry(document: Document, name: str, settings: Any) -> str | None:
    """Return what is wrong with one server of the file, and where, or None."""
    for path, place in document.repeated.items():
        if path[:2] == (_SERVERS, name):
            return f"{_format_place(place)}: {path[-1] + ' ' if len(path) > 2 else ''}is defined twice"
    if not isinstance(settings, dict):
        return f"{_position(document, name)}: must be an object with a command or a url"
    problem = _settings_problem(settings)
    if problem is None:
        return None
    key, message = problem
    return f"{_position(document, name, key)}: {message}"


def _settings_problem(settings: Mapping[str, Any]) -> tuple[str | None, str] | None:
    """Return the key that is wrong in a server (None: the server itself) and why, or None."""
    for key in settings:
        if key not in SERVER_KEYS and key not in FOREIGN_KEYS:
            suggestion = did_you_mean(key, (*SERVER_KEYS, "disabled"))
            if suggestion:
                return key, f"unknown key {key!r}; did you mean {suggestion!r}?"
    if ("command" in settings) == ("url" in settings):
        return None, "needs either a command or a url"
    if settings.get("type") == "sse":
        return "type", "type sse is the transport of 2024; use the server's streamable HTTP address"
    for key, value_type in SERVER_KEYS.items():
        if key == "trust" and isinstance(settings.get(key), bool):
            continue  # the key of another program, which says nothing about hints
        if key in settings and not value_type.accepts(settings[key]):
            return key, f"{key} must be {value_type.expected}"
    return None


def _add_unless_disabled(
    servers: dict[str, McpServer],
    failures: dict[str, str],
    name: str,
    settings: Mapping[str, Any],
    directory: Path,
    environ: Mapping[str, str],
) -> None:
    """Add a server to `servers`, or to `failures` if it reads a variable that is not set."""
    if settings.get("enabled") is False or settings.get("disabled") is True:
        return
    # A server with an unset variable must not prevent the use of the others.
    try:
        values = {key: _fill_setting(key, settings.get(key), environ) for key in SERVER_KEYS}
    except KeyError as unset:
        failures[name] = _unset_message(unset)
        return
    # `cwd` and `roots` are relative to the project, not to the directory that Ropewalk was started in.
    servers[name] = McpServer(
        name=name,
        command=values["command"],
        args=tuple(values["args"] or ()),
        env=values["env"] or {},
        cwd=str(directory / (values["cwd"] or "")) if values["command"] else None,
        url=values["url"],
        headers=values["headers"] or {},
        auth=values["auth"],
        sampling=settings.get("sampling"),
        roots=tuple(str(directory / root) for root in values["roots"] or ()),
        timeout=settings.get("timeout"),
        connect_timeout=settings.get("connect_timeout"),
        mode=settings.get("mode"),
        trust=TRUST_HINTS if settings.get("trust") == TRUST_HINTS else None,
        questions=settings.get("questions"),
    )


def _unset_message(unset: KeyError) -> str:
    return f"environment variable {unset.args[0]} is not set"


def read_providers(
    table: TomlFile, directory: Path, environ: Mapping[str, str], failures: dict[str, str], warnings: list[str]
) -> dict[str, Provider]:
    """Read the `[providers.NAME]` tables."""
    providers: dict[str, Provider] = {}
    for name in table.get_table(("providers",)):
        with table.collecting_errors():
            values = _check_provider(table, name)
            tools = tuple(values.pop("tools", ()))
            if not values.pop("enabled", True):
                continue
            try:
                filled = {key: _fill_setting(key, value, environ) for key, value in values.items()}
            except KeyError as unset:
                failures[name] = _unset_message(unset)
                continue
            if "openapi" in filled and not filled["openapi"].startswith(("http://", "https://")):
                filled["openapi"] = str(directory / filled["openapi"])
            if not tools and "openapi" not in filled:
                place = table.place_of(("providers", name))
                message = f"[providers.{name}] has no tools: it needs tools or an openapi document"
                warnings.append(f"{place.file}:{place.line}: {message}")
            providers[name] = Provider(name=name, tools=tools, **filled)
    return providers


def _check_provider(table: TomlFile, name: str) -> dict[str, Any]:
    key_path = ("providers", name)
    values = table.check_table(key_path, PROVIDER_KEYS)
    if "url" not in values and "openapi" not in values:
        table.raise_at(key_path, f"[providers.{name}] needs a url or an openapi document")
    if "tools" in values and "openapi" in values:
        table.raise_at(key_path, f"[providers.{name}] takes its tools from openapi or from tools, not both")
    return values


def read_backends(table: TomlFile, environ: Mapping[str, str], failures: dict[str, str]) -> dict[str, BackendSource]:
    """Read the `[backends.NAME]` tables."""

    # The kind of each checks its other keys, once it is registered.
    sources: dict[str, BackendSource] = {}
    for name in table.get_table(("backends",)):
        with table.collecting_errors():
            # The tool ids of a backend begin with its name, so no server or provider may have the same name.
            settings = dict(table.get_table(("backends", name)))
            kind = settings.pop("kind", None)
            enabled = settings.pop("enabled", True)
            for other in ("mcp", "providers"):
                if name in table.data.get(other, {}):
                    table.raise_at(("backends", name), f"[backends.{name}] has the name of [{other}.{name}]; rename it")
            if not is_text(kind):
                message = f'[backends.{name}] kind: must be text, such as kind = "shell": which kind of backend this is'
                table.raise_at(("backends", name, "kind"), message)
            if not isinstance(enabled, bool):
                table.raise_at(("backends", name, "enabled"), f"[backends.{name}] enabled: must be true or false")
            if not enabled:
                continue
            # An unset variable disables this backend only; the others still work.
            try:
                filled = _fill_variables(settings, environ)
            except KeyError as unset:
                failures[name] = _unset_message(unset)
                continue
            place = partial(_place_of_key, table, name)
            sources[name] = BackendSource(name=name, kind=kind, settings=filled, place=place)
    return sources


def _place_of_key(table: TomlFile, name: str, key: str) -> Place:
    return table.place_of(("backends", name, *key.split(".")) if key else ("backends", name))


def _fill_variables(value: Any, environ: Mapping[str, str]) -> Any:
    """Return a setting with all its variables filled in; KeyError names a variable that is not set."""
    if isinstance(value, list):
        return [_fill_variables(item, environ) for item in value]
    if isinstance(value, dict):
        return {key: _fill_variables(item, environ) for key, item in value.items()}
    return fill_variables(value, environ) if isinstance(value, str) else value


def _fill_setting(key: str, value: Any, environ: Mapping[str, str]) -> Any:
    """Fill in the variables of a setting; those of `_FILLED_AT_CONNECT` are only checked, and stay as they are."""
    filled = _fill_variables(value, environ)
    return value if key in _FILLED_AT_CONNECT else filled


_RESERVED_PREFIX: Final = "_"
T = TypeVar("T")


def read_worker_settings(table: TomlFile) -> WorkerSettings:
    """Read `[workers]`, every `[queues.NAME]`, `[limits.tools.PATTERN]` and `[schedules.NAME]`."""
    queues = _read_each(table, ("queues",), _read_queue)
    rates = _read_each(table, ("limits", "tools"), _read_rate)
    schedules = _read_each(table, ("schedules",), _read_schedule)
    limits = WorkerLimits(**table.check_table(("workers",), SECTIONS["workers"]))
    return WorkerSettings(limits=limits, queues=queues, rates=rates, schedules=schedules)


def _read_each(table: TomlFile, key_path: tuple[str, ...], read: Callable[[TomlFile, str], T]) -> dict[str, T]:
    """Read every table inside the one at `key_path`, by name."""
    results = {}
    with table.collecting_errors():
        for name in table.get_table(key_path):
            with table.collecting_errors():
                results[name] = read(table, name)
    return results


def _read_queue(table: TomlFile, name: str) -> Queue:
    key_path = ("queues", name)
    if name.startswith(_RESERVED_PREFIX):
        with table.collecting_errors():
            table.raise_at(key_path, f"[queues.{name}]: names that begin with {_RESERVED_PREFIX} are reserved")
    queue = Queue(**table.check_table(key_path, QUEUE_KEYS))
    if queue.concurrency and queue.worker_concurrency and queue.worker_concurrency > queue.concurrency:
        message = (
            f"[queues.{name}] worker_concurrency: must be at most the concurrency of the queue, which is "
            f"{queue.concurrency}"
        )
        table.raise_at((*key_path, "worker_concurrency"), message)
    return queue


def _read_rate(table: TomlFile, name: str) -> Rate:
    key_path = ("limits", "tools", name)
    return Rate(**_check_required(table, key_path, RATE_KEYS, "per_second"), where=_locate_keys(table, key_path))


def _read_schedule(table: TomlFile, name: str) -> Schedule:
    key_path = ("schedules", name)
    queue = table.get_table(key_path).get("queue")
    queues = table.data.get("queues", {})
    if is_text(queue) and isinstance(queues, dict) and queue not in queues:
        with table.collecting_errors():
            table.raise_at((*key_path, "queue"), f"[schedules.{name}] queue: [queues.{queue}] is not defined")
    values = _check_required(table, key_path, SCHEDULE_KEYS, "cron", "flow")
    return Schedule(**values, where=_locate_keys(table, key_path))


def _locate_keys(table: TomlFile, key_path: tuple[str, ...]) -> Location:
    return lambda key: table.place_of((*key_path, key))


def _check_required(
    table: TomlFile, key_path: tuple[str, ...], key_types: Mapping[str, ValueType], *required: str
) -> dict[str, Any]:
    missing = [key for key in required if key not in table.get_table(key_path)]
    if missing:
        with table.collecting_errors():
            table.check_table(key_path, key_types)
        verb = "is" if len(missing) == 1 else "are"
        table.raise_at(key_path, f"[{'.'.join(key_path)}] {' and '.join(missing)} {verb} missing")
    return table.check_table(key_path, key_types)
