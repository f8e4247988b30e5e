"""The built-in tools that read the clock and chance for plans.

Calls of tools are journaled, so a resumed run reads what the first one read.
"""

from __future__ import annotations

import datetime
import random
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from ..values import Json
from .reserved import OWN
from .tool import Tool

NAMESPACE: Final = OWN


async def _now() -> Json:
    return datetime.datetime.now(datetime.UTC).astimezone().isoformat()


async def _today() -> Json:
    return datetime.datetime.now().isoformat()


async def _time() -> Json:
    return time.time()


async def _uuid() -> Json:
    return str(uuid.uuid4())


async def _random() -> Json:
    return random.random()


_READERS: Final[dict[str, Callable[[], Awaitable[Json]]]] = {
    "now": _now,
    "today": _today,
    "time": _time,
    "uuid": _uuid,
    "random": _random,
}
_DESCRIPTIONS: Final = {
    "now": "The current date and time, ISO 8601 with its UTC offset.",
    "today": "The current local date and time, ISO 8601.",
    "time": "The seconds since 1970-01-01 UTC.",
    "uuid": "A random UUID, version 4.",
    "random": "A random number from 0 to 1.",
}


def world_tools() -> list[Tool]:
    """Return the tools `ropewalk:now`, `today`, `time`, `uuid` and `random`."""

    # None takes arguments.
    return [
        Tool(name, _DESCRIPTIONS[name], {"type": "object", "properties": {}}, namespace=NAMESPACE, handler=read)
        for name, read in _READERS.items()
    ]
