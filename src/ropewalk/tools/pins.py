"""Pinned tools: what MCP servers and OpenAPI documents said about tools when somebody looked at it and approved it.

A server can change a description, and with it what a model does, after it was trusted; rename a tool; or offer one
under the name of another server's. So a project may keep `ropewalk.lock`: the approved definitions and their
digests, as JSON to be reviewed with the rest. Where there is one, only what stands in it, and as it stands there, may
be used; also of a server that it does not name. `ropewalk tools pin` shows what differs and, with `--approve`, writes
it. Refused: a file that cannot be read, or was changed by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from ..errors import ConfigError, InvalidValue
from ..frozen import dataclass
from ..source.writing import replace_file
from ..values import Json, check_json
from .mcp_definition import Definition

FILE: Final = "ropewalk.lock"
_VERSION: Final = 1
_CHANGED: Final = "has changed since it was approved: "
_MOST_TOLD: Final = 4  # differences of one tool
_LONGEST: Final = 80  # characters of a value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How one tool differs from what was approved: `kind` is new, changed, renamed, gone or shadows."""

    server: str
    tool: str
    kind: str
    said: str

    @property
    def id(self) -> str:
        return f"{self.server}:{self.tool}"

    @property
    def done(self) -> str:
        """What approving it has done."""
        if self.kind == "new":
            return "approved"
        if self.kind == "changed":
            return f"approved: {self.said.removeprefix(_CHANGED)}"
        return "taken out: no longer offered" if self.kind == "gone" else f"approved; it {self.said}"

    def __str__(self) -> str:
        return f"{self.said}; to use it: ropewalk tools pin {self.id} --approve"


class Pins:
    """The approved definitions by server and name."""

    def __init__(self, path: Path, servers: Mapping[str, Mapping[str, Definition]] | None = None) -> None:
        self.path = path
        self._servers = {server: dict(tools) for server, tools in (servers or {}).items()}

    @classmethod
    def read(cls, directory: Path) -> Pins | None:
        """Those of a project; None where it has no such file. ConfigError for one that does not hold."""
        path = directory / FILE
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
        found = {server: dict(_tools(path, server, listed)) for server, listed in data["servers"].items()}
        return cls(path, found)

    def pinned(self, server: str) -> bool:
        """Whether only approved tools of this server may be used."""
        return server in self._servers

    def names(self, server: str) -> list[str]:
        """The approved tools of a server."""
        return list(self._servers.get(server, ()))

    @property
    def servers(self) -> list[str]:
        """The servers of which something is approved."""
        return list(self._servers)

    def differences(self, server: str, definitions: Iterable[Definition]) -> list[Difference]:
        """What a server says now and was not approved, in its order; then what it no longer has."""
        listed = list(definitions)
        approved = self._servers.get(server)
        found = [one for definition in listed if (one := self._difference(server, definition, approved, listed))]
        names = {definition.name for definition in listed}
        for gone in (name for name in approved or () if name not in names):
            found.append(Difference(server=server, tool=gone, kind="gone", said="no longer offered"))
        return found

    def refused(self, server: str, definitions: Iterable[Definition]) -> dict[str, str]:
        """Why tools may not be used, by name."""
        return {one.tool: str(one) for one in self.differences(server, definitions) if one.kind != "gone"}

    def approve(self, server: str, definitions: Iterable[Definition], only: str | None = None) -> None:
        """Take what a server says now, of all its tools or of one; what it no longer has goes."""
        now = {definition.name: definition for definition in definitions}
        if only is None:
            self._servers[server] = now
            return
        approved = self._servers.setdefault(server, {})
        approved.pop(only, None)
        if only in now:
            approved[only] = now[only]

    def write(self) -> None:
        """Replace the file; a link of its name is not followed."""
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
        def differs(kind: str, said: str) -> Difference:
            return Difference(server=server, tool=now.name, kind=kind, said=said)

        if approved is None:
            owner = next((other for other, tools in self._servers.items() if now.name in tools), None)
            if owner is not None:
                return differs("shadows", f"has the name of {owner}:{now.name}, which is pinned")
            return differs("new", "has not been approved")
        before = approved.get(now.name)
        if before is not None:
            if before.fingerprint(server) == now.fingerprint(server):
                return None
            return differs("changed", _CHANGED + _told(before, now))
        names = {definition.name for definition in listed}
        for name, known in approved.items():
            if name not in names and _without_name(known) == _without_name(now):
                return differs("renamed", f"is {name} under another name")
        return differs("new", "has not been approved")


def _tools(path: Path, server: str, listed: Any) -> Iterator[tuple[str, Definition]]:
    if not isinstance(listed, dict):
        raise ConfigError(f"{path}: {server}: must be an object of tools")
    for name, given in listed.items():
        where = f"{path}: {server}:{name}"
        if not isinstance(given, dict):
            raise ConfigError(f"{where}: must be an object")
        try:
            tool = Definition.from_dict(name, check_json(given, where))
        except (KeyError, InvalidValue) as error:
            raise ConfigError(f"{where}: cannot be read: {error}") from error
        if tool.fingerprint(server) != given.get("sha256"):
            said = "its sha256 is not that of what stands beside it, so one of them was changed by hand"
            cure = (
                "get the file back from version control, or delete it, and then look at every tool again and approve it"
            )
            raise ConfigError(f"{where}: {said}; {cure}: ropewalk tools pin, with --approve")
        yield name, tool


def _without_name(tool: Definition) -> dict[str, Json]:
    return {key: value for key, value in tool.to_dict().items() if key != "title"}


def _told(before: Definition, now: Definition) -> str:
    found = list(_changes("", before.to_dict(), now.to_dict()))
    more = f"; and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    return "; ".join(found[:_MOST_TOLD]) + more


def _changes(place: str, before: Json, now: Json) -> Iterator[str]:
    """Each place that differs, with what was there and what is."""
    if before == now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            inner = f"{place}.{key}" if place else key
            if key not in now:
                yield f"{inner} is gone"
            elif key not in before:
                yield f"{inner} is new: {_brief(now[key])}"
            else:
                yield from _changes(inner, before[key], now[key])
        return
    yield f"{place} was {_brief(before)} and is {_brief(now)}"


def _brief(value: Json) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
