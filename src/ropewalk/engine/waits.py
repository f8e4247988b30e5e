"""Waiting for an event or an approval: what a run waits for, who gets what comes, and leaving while nothing does.

Only a program that has a wait somewhere has any of this. Its runs know when they do nothing but wait: that time
does not count toward their timeout, and a run that may be parked is then released until something comes.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..errors import JournalConflict, NodeFailed, Rejected
from ..ir import Getter, Step, whole
from ..journal.journal import APPROVAL, Entry, Wanted
from ..values import Json
from .frame import RUN, Frame, Spot, path_of
from .lane import clock, watch_of
from .spill import Drain, Spill

if TYPE_CHECKING:
    from .lane import Lane
    from .run import Run

_PIECE: Final = 60.0  # seconds after which the clock is looked at, which may be set forward or back


def wait(text: Getter, approval: bool, timeout: Getter | None, spot: Spot, durable: bool, looked_at: bool) -> Step:
    """What a wait is for, and until when, is committed before it begins; what came before anything depends
    on it. The value is the event's payload, or what was said of the approval; a refusal that is `looked_at` too."""
    word = "approval" if approval else "event"

    async def run(frame: Frame) -> Json:
        run_: Any = frame[RUN]
        path, said = path_of(frame, spot), run_.redact(text(frame))
        known = run_.log.past.get((path, "wait"))
        again = known is not None
        if known is None:
            seconds = timeout(frame) if timeout is not None else None
            now = run_.now()
            known = Entry(path, "wait", spot.id, {word: said, "node": spot.name, "timeout": seconds}, "", now, now)
            known.data["due"] = None if seconds is None else now + seconds
            if durable:
                await run_.log.append(known)
        elif known.data.get(word) != said:
            raise JournalConflict(run_.id, path, f"the journal holds a wait for {known.data}, not for {word} {said!r}")
        arrived = run_.log.past.get((path, "signal"))
        pending = None
        if arrived is None:
            run_.begins(spot.id, clock())
            name = APPROVAL + path if approval else said
            pending = Pending(Wanted(name, path, spot.id, known.data["due"]), known, durable)
            if again:  # told once it is known that nothing has come meanwhile
                pending.tell = partial(run_.tell, "wait.started", path, spot.name, known.data)
            run_.waits.add(pending)
        if pending is None or not again:
            told = {**known.data, "replayed": True} if again else known.data
            run_.tell("wait.started", path, spot.name, told)
        if pending is not None:
            arrived = await run_.waits.until(pending)
        if "late" in arrived.data:
            raise _late(path, spot, known.data)
        value = run_.redact(arrived.data["value"])
        run_.tell("signal.received", path, spot.name, value)
        return _answer(value, path, spot, looked_at) if approval else value

    return Step(whole, run)


def _late(path: str, spot: Spot, data: dict[str, Json]) -> NodeFailed:
    what = f"no event {data['event']!r}" if "event" in data else "no approval"
    return NodeFailed(path, f"{what} within {data['timeout']:g} s", node=spot.name, tool=None, kind="ToolTimeout")


def _answer(value: Json, path: str, spot: Spot, looked_at: bool) -> Json:
    """What was said of an approval as the node's value; what is none fails the node, and trying again would not
    help. So does a refusal that nothing looks at."""
    said = value if type(value) is dict else {}
    answer = {"approved": said.get("approved"), "by": said.get("by"), "note": said.get("note")}
    if answer["approved"] is True or (answer["approved"] is False and looked_at):
        return answer
    cause = Rejected(answer["by"], answer["note"])
    message = str(cause) if answer["approved"] is False else "what was sent is no answer: {approved: true or false}"
    raise NodeFailed(path, message, node=spot.name, tool=None, kind="Rejected", retryable=False) from cause


class Pending:
    """A wait that nothing has come for, or a pause."""

    __slots__ = ("begun", "done", "due", "durable", "late", "tell", "wanted")

    def __init__(self, wanted: Wanted | None, begun: Entry | None, durable: bool, due: float | None = None) -> None:
        self.wanted, self.begun, self.durable = wanted, begun, durable
        self.due = wanted.due if wanted is not None else due
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.late = False
        self.tell: Callable[[], None] | None = None


class Waits:
    """What one run waits for. `parked` holds that once the run has been released with the status `waiting`."""

    def __init__(self, run: Run) -> None:
        self.run, self.park = run, False
        self.parked: list[Entry] = []
        self.cut: list[Pending] = []  # waits that were cancelled while the run did nothing else
        self.spills: set[Counted] = set()
        self._loop = run.loop
        self._pending: dict[Pending, None] = {}
        self._pauses: set[Pending] = set()
        self._dues: list[tuple[float, int, Pending]] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._handle: asyncio.Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = False  # whether something may have come, or a time may be over
        self._left = 0.0  # seconds of the run's own time that are left while it only waits

    def begin(self) -> None:
        self.run.log.on_signal = self._hear

    async def end(self) -> None:
        """The run has ended here; leaves no task behind."""
        self.run.log.on_signal = None
        for handle in (self._timer, self._handle):
            if handle is not None:
                handle.cancel()
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def waiting(self) -> list[Entry]:
        """The waits that nothing has come for, as they are journaled."""
        return [one.begun for one in self._pending if one.begun is not None]

    # --- what steps ask for -----------------------------------------------------------------------

    def add(self, one: Pending) -> None:
        """A wait has begun."""
        self.cut.clear()
        self._pending[one] = None
        self._hear()

    async def pause(self, due: float) -> None:
        """Until the wall-clock time `due`."""
        one = Pending(None, None, False, due)
        self._pauses.add(one)
        await self.until(one)

    async def until(self, one: Pending) -> Any:
        """What comes for a wait, recorded; `{late}` when its time is over before."""
        if one.due is not None:
            self._count += 1
            heapq.heappush(self._dues, (one.due, self._count, one))
            self._arm()
        self.look_soon()
        try:
            return await one.done
        except asyncio.CancelledError:
            # The first of several waits finds the run halted, and wakes it; the others follow in the same turn.
            if self.run.halted is not None or self.cut:
                self.cut.append(one)
            raise
        finally:
            self._pending.pop(one, None)
            self._pauses.discard(one)
            self._awake()

    # --- what comes, and what is over -----------------------------------------------------------------

    def _hear(self) -> None:
        self._news = True
        self._work()

    def _work(self) -> None:
        if self._task is None and not self.parked:
            self._task = self._loop.create_task(self._deliver())

    async def _deliver(self) -> None:
        """One at a time: give what has come to who waits for it, end what is over, park the run."""
        try:
            while self._news and self._pending:
                self._news = False
                await self._take()
            if self.park and self._is_idle(self._pauses):
                await self._leave()
        except asyncio.CancelledError:
            raise
        except Exception as exc:  # noqa: BLE001 - the run gets it, where it waits
            for one in [*self._pending, *self._pauses]:
                if not one.done.done():
                    one.done.set_exception(exc)
        finally:
            self._task = None
        if self._news and self._pending:
            self._work()
        else:
            self.look_soon()

    async def _take(self) -> None:
        log = self.run.log
        open_ = {one.wanted.path: one for one in self._pending if one.wanted is not None and not one.done.done()}
        late = [one for one in open_.values() if one.late]
        for entry in await log.take([one.wanted for one in open_.values() if one.wanted is not None]):
            self._resolve(open_[entry.path], entry)
        for one in late:
            if one.done.done() or one.wanted is None:
                continue
            now = self.run.now()
            entry = Entry(one.wanted.path, "signal", one.wanted.node, {"late": True}, "", now, now)
            if one.durable:
                await log.append(entry)
            self._resolve(one, entry)
        for one in open_.values():
            if one.tell is not None and not one.done.done():
                one.tell()
                one.tell = None

    def _resolve(self, one: Pending, value: Any = None) -> None:
        if not one.done.done():
            self._awake()
            one.done.set_result(value)

    def _arm(self) -> None:
        """Look at the clock when the next time is over."""
        while self._dues and self._dues[0][2].done.done():
            heapq.heappop(self._dues)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._dues:
            left = self._dues[0][0] - self.run.now()
            self._timer = self._loop.call_later(min(max(left, 0.0), _PIECE), self._look_at_clock)

    def _look_at_clock(self) -> None:
        self._timer = None
        now = self.run.now()
        while self._dues and self._dues[0][0] <= now:
            one = heapq.heappop(self._dues)[2]
            if one.wanted is None:
                self._resolve(one)
            else:
                one.late = True
                self._hear()
        self._arm()

    # --- doing nothing but wait -------------------------------------------------------------------

    def look_soon(self) -> None:
        """See, when whatever goes on now has come to a halt, whether the run only waits."""
        if self._handle is None:
            self._handle = self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._handle = None
        if self.run.halted is None and self._is_idle(()):
            self.run.halted = clock()
            if self.run.program.flow.timeout is not None:
                self._left = self.run.when - self.run.halted
                self.run.when = float("inf")
        if self.park and self._task is None and self._is_idle(self._pauses):
            self._work()

    def _awake(self) -> None:
        """It goes on: its time counts again."""
        if self.run.halted is not None:
            now = self._uncounted(self.run.halted)
            self.run.halted = None
            if self.run.program.flow.timeout is not None and self.run.playing:
                self.run.when = now + self._left
                watch_of(self._loop).set(self.run)

    def _uncounted(self, since: float) -> float:
        """What has passed since then is no time of the run's own; gives the time now."""
        now = clock()
        self.run.spent -= now - since
        return now

    def _is_idle(self, pauses: Any) -> bool:
        """Whether every task of the run is in a wait, or in one of these pauses, or waits for one that is."""
        if self.run.ending or not self._pending or any(spill.handle and spill.pending() for spill in self.spills):
            return False
        tasks = 1 + sum(spill.live for spill in self.spills)
        still = [one.done for waiting in (self._pending, pauses) for one in waiting]
        still += [spill.waiter for spill in self.spills if spill.waiter is not None]
        return tasks == sum(not future.done() for future in still)

    async def _leave(self) -> None:
        """Release the run, unless something has come meanwhile. Nothing of it goes on in between: who waits is
        told by the task that does this."""
        dues = [one.due for waiting in (self._pending, self._pauses) for one in waiting if one.due is not None]
        if dues and min(dues) <= self.run.now():
            return  # the timer is about to say so
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.run.halted is not None:
            self.run.halted = self._uncounted(self.run.halted)
        names = {one.wanted.name for one in self._pending if one.wanted is not None}
        run = self.run
        run.begins(self.waiting()[0].node, clock())
        waiting = self.waiting()
        if await run.log.park(min(dues, default=None), names):
            self.parked, run.ending = waiting, True
            run.task.cancel()
        else:
            self._news = True
            self._arm()


class Counted(Spill):
    """A Spill whose tasks are counted, so that it is known when all of them wait."""

    __slots__ = ("waits",)

    def __init__(
        self, waits: Waits, drain: Drain, pending: Callable[[], int], limit: int | None, lane: Lane, found: bool
    ) -> None:
        async def counted(lane: Lane) -> None:
            try:
                await drain(lane)
            finally:
                waits.look_soon()

        super().__init__(counted, pending, limit, lane, found)
        self.waits = waits

    async def run(self) -> None:
        self.waits.spills.add(self)
        try:
            await super().run()
        finally:
            self.waits.spills.discard(self)
