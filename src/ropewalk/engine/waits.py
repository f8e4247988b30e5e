"""Waiting for an event or an approval: what a run waits for, who gets what comes, and leaving while nothing does.

Only a program that has a wait somewhere has any of this, in itself or in a flow that it calls as a tool. Its runs know
when they do nothing but wait: that time does not count toward their timeout, and a run that may be parked is then
released until something comes.

A run that is part of another one waits through the outermost run. That run's journal holds each wait of its parts
under the path of the calling node (`call/ask`), so people answer, list and resume the outermost run alone, and what
arrives is recorded there once. The part keeps a copy of both facts, so that its own journal stays complete.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..journal.journal import APPROVAL, Entry, Wanted
from ..values import Json
from .lane import clock, watch_of
from .spill import Drain, Spill

if TYPE_CHECKING:
    from .lane import Lane
    from .run import Run

_PIECE: Final = 60.0  # seconds after which the clock is looked at, which may be set forward or back


class Pending:
    """A wait that nothing has come for, or a pause. `begun` is the wait as its own run has recorded it, `asked` as the
    outermost run has; `owner` are the waits of its own run."""

    __slots__ = ("asked", "begun", "done", "due", "durable", "late", "owner", "tell", "wanted")

    def __init__(
        self,
        wanted: Wanted | None,
        begun: Entry | None,
        durable: bool,
        due: float | None = None,
        asked: Entry | None = None,
    ) -> None:
        self.wanted, self.begun, self.durable, self.asked = wanted, begun, durable, asked
        self.owner: Waits | None = None
        self.due = wanted.due if wanted is not None else due
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.late = False
        self.tell: Callable[[], None] | None = None


class Waits:
    """What one run waits for. `parked` holds that once the run has been released with the status `waiting`.

    The waits of runs that call each other's flows form a tree. Each run counts its own tasks and clock; `root`, those
    of the outermost run, keeps what all of them wait for, and takes what arrives.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.park = run, False
        self.outer = run.parent.waits if run.parent is not None else None
        self.root: Waits = self.outer.root if self.outer is not None else self
        self.prefix = f"{run.id.removeprefix(f'{self.root.run.id}/')}/" if self.outer is not None else ""
        self.asked: set[str] = set()  # paths of the waits that this run has recorded for its parts
        self.inner: set[Waits] = set()  # of the runs that are part of this one and execute now
        self.parked: list[Entry] = []
        self.cut: list[Pending] = []  # waits that were cancelled while the run did nothing else
        self.spills: set[Counted] = set()
        self._loop = run.loop
        self._pending: dict[Pending, None] = {}  # of this run; of the outermost one also those of its parts
        self._own: set[Pending] = set()
        self._pauses: set[Pending] = set()
        self._dues: list[tuple[float, int, Pending]] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._handle: asyncio.Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = False  # whether something may have come, or a time may be over
        self._left = 0.0  # seconds of the run's own time that are left while it only waits

    def begin(self) -> None:
        if self.outer is None:
            self.run.log.on_signal = self._hear
        else:
            self.outer.inner.add(self)

    async def end(self) -> None:
        """The run has ended here; leaves no task behind."""
        if self.outer is None:
            self.run.log.on_signal = None
        else:
            self.outer.inner.discard(self)
        for handle in (self._timer, self._handle):
            if handle is not None:
                handle.cancel()
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def waiting(self) -> list[Entry]:
        """The waits that nothing has come for, as they are journaled."""
        if self.outer is not None:
            return [one.begun for one in self._own if one.begun is not None]
        return [one.asked for one in self._pending if one.asked is not None]

    def tell(self, kind: str, path: str, node: str, data: Json) -> None:
        """Emit an event to who watches the run, or the outermost run that it is a part of."""
        if self.run.watcher is not None or self.outer is None:
            self.run.tell(kind, path, node, data)
        else:
            self.root.run.tell(kind, self.prefix + path, node, data)

    # --- what the outermost run records ---------------------------------------------------------------

    async def arrived_before(self, begun: Entry, durable: bool, again: bool) -> Entry | None:
        """What the outermost run has recorded for a wait of this part of it, copied into its own journal."""
        if self.outer is None:
            return None
        found = self.root.run.log.past.get((self.prefix + begun.path, "signal"))
        if found is not None:
            return await self.copied(begun.path, begun.node, found, durable)
        if again:  # an earlier version kept what was sent to a part with the part itself
            name = begun.data["event"] if "event" in begun.data else APPROVAL + begun.path
            for entry in await self.run.log.take([Wanted(name, begun.path, begun.node, begun.data["due"])]):
                return entry
        return None

    async def recorded(self, begun: Entry, durable: bool) -> Entry:
        """A wait as the outermost run records it; of that run itself it is recorded already."""
        if self.outer is None:
            return begun
        log, path = self.root.run.log, self.prefix + begun.path
        self.root.asked.add(path)
        known = log.past.get((path, "wait"))
        if known is not None:
            return known
        entry = self._outside(begun)
        if durable:
            await log.append(entry)
        return entry

    async def gave_up(self, attempt: Entry) -> None:
        """Record in the outermost run that an attempt of this part has failed, where it waited inside."""
        path = self.prefix + attempt.path
        inside = (f"{path}/", f"{path}[")
        if self.outer is not None and any(asked == path or asked.startswith(inside) for asked in self.root.asked):
            await self.root.run.log.append(self._outside(attempt))

    def _outside(self, entry: Entry) -> Entry:
        """A fact of this part as one of the outermost run: of its node that calls the flow which this part is in."""
        caller = self.run.outermost()[1].rpartition("/")[2].partition("@")[0]
        return replace(entry, path=self.prefix + entry.path, node=caller)

    async def copied(self, path: str, node: str, arrived: Entry, durable: bool) -> Entry:
        """What has arrived, also in the journal of the part that waited for it."""
        if self.outer is None:
            return arrived
        entry = replace(arrived, path=path, node=node)
        if durable:
            await self.run.log.append(entry)
        return entry

    # --- what steps ask for -----------------------------------------------------------------------

    def add(self, one: Pending) -> None:
        """A wait has begun."""
        self.root.cut.clear()
        self._own.add(one)
        self.root._pending[one] = None
        self.root._hear()

    async def pause(self, due: float) -> None:
        """Until the wall-clock time `due`."""
        one = Pending(None, None, False, due)
        self._pauses.add(one)
        await self.until(one)

    async def until(self, one: Pending) -> Any:
        """What comes for a wait, recorded; `{late}` when its time is over before."""
        one.owner = self
        if one.due is not None:
            self.root._remind(one.due, one)
        self.look_soon()
        try:
            return await one.done
        except asyncio.CancelledError:
            # The first of several waits finds the run halted, and wakes it; the others follow in the same turn.
            if self.root.run.halted is not None or self.root.cut:
                self.root.cut.append(one)
            raise
        finally:
            self.root._pending.pop(one, None)
            self._own.discard(one)
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
            if self.park and self.is_idle(pauses=True):
                await self._leave()
        except asyncio.CancelledError:
            raise
        except Exception as exc:  # noqa: BLE001 - the run gets it, where it waits
            for one in self._open():
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
            (one.owner or self)._awake()
            one.done.set_result(value)

    def _remind(self, due: float, one: Pending) -> None:
        self._count += 1
        heapq.heappush(self._dues, (due, self._count, one))
        self._arm()

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
        if self.run.halted is None and self.is_idle(pauses=False):
            self.run.halted = clock()
            if self.run.program.flow.timeout is not None:
                self._left = self.run.when - self.run.halted
                self.run.when = float("inf")
        if self.outer is not None:
            self.outer.look_soon()
        elif self.park and self._task is None and self.is_idle(pauses=True):
            self._work()

    def _awake(self) -> None:
        """The run continues, and with it those that it is a part of: their time counts again."""
        if self.outer is not None:
            self.outer._awake()
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

    def is_idle(self, *, pauses: bool) -> bool:
        """Return True if every task of the run is in a wait, in a call of a flow that is idle itself, or waits for a
        task that is; with `pauses` also if it is in a pause."""
        if self.run.ending or any(spill.handle and spill.pending() for spill in self.spills):
            return False
        idle = sum(waits.is_idle(pauses=pauses) for waits in self.inner)
        if not self._own and not idle:
            return False
        tasks = 1 + sum(spill.live for spill in self.spills)
        still = [one.done for one in (*self._own, *(self._pauses if pauses else ()))]
        still += [spill.waiter for spill in self.spills if spill.waiter is not None]
        return tasks == idle + sum(not future.done() for future in still)

    def _tree(self) -> list[Waits]:
        """The waits of this run and of its parts."""
        return [self, *(one for waits in self.inner for one in waits._tree())]

    def _open(self) -> list[Pending]:
        """Every wait and pause of this run and of its parts."""
        return [one for waits in self._tree() for one in (*waits._own, *waits._pauses)]

    async def _leave(self) -> None:
        """Release the run, unless something has come meanwhile. Nothing of it goes on in between: who waits is
        told by the task that does this."""
        dues = [one.due for one in self._open() if one.due is not None]
        if dues and min(dues) <= self.run.now():
            return  # the timer is about to say so
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waits in self._tree():
            if waits.run.halted is not None:
                waits.run.halted = waits._uncounted(waits.run.halted)
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
