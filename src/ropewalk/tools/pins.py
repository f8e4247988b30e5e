"""Pinned tools: the definitions of the tools of MCP servers and OpenAPI documents that a person approved.

After you trusted a server, it can change a description and thereby what a model does. It can also rename a tool, or
offer one under the name of a tool of another server. A project can therefore keep `ropewalk.lock`: the approved
definitions and their digests, as JSON that is reviewed with the rest of the project. If the file exists, Ropewalk
refuses every tool that differs from it, also those of servers that it does not name. `Pins.differences` compares,
`Pins.approve` and `Pins.write` accept the current definitions.

Refused: a file that cannot be read, or that was changed by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from ..config.project import LOCK_FILE as LOCK_FILE
from ..errors import Action, ConfigError, InvalidValue
from ..fast_dataclass import dataclass
from ..source.load import replace_file
from ..values import Json, check_json
from .definition import Definition

_VERSION: Final = 1
_CHANGED: Final = "has changed since it was approved: "
_MAX_DIFFERENCES: Final = 4  # differences of one tool
_MAX_VALUE_LENGTH: Final = 80  # characters of a value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How one tool differs from the approved one."""

    # The name of the MCP server or provider.
    server: str
    # The name of the tool there.
    tool: str
    # "new", "changed", "renamed", "gone" or "shadows" (it has the name of a pinned tool of another server).
    kind: str
    # The difference, for people.
    message: str

    @property
    def id(self) -> str:
        return f"{self.server}:{self.tool}"

    @property
    def approval_message(self) -> str:
        """The effect of approving the tool, for people."""
        if self.kind == "new":
            return "approved"
        if self.kind == "changed":
            return f"approved: {self.message.removeprefix(_CHANGED)}"
        return "removed: no longer offered" if self.kind == "gone" else f"approved; it {self.message}"


class Pins:
    """The approved definitions by server and name."""

    # `path`: The lock file.

    def __init__(self, path: Path, servers: Mapping[str, Mapping[str, Definition]] | None = None) -> None:
        self.path = path
        self._servers = {server: dict(tools) for server, tools in (servers or {}).items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pins) and self._servers == other._servers

    @classmethod
    def read(cls, directory: Path) -> Pins | None:
        """Read the lock file of a project."""
        path = directory / LOCK_FILE
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        try:
            data = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ConfigError(f"{path}: not JSON: {error.msg} (line {error.lineno})") from error
        if not isinstance(data, dict) or data.get("version") != _VERSION or not isinstance(data.get("servers"), dict):
            raise ConfigError(f"{path}: not a lock file of this version of ropewalk")
        servers = {server: dict(_read_tools(path, server, listed)) for server, listed in data["servers"].items()}
        return cls(path, servers)

    def is_pinned(self, server: str) -> bool:
        """Return True if only approved tools of this server may be used."""
        return server in self._servers

    def names(self, server: str) -> list[str]:
        """Return the names of the approved tools of a server."""
        return list(self._servers.get(server, ()))

    @property
    def servers(self) -> list[str]:
        """The names of the servers with approved tools."""
        return list(self._servers)

    def differences(self, server: str, definitions: Iterable[Definition]) -> list[Difference]:
        """Compare the definitions of a server with the approved ones."""
        listed = list(definitions)
        approved = self._servers.get(server)
        differences = [
            difference
            for definition in listed
            if (difference := self._difference(server, definition, approved, listed))
        ]
        names = {definition.name for definition in listed}
        for name in (name for name in approved or () if name not in names):
            differences.append(Difference(server=server, tool=name, kind="gone", message="no longer offered"))
        return differences

    def refused(self, server: str, definitions: Iterable[Definition]) -> dict[str, str]:
        """Return how tools differ from the approved ones, by name."""

        # These tools may not be used.
        return {
            difference.tool: difference.message
            for difference in self.differences(server, definitions)
            if difference.kind != "gone"
        }

    def approve(self, server: str, definitions: Iterable[Definition], only: str | None = None) -> None:
        """Approve the current definitions of a server, and drop the tools that it no longer has."""
        now = {definition.name: definition for definition in definitions}
        if only is None:
            self._servers[server] = now
            return
        approved = self._servers.setdefault(server, {})
        approved.pop(only, None)
        if only in now:
            approved[only] = now[only]

    def write(self) -> None:
        """Replace the lock file."""

        # A symbolic link at its path is replaced, not followed.
        servers = {
            server: {
                name: {"sha256": tool.fingerprint(server), **tool.to_dict()} for name, tool in sorted(tools.items())
            }
            for server, tools in sorted(self._servers.items())
        }
        text = orjson.dumps({"version": _VERSION, "servers": servers}, option=orjson.OPT_INDENT_2) + b"\n"
        replace_file(self.path, text)

    def _difference(
        self, server: str, now: Definition, approved: Mapping[str, Definition] | None, listed: list[Definition]
    ) -> Difference | None:
        def difference(kind: str, text: str) -> Difference:
            return Difference(server=server, tool=now.name, kind=kind, message=text)

        if approved is None:
            owner = next((other for other, tools in self._servers.items() if now.name in tools), None)
            if owner is not None:
                return difference("shadows", f"has the name of {owner}:{now.name}, which is pinned")
            return difference("new", "has not been approved")
        before = approved.get(now.name)
        if before is not None:
            if before.fingerprint(server) == now.fingerprint(server):
                return None
            return difference("changed", _CHANGED + _describe_changes(before, now))
        names = {definition.name for definition in listed}
        for name, definition in approved.items():
            if name not in names and _without_name(definition) == _without_name(now):
                return difference("renamed", f"is {name} under another name")
        return difference("new", "has not been approved")


def _read_tools(path: Path, server: str, listed: Any) -> Iterator[tuple[str, Definition]]:
    if not isinstance(listed, dict):
        raise ConfigError(f"{path}: {server}: must be an object of tools")
    for name, entry in listed.items():
        place = f"{path}: {server}:{name}"
        if not isinstance(entry, dict):
            raise ConfigError(f"{place}: must be an object")
        try:
            tool = Definition.from_dict(name, check_json(entry, place))
        except KeyError as error:
            missing = f"{place}: {error.args[0]} is missing"
            raise ConfigError(f"{missing}; restore the file from version control, or delete it") from error
        except InvalidValue as error:
            raise ConfigError(f"{place}: cannot be read: {error}") from error
        if tool.fingerprint(server) != entry.get("sha256"):
            problem = "its sha256 does not fit its definition, so one of them was changed by hand"
            message = f"{place}: {problem}; restore the file from version control, or delete it"
            raise ConfigError(message).with_remedy(Action.APPROVE_TOOLS)
        yield name, tool


def _without_name(tool: Definition) -> dict[str, Json]:
    return {key: value for key, value in tool.to_dict().items() if key != "title"}


def _describe_changes(before: Definition, now: Definition) -> str:
    changes = list(_list_changes("", before.to_dict(), now.to_dict()))
    rest = f"; and {len(changes) - _MAX_DIFFERENCES} more" if len(changes) > _MAX_DIFFERENCES else ""
    return "; ".join(changes[:_MAX_DIFFERENCES]) + rest


def _list_changes(place: str, before: Json, now: Json) -> Iterator[str]:
    """Describe each place that differs, with the old and the new value."""
    if before == now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            inner = f"{place}.{key}" if place else key
            if key not in now:
                yield f"{inner} is gone"
            elif key not in before:
                yield f"{inner} is new: {_short_json(now[key])}"
            else:
                yield from _list_changes(inner, before[key], now[key])
        return
    yield f"{place} was {_short_json(before)} and is {_short_json(now)}"


def _short_json(value: Json) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= _MAX_VALUE_LENGTH else text[: _MAX_VALUE_LENGTH - 1] + "…"
