"""The service of a child that plays a program: the child's half of `child_machine.py`.

| the parent sends | the child sends |
|---|---|
| `begin`, with the service | `turn`: the messages of a turn |
| `deliveries`: each is answered with a turn | `clock`, `zone`: requests that the parent answers at once |
| `seconds`, `zone`: the answer to such a request | |
| `leave`: the program continues in another child | the last turn, as the answer of the service |
"""

from __future__ import annotations

import json
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final
from zoneinfo import ZoneInfo

from ..values import Json
from . import messages as m
from .boundary import frames
from .boundary.child import Link
from .program import Program
from .zones import zone_from


def play(message: dict[str, Any], link: Link) -> Json:
    """Play a program up to its end, and return the messages of its last turn."""
    begin = m.from_json(message["begin"])
    assert isinstance(begin, m.Begin)
    inputs = json.loads(begin.inputs)
    program = Program(begin.text, begin.tools, inputs, function=begin.function, reads=begin.reads)
    if program.problems:
        return _listed([m.Ended("invalid", problems=[problem.to_json() for problem in program.problems])])
    machine, messages = program.start(inputs, begin.seed, _clock_of(link), _zones_of(link))
    deliveries: deque[Any] = deque()
    while not isinstance(messages[-1], m.Ended):
        link.send({"type": "turn", "messages": _listed(messages)})
        if not deliveries:
            received = link.receive()
            if "leave" in received:
                machine.close()
                return None
            deliveries.extend(received["deliveries"])
        delivery = m.from_json(deliveries.popleft())
        assert isinstance(delivery, m.Delivery)
        messages = machine.deliver(delivery)
    return _listed(messages)


def _listed(messages: Sequence[m.Message]) -> list[Json]:
    return [m.to_json(message) for message in messages]


def _clock_of(link: Link) -> Callable[[m.Clock], m.Reading]:
    def read(clock: m.Clock) -> m.Reading:
        link.send({"type": "clock", "clock": m.to_json(clock)})
        return m.Reading(link.receive()["seconds"])

    return read


def _zones_of(link: Link) -> Callable[[str], ZoneInfo]:
    known: dict[str, ZoneInfo] = {}

    def zone(key: str) -> ZoneInfo:
        if key not in known:
            link.send({"type": "zone", "key": key})
            known[key] = zone_from(key, link.receive()["zone"])
        return known[key]

    return zone


def warm_up() -> None:
    """Play a program that uses everything once, because a child can import nothing."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames.write(ours, {"leave": True})
        play({"begin": m.to_json(m.Begin(_PROGRAM, {"search": ["q"]}, "{}", 1))}, Link(theirs))


_PROGRAM: Final = """
import asyncio, calendar, json, random, re, statistics, textwrap, uuid
from collections import Counter, namedtuple
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
@dataclass
class Point:
    x: int
    async def find(self):
        return await search(q=f"{self.x:>3}")
class Wrong(ValueError):
    pass
def numbers():
    yield from range(3)
try:
    raise Wrong(re.sub("a", "b", str(Decimal("1.5"))))
except Wrong as error:
    texts = [str(error), json.dumps(asdict(Point(1))), datetime.strptime("2020", "%Y").strftime("%A %B")]
match texts:
    case [first, *rest]:
        x = Counter(first), statistics.mean(numbers()), sorted({1, 2}), random.random(), str(uuid.uuid4())
async with asyncio.TaskGroup() as group:
    group.create_task(Point(2).find())
    await asyncio.gather(asyncio.sleep(1), search(q=textwrap.dedent(" a")))
"""
