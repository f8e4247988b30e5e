"""The lasting side of one MCP server: its connections (one per event loop, replaced when they
die), the pause between failed attempts, what is remembered of it (era, tools)."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import time
from collections.abc import Callable
from itertools import islice
from typing import Final

from ..errors import ConfigError
from ..errors.given import install
from ..values import Json
from .child import harmless
from .mcp_config import ServerConfig
from .mcp_connection import Connection, copied
from .mcp_definition import Definition
from .mcp_listing import Judge

log = logging.getLogger("ropewalk.mcp")

_MOST_NAMED: Final = 5  # malformed tools in a line of the log
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_LEAVING: Final = 15.0  # seconds an owner may take to leave before it is cancelled


class Link:
    """One configured server. All but `config` is shared with all the others; `lost` are those that died in mid-life
    and were not tried again since."""

    def __init__(
        self,
        config: ServerConfig,
        failures: dict[str, str],
        publish: Callable[[str, list[Definition]], None],
        judge: Judge,
        lost: set[str],
        on_lost: Callable[[], None],
    ) -> None:
        self.config = config
        self.definitions: tuple[Definition, ...] = ()
        self.left_out: dict[str, str] = {}
        """Why a tool that the server lists is not one of `definitions`, by name."""
        self.era: str | None = None
        self._failures, self._publish, self._judge = failures, publish, judge
        self._lost, self._on_lost = lost, on_lost
        self._seen: dict[str, Json] = {}
        self._lines: dict[asyncio.AbstractEventLoop, Connection] = {}
        self._owners: dict[asyncio.AbstractEventLoop, set[asyncio.Task[None]]] = {}
        self._failed = 0
        self._not_before = 0.0

    @property
    def is_connecting(self) -> bool:
        """Whether an attempt is in progress that has neither succeeded nor failed."""
        return any(not line.opened.is_set() for line in self._lines.values())

    async def live(self, *, now: bool = False) -> Connection:
        """A usable connection of the running loop; callers share one attempt. After a failed
        attempt the next one waits (0.2 s, doubling, at most 5 s), unless `now`.

        Raises what went wrong, naming the server."""
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None or line.error is not None:
            self._forget_closed_loops()
            line = self._begin(loop, 0.0 if now else max(0.0, self._not_before - time.monotonic()))
        if not line.ready:
            await line.opened.wait()
        if line.error is not None:
            raise copied(line.error)
        return line

    def stop(self) -> set[asyncio.Task[None]]:
        """Begin to close every connection; gives back the owners on the running loop."""
        here = asyncio.get_running_loop()
        self._forget_closed_loops()
        for loop, line in list(self._lines.items()):
            if loop is here:
                line.stop()
                del self._lines[loop]
            else:
                with contextlib.suppress(RuntimeError):  # that loop closes at this very moment
                    loop.call_soon_threadsafe(line.stop)
        return set(self._owners.get(here, ()))

    def _begin(self, loop: asyncio.AbstractEventLoop, delay: float) -> Connection:
        if importlib.util.find_spec("mcp") is None:
            raise ConfigError(f"{self.config} needs the mcp package: {install('mcp')}")
        line = self._lines[loop] = Connection(self.config, self.era, self._judge, self._seen, self._listed, self._died)
        self._lost.discard(self.config.name)
        owners = self._owners.setdefault(loop, set())
        task = line.start(delay)
        owners.add(task)
        task.add_done_callback(owners.discard)
        return line

    def _listed(self, line: Connection, definitions: tuple[Definition, ...]) -> None:
        self.definitions, self.era, self._failed = definitions, line.era, 0
        left_out = line.malformed.taken()
        if left_out and left_out != self.left_out:
            log.warning("%s lists malformed tools, which are left out: %s", self.config, _in_words(left_out))
        self.left_out = left_out
        self._failures.pop(self.config.name, None)
        self._publish(self.config.name, list(definitions))

    def _died(self, line: Connection, error: Exception) -> None:
        if line.leaving:
            return
        self._failures[self.config.name] = str(error)
        if line.ready:
            self._lost.add(self.config.name)
            self._on_lost()
        else:
            self.era = None
            self._failed += 1
            self._not_before = time.monotonic() + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failed, 10))

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._lines if loop.is_closed()]:
            self._lines.pop(loop).abandon()
            self._owners.pop(loop, None)


def _in_words(left_out: dict[str, str]) -> str:
    some = [f"{name} ({why})" for name, why in islice(left_out.items(), _MOST_NAMED)]
    more = len(left_out) - len(some)
    return harmless("; ".join(some) + (f"; and {more} more" if more else ""))


async def leave(owners: set[asyncio.Task[None]]) -> None:
    """Wait until all these owners have ended; those that do not are cancelled."""
    if not owners:
        return
    _, late = await asyncio.wait(owners, timeout=_LEAVING)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=_LEAVING)
