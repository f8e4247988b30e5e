"""Wait for an event or an approval, and park the run while it only waits.

Only a program with a wait uses this module: in its own flow, or in a flow that it calls as a tool.
Every flow that its run calls then uses it, too, so that a pause in a part does not hold the process.
The time in which a run only waits does not count toward its timeout. A run that may be parked is
then released, until an event or an answer arrives or a deadline passes.

A run that is part of another run waits through the outermost run. The journal of the outermost run
holds each wait of its parts under the path of the calling node (`call/ask`). So people list, answer
and resume the outermost run alone, and each arrival is recorded there once. The part keeps a copy
of both entries, so that its own journal is complete.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..journal.protocol import APPROVAL, Entry, OpenWait
from ..plans.rows import KEPT_SECONDS
from ..values import Json
from .lazy_task_group import Drain, LazyTaskGroup
from .timeouts import clock, deadline_timer_of

if TYPE_CHECKING:
    from .ports import LiveRun
    from .timeouts import TaskDeadline

_CLOCK_INTERVAL: Final = 60.0  # seconds between looks at the wall clock, which somebody may set forward or back


class Working(Protocol):
    """Tasks of a run, as its waits count them."""

    # `live`: How many there are. `waiter`: Pending while the task that began them only waits for them.

    @property
    def live(self) -> int: ...

    @property
    def waiter(self) -> asyncio.Future[None] | None: ...

    @property
    def handle(self) -> asyncio.Handle | None: ...

    def pending(self) -> int: ...


class Pending:
    """A wait for which nothing has arrived, or a pause."""

    # `durable`: Whether its arrival must be journaled.
    # `due`: Wall-clock seconds at which a pause ends.

    __slots__ = ("arrival", "due", "durable", "late", "open_wait", "outer_wait", "owner", "report", "wait_entry")

    def __init__(
        self,
        open_wait: OpenWait | None,
        wait_entry: Entry | None,
        durable: bool,
        due: float | None = None,
        outer_wait: Entry | None = None,
    ) -> None:
        self.open_wait, self.wait_entry, self.durable, self.outer_wait = open_wait, wait_entry, durable, outer_wait
        self.owner: Waits | None = None  # the waits of its own run
        self.due = open_wait.due if open_wait is not None else due
        self.arrival: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.late = False  # True: its time is over
        self.report: Callable[[], None] | None = None  # reports the wait, once it is known that nothing has arrived


class Waits:
    """The waits of one run."""

    # The waits of runs that call each other form a tree. Each run counts its own tasks and time. The `root`, which
    # belongs to the outermost run, keeps the waits of all of them and receives what arrives.

    def __init__(self, run: LiveRun) -> None:
        self.run, self.park = run, False
        self.outer = run.parent.waits if run.parent is not None else None
        self.root: Waits = self.outer.root if self.outer is not None else self
        self.prefix = f"{run.id.removeprefix(f'{self.root.run.id}/')}/" if self.outer is not None else ""
        self.outer_wait: set[str] = set()  # paths of the waits that this run has recorded for its parts
        self.inner: set[Waits] = set()  # of the runs that are part of this run and execute now
        self.parked: list[Entry] = []  # the open waits, once the run is released with the status `waiting`
        self.cut: list[Pending] = []  # waits that were cancelled while the run did nothing else
        self.groups: set[Working] = set()  # the tasks of the run beside its own
        self._loop = run.loop
        self._pending: dict[Pending, None] = {}  # of this run; of the outermost run also those of its parts
        self._own_waits: set[Pending] = set()  # open waits of this run only
        self._pauses: set[Pending] = set()
        self._dues: list[tuple[float, int, Pending]] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._handle: asyncio.Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = False  # True: something may have arrived, or a deadline may have passed
        self._remaining = 0.0  # seconds until the timeout of the run, stopped while it only waits

    def begin(self) -> None:
        """Start to receive what arrives."""

        # The run calls it when it starts.
        if self.outer is None:
            self.run.log.on_signal = self._notice
        else:
            self.outer.inner.add(self)

    async def end(self) -> None:
        """Stop to receive, and leave no task behind."""

        # The run calls it when it ends.
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
        """Return the journal entries of the open waits."""
        if self.outer is not None:
            return [wait.wait_entry for wait in self._own_waits if wait.wait_entry is not None]
        return [wait.outer_wait for wait in self._pending if wait.outer_wait is not None]

    def report(self, kind: str, path: str, node: str, data: Json) -> None:
        """Emit an event to the watcher of the run, or else to that of the outermost run."""
        if self.run.watcher is not None or self.outer is None:
            self.run.report(kind, path, node, data)
        else:
            self.root.run.report(kind, self.prefix + path, node, data)

    # --- the journal of the outermost run -------------------------------------------------------------

    async def arrived_before(self, wait_entry: Entry, durable: bool, again: bool) -> Entry | None:
        """Return the arrival that the outermost run has recorded for a wait of this part, and copy it to the part."""
        if self.outer is None:
            return None
        arrived = self.root.run.log.past.get((self.prefix + wait_entry.path, "signal"))
        if arrived is not None:
            return await self.copied(wait_entry.path, wait_entry.node, arrived, durable)
        if again:  # earlier versions of Ropewalk stored what was sent to a part with the part
            name = wait_entry.data["event"] if "event" in wait_entry.data else APPROVAL + wait_entry.path
            for entry in await self.run.log.take(
                [OpenWait(name, wait_entry.path, wait_entry.node, wait_entry.data["due"])]
            ):
                return entry
        return None

    async def recorded(self, wait_entry: Entry, durable: bool) -> Entry:
        """Record a wait in the outermost run, and return its entry there."""

        # The outermost run has recorded its own.
        if self.outer is None:
            return wait_entry
        log, path = self.root.run.log, self.prefix + wait_entry.path
        self.root.outer_wait.add(path)
        existing = log.past.get((path, "wait"))
        if existing is not None:
            return existing
        entry = self._outside(wait_entry)
        if durable:
            await log.append(entry)
        return entry

    async def gave_up(self, attempt: Entry) -> None:
        """Record a failed attempt of this part in the outermost run, if the attempt waited inside."""
        path = self.prefix + attempt.path
        inside = (f"{path}/", f"{path}[")
        if self.outer is not None and any(wait == path or wait.startswith(inside) for wait in self.root.outer_wait):
            await self.root.run.log.append(self._outside(attempt))

    def _outside(self, entry: Entry) -> Entry:
        """Return an entry of this part as an entry of the outermost run, at the node that calls the part."""
        caller = self.run.outermost()[1].rpartition("/")[2].partition("@")[0]
        return replace(entry, path=self.prefix + entry.path, node=caller)

    async def copied(self, path: str, node: str, arrived: Entry, durable: bool) -> Entry:
        """Copy an arrival to the journal of the part that waited for it, and return the copy."""
        if self.outer is None:
            return arrived
        entry = replace(arrived, path=path, node=node)
        if durable:
            await self.run.log.append(entry)
        return entry

    # --- calls from steps -------------------------------------------------------------------------

    def add(self, wait: Pending) -> None:
        """Register a wait that has begun."""
        self.root.cut.clear()
        self._own_waits.add(wait)
        self.root._pending[wait] = None
        self.root._notice()

    async def pause(self, due: float) -> None:
        """Wait until the wall-clock time `due`, in seconds."""
        wait = Pending(None, None, False, due)
        self._pauses.add(wait)
        await self.until(wait)

    async def until(self, wait: Pending) -> Any:
        """Wait, and return the recorded arrival: its data is `{"late": True}` if the time was over before."""
        wait.owner = self
        if wait.due is not None:
            self.root._remind(wait.due, wait)
        self.look_soon()
        try:
            return await wait.arrival
        except asyncio.CancelledError:
            # The first cancelled wait wakes the halted run; `cut` shows the others that the run did nothing else.
            if self.root.run.halted is not None or self.root.cut:
                self.root.cut.append(wait)
            raise
        finally:
            self.root._pending.pop(wait, None)
            self._own_waits.discard(wait)
            self._pauses.discard(wait)
            self._awake()

    # --- arrivals and deadlines -----------------------------------------------------------------------

    def _notice(self) -> None:
        self._news = True
        self._start_delivery()

    def _start_delivery(self) -> None:
        if self._task is None and not self.parked:
            self._task = self._loop.create_task(self._deliver())

    async def _deliver(self) -> None:
        """Pass arrivals to their waits, end overdue waits, and park the run."""

        # At most one task does this.
        try:
            while self._news and self._pending:
                self._news = False
                await self._take()
            if self.park and self._pending and self.is_idle(pauses=True):
                await self._park()
        except asyncio.CancelledError:
            raise
        except Exception as exc:  # noqa: BLE001 - the steps that wait raise it
            for wait in self._open():
                if not wait.arrival.done():
                    wait.arrival.set_exception(exc)
        finally:
            self._task = None
        if self._news and self._pending:
            self._start_delivery()
        else:
            self.look_soon()

    async def _take(self) -> None:
        log = self.run.log
        open_ = {
            wait.open_wait.path: wait
            for wait in self._pending
            if wait.open_wait is not None and not wait.arrival.done()
        }
        late = [wait for wait in open_.values() if wait.late]
        for entry in await log.take([wait.open_wait for wait in open_.values() if wait.open_wait is not None]):
            self._resolve(open_[entry.path], entry)
        # What arrived in time wins over the deadline, so overdue waits end only now.
        for wait in late:
            if wait.arrival.done() or wait.open_wait is None:
                continue
            now = self.run.now()
            entry = Entry(wait.open_wait.path, "signal", wait.open_wait.node, {"late": True}, "", now, now)
            if wait.durable:
                await log.append(entry)
            self._resolve(wait, entry)
        # Nothing has arrived for the rest: report the waits that a resumed run began again.
        for wait in open_.values():
            if wait.report is not None and not wait.arrival.done():
                wait.report()
                wait.report = None

    def _resolve(self, wait: Pending, value: Any = None) -> None:
        if not wait.arrival.done():
            (wait.owner or self)._awake()
            wait.arrival.set_result(value)

    def _remind(self, due: float, wait: Pending) -> None:
        self._count += 1
        heapq.heappush(self._dues, (due, self._count, wait))
        self._arm()

    def _arm(self) -> None:
        """Start the timer for the next deadline."""
        while self._dues and self._dues[0][2].arrival.done():
            heapq.heappop(self._dues)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._dues:
            remaining = self._dues[0][0] - self.run.now()
            self._timer = self._loop.call_later(min(max(remaining, 0.0), _CLOCK_INTERVAL), self._look_at_clock)

    def _look_at_clock(self) -> None:
        self._timer = None
        now = self.run.now()
        while self._dues and self._dues[0][0] <= now:
            wait = heapq.heappop(self._dues)[2]
            if wait.open_wait is None:
                self._resolve(wait)
            else:
                wait.late = True
                self._notice()
        self._arm()

    # --- idle runs --------------------------------------------------------------------------------

    def look_soon(self) -> None:
        """Check soon, after the callbacks that are scheduled already, whether the run only waits."""
        if self._handle is None:
            self._handle = self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._handle = None
        if self.run.halted is None and self.is_idle(pauses=False):
            self.run.halted = clock()
            if self.run.program.flow.timeout is not None:  # stop the timeout
                self._remaining = self.run.when - self.run.halted
                self.run.when = float("inf")
        if self.outer is not None:
            self.outer.look_soon()
        elif self.park and self._task is None and self._pending and self.is_idle(pauses=True):
            self._start_delivery()

    def _awake(self) -> None:
        """Count the time of the run again, and of the runs that it is part of, since it continues."""
        if self.outer is not None:
            self.outer._awake()
        if self.run.halted is not None:
            now = self._uncounted(self.run.halted)
            self.run.halted = None
            if self.run.program.flow.timeout is not None and self.run.playing:
                self.run.when = now + self._remaining
                deadline_timer_of(self._loop).set(self.run)

    def _uncounted(self, since: float) -> float:
        """Take the time since a clock reading off the run, and return the reading of now."""
        now = clock()
        self.run.spent -= now - since
        return now

    def is_idle(self, *, pauses: bool) -> bool:
        """Return True if no task of the run executes anything."""

        # A task is idle in a wait, in a call of a flow that is idle, and while it waits for idle tasks.
        if self.run.ending or any(group.handle and group.pending() for group in self.groups):
            return False
        idle = sum(waits.is_idle(pauses=pauses) for waits in self.inner)
        pausing = pauses and self.outer is not None and bool(self._pauses)
        if not self._own_waits and not idle and not pausing:
            return False
        # Compare the number of tasks with the number of idle ones.
        tasks = 1 + sum(group.live for group in self.groups)
        still = [wait.arrival for wait in (*self._own_waits, *(self._pauses if pauses else ()))]
        still += [group.waiter for group in self.groups if group.waiter is not None]
        return tasks == idle + sum(not future.done() for future in still)

    def only_waits(self) -> bool:
        """Return True if the run does nothing until an event, an approval or a time comes."""
        return bool(self.waiting()) and not self._news and self._task is None and self.is_idle(pauses=True)

    def _tree(self) -> list[Waits]:
        """Return the waits of this run and, at any depth, of its parts."""
        tree = [self]
        for waits in self.inner:
            tree += waits._tree()
        return tree

    def _open(self) -> list[Pending]:
        """Return every open wait and pause of this run and of its parts."""
        return [wait for waits in self._tree() for wait in (*waits._own_waits, *waits._pauses)]

    async def _park(self) -> None:
        """Release the run, unless something has arrived meanwhile."""

        # The run cannot continue in between: only the task that executes this wakes its waits.
        dues = [wait.due for wait in self._open() if wait.due is not None]
        pauses = [wait.due for wait in self._open() if wait.due is not None and wait.open_wait is None]
        now = self.run.now()
        # Nobody records when a short pause ends, so a resumed run would begin it again.
        if min(dues, default=inf) <= now or min(pauses, default=inf) < now + KEPT_SECONDS:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waits in self._tree():
            if waits.run.halted is not None:
                waits.run.halted = waits._uncounted(waits.run.halted)
        names = {wait.open_wait.name for wait in self._pending if wait.open_wait is not None}
        run = self.run
        run.begins(self.waiting()[0].node, clock())
        waiting = self.waiting()
        if await run.log.park(min(dues, default=None), names):
            self.parked, run.ending = waiting, True
            run.task.cancel()
        else:
            self._news = True
            self._arm()


class Counted(LazyTaskGroup):
    """A task group that its run counts, to know when all tasks wait."""

    __slots__ = ("waits",)

    def __init__(
        self,
        waits: Waits,
        drain: Drain,
        pending: Callable[[], int],
        limit: int | None,
        task_deadline: TaskDeadline,
        needs_deadline: bool,
    ) -> None:
        async def drain_and_look(task_deadline: TaskDeadline) -> None:
            try:
                await drain(task_deadline)
            finally:
                waits.look_soon()

        super().__init__(drain_and_look, pending, limit, task_deadline, needs_deadline)
        self.waits = waits

    async def run(self) -> None:
        self.waits.groups.add(self)
        try:
            await super().run()
        finally:
            self.waits.groups.discard(self)
