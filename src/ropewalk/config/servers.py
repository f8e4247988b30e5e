"""MCP servers and HTTP providers, from `ropewalk.toml` and from the common `mcpServers` JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError, Place
from ..values import closest
from .settings import McpServer, Provider
from .table import PROVIDER_KEYS, SERVER_KEYS, WORDS, TomlFile, is_text, named
from .variables import fill

SERVERS_FILE: Final = ".mcp.json"
_FOREIGN: Final = """
    type transport disabled autoApprove alwaysAllow description envFile httpUrl serverUrl name model envVars
    title icon version tools includeTools excludeTools enabledTools disabledTools trust oauth auth
    authorization_token headersHelper initTimeout networkTimeout roots dev sandbox sandboxEnabled settings
    source instructions tags metadata gallery isActive inputs notes"""
FOREIGN: Final = frozenset(_FOREIGN.split())
"""What the programs that share such files (Claude, Cursor, VS Code, Cline, Gemini, Zed) say of a server and we do not
read; of these `disabled` and `type` are looked at."""
_TWICE: Final = object()  # what stands for a server whose name stands twice
_LATE: Final = ("env", "headers")  # read by whoever connects, at each connect: so that it can redact them


def read_servers(
    table: TomlFile | None, home: Path, environ: Mapping[str, str], broken: dict[str, str], doubts: list[str]
) -> dict[str, McpServer]:
    """The servers by name. Those that cannot be used are put into `broken`, what is odd of others into `doubts`."""
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
            if name not in section:
                doubts.extend(f"{named(listed)}: server {name!r}: {said}" for said in _unread(given))
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
        data = json.loads(text, object_pairs_hook=_Object)
    except json.JSONDecodeError as error:
        line = error.doc.splitlines()[error.lineno - 1 : error.lineno] or [""]
        raise ConfigError(f"not JSON: {error.msg}", place=Place(name, error.lineno, error.colno, line[0])) from None
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error
    servers = data.get("mcpServers") if isinstance(data, dict) else None
    if isinstance(data, _Object) and "mcpServers" in data.twice:
        raise ConfigError(f"{name}: mcpServers stands twice")
    if not isinstance(servers, _Object):
        raise ConfigError(f'{name}: needs {{"mcpServers": {{"name": {{"command": ...}}}}}}')
    return {key: _TWICE if key in servers.twice else value for key, value in servers.items()}


class _Object(dict[str, Any]):
    """An object of JSON that knows which of its keys stand in it more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs) if len(self) != len(pairs) else {}
        self.twice = [key for key, count in counts.items() if count > 1]


def _twice(value: Any) -> str | None:
    """A key that stands twice somewhere in a server."""
    if isinstance(value, _Object):
        return next(iter(value.twice), None) or next(filter(None, map(_twice, value.values())), None)
    return next(filter(None, map(_twice, value)), None) if isinstance(value, list) else None


def _unread(given: Mapping[str, Any]) -> Iterator[str]:
    """What a server has that neither we nor the programs we know of read. Keys that begin as comments do are that."""
    for key in given:
        if key not in SERVER_KEYS and key not in FOREIGN and not key.startswith(("_", "$", "/", "#", "x-")):
            yield f"unknown key {key!r} is not read; known are: {', '.join(SERVER_KEYS)}"


def _fault(given: Any) -> str | None:
    """What is wrong with one server of such a file; the others do not suffer from it."""
    if given is _TWICE:
        return "stands twice"
    if not isinstance(given, dict):
        return "must be an object with a command or a url"
    if key := _twice(given):
        return f"{key} stands twice"
    for key in given:
        if key not in SERVER_KEYS and key not in FOREIGN and (near := closest(key, (*SERVER_KEYS, "disabled"))):
            return f"unknown key {key!r}; did you mean {near!r}?"
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
    table: TomlFile | None, home: Path, environ: Mapping[str, str], broken: dict[str, str], doubts: list[str]
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
            if not tools and "openapi" not in filled:
                assert table is not None
                at = table.place(("providers", name))
                doubts.append(
                    f"{at.file}:{at.line}: [providers.{name}] has no tools: it needs tools or an openapi document"
                )
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
