"""The sources of a toolbox: those that the `[backends.NAME]` tables of registered kinds open.

A source has tools and calls them. Its kind (`kinds.py`) opens it and decides whether its hints count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from ...errors import ConfigError, InvalidTool
from ...fast_dataclass import dataclass
from ...schema import compile_schema
from ...values import Json, check_json
from ..annotations import counted_annotations
from ..signature import is_async
from ..source import Shelf, Source, prefix_of
from ..tool import Tool, ToolBackend
from .kinds import BackendKind, backend_kind
from .local import maybe_await


class ToolSource(Protocol):
    """A source of tools, returned by `BackendKind.open`.

    `call_tool_stream(tool_name, arguments)` and `close()` are optional.
    """

    def tools(self) -> Any:
        """List the tools of the source.

        Returns:
            A list of Tools, or a coroutine of one, which the toolbox awaits when it connects.
        """
        ...

    def call_tool(self, tool_name: str, args: dict[str, Json], /) -> Any:
        """Call a tool. Any exception is a failure of the call.

        Args:
            tool_name: The name of the tool at the source.
            args: The arguments.

        Returns:
            The value of the call, or a coroutine of it.
        """
        ...


@dataclass(frozen=True, slots=True)
class _OpenSource:
    kind: BackendKind
    source: Any


class Sources(Source):
    """The opened sources of one toolbox, by name."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._open: dict[str, _OpenSource] = {}
        self._unlisted: set[str] = set()

    @property
    def names(self) -> Collection[str]:  # type: ignore[override]
        """The names of all sources, whether they have listed their tools or not."""
        return self._open

    def is_listed(self, name: str) -> bool:
        """Return True if the source has said which tools it has."""
        return name in self._open and name not in self._unlisted

    def add(self, kind_name: str, name: str, settings: Mapping[str, Json]) -> None:
        """Open a source and register its tools, unless they must be fetched."""
        kind = backend_kind(kind_name)
        if kind.open is None:
            raise ConfigError(f"a {kind.name} backend is configured in [{kind.section}], not in [backends.{name}]")
        if name in self._open:
            raise ConfigError(f"backend {name!r} exists already; choose another name")

        # The kind's schema checks the settings before its own code runs.
        checked = check_json(dict(settings), f"backends.{name}")
        problems = compile_schema(dict(kind.settings)).problems(checked, f"backends.{name}")
        if problems:
            raise ConfigError(problems)
        try:
            source = kind.open(name, checked)
        except ConfigError:
            raise
        except Exception as error:  # foreign code: one source never stops the others
            raise ConfigError(f"backend {name!r} ({kind.name}): could not open it: {error}") from error
        for method in ("tools", "call_tool"):
            if not callable(getattr(source, method, None)):
                raise ConfigError(f"backend {name!r}: the source of kind {kind.name} has no method {method}")
        self._open[name] = _OpenSource(kind, source)
        if is_async(source.tools):
            self._unlisted.add(name)
            return
        try:
            tools = self._check_tools(name, source.tools())
        except InvalidTool:
            del self._open[name]
            raise
        self._register(tools)

    async def connect(self, tool_ids: Collection[str] | None = None) -> None:
        """List the tools of sources that have not listed them."""
        asked = self._open if tool_ids is None else set(map(prefix_of, tool_ids))
        for name in sorted(self._unlisted.intersection(asked)):
            try:
                tools = self._check_tools(name, await self._open[name].source.tools())
            except Exception as error:  # noqa: BLE001 - foreign code: one source never stops the others
                self._shelf.failures.record(name, error)
            else:
                self._unlisted.discard(name)
                self._shelf.failures.pop(name, None)
                self._register(tools)

    def executor(self, backend: ToolBackend) -> Any:
        """Return the source of a backend; None if it is not open."""
        opened = self._open.get(backend.source or "")
        return opened.source if opened is not None and opened.kind.name == backend.kind else None

    def _register(self, tools: Iterable[Tool]) -> None:
        for tool in tools:
            self._shelf.register(tool)

    async def close(self) -> None:
        """Close every source that can be closed."""
        for opened in self._open.values():
            close = getattr(opened.source, "close", None)
            if close is not None:
                await maybe_await(close())

    def _check_tools(self, name: str, tools: Iterable[Tool]) -> list[Tool]:
        """Return the tools of a source with its namespace and backend, and only the annotations that count."""
        kind = self._open[name].kind
        checked = []
        for tool in tools:
            if not isinstance(tool, Tool):
                raise InvalidTool(f"backend {name!r}: its tools must be Tools, not {type(tool).__qualname__}")
            annotations = dict(kind.annotations)
            annotations |= counted_annotations(tool.annotations, trusted=kind.trusts_hints)
            backend = ToolBackend(kind.name, source=name, tool_id=tool.name)
            checked.append(
                replace(tool, namespace=name, annotations=annotations or None, handler=None, backend=backend)
            )
        return checked
