"""What can be set up, as frozen data. To add a setting, add a field here and its key to the
tables of keys in `table.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Literal

from ..frozen import dataclass
from .limits import Limits, Retention
from .workplace import Workplace

MODES: Final = ("auto", "legacy", "2026-07-28")
"""How to speak with an MCP server: ask it, with the older handshake, without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """An MCP server: a `command` with `args` (stdio), or a `url` (streamable HTTP).

    `env` is added to the allow-listed environment of the child; `env` and `headers` are as written,
    their variables unread; `timeout` is seconds per call, `connect_timeout` those to connect in;
    `mode` is one of MODES; with `trust` "hints" what the server says of its tools (`readOnlyHint`) counts; `cwd` is
    where the child starts: the directory of the file that names it, unless set.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float | None = None
    connect_timeout: float | None = None
    mode: str | None = None
    trust: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An HTTP tool provider at `url` that has these `tools` (`{name, description, inputSchema, ...}`); with
    `openapi` (a path or an address) the operations of that document, of which those in `read_only` change nothing.
    `headers` are as written, their variables unread."""

    name: str
    url: str | None = None
    openapi: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float | None = None
    read_only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServed:
    """What `ropewalk mcp` offers: `flows` (files, directories, globs beside `ropewalk.toml`) and those that are
    stored; with `tools` all of the toolbox, with `gateway` those of the MCP servers. Where there are more than
    `most_listed` in all, `find_tools` is listed instead of them. `instructions` is what clients are told of the whole.
    For `wait_for_servers` seconds from the start a list waits for MCP servers that have not answered yet."""

    flows: tuple[str, ...] = ()
    stored: bool = True
    tools: bool = False
    gateway: bool = False
    most_listed: int = 100
    instructions: str | None = None
    wait_for_servers: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything set up for `directory`, where `file` (`ropewalk.toml`) is if there is one.

    `store` is an address for the journal, None for the default; `sync` is "normal" or "full"; `engine` says who
    executes runs: "local", this process, or "dbos", workers, whose terms are the `workplace`;
    `allow_hosts` may be connected to although they are not public, where an address comes from data;
    `claude` is what is set for the model; `broken` names the servers and providers that cannot be used, and why;
    `doubts` is what is odd of the others.
    """

    directory: Path
    file: Path | None = None
    modules: tuple[str, ...] = ()
    servers: Mapping[str, McpServer] = field(default_factory=dict)
    providers: Mapping[str, Provider] = field(default_factory=dict)
    store: str | None = field(default=None, repr=False)  # It may hold a password.
    sync: Literal["normal", "full"] = "normal"
    engine: Literal["local", "dbos"] = "local"
    workplace: Workplace = field(default_factory=Workplace)
    limits: Limits = field(default_factory=Limits)
    retention: Retention | None = field(default_factory=Retention)
    allow_hosts: tuple[str, ...] = ()
    claude: Mapping[str, Any] = field(default_factory=dict)
    mcp_server: McpServed = field(default_factory=McpServed)
    secrets: tuple[str, ...] = ()
    """The environment variables that `$secret` may read."""
    http_secrets: tuple[str, ...] = ()
    """Those of them that definitions sent over HTTP may read, too."""
    broken: Mapping[str, str] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
