"""The lists of tools of MCP servers, kept between processes in the user's cache directory.

A list says which tools exist and what their schemas are, for checks and for people. It never decides about a call: a
tool that is known from a list only has no backend, so its server must be connected before it can be called.

The name of a file is a digest of the server's whole configuration, with the values of its variables, and of its program
and scripts as files. Another configuration has another list. A list is a file of the user that nobody else can write:
hints in a planted list could show an approval as unnecessary. So it is never in the project, and a list behind a link,
or one that another user owns or can write, is ignored. A list that holds a secret of its server is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import orjson

from ...config.private_folder import opened_folder, read_private, replace_private
from ...errors import ConfigError, RopewalkError
from ...fast_dataclass import dataclass
from ...values import Json, check_json
from ..child_process import find_program, inherited_environment
from ..definition import Definition
from .auth_settings import resolved_auth
from .config import ServerConfig, resolved

MAX_AGE: Final = 7 * 24 * 3600.0
"""Seconds after which a server is asked again."""
_VERSION: Final = 2
_MAX_BYTES: Final = 32 * 2**20
_KEPT: Final = 30 * 24 * 3600.0  # seconds after which a file that nobody has renewed is deleted
_DRAFT_AGE: Final = 3600.0  # seconds after which the draft of a killed process is deleted
_NAME: Final = re.compile(r"tools-[0-9a-f]{64}\.json")
_DRAFT: Final = re.compile(r"\.tools-[0-9a-f]{80}")
_SCRIPTS: Final = (".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".mts", ".sh", ".rb", ".php", ".jar")


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedList:
    """The tools that a server has listed, and why others are left out."""

    definitions: tuple[Definition, ...]
    left_out: Mapping[str, str]
    # Seconds since the server listed them.
    age: float


class ListCache:
    """The lists in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, config: ServerConfig) -> CachedList | None:
        """Return the list of a server with this configuration; None without one that can be trusted."""
        name = _file_name(config)
        try:
            with opened_folder(self._directory) as directory:
                found = None if name is None else read_private(directory, name, _MAX_BYTES)
        except OSError:
            return None
        if found is None:
            return None
        data, changed = found
        age = time.time() - changed
        # A clock that was set back would make a list young for years.
        return None if age < -_DRAFT_AGE else _parsed(data, max(0.0, age))

    def write(self, config: ServerConfig, definitions: Sequence[Definition], left_out: Mapping[str, str]) -> None:
        """Keep the list of a server; a directory that cannot be written keeps nothing."""
        name = _file_name(config)
        tools = [{"name": item.name, "icons": item.icons, "meta": item.meta, **item.to_dict()} for item in definitions]
        with contextlib.suppress(OSError, orjson.JSONEncodeError):
            data = orjson.dumps({"version": _VERSION, "tools": tools, "leftOut": dict(left_out)})
            with opened_folder(self._directory, make=True) as directory:
                if name is not None and len(data) <= _MAX_BYTES:
                    replace_private(directory, name, data)
                    _delete_old(directory)

    def forget(self, config: ServerConfig) -> None:
        """Delete the list of a server."""
        name = _file_name(config)
        with contextlib.suppress(OSError), opened_folder(self._directory) as directory:
            if name is not None:
                os.unlink(name, dir_fd=directory)


def user_cache() -> ListCache | None:
    """Return the cache of the user, in `$XDG_CACHE_HOME` or `~/.cache`; None without a home directory."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    # A relative path would be in the project.
    return ListCache(Path(root) / "ropewalk") if os.path.isabs(root) else None


def _delete_old(directory: int) -> None:
    """Delete lists of configurations that are no longer used, and drafts of killed processes."""
    now = time.time()
    with os.scandir(directory) as entries:
        for entry in entries:
            limit = _KEPT if _NAME.fullmatch(entry.name) else _DRAFT_AGE if _DRAFT.fullmatch(entry.name) else None
            if limit is not None and now - entry.stat(follow_symlinks=False).st_mtime > limit:
                os.unlink(entry.name, dir_fd=directory)


def _file_name(config: ServerConfig) -> str | None:
    """Return the name of the list of a server; None while a variable is not set, or while there is no directory."""
    from importlib.metadata import version

    settings = {field.name: getattr(config, field.name) for field in fields(config)}
    try:
        values = {key: resolved(config, key)[0] for key in ("env", "headers")}
        values["auth"] = resolved_auth(str(config), config.auth)[0]
        place = None if config.url else os.path.abspath(config.cwd or os.getcwd())
        key = {**settings, "values": values, "place": place, "files": [*_files(config)], "version": version("ropewalk")}
        text = orjson.dumps(key, default=dict, option=orjson.OPT_SORT_KEYS)
    except (ConfigError, OSError, orjson.JSONEncodeError):
        return None
    return f"tools-{hashlib.sha256(text).hexdigest()}.json"


def _files(config: ServerConfig) -> Iterable[tuple[str, int, int]]:
    """Yield the program of a server and the scripts among its arguments, each with its change time and size."""
    if config.url:
        return
    environment = inherited_environment()
    program = find_program(config.command, environment)
    place = config.cwd or os.getcwd()
    for path in (shutil.which(program, path=environment.get("PATH")) or program, *config.args):
        with contextlib.suppress(OSError, ValueError):
            file = os.path.join(place, path)
            status = os.stat(file)
            # Servers change their data, such as a database that an argument names.
            if stat.S_ISREG(status.st_mode) and (file.endswith(_SCRIPTS) or status.st_mode & stat.S_IXUSR):
                yield file, status.st_mtime_ns, status.st_size


def _parsed(data: bytes, age: float) -> CachedList | None:
    """Return the list that a file holds; None for anything that this version did not write."""
    try:
        content: Any = check_json(orjson.loads(data), "list")
        if content["version"] != _VERSION:
            return None
        left_out: dict[str, str] = content["leftOut"]
        definitions = tuple(map(_definition, content["tools"]))
        if not all(isinstance(text, str) for item in left_out.items() for text in item):
            return None
    except (ValueError, KeyError, TypeError, AttributeError, RopewalkError):
        return None
    return CachedList(definitions=definitions, left_out=left_out, age=age)


def _definition(tool: dict[str, Json]) -> Definition:

    name, description = tool["name"], tool["description"]
    if not isinstance(name, str) or not isinstance(description, str):
        raise TypeError(name)
    return replace(Definition.from_dict(name, tool), icons=tool.get("icons"), meta=tool.get("meta"))
