"""MCP servers and HTTP providers, from `ropewalk.toml` and from the common `mcpServers` JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError, InvalidFlow, Place
from ..source import Document, Limits, load
from ..values import closest
from .settings import McpServer, Provider
from .table import PROVIDER_KEYS, SERVER_KEYS, WORDS, TomlFile, is_text, named, stands
from .trust import TRUST_HINTS
from .variables import fill

SERVERS_FILE: Final = ".mcp.json"
_FOREIGN: Final = """
    type transport disabled autoApprove alwaysAllow description envFile httpUrl serverUrl name model envVars
    title icon version tools includeTools excludeTools enabledTools disabledTools oauth auth
    authorization_token headersHelper initTimeout networkTimeout roots dev sandbox sandboxEnabled settings
    source instructions tags metadata gallery isActive inputs notes"""
FOREIGN: Final = frozenset(_FOREIGN.split())
"""What the programs that share such files (Claude, Cursor, VS Code, Cline, Gemini, Zed) say of a server and we do not
read; of these `disabled` and `type` are looked at."""
_SERVERS: Final = "mcpServers"
_SHARED: Final = Limits(repeats=True)  # a key that stands twice elsewhere in the file is the fault of another program
_LATE: Final = ("env", "headers")  # read by whoever connects, at each connect: so that it can redact them


def read_servers(
    table: TomlFile, home: Path, environ: Mapping[str, str], broken: dict[str, str], doubts: list[str]
) -> dict[str, McpServer]:
    """The servers by name. Those that cannot be used are put into `broken`, what is odd of others into `doubts`."""
    section = dict(table.table(("mcp",)))
    listing = section.pop("file", None) if not isinstance(section.get("file"), dict) else None
    found: dict[str, McpServer] = {}
    with table.noting():
        if (listed := _file(table, listing, home)) is not None:
            document, servers = _listed(listed)
            for name, given in servers.items():
                if fault := _fault(document, name, given):
                    broken[name] = fault
                    continue
                if name not in section:
                    for key, said in _unread(given):
                        doubts.append(f"{_at(document, name, key)}: server {name!r}: {said}")
                _add_server(found, broken, name, given, listed.parent, environ)
    for name, given in section.items():
        with table.noting():
            if not isinstance(given, dict):
                raise table.unknown(("mcp", name), ("file",))
            values = table.check(("mcp", name), SERVER_KEYS)
            if ("command" in values) == ("url" in values):
                table.wrong(("mcp", name), f"[mcp.{name}] needs either a command or a url")
            found.pop(name, None)
            broken.pop(name, None)
            _add_server(found, broken, name, values, home, environ)
    return found


def _file(table: TomlFile, listing: Any, home: Path) -> Path | None:
    """The `mcpServers` file: the one that is named, or else the one that is there, if one is."""
    at = ("mcp", "file")
    if listing is not None and not is_text(listing):
        table.wrong(at, "[mcp] file: must be text, the path of an mcpServers JSON file")
    listed = home / (listing or SERVERS_FILE)
    if stands(listed):
        return listed
    if listing is not None:
        table.wrong(at, f"[mcp] file: there is no {listing!r} in {home}")
    return None


def _listed(path: Path) -> tuple[Document, dict[str, Any]]:
    """An `mcpServers` JSON file, and its servers as they stand; its other keys belong to other programs."""
    try:
        document = load(path, name=named(path), form="json", limits=_SHARED)
    except InvalidFlow as error:
        raise ConfigError(error.problems) from None
    if twice := document.repeated.get((_SERVERS,)):
        raise ConfigError(f"{_SERVERS} stands twice", place=twice)
    data = document.data
    servers = data.get(_SERVERS) if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f'needs {{"{_SERVERS}": {{"name": {{"command": ...}}}}}}', place=document.locate(_SERVERS))
    return document, servers


def _at(document: Document, name: str, key: str | None = None) -> str:
    """Where a server stands in the file, or a key of it."""
    path = f"{_SERVERS}[{name!r}]" + (f"[{key!r}]" if key is not None else "")
    return _said(document.locate(path, at_key=True))


def _said(place: Place) -> str:
    return f"{place.file}:{place.line}:{place.column}"


def _unread(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The keys of a server that neither we nor the programs we know of read, and what to say of each. Keys that begin
    as comments do are that."""
    for key in given:
        if key not in SERVER_KEYS and key not in FOREIGN and not key.startswith(("_", "$", "/", "#", "x-")):
            yield key, f"unknown key {key!r} is not read; known are: {', '.join(SERVER_KEYS)}"


def _fault(document: Document, name: str, given: Any) -> str | None:
    """What is wrong with one server of such a file, and where; the others do not suffer from it."""
    for path, place in document.repeated.items():
        if path[:2] == (_SERVERS, name):
            return f"{_said(place)}: {path[-1] + ' ' if len(path) > 2 else ''}stands twice"
    if not isinstance(given, dict):
        return f"{_at(document, name)}: must be an object with a command or a url"
    wrong = _wrong(given)
    return f"{_at(document, name, wrong[0])}: {wrong[1]}" if wrong is not None else None


def _wrong(given: Mapping[str, Any]) -> tuple[str | None, str] | None:
    """The key that is wrong in a server (None: the server itself), and what is."""
    for key in given:
        if key not in SERVER_KEYS and key not in FOREIGN and (near := closest(key, (*SERVER_KEYS, "disabled"))):
            return key, f"unknown key {key!r}; did you mean {near!r}?"
    if ("command" in given) == ("url" in given):
        return None, "needs either a command or a url"
    if given.get("type") == "sse":
        return "type", "type sse is the transport of 2024; use the server's streamable HTTP address"
    for key, check in SERVER_KEYS.items():
        # Other programs have a `trust` of true or false, which says nothing about hints.
        if key in given and not check(given[key]) and not (key == "trust" and isinstance(given[key], bool)):
            return key, f"{key} must be {WORDS[check]}"
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
        trust=TRUST_HINTS if given.get("trust") == TRUST_HINTS else None,
    )


def read_providers(
    table: TomlFile, home: Path, environ: Mapping[str, str], broken: dict[str, str], doubts: list[str]
) -> dict[str, Provider]:
    found: dict[str, Provider] = {}
    for name in table.table(("providers",)):
        with table.noting():
            values = _provider(table, name)
            tools = tuple(values.pop("tools", ()))
            if not values.pop("enabled", True):
                continue
            try:
                filled = {key: _filled(key, value, environ) for key, value in values.items()}
            except KeyError as unset:
                broken[name] = f"environment variable {unset.args[0]} is not set"
                continue
            if "openapi" in filled and not filled["openapi"].startswith(("http://", "https://")):
                filled["openapi"] = str(home / filled["openapi"])
            if not tools and "openapi" not in filled:
                at = table.place(("providers", name))
                doubts.append(
                    f"{at.file}:{at.line}: [providers.{name}] has no tools: it needs tools or an openapi document"
                )
            found[name] = Provider(name=name, tools=tools, **filled)
    return found


def _provider(table: TomlFile, name: str) -> dict[str, Any]:
    """What a table of [providers] says; ConfigError with what is wrong in it."""
    at = ("providers", name)
    values = table.check(at, PROVIDER_KEYS)
    if "url" not in values and "openapi" not in values:
        table.wrong(at, f"[providers.{name}] needs a url or an openapi document")
    if "tools" in values and "openapi" in values:
        table.wrong(at, f"[providers.{name}] takes its tools from openapi or from tools, not both")
    return values


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
