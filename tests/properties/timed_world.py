"""The world of timed flows: tools that take their time, and what happens to a run from outside."""

from __future__ import annotations

import asyncio
import copy
import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

from properties.made_flows import answer
from properties.virtual_time import VirtualClock
from ropewalk.tools.backends.route import Route
from ropewalk.tools.bound_call import Bound, Rules, bind_route
from ropewalk.values import canonical


class Called(NamedTuple):
    """One use of a tool: when it began and ended, by which node, and whether it was ok, failed or cancelled."""

    began: float
    ended: float
    node: str
    tool: str
    how: str


@dataclass(frozen=True)
class Action:
    """At an instant: `send` an event, `answer` one of the approvals asked for then, or `stop`."""

    when: float
    kind: str
    name: str = ""
    payload: Any = None
    which: int = 0


def noted(calls: list[Called]) -> list[Called]:
    """The calls in order, without those that ended in the instant they began because something else had failed:
    whether such a call was made at all is nobody's business."""
    return sorted(call for call in calls if call.how != "cancelled" or call.ended > call.began)


def behaviour(tool: str, args: Any, tries: int) -> tuple[float, float, Any, str | None]:
    """How long this try of a call takes, how long its clean-up when it is cancelled, and its value or error."""
    seconds = args["for"][min(tries, len(args["for"]) - 1)]
    if seconds:
        seconds += hashlib.blake2b(canonical(args["v"])).digest()[1] % 3 / 8
    try:
        return seconds, args.get("clean", 0), copy.deepcopy(answer(tool, args, tries)), None
    except RuntimeError as exc:
        return seconds, args.get("clean", 0), None, str(exc)


class TimedWorld:
    """A caller of the engine whose tools sleep on the virtual clock."""

    version = 0

    def __init__(self, clock: VirtualClock, limits: dict[str, float], *, direct: bool = False) -> None:
        self.clock, self.limits, self.direct = clock, limits, direct
        self.tries, self.calls = Counter[str](), list[Called]()

    def bind(self, tool: str) -> Bound:
        async def send(args: Any, key: Any, timeout: Any, on_progress: Any) -> Any:
            began, tries = self.clock.now, self.tries[key]
            self.tries[key] += 1
            try:
                return await self._use(tool, args, tries)
            except asyncio.CancelledError:
                self.tries[key] -= self.clock.now == began
                raise

        async def direct(**args: Any) -> Any:
            return await self._use(tool, args, 0)

        plain = self.direct and tool in ("mix", "list", "echo", "none", "bad")
        rules = Rules(timeout=self.limits.get(tool, 60.0))
        return bind_route(tool, None, None, Route(send=send, direct=direct if plain else None), rules)

    async def _use(self, tool: str, args: Any, tries: int) -> Any:
        began, ended = self.clock.now, "cancelled"
        seconds, clean_up, value, error = behaviour(tool, args, tries)
        try:
            if seconds:
                await asyncio.sleep(seconds)
            if error is not None:
                ended = "failed"
                raise RuntimeError(error)
            ended = "ok"
            return value
        except asyncio.CancelledError:
            if self.clock.now > began:
                await asyncio.sleep(clean_up)
            if args.get("deaf"):
                return "too late"
            raise
        finally:
            self.calls.append(Called(began, self.clock.now, args["n"], tool, ended))
