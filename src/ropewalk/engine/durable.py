"""The steps of a run that is journaled: what was recorded is read back, never done again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from ..errors import ExecutionFailed, JournalConflict, NodeFailed, Problem, ToolError
from ..ir import Getter, Step, whole
from ..journal.journal import Entry
from ..values import Json, digest
from .caller import Lease
from .frame import RUN, Frame, Spot, key_of, path_of

Send = Callable[[Frame, Any], Awaitable[Json]]
clock = time.monotonic


class PastFailure(ExecutionFailed):
    """A tool failure read back from the journal; its original exception is gone with its process."""

    def __init__(self, recorded: dict[str, Any]) -> None:
        super().__init__(recorded["tool"], recorded["op"], recorded["message"])
        self.retryable = bool(recorded["retryable"])
        self.kind = recorded["kind"]


class Pledge:
    """The result of a call that is about to be committed: awaited, it is the value once it is."""

    __slots__ = ("_committed", "_value")

    def __init__(self, value: Json, committed: asyncio.Future[None]) -> None:
        self._value, self._committed = value, committed

    def __await__(self) -> Generator[Any, None, Json]:
        yield from self._committed
        return self._value


def call(tool: str, send: Send, get: Getter, shown: Getter, spot: Spot, pledges: bool = False) -> Step:
    """A tool call: its result is committed before anything depends on it. `send` makes the call. One that
    `pledges` leaves it to its region to wait for the commit.

    `shown` gives the arguments as they may be written down (secrets as references); only their
    digest is kept. A recorded call with other arguments is a JournalConflict.
    """

    async def run(frame: Frame) -> Json | Pledge:
        run_ = frame[RUN]
        args = get(frame)
        path = path_of(frame, spot)
        mark = digest([tool, args if shown is get else shown(frame)])
        if run_.log.past:
            known = run_.log.past.get((path, "call")) or run_.log.past.get((path, "call_failed"))
            if known is not None:
                if known.digest != mark:
                    again = f"ropewalk runs retry {run_.id} --from {spot.name}"
                    said = (
                        f"the journal holds a call of {tool} with other arguments than now; to call it again: {again}"
                    )
                    raise JournalConflict(run_.id, path, said)
                if known.kind == "call_failed":
                    raise PastFailure(known.data)
                return known.data
            offer = run_.log.past.get((key_of(frame, spot), "offer"))
            if offer is not None and offer.digest == mark:  # a fork takes what the other run has
                await run_.log.append(Entry(path, "call", spot.id, offer.data, mark, offer.started, offer.ended))
                return offer.data
        started = run_.now()
        run_.touch(spot.id)
        try:
            value = await send(frame, args)
        except ToolError as exc:
            data = {
                "tool": exc.tool_id,
                "op": exc.op,
                "message": run_.redact(exc.reason),
                "retryable": exc.retryable,
                "kind": type(exc).__name__,
            }
            await run_.log.append(Entry(path, "call_failed", spot.id, data, mark, started, run_.now()))
            raise
        value = run_.redact(value)
        committed = run_.log.append(Entry(path, "call", spot.id, value, mark, started, run_.now()))
        if pledges and not committed.done():
            return Pledge(value, committed)
        await committed
        return value

    return Step(whole, run)


def leased(send: Send, lease: Lease) -> Send:
    """The same call, not begun while it may be that the run has been given to another process."""

    async def later(frame: Frame, args: Any) -> Json:
        await lease.renewed(frame[RUN].id)
        return await send(frame, args)

    return lambda frame, args: send(frame, args) if clock() < lease.until else later(frame, args)


def sleep(seconds: Getter, spot: Spot) -> Step:
    """A pause until an absolute time that is journaled before the waiting begins."""

    async def run(frame: Frame) -> None:
        run_ = frame[RUN]
        path = path_of(frame, spot)
        known = run_.log.past.get((path, "timer"))
        if known is None:
            due = run_.now() + seconds(frame)
            await run_.log.append(Entry(path, "timer", spot.id, due, "", run_.now(), due))
        else:
            due = known.data
        await wait_until(run_, due)

    return Step(whole, run)


def remember(kind: str, decide: Getter, spot: Spot) -> Getter:
    """A decision, journaled without waiting: what it was made from is journaled already."""

    def decided(frame: Frame) -> Json:
        run_ = frame[RUN]
        path = path_of(frame, spot)
        known = run_.log.past.get((path, kind))
        if known is not None:
            return known.data
        value = decide(frame)
        now = run_.now()
        run_.log.append(Entry(path, kind, spot.id, value, "", now, now))
        return value

    return decided


async def remember_attempt(run: Any, frame: Frame, spot: Spot, failed: NodeFailed, due: float | None) -> None:
    """Journal that an attempt failed, and when the next one is due."""
    data = {**said_of(failed), "due": due}
    now = run.now()
    await run.log.append(Entry(path_of(frame, spot), "attempt", spot.id, data, "", now, now))


def attempt_of(entry: Entry) -> tuple[NodeFailed, float | None]:
    """What `remember_attempt` wrote."""
    return failed_of(entry.data), entry.data["due"]


def said_of(failed: NodeFailed) -> dict[str, Any]:
    """A failure as JSON."""
    return {
        "path": failed.path,
        "message": failed.message,
        "node": failed.node,
        "tool": failed.tool,
        "kind": failed.kind,
        "attempts": failed.attempts,
        "problems": [[p.path, p.message, p.keyword] for p in failed.problems],
    }


def failed_of(said: Any) -> NodeFailed:
    """What `said_of` wrote."""
    problems = tuple(Problem(path=p, message=m, keyword=k) for p, m, k in said.get("problems", ()))
    given = {key: said[key] for key in ("node", "tool", "kind", "attempts")}
    return NodeFailed(said["path"], said["message"], problems=problems, **given)


async def wait_until(run: Any, due: float) -> None:
    """Sleep until the wall-clock time `due`."""
    if run.waits is not None:
        await run.waits.pause(due)
        return
    left = due - run.now()
    while left > 0:
        # In pieces, so that a clock that is set forward or back is noticed.
        await asyncio.sleep(min(left, 60.0))
        left = due - run.now()
