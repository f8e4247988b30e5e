"""A machine in a child, as its parent sees it; `play.py` is the child's half.

While a program waits, its child is given back to the pool, and the program is replayed in another one at its next
delivery. So the pool bounds how many programs compute, not how many wait.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Final

import orjson

from . import messages as m
from .boundary.child import DONE
from .boundary.pool import Child, Pool, ProgramStopped
from .guard import Forged, Guard, TooMuchPrinted
from .rows import Diverged
from .zones import zone_data

KEEP_SECONDS: Final = 1.0
"""How long a program that waits keeps its child."""
_AHEAD: Final = 256
_AHEAD_CHARACTERS: Final = 1_000_000
"""How many recorded deliveries are sent in one message."""
_REPLAY_FACTOR: Final = 3.0
"""How much more processor time a replay may take than the program may; it repeats what was computed before."""
_REPLAY_SECONDS: Final = 0.01
"""Processor time that a replay may take for each delivery in addition."""


class ChildMachine:
    """A machine in a leased child, for one attempt to run a program."""

    # begin: The program.
    # read: Returns what a clock shows.
    # pool: Where the children come from.
    # keep_seconds: How long a program that waits keeps its child.

    def __init__(
        self,
        begin: m.Begin,
        seed: int,
        read: Callable[[m.Clock], m.Reading],
        pool: Pool,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        self._begin = replace(begin, seed=seed)
        self._read, self._pool, self._keep_seconds = read, pool, keep_seconds
        self._guard = Guard(begin.tools)
        self._lease: AbstractAsyncContextManager[Child] | None = None
        self._child: Child | None = None
        self._leaving: asyncio.Task[None] | None = None
        # The deliveries that were sent and not yet delivered, and whether the child has to answer.
        self._sent: deque[str] = deque()
        self._is_computing = self._has_ended = False
        # Another child comes to the same place by these, and then has sent what this digest says.
        self._deliveries: list[m.Delivery] = []
        self._readings: list[m.Reading] = []
        self._digest: Any = hashlib.blake2b()
        # The processor time of new turns; a replay does not count.
        self._used = self._live_since = 0.0
        self._is_live = False

    # --- what the host does ----------------------------------------------------------------------

    async def start(self, replayed: int | None) -> list[m.Message]:
        """Begin the program, and return the messages up to its first wait."""
        child = await self._begin_in_child(replayed or 0)
        if replayed is None:
            self._begin_live(child)
        return self._judged(child, await self._turn(child, self._digest, self._read_clock))

    async def deliver(self, delivery: m.Delivery, ahead: Iterable[m.Delivery] | None) -> list[m.Message]:
        """Take a delivery, and return the messages up to the next wait."""
        child = await self._present_child()
        await self._skip(child, delivery.path)
        if self._sent:
            self._sent.popleft()
        else:
            if ahead is None:
                self._begin_live(child)
            await self._send(child, _batch(chain([delivery], ahead or ())))
            self._sent.popleft()
        self._deliveries.append(delivery)
        self._guard.deliver(delivery)
        return self._judged(child, await self._turn(child, self._digest, self._read_clock))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Give the child back if the block takes long."""
        timer = asyncio.get_running_loop().call_later(self._keep_seconds, self._begin_leaving)
        try:
            yield
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Give the child back; one that still computes is killed."""
        if self._leaving is not None:
            await self._leaving
        await self._leave()

    # --- children --------------------------------------------------------------------------------

    async def _begin_in_child(self, replayed: int) -> Child:
        self._lease = self._pool.lease()
        child = self._child = await self._lease.__aenter__()
        self._sent.clear()
        child.allow(child.limits.cpu * _REPLAY_FACTOR + _REPLAY_SECONDS * replayed)
        self._is_computing = True
        await child.send({"service": "play", "begin": m.to_json(self._begin)})
        return child

    async def _present_child(self) -> Child:
        """Return the child, or another one in which the program has come to the same place."""
        if self._leaving is not None:
            await self._leaving
            self._leaving = None
        if self._child is not None:
            if self._child.process.is_alive():
                return self._child
            await self._discard(ProgramStopped("died", self._pool.limits))
        child = await self._begin_in_child(len(self._deliveries))
        # The first child has sent the same messages, and they were judged then.
        readings, digest = iter(self._readings), hashlib.blake2b()
        await self._turn(child, digest, lambda child, value: next(readings, m.Reading(0)))
        begin = 0
        while batch := _batch(islice(self._deliveries, begin, None)):
            begin += len(batch)
            await self._send(child, batch)
            while self._sent:
                self._sent.popleft()
                await self._turn(child, digest, lambda child, value: next(readings, m.Reading(0)))
        if digest.digest() != self._digest.digest():
            raise Diverged("", "the requests of its first child", "something else in another one")
        return child

    def _begin_live(self, child: Child) -> None:
        """Count the processor time from now on."""
        if not self._is_live:
            self._is_live, self._live_since = True, child.process.cpu_seconds()
            child.allow(max(child.limits.cpu - self._used, 0))

    def _begin_leaving(self) -> None:
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())

    async def _leave(self) -> None:
        """Give the child back to the pool."""
        child, lease = self._child, self._lease
        if child is None or lease is None:
            return
        if self._is_computing:
            await self._discard(ProgramStopped("died", child.limits))
            return
        if self._is_live:
            self._used += child.process.cpu_seconds() - self._live_since
            self._is_live = False
        try:
            if not self._has_ended:
                await self._skip(child, "")
                await child.request({"leave": True})
        except BaseException as error:
            await self._discard(error)
            if not isinstance(error, ProgramStopped):
                raise
        else:
            self._child = self._lease = None
            await lease.__aexit__(None, None, None)

    async def _discard(self, error: BaseException) -> None:
        """End the child."""
        lease, self._child, self._lease, self._is_live = self._lease, None, None, False
        if lease is not None:
            await lease.__aexit__(type(error), error, None)

    # --- messages --------------------------------------------------------------------------------

    async def _send(self, child: Child, deliveries: list[m.Delivery]) -> None:
        self._sent.extend(delivery.path for delivery in deliveries)
        self._is_computing = True
        await child.send({"deliveries": [m.to_json(delivery) for delivery in deliveries]})

    async def _skip(self, child: Child, path: str) -> None:
        """Read the answers to deliveries before this one, of steps that the program had cancelled."""
        while self._sent and self._sent[0] != path:
            self._sent.popleft()
            await self._turn(child, hashlib.blake2b(), self._read_clock)

    async def _turn(self, child: Child, digest: Any, read: Callable[[Child, Any], m.Reading]) -> Any:
        """Return the messages of a turn as the child sent them, and answer what it requests meanwhile."""
        while True:
            reply = await child.receive()
            digest.update(orjson.dumps(reply))
            match reply:
                case {"type": "turn", "messages": messages}:
                    self._is_computing = bool(self._sent)
                    return messages
                case {"type": "clock", "clock": clock}:
                    await child.send({"seconds": read(child, clock).seconds})
                case {"type": "zone", "key": key}:
                    await child.send({"zone": zone_data(key) if isinstance(key, str) else None})
                case {"type": str(kind), "value": messages} if kind == DONE:
                    self._has_ended, self._is_computing = True, False
                    return messages
                case _:
                    raise self._forged(child)

    def _read_clock(self, child: Child, value: Any) -> m.Reading:
        try:
            clock = self._guard.clock(value)
        except Forged:
            raise self._forged(child) from None
        reading = self._read(clock)
        self._readings.append(reading)
        return reading

    def _judged(self, child: Child, messages: Any) -> list[m.Message]:
        try:
            judged = self._guard.turn(messages)
        except Forged:
            raise self._forged(child) from None
        except TooMuchPrinted:
            raise ProgramStopped("printed", child.limits) from None
        if self._has_ended and not isinstance(judged[-1], m.Ended):
            raise self._forged(child)
        return judged

    def _forged(self, child: Child) -> ProgramStopped:
        """Kill a child that sent what no program can ask for."""
        child.kill("forged")
        return ProgramStopped("forged", child.limits)


def _batch(deliveries: Iterable[m.Delivery]) -> list[m.Delivery]:
    """Return the first deliveries that fit into one message, at least one of them."""
    batch: list[m.Delivery] = []
    size = 0
    for delivery in islice(deliveries, _AHEAD):
        size += len(delivery.value)
        if batch and size > _AHEAD_CHARACTERS:
            break
        batch.append(delivery)
    return batch
