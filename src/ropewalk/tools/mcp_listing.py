"""The tools that one connection's server lists, kept true, and what may be called of them.

A call goes out only when the list is as new as the last change that was announced, and the tool is what it was approved
as. Over HTTP the process behind an address may be another one at any time, and nobody says so: there the tools of a
project with pins are listed before each call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from ..errors import ToolNotApproved, UnsupportedSchema, ValidationFailed
from ..schema import compile_schema
from ..values import Json
from .mcp_config import ServerConfig
from .mcp_definition import Definition, list_definitions
from .mcp_request import ServerRefused

if TYPE_CHECKING:
    from mcp import ClientSession

log = logging.getLogger("ropewalk.mcp")

Judge: TypeAlias = Callable[[str, list[Definition]], Mapping[str, str] | None]
"""Why tools of a server may not be used, by name; None where all may be, as there are no pins."""

GONE: Final = "its server does not offer it any more"


class Listing:
    """What a server lists. `seen` holds the input schema that each tool had first, whichever connection it came by."""

    def __init__(
        self,
        config: ServerConfig,
        judge: Judge,
        seen: dict[str, Json],
        publish: Callable[[tuple[Definition, ...]], None],
    ) -> None:
        self._config, self._judge, self._seen, self._publish = config, judge, seen, publish
        self._known: dict[str, Definition] = {}
        self._refused: Mapping[str, str] | None = None
        self._announced = self._listed = 0
        self._news = asyncio.Event()
        self._turn = asyncio.Lock()

    def announce(self) -> None:
        """The list has changed."""
        self.doubt()
        self._news.set()

    def doubt(self) -> None:
        """The list may have changed: the next call looks."""
        self._announced += 1

    def take(self, definitions: tuple[Definition, ...]) -> None:
        """What the server lists now; judged before anybody hears of it."""
        self._refused = self._judge(self._config.name, list(definitions))
        self._known = {definition.name: definition for definition in definitions}
        for definition in definitions:
            self._seen.setdefault(definition.name, definition.input_schema)
        self._publish(definitions)

    async def follow(self, session: ClientSession) -> None:
        """List again at each change."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._current(session)
            except Exception as error:  # noqa: BLE001 - told; the next call tries again, and fails where that does
                log.warning("%s: its tools changed and could not be listed again: %s", self._config, error)

    async def admit(self, session: ClientSession, tool: str, args: Mapping[str, Json]) -> None:
        """Return when a call may go out; ToolNotApproved, or ValidationFailed for a tool that takes something else
        now than when its arguments were made. Whatever the listing raises comes as it is."""
        if self._refused is not None and self._config.url:
            self.doubt()
        await self._current(session)
        id, known = f"{self._config.name}:{tool}", self._known.get(tool)
        if self._refused is not None and (tool in self._refused or known is None):
            if tool not in self._refused:
                raise ToolNotApproved(id, "resolve", GONE, said=GONE)
            raise ToolNotApproved(id, "resolve", self._refused[tool])
        if known is None or self._seen.get(tool) == known.input_schema:
            return
        try:
            problems = compile_schema(known.input_schema).problems(dict(args), "args")
        except UnsupportedSchema:
            return  # the server looks at them, too
        if problems:
            said = "; ".join(map(str, problems))
            raise ValidationFailed(id, "validate_input", f"the tool has changed: {said}", problems=problems)

    async def _current(self, session: ClientSession) -> None:
        """List again where something was announced since; those who wait share one listing."""
        wanted = self._announced
        while self._listed < wanted:
            async with self._turn:
                if self._listed >= wanted:
                    return
                now = self._announced  # what is announced from here on may be missing in the answer
                try:
                    async with asyncio.timeout(self._config.timeout):
                        definitions = await list_definitions(session)
                except TimeoutError as error:
                    said = f"its tools changed and were not listed again within {self._config.timeout:g} s"
                    raise ServerRefused(said) from error
                self.take(definitions)
                self._listed = now
