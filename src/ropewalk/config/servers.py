"""The sections of `ropewalk.toml` that name tools and workers.

- MCP servers, from `[mcp]` and from the file of another program (`servers_file.py`), if a person agrees (`trust.py`);
- HTTP providers, from `[providers]`; tool backends of registered kinds, from `[backends]`;
- settings of workers: `[workers]`, `[queues]`, `[limits.tools]`, `[schedules]`.

A fault in one table does not hide those in others: `TomlFile.collecting_errors` collects them. To add a key,
add it to the tables of toml.py and a field to settings.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from ..errors import Place, display_path
from ..values import did_you_mean
from .settings import (
    TRUST_HINTS,
    BackendSource,
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
    is_text,
)

if TYPE_CHECKING:
    from .servers_file import Input, ServersFile

SERVERS_FILE: Final = ".mcp.json"
NOT_TRUSTED: Final = "not started, because nobody has agreed to the servers of this file"
_FILLED_AT_CONNECT: Final = ("env", "headers", "auth", "credentials")  # so that the caller can redact the values


def read_servers(
    table: TomlFile, directory: Path, environ: Mapping[str, str], failures: dict[str, str], warnings: list[str]
) -> tuple[dict[str, McpServer], ServersFile | None]:
    """Read the MCP servers: those of the servers file first, then the tables `[mcp.NAME]`, which replace them."""

    # The second result is the servers file if nobody has agreed to its servers, which are left out.
    section = dict(table.get_table(("mcp",)))
    settings_of_file = {
        key: section.pop(key) for key in ("file", "import") if not isinstance(section.get(key, {}), dict)
    }
    servers: dict[str, McpServer] = {}
    untrusted: ServersFile | None = None
    with table.collecting_errors():
        untrusted = _read_file(table, settings_of_file, directory, environ, servers, failures, warnings)

    # A fault in ropewalk.toml is an error.
    for name, settings in section.items():
        with table.collecting_errors():
            if not isinstance(settings, dict):
                _raise_not_a_table(table, name, settings)
            values = table.check_table(("mcp", name), SERVER_KEYS)
            if ("command" in values) == ("url" in values):
                table.raise_at(("mcp", name), f"[mcp.{name}] needs either a command or a url")
            servers.pop(name, None)
            failures.pop(name, None)
            where = _locate_keys(table, ("mcp", name))
            _add_unless_disabled(servers, failures, name, values, directory, environ, where)
    return servers, untrusted


def _raise_not_a_table(table: TomlFile, name: str, value: object) -> NoReturn:
    """Raise ConfigError for a key of [mcp] that is not a server, with what was probably meant."""
    known = ("file", "import")
    if name in SERVER_KEYS:
        table.raise_at(("mcp", name), f"[mcp] {name}: this is a setting of one server; write it in [mcp.NAME]")
    if type(value) is not str or did_you_mean(name, known) is not None:
        raise table.unknown_key_error(("mcp", name), known)
    key = "url" if re.match(r"https?://", value) else "command"
    table.raise_at(
        ("mcp", name), f"[mcp] {name}: a server is a table; write [mcp.{name}] with {key} = {json.dumps(value)}"
    )


def _read_file(
    table: TomlFile,
    settings: Mapping[str, Any],
    directory: Path,
    environ: Mapping[str, str],
    servers: dict[str, McpServer],
    failures: dict[str, str],
    warnings: list[str],
) -> ServersFile | None:
    """Add the servers of the file that is named, or else of the default one; return it if nobody agreed to them."""
    name, is_imported = settings.get("file"), settings.get("import", False)
    if not isinstance(is_imported, bool):
        table.raise_at(("mcp", "import"), "[mcp] import: must be true or false")
    if name is not None and not is_text(name):
        table.raise_at(("mcp", "file"), "[mcp] file: must be text, the path of a file with MCP servers")
    file = directory / (name or SERVERS_FILE)
    if not os.path.lexists(file):
        if name is not None:
            table.raise_at(("mcp", "file"), f"[mcp] file: {name!r} does not exist in {directory}")
        return None
    from .servers_file import read_servers_file  # few projects have such a file
    from .trust import is_trusted

    found = read_servers_file(file)
    warnings.extend(found.warnings)
    if found.fault is not None:
        # Other programs may need what we cannot read, so this is no error of a command that needs no server of it.
        failures[display_path(file)] = found.fault
        warnings.append(f"{found.fault}; its servers are left out")
    failures.update(found.left_out)
    # The project itself has named the file, or a person has agreed.
    if not found.servers or name is not None or is_imported or is_trusted(found, environ):
        for server, values in found.servers.items():
            where = found.places[server]
            _add_unless_disabled(servers, failures, server, values, file.parent, environ, where, found.inputs)
        return None
    for server in found.servers:
        failures[server] = f"{_text_of(found.places[server]())}: {NOT_TRUSTED}"
    return found


def _add_unless_disabled(
    servers: dict[str, McpServer],
    failures: dict[str, str],
    name: str,
    settings: Mapping[str, Any],
    directory: Path,
    environ: Mapping[str, str],
    where: Callable[..., Place],
    inputs: Mapping[str, Input] = MappingProxyType({}),
) -> None:
    """Add a server to `servers`, or to `failures` if it reads a variable that is not set."""
    if settings.get("enabled") is False:
        return
    # A server with an unset variable must not prevent the use of the others.
    try:
        values = {key: _fill_setting(key, settings.get(key), environ) for key in SERVER_KEYS}
    except KeyError as unset:
        asked = inputs.get(unset.args[0])
        description = f" ({asked.description})" if asked is not None else ""
        failures[name] = f"{_unset_message(unset, settings, environ, where)}{description}"
        return
    tools, exclude_tools = values["tools"], values["exclude_tools"] or ()
    if tools == []:
        tools, exclude_tools = None, ("*",)
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
        tools=None if tools is None else tuple(tools),
        exclude_tools=tuple(exclude_tools),
        where=where,
    )


def _unset_message(
    unset: KeyError, settings: Mapping[str, Any], environ: Mapping[str, str], where: Callable[..., Place]
) -> str:
    """Say which variable is not set, at the place of the first setting that reads one."""
    keys = _keys_of_unset(settings, environ)
    return f"{_text_of(where(*keys))}: environment variable {unset.args[0]} is not set"


def _keys_of_unset(settings: Any, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys that lead to the first setting that reads a variable which is not set."""
    if not isinstance(settings, dict):
        return ()
    key = next(key for key, value in settings.items() if _reads_unset(value, environ))
    return key, *_keys_of_unset(settings[key], environ)


def _reads_unset(value: Any, environ: Mapping[str, str]) -> bool:
    try:
        _fill_variables(value, environ)
    except KeyError:
        return True
    return False


def _text_of(place: Place) -> str:
    return f"{place.file}:{place.line}:{place.column}"


def read_providers(
    table: TomlFile, directory: Path, environ: Mapping[str, str], failures: dict[str, str], warnings: list[str]
) -> dict[str, Provider]:
    """Read the `[providers.NAME]` tables."""
    providers: dict[str, Provider] = {}
    for name in table.get_table(("providers",)):
        where = _locate_keys(table, ("providers", name))
        with table.collecting_errors():
            values = _check_provider(table, name)
            tools = tuple(values.pop("tools", ()))
            if not values.pop("enabled", True):
                continue
            try:
                filled = {key: _fill_setting(key, value, environ) for key, value in values.items()}
            except KeyError as unset:
                failures[name] = _unset_message(unset, values, environ, where)
                continue
            if "openapi" in filled and not filled["openapi"].startswith(("http://", "https://")):
                filled["openapi"] = str(directory / filled["openapi"])
            if not tools and "openapi" not in filled:
                message = f"[providers.{name}] has no tools: it needs tools or an openapi document"
                warnings.append(f"{table.line_of(('providers', name))}: {message}")
            providers[name] = Provider(name=name, tools=tools, where=where, **filled)
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
        where = _locate_keys(table, ("backends", name))
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
                failures[name] = _unset_message(unset, settings, environ, where)
                continue
            sources[name] = BackendSource(name=name, kind=kind, settings=filled, where=where)
    return sources


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


def _locate_keys(table: TomlFile, key_path: tuple[str, ...]) -> Callable[..., Place]:
    return lambda *keys: table.place_of((*key_path, *keys))


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
