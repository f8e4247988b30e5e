"""One configured server and its connections: the pause between failed attempts, the era and the tools it had last.

Refused here: reopening a dead connection. `ServerLink` makes a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, TypeAlias

import orjson

from ...config.settings import WAIT
from ...errors import ConfigError, install_command
from ...values import Json
from ..child_process import without_control_characters
from .call_client import CallClient, announced_capabilities
from .config import ServerConfig
from .connection import Connection, copy_error
from .listing import Definition, Judge
from .login_errors import Reason
from .negotiation import LEGACY
from .questions import CAPABILITY
from .requests import OnNotification

log = logging.getLogger("ropewalk.mcp")

_MAX_NAMED_TOOLS: Final = 5  # malformed tools in a line of the log
_FIRST_PAUSE: Final = 0.1  # seconds, doubled at each failed attempt
_MAX_PAUSE: Final = 5.0
_CLOSE_TIMEOUT: Final = 15.0  # seconds an owner may take to end before it is cancelled


_Place: TypeAlias = tuple[asyncio.AbstractEventLoop, bytes]
"""The event loop of a connection, and the capabilities that it announced, as JSON."""


class ServerLink:
    """One configured server and its connections: one per event loop.

    In a gateway, a server of an older revision gets one for each set of capabilities that clients have, because it
    learns them in the handshake only. The first one, which announced nothing, is closed when another takes over.

    Args:
        config: The server.
        failures: Why a server is not usable now, by server name; shared by all links.
        publish: Called with the server's name and its tools at each listing.
        judge: Says which tools may not be called; as a `listing.Judge`.
        lost: The servers that died after a successful start and were not tried since; shared by all links.
        on_lost: Called when a server is added to `lost`.
        relay: Returns what gets the notifications for clients, or None, at each new connection.
        local: Returns what answers the server for this program, or None, at each new connection.

    Attributes:
        definitions: The tools that the server listed last.
        left_out: Why a tool that the server lists is not one of `definitions`, by tool name.
        era: The protocol era that the server speaks, or None while it is unknown.
    """

    def __init__(
        self,
        config: ServerConfig,
        failures: dict[str, str],
        publish: Callable[[str, list[Definition]], None],
        judge: Judge,
        lost: set[str],
        on_lost: Callable[[], None],
        relay: Callable[[], OnNotification | None] = lambda: None,
        local: Callable[[], CallClient | None] = lambda: None,
    ) -> None:
        self._local = local
        # What an older server can ask even if no client is there: the run of a call waits for the answer.
        self._unattended: dict[str, Json] = {"elicitation": dict(CAPABILITY)} if config.questions == WAIT else {}
        self.config = config
        self._relay = relay
        self.definitions: tuple[Definition, ...] = ()
        self.left_out: dict[str, str] = {}
        self.era: str | None = None
        self._failures, self._lost = failures, lost
        self._publish, self._judge, self._on_lost = publish, judge, on_lost
        self._first_schemas: dict[str, Json] = {}
        self._connections: dict[_Place, Connection] = {}
        self._main: dict[asyncio.AbstractEventLoop, bytes] = {}  # the key of requests without a client, by loop
        self._owners: dict[asyncio.AbstractEventLoop, set[asyncio.Task[None]]] = {}
        self._failed_attempts = 0
        self._not_before = 0.0  # on the monotonic clock

    @property
    def is_connecting(self) -> bool:
        """True while an attempt has neither succeeded nor failed."""
        return any(not connection.opened.is_set() for connection in self._connections.values())

    async def connect(self, client: CallClient | None = None, *, now: bool = False) -> Connection:
        """Return a usable connection of the running loop; concurrent callers share one attempt.

        After a failed attempt the next one waits: 0.2 s, doubling, at most 5 s.

        Args:
            client: The client on whose behalf the request is made, if any.
            now: Do not wait after a failed attempt.

        Raises:
            ConfigError: The configuration cannot be used, or the mcp package is missing.
            ConnectionError: The server could not be reached, or died.
            TimeoutError: The server did not finish the handshake in time.
        """
        loop = asyncio.get_running_loop()
        announced = {**self._unattended, **announced_capabilities(self._local() if client is None else client)}
        if client is not None:
            if self.era is None:
                await self.connect(now=now)
            if self.era != LEGACY or self._relay() is None:
                client = None
        key = self._main.setdefault(loop, _key(announced)) if client is None else _key(announced)
        connection = self._connections.get((loop, key))
        if connection is None or connection.error is not None:
            self._forget_closed_loops()
            pause = 0.0 if now else max(0.0, self._not_before - time.monotonic())
            connection = self._open(loop, pause, announced, key)
        if not connection.is_ready:
            await connection.opened.wait()
        if connection.error is not None:
            raise copy_error(connection.error)
        self._retire_main(loop, key)
        return connection

    def _retire_main(self, loop: asyncio.AbstractEventLoop, key: bytes) -> None:
        """Let the connection of a client replace the first one, if that is idle: a server should not run twice."""
        main = self._connections.get((loop, self._main[loop]))
        if self._main[loop] == key or main is None or not main.is_idle or self._local() is not None:
            return
        nothing = _key(self._unattended)
        if self._main[loop] == nothing:
            self._main[loop] = key
            del self._connections[loop, nothing]
            main.stop()

    def stop(self) -> set[asyncio.Task[None]]:
        """Begin to close every connection, and return the owner tasks on the running loop."""
        running_loop = asyncio.get_running_loop()
        self._forget_closed_loops()
        for (loop, key), connection in list(self._connections.items()):
            if loop is running_loop:
                connection.stop()
                del self._connections[loop, key]
            else:
                with contextlib.suppress(RuntimeError):  # that loop closes at this very moment
                    loop.call_soon_threadsafe(connection.stop)
        return set(self._owners.get(running_loop, ()))

    def _open(
        self, loop: asyncio.AbstractEventLoop, delay: float, announced: Mapping[str, Json], key: bytes
    ) -> Connection:
        if importlib.util.find_spec("mcp") is None:
            raise ConfigError(f"{self.config} needs the mcp package: {install_command('mcp')}")
        connection = Connection(
            self.config,
            self.era,
            self._judge,
            self._first_schemas,
            self._take_tools,
            self._take_failure,
            self._relay(),
            self._local(),
            announced,
        )
        self._connections[loop, key] = connection
        self._lost.discard(self.config.name)
        owners = self._owners.setdefault(loop, set())
        task = connection.start(delay)
        owners.add(task)
        task.add_done_callback(owners.discard)
        return connection

    def _take_tools(self, connection: Connection, definitions: tuple[Definition, ...]) -> None:
        self.definitions = definitions
        self.era = connection.era
        self._failed_attempts = 0
        left_out = connection.malformed.take()
        if left_out and left_out != self.left_out:
            log.warning("%s lists malformed tools, which are left out: %s", self.config, _list_reasons(left_out))
        self.left_out = left_out
        self._failures.pop(self.config.name, None)
        self._publish(self.config.name, list(definitions))

    def _take_failure(self, connection: Connection, error: Exception) -> None:
        if connection.is_leaving:
            return
        self._failures[self.config.name] = Reason(str(error), getattr(error, "remedy", None))
        if connection.is_ready:
            self._lost.add(self.config.name)
            self._on_lost()
            return
        # It never worked: forget the era, and wait longer before each further attempt.
        self.era = None
        self._failed_attempts += 1
        pause = min(_MAX_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failed_attempts, 10))
        self._not_before = time.monotonic() + pause

    def _forget_closed_loops(self) -> None:
        for loop, key in [place for place in self._connections if place[0].is_closed()]:
            self._connections.pop((loop, key)).abandon()
            self._owners.pop(loop, None)
            self._main.pop(loop, None)


def _key(announced: Mapping[str, Json]) -> bytes:
    return orjson.dumps(announced, option=orjson.OPT_SORT_KEYS)


def _list_reasons(left_out: dict[str, str]) -> str:
    reasons = [f"{name} ({why})" for name, why in islice(left_out.items(), _MAX_NAMED_TOOLS)]
    text = "; ".join(reasons)
    if len(left_out) > len(reasons):
        text += f"; and {len(left_out) - len(reasons)} more"
    return without_control_characters(text)


async def wait_closed(owners: set[asyncio.Task[None]]) -> None:
    """Wait until the given owner tasks have ended; cancel those that take longer than 15 s."""
    if not owners:
        return
    _, late = await asyncio.wait(owners, timeout=_CLOSE_TIMEOUT)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=_CLOSE_TIMEOUT)
