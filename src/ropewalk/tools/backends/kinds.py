"""The kinds of backend: what can run a tool, each registered once.

Everything that lists backends reads this registry: `ToolBackend` (which kinds there are, which fields each needs),
the JSON forms, the Runner (which backend to prefer, how to send the call), the Toolbox and the project (what
`[backends.NAME]` opens), the check of a project, and the documentation.

To add a kind, call `register_backend`, or name the kind as an entry point in the group `ropewalk.backends`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from ...errors import ConfigError
from ...fast_dataclass import dataclass
from ...values import Json, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP: Final = "ropewalk.backends"
"""The entry point group for kinds of installed packages."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_OWN_SECTION: Final = "backends"
_kinds: Final[dict[str, BackendKind]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendKind:
    """One kind of backend, such as `local` or `mcp`; register it with `register_backend`.

    Args:
        name: The value of `ToolBackend.kind` and `[backends.NAME] kind`: lower case letters, digits, `_` and `-`.
        summary: One sentence about what runs the tool.
        open: Called with the name and the settings of a `[backends.NAME]` table. Returns a source: an object with
            `tools()`, which returns the Tools (sync, or async if they must be fetched), and with
            `call_tool(tool_name, arguments)`, sync or async, which returns the value of a call. `call_tool` gets
            `key` (idempotency key), `timeout` (seconds) and `on_progress` if it has parameters of these names.
            `call_tool_stream` and `close()` are optional.
        settings: The JSON Schema of the settings; an object. `kind` and `enabled` are not part of it.
        fields: The fields of a ToolBackend of this kind, by their names in JSON.
        required: Those fields of the ToolBackend that must be set.
        rank: A tool that has several backends uses the one whose kind has the lowest rank.
        section: The section of ropewalk.toml that configures the kind.
        annotations: Annotations of each tool of a source, unless the tool sets them: for example
            `{"readOnlyHint": True}` if no tool of this kind changes anything.
        trusts_hints: True if the annotations of a source count. If false, a source cannot declare its tools
            harmless.
        reopened_by_workers: True if a worker can open the source from the project's configuration. If false, runs
            with such a tool are refused where workers execute runs.
        has_mcp_results: True if calls take MCP content blocks and return MCP results.
    """

    name: str
    summary: str
    open: Callable[[str, Mapping[str, Json]], Any] | None = None
    settings: Mapping[str, Json] = field(default_factory=lambda: {"type": "object"})
    fields: Mapping[str, str] = field(default_factory=lambda: {"source": "source", "toolId": "tool_id"})
    required: tuple[str, ...] = ("source", "tool_id")
    rank: int = 3
    section: str = _OWN_SECTION
    annotations: Mapping[str, Json] = field(default_factory=dict)
    trusts_hints: bool = True
    reopened_by_workers: bool = True
    has_mcp_results: bool = False

    @property
    def is_built_in(self) -> bool:
        """Return True if the Toolbox itself holds what runs the tools of this kind."""
        return self.open is None


def register_backend(kind: BackendKind) -> BackendKind:
    """Add a kind of backend, so that tools and `[backends.NAME]` tables can use it.

    Registering the same kind again, as a module that is imported twice does, replaces it.

    Args:
        kind: The kind; its `open` makes a source of tools.

    Returns:
        The kind.

    Raises:
        ConfigError: The name is not usable or belongs to a built-in kind, or `open` is missing.
    """
    if not isinstance(kind, BackendKind):
        raise ConfigError(f"register_backend needs a BackendKind, not {type(kind).__name__}")
    if not isinstance(kind.name, str) or not _NAME.fullmatch(kind.name):
        raise ConfigError(
            f"backend kind {kind.name!r}: the name must have 1 to 64 characters of [a-z0-9_-] and begin with a letter"
        )
    if (known := _kinds.get(kind.name)) is not None and known.is_built_in:
        raise ConfigError(f"backend kind {kind.name!r} is built in; choose another name")
    if not callable(kind.open):
        raise ConfigError(f"backend kind {kind.name!r} needs `open`, a function of a name and settings")
    _kinds[kind.name] = kind
    return kind


def backend_kind(name: str) -> BackendKind:
    """Return the kind of this name: registered, or named by an installed package."""
    known = _kinds.get(name) if isinstance(name, str) else None
    if known is not None:
        return known
    if isinstance(name, str):
        for point in _entry_points().select(name=name):
            return _load(point)
    names = [*_kinds, *sorted({point.name for point in _entry_points()} - _kinds.keys())]
    suggestion = did_you_mean(name, names) if isinstance(name, str) else None
    hint = f"; did you mean {suggestion}?" if suggestion else ""
    raise ConfigError(f"backend kind {name!r} is not one of {', '.join(names)}{hint}")


def backend_kinds() -> Iterator[BackendKind]:
    """List every kind. Kinds of installed packages are loaded.

    Yields:
        The kinds, built-in ones first.
    """
    for point in _entry_points():
        if point.name not in _kinds:
            _load(point)
    yield from list(_kinds.values())


def registered_kinds() -> tuple[str, ...]:
    """Return the names of the kinds that are registered so far; asks no installed package."""
    return tuple(_kinds)


def _entry_points() -> EntryPoints:
    from importlib.metadata import entry_points  # slow to import, and only unknown kinds need it

    return entry_points(group=GROUP)


def _load(point: EntryPoint) -> BackendKind:
    """Import the kind that an installed package names, and register it."""
    try:
        kind = point.load()
    except Exception as error:
        raise ConfigError(f"backend kind {point.name!r}: could not import {point.value}: {error}") from error
    if not isinstance(kind, BackendKind) or kind.name != point.name:
        raise ConfigError(f"backend kind {point.name!r}: {point.value} must be a BackendKind with this name")
    return register_backend(kind)


for _kind in (
    BackendKind(
        name="local",
        summary="A Python function in this process.",
        fields={"name": "name"},
        required=("name",),
        rank=0,
        section="tools",
    ),
    BackendKind(
        name="provider",
        summary="An HTTP service, described by a list of tools or an OpenAPI document.",
        fields={"providerId": "provider_id", "toolId": "tool_id"},
        required=("provider_id", "tool_id"),
        rank=1,
        section="providers",
    ),
    BackendKind(
        name="mcp",
        summary="A tool of an MCP server.",
        fields={"serverName": "server_name", "toolId": "tool_id"},
        required=("server_name",),
        rank=2,
        section="mcp",
        trusts_hints=False,
        has_mcp_results=True,
    ),
):
    _kinds[_kind.name] = _kind
