"""`tools import`: copy the MCP servers of another program's configuration file into `ropewalk.toml`."""

from __future__ import annotations

import json as text_format
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ...config.project import CONFIG_FILE, find_config_file
from ...config.secrets import is_secret_name
from ...config.servers_file import read_servers_file
from ...config.toml import TomlFile
from ...source.document import escape_invisible
from ...source.load import create_file, replace_file
from .dispatch import FAILED, Answer, UsageError
from .options import Json, Project
from .output import notify
from .session import directory

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def import_servers(file: Path, /, *, json: Json = False, project: Project = None) -> Answer:
    """Add the MCP servers of a file of Claude, VS Code, Cursor, Gemini, Codex or another program to `ropewalk.toml`.

    The file keeps its comments and formatting. Values that look secret are not copied: set the variables that the
    command names.
    """
    start = directory(None, project)
    target = find_config_file(start) or start / CONFIG_FILE
    if target.is_symlink():
        raise UsageError(f"{target} is a link; name the project that it belongs to with -C")
    found = read_servers_file(file)
    if found.fault is not None:
        raise UsageError(found.fault)
    for warning in found.warnings:
        notify(escape_invisible(f"warning: {warning}"))
    known = TomlFile(target if target.exists() else None).get_table(("mcp",))
    left_out = {**found.left_out, **{name: f"[mcp.{name}] exists already" for name in found.servers if name in known}}
    added = {name: settings for name, settings in found.servers.items() if name not in known}
    variables: dict[str, str] = {}
    tables = [_table(name, _portable(name, settings, file, target, variables)) for name, settings in added.items()]
    if tables:
        _append(target, tables)
    for name, reason in left_out.items():
        notify(escape_invisible(f"! {name}: {reason}"))
    lines = [f"added to {target}: {', '.join(added)}" if added else "no server was added"]
    lines += [f"set {variable}: the value of {place} was not copied" for variable, place in variables.items()]
    data = {"file": str(target), "added": list(added), "leftOut": left_out, "variables": list(variables)}
    return Answer(exit=0 if added or not left_out else FAILED, data=data, text=escape_invisible("\n".join(lines)))


def _portable(
    name: str, settings: Mapping[str, Any], file: Path, target: Path, variables: dict[str, str]
) -> dict[str, Any]:
    """Return settings that mean the same in the directory of `ropewalk.toml`, with variables in place of secrets."""
    result = dict(settings)
    for table in ("env", "headers"):
        values = dict(result.get(table, {}))
        for key, value in values.items():
            if is_secret_name(key) and value and "${" not in value:
                own = key if _VARIABLE.fullmatch(key) else re.sub(r"[^A-Za-z0-9]", "_", f"{name}_{key}").upper()
                variable = own if table == "env" else re.sub(r"[^A-Za-z0-9]", "_", f"{name}_{key}").upper()
                values[key] = f"${{{variable}}}"
                variables[variable] = f"{name}.{table}.{key}"
        if values:
            result[table] = values
    here, home = file.resolve().parent, target.resolve().parent
    if "command" in result and (result.get("cwd") is not None or (here.is_relative_to(home) and here != home)):
        place = here / (result.get("cwd") or "")
        result["cwd"] = os.path.relpath(place, home) if place.is_relative_to(home) else str(place)
        if result["cwd"] == ".":
            del result["cwd"]
    return result


def _table(name: str, settings: Mapping[str, Any]) -> str:
    lines = [f"[mcp.{name if '.' not in name else _toml(name)}]"]
    return "\n".join([*lines, *(f"{key} = {_toml(value)}" for key, value in settings.items())])


def _toml(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # Strings are those of JSON, but for DEL.
    return text_format.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _append(target: Path, tables: list[str]) -> None:
    """Add tables at the end of a TOML file, which must be valid before and after."""
    try:
        before = target.read_bytes() if target.exists() else b""
        after = "\n\n".join(tables) + "\n"
        if b"\r\n" in before:
            after = after.replace("\n", "\r\n")
        gap = b"" if not before else b"\n" if before.endswith(b"\n") else b"\n\n"
        data = before + gap + after.encode()
        tomllib.loads(data.decode("utf-8-sig"))
        (replace_file if target.exists() else create_file)(target, data)
    except (ValueError, OSError) as error:
        raise UsageError(f"{target}: the servers cannot be added: {error}") from error
