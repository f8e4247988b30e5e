"""MCP servers and HTTP providers, from `ropewalk.toml` and from the common `mcpServers` JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError, Place
from .settings import McpServer, Provider
from .table import PROVIDER_KEYS, SERVER_KEYS, WORDS, TomlFile, is_text, named
from .variables import fill

SERVERS_FILE: Final = ".mcp.json"
_LATE: Final = ("env", "headers")  # read by whoever connects, at each connect: so that it can redact them


def read_servers(
    table: TomlFile | None, home: Path, environ: Mapping[str, str], broken: dict[str, str]
) -> dict[str, McpServer]:
    section = dict(table.table(("mcp",))) if table else {}
    listing = section.pop("file", None) if not isinstance(section.get("file"), dict) else None
    if table and listing is not None and not is_text(listing):
        table.wrong(("mcp", "file"), "[mcp] file: must be text, the path of an mcpServers JSON file")
    listed = home / (listing or SERVERS_FILE)
    if listing is not None and not listed.is_file():
        assert table is not None
        table.wrong(("mcp", "file"), f"[mcp] file: there is no {listing!r} in {home}")
    found: dict[str, McpServer] = {}
    if listed.is_file():
        for name, given in _listed(listed).items():
            if fault := _fault(given):
                broken[name] = f"{named(listed)}: {fault}"
                continue
            _add_server(found, broken, name, given, listed.parent, environ)
    for name, given in section.items():
        assert table is not None
        if not isinstance(given, dict):
            table.unknown(("mcp", name), ("file",))
        values = table.check(("mcp", name), SERVER_KEYS)
        if ("command" in values) == ("url" in values):
            table.wrong(("mcp", name), f"[mcp.{name}] needs either a command or a url")
        found.pop(name, None)
        broken.pop(name, None)
        _add_server(found, broken, name, values, home, environ)
    return found


def _listed(path: Path) -> dict[str, Any]:
    """The servers of an `mcpServers` JSON file, as they stand; its other keys belong to other programs."""
    name = named(path)
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text)
    except json.JSONDecodeError as error:
        line = error.doc.splitlines()[error.lineno - 1 : error.lineno] or [""]
        raise ConfigError(f"not JSON: {error.msg}", place=Place(name, error.lineno, error.colno, line[0])) from None
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error
    servers = data.get("mcpServers") if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f'{name}: needs {{"mcpServers": {{"name": {{"command": ...}}}}}}')
    return servers


def _fault(given: Any) -> str | None:
    """What is wrong with one server of such a file; the others do not suffer from it."""
    if not isinstance(given, dict):
        return "must be an object with a command or a url"
    if ("command" in given) == ("url" in given):
        return "needs either a command or a url"
    if given.get("type") == "sse":
        return "type sse is the transport of 2024; use the server's streamable HTTP address"
    for key, check in SERVER_KEYS.items():
        if key in given and not check(given[key]):
            return f"{key} must be {WORDS[check]}"
    return None


def _add_server(
    found: dict[str, McpServer],
    broken: dict[str, str],
    name: str,
    given: Mapping[str, Any],
    home: Path,
    environ: Mapping[str, str],
) -> None:
    if given.get("enabled") is False or given.get("disabled") is True:
        return
    try:
        filled = {key: _filled(key, given.get(key), environ) for key in SERVER_KEYS}
    except KeyError as unset:
        broken[name] = f"environment variable {unset.args[0]} is not set"
        return
    found[name] = McpServer(
        name=name,
        command=filled["command"],
        args=tuple(filled["args"] or ()),
        env=filled["env"] or {},
        cwd=str(home / (filled["cwd"] or "")) if filled["command"] else None,
        url=filled["url"],
        headers=filled["headers"] or {},
        timeout=given.get("timeout"),
        connect_timeout=given.get("connect_timeout"),
        mode=given.get("mode"),
    )


def read_providers(
    table: TomlFile | None, home: Path, environ: Mapping[str, str], broken: dict[str, str]
) -> dict[str, Provider]:
    found: dict[str, Provider] = {}
    for name in table.table(("providers",)) if table else ():
        assert table is not None
        values = table.check(("providers", name), PROVIDER_KEYS)
        if "url" not in values and "openapi" not in values:
            table.wrong(("providers", name), f"[providers.{name}] needs a url or an openapi document")
        if "tools" in values and "openapi" in values:
            table.wrong(("providers", name), f"[providers.{name}] takes its tools from openapi or from tools, not both")
        tools = tuple(values.pop("tools", ()))
        if values.pop("enabled", True):
            try:
                filled = {key: _filled(key, value, environ) for key, value in values.items()}
            except KeyError as unset:
                broken[name] = f"environment variable {unset.args[0]} is not set"
                continue
            if "openapi" in filled and not filled["openapi"].startswith(("http://", "https://")):
                filled["openapi"] = str(home / filled["openapi"])
            found[name] = Provider(name=name, tools=tools, **filled)
    return found


def _filled(key: str, value: Any, environ: Mapping[str, str]) -> Any:
    """The setting `key` with its variables filled in; those of `_LATE` are looked at only.
    KeyError names a variable that is not set."""
    if isinstance(value, list):
        return [_filled(key, v, environ) for v in value]
    if isinstance(value, dict):
        return {k: _filled(key, v, environ) for k, v in value.items()}
    if not isinstance(value, str):
        return value
    filled = fill(value, environ)
    return value if key in _LATE else filled
