"""The tools that one connection's server lists, and which of them may be called.

A `Listing` keeps the list current. A call goes out only when the list is as new as the
last announced change, and the tool is what was approved. Over HTTP the process behind an address
may change at any time without notice: there, a project with pins lists the tools before each call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...errors import ToolNotApproved, ToolNotFound, UnsupportedSchema, ValidationFailed
from ...schema import compile_schema
from ...values import Json
from ..definition import Definition
from .config import SWITCHED_OFF, ServerConfig
from .requests import ServerRefused

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp_types import Tool

log = logging.getLogger("ropewalk.mcp")
_MAX_TOOLS: Final = 10_000
_MAX_PAGES: Final = 1_000


async def list_definitions(session: ClientSession) -> tuple[Definition, ...]:
    """Return every tool of a server, from all pages; none if the server has no tools."""
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND, PaginatedRequestParams

    definitions: list[Definition] = []
    cursors: set[str] = set()
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        try:
            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            if error.error.code == METHOD_NOT_FOUND and not definitions:
                return ()
            raise
        # A hostile server could list without end: tools, pages and repeated cursors are limited.
        if len(definitions) + len(page.tools) > _MAX_TOOLS:
            raise ServerRefused(f"it lists more than {_MAX_TOOLS:,} tools")
        definitions.extend(map(_definition, page.tools))
        cursor = page.next_cursor
        if cursor is None:
            return tuple(definitions)
        if cursor in cursors:
            log.warning("the cursor %.100r of a list of tools comes again: the tools up to there are used", cursor)
            return tuple({definition.name: definition for definition in reversed(definitions)}.values())[::-1]
        cursors.add(cursor)
    raise ServerRefused(f"its list of tools does not end (after {len(definitions)} tools)")


def _definition(tool: Tool) -> Definition:
    annotations: Any = tool.annotations
    return Definition(
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=annotations.model_dump(by_alias=True, mode="json", exclude_none=True) if annotations else None,
        title=tool.title,
        icons=[icon.model_dump(by_alias=True, mode="json", exclude_none=True) for icon in tool.icons or ()] or None,
        meta=dict(tool.meta) if tool.meta else None,
    )


Judge: TypeAlias = Callable[[str, list[Definition]], Mapping[str, str] | None]
"""Returns why tools of a server may not be used, by tool name; None if the project has no pins."""

GONE: Final = "its server no longer offers it"


class Listing:
    """The tools that a server lists."""

    # `switched_off`: The tools of the last list that the settings let nobody use.

    def __init__(
        self,
        config: ServerConfig,
        judge: Judge,
        first_schemas: dict[str, Json],
        publish: Callable[[tuple[Definition, ...]], None],
    ) -> None:
        self._config = config
        self._judge = judge
        self._first_schemas = first_schemas
        self._publish = publish
        self.switched_off: tuple[str, ...] = ()
        self._known: dict[str, Definition] = {}
        self._refused: Mapping[str, str] | None = None
        self._announced = 0  # changes that may have happened
        self._listed = 0  # how many of them the last listing has seen
        self._changed = asyncio.Event()
        self._lock = asyncio.Lock()

    def announce(self) -> None:
        """Note that the list has changed, and list again soon."""
        self.doubt()
        self._changed.set()

    def doubt(self) -> None:
        """Note that the list may have changed: the next call lists again."""
        self._announced += 1

    def take(self, definitions: tuple[Definition, ...]) -> None:
        """Set the current tools that may be used, judge them, and only then publish them."""
        self.switched_off = tuple(item.name for item in definitions if not self._config.offers(item.name))
        definitions = tuple(definition for definition in definitions if self._config.offers(definition.name))
        self._refused = self._judge(self._config.name, list(definitions))
        self._known = {definition.name: definition for definition in definitions}
        for definition in definitions:
            self._first_schemas.setdefault(definition.name, definition.input_schema)
        self._publish(definitions)

    async def follow(self, session: ClientSession) -> None:
        """List again after each change, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._refresh(session)
            except Exception as error:  # noqa: BLE001 - logged; the next call tries again
                log.warning("%s: its tools changed and could not be listed again: %s", self._config, error)

    def known(self, tool: str) -> Definition | None:
        """Return the tool as the server listed it last; None if it did not."""
        return self._known.get(tool)

    async def admit(self, session: ClientSession, tool: str, args: Mapping[str, Json]) -> None:
        """Return when a call may go out."""
        if not self._config.offers(tool):
            raise ToolNotFound(f"{self._config.name}:{tool}", "resolve", SWITCHED_OFF)
        if self._refused is not None and self._config.url:
            self.doubt()
        await self._refresh(session)

        id = f"{self._config.name}:{tool}"
        known = self._known.get(tool)
        if self._refused is not None and (tool in self._refused or known is None):
            if tool not in self._refused:
                raise ToolNotApproved(id, "resolve", GONE, reason=GONE)
            raise ToolNotApproved(id, "resolve", self._refused[tool])
        if known is None or self._first_schemas.get(tool) == known.input_schema:
            return

        # The arguments were made for another schema.
        try:
            problems = compile_schema(known.input_schema).problems(dict(args), "args")
        except UnsupportedSchema:
            return  # the server checks them itself
        if problems:
            message = "the tool has changed: " + "; ".join(map(str, problems))
            raise ValidationFailed(id, "validate_input", message, problems=problems)

    async def _refresh(self, session: ClientSession) -> None:
        """List again if a change was announced since the last listing; concurrent callers share one listing."""
        required = self._announced
        while self._listed < required:
            async with self._lock:
                if self._listed >= required:
                    return
                included = self._announced  # later changes may be missing in the answer
                try:
                    async with asyncio.timeout(self._config.timeout):
                        definitions = await list_definitions(session)
                except TimeoutError as error:
                    message = f"its tools changed and were not listed again within {self._config.timeout:g} s"
                    raise ServerRefused(message) from error
                self.take(definitions)
                self._listed = included
