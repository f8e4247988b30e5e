"""Run jobs on a store: open the journal, execute the program, record the ending.

A run id runs once. The same id with the same definition, input and variables waits for the first
result; with different ones it raises `RunExists`. If the process of a run died, the run is taken
over and resumes from its journal.

A cancelled durable run (by a signal, a closing server, a cancelled task) is released. A run that
only waited becomes `waiting`, as if it was parked. Any other run is interrupted until somebody
resumes it; a server that ends hands its runs back, and the next server resumes them.

`run_flow` and `run_program` run a flow without a store.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

from ..errors import (
    BudgetExceeded,
    DefinitionChanged,
    FailedResult,
    InvalidValue,
    NoExecutor,
    RopewalkError,
    RunBusy,
    RunExists,
    StoreError,
    errors_in,
    message_of,
)
from ..events import Event
from ..fast_dataclass import dataclass
from ..ir import Flow
from ..journal.address import run_sync_in_thread
from ..journal.ledger import Limits
from ..journal.protocol import ENDS, Entry, Key, Log, NewRun, OpenWait, RunRow, Store
from ..journal.run_ids import new_run_id as new_run_id
from ..journal.undo import UNSUCCESSFUL
from ..redaction import Redaction
from ..tools.output import LOG_LIMITS
from ..values import Json, check_json, digest, gc_disabled_until_next_tick
from . import budgets
from .compile.calls import Caller, Lease
from .compile.program import Program, compile_flow
from .run import AddPlaces, Ending, Run, Watcher, rendered
from .stack_trace import local_cause

if TYPE_CHECKING:
    from .ports import MapChunks


logger: Final = logging.getLogger("ropewalk.engine")


def check_same_run(row: RunRow, new: NewRun) -> None:
    """Check that a request is the run that has its id: the same definition, input and variables."""
    if row.fingerprint and row.fingerprint != new.fingerprint:
        raise RunExists(row.id, "another definition")
    check_same_input(row, new)


def check_same_input(row: RunRow, new: NewRun) -> None:
    """Check that a request has the input and the variables of the run that has its id."""

    # A resumed run needs only this check: the report of another definition lists the differences.
    if row.parent is not None or new.parent is not None:
        return  # the input of a part follows from its outer run
    if digest(row.input) != digest(new.input):
        raise RunExists(row.id, "another input")
    variables = (row.context or {}).get("variables") or {}
    new_variables = (new.context or {}).get("variables") or {}
    if digest(variables) != digest(new_variables):
        raise RunExists(row.id, "other variables")


PATIENCE: Final = 2.0
"""Seconds that a clean-up may take after a second cancellation."""


async def complete(cleanup: Coroutine[Any, Any, None]) -> None:
    """Wait until a clean-up is done, also if the waiting task is cancelled meanwhile."""

    # Without this a second cancellation (a second Ctrl-C, an outer timeout, a cancel scope that repeats itself) would
    # cut off the write that releases the run, and the run would stay with a process that does not execute it. A store
    # that is away must not keep the process: PATIENCE seconds after the second cancellation the clean-up is given up.
    task = asyncio.ensure_future(cleanup)
    loop = asyncio.get_running_loop()
    end: float | None = None
    while not task.done():
        try:
            await asyncio.wait({task}, timeout=None if end is None else max(0.0, end - loop.time()))
        except asyncio.CancelledError:
            end = end or loop.time() + PATIENCE
        if end is not None and loop.time() >= end:
            task.cancel()
            await asyncio.sleep(0)
            break
    if task.done() and not task.cancelled():
        task.result()


@runtime_checkable
class RecoveryStore(Protocol):
    """A store that records which runs a server handed back, and whose process died."""

    def recoverable(self, limit: int = 1000, left_alone: Collection[tuple[str, int]] = ()) -> list[tuple[Any, str]]:
        """List the runs that a server may resume, each with the reason."""
        ...

    def hand_back(self, run_id: str) -> None:
        """Mark a run so that the next server resumes it."""

    def hand_back_dead_process(self, row: Any, recoveries: int) -> list[Any]:
        """Count the death of the process of a run for its runs, and park what has killed too many processes."""
        ...

    def is_suspect(self, run_id: str) -> bool:
        """Return True if processes died repeatedly while they executed a run."""
        ...

    def calls_at_death(self, run_id: str) -> list[dict[str, Any]]:
        """Return the calls that the last process of a run was in when it died; none if that is not recorded."""
        ...

    def release_parked(self, run_id: str) -> bool:
        """Release a parked run."""
        ...


async def leave(run: Any, store: Store, *, hand_back: bool) -> None:
    """Release a run that does not end here."""
    if run.begun is not None:
        run.begun.clear()
    waits = run.waits
    if waits is not None and waits.outer is not None and (waits.root.parked or waits.root.cut):
        if await run.log.park(None):  # the outermost run waits, and resumes this part when it resumes
            return
    elif waits is not None and waits.cut:
        dues = [wait.due for wait in waits.cut if wait.due is not None]
        names = {wait.open_wait.name for wait in waits.cut if wait.open_wait is not None}
        if await run.log.park(min(dues, default=None), names):
            return
    if hand_back and isinstance(store, RecoveryStore):
        mark = store.hand_back
        await run_sync_in_thread(store, lambda: mark(run.id))
    await run.log.release()


_LONG = 1000  # recorded facts
POLL = 0.05  # seconds between looks at a run that another process executes
MOST_PARTS = 100_000
PROGRAMS = 256  # compiled programs kept per engine
_RUN_ID: Final = r"(?!\.{1,2}$)[^/\\\x00-\x1f\x7f-\x9f\u2028\u2029]{1,500}"
_ID_RULE: Final = (
    "1 to 500 characters on one line, without slashes, without spaces at the beginning or end, and not . or .."
)


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """A checked flow with everything that is needed to run and record it."""

    # Nobody changes it once it runs. It is not frozen, because that doubles the cost of creating one.

    new: NewRun
    """The row of the run in the store; `new.input` is the input with secrets redacted."""
    flow: Flow
    caller: Caller
    render: Callable[[Ending], dict[str, Json]]
    """Makes the result of the run in the words of its notation."""
    add_places: AddPlaces | None = None
    """Adds to the errors of the result where the document of the flow defines what failed."""
    input: Json = None
    """The input that the flow reads."""
    state: Mapping[str, Json] | None = None
    """Values of channels that replace their initial values."""
    watcher: Watcher | None = None
    allowed: frozenset[str] = frozenset()
    """The secrets that the run may read."""
    secrets: Redaction | None = None
    """The secrets that the outer run of a part knows; the part redacts them, too."""
    park: bool = False
    """Whether a durable run is released while it only waits; its result then has the status `waiting`."""
    parent: Run | None = None
    """The live run that this run is part of."""
    budget: Mapping[str, float] | None = None
    """The limits of the run, by amount; the run that it corrects shares them."""
    chain: str | None = None
    """The first run of a chain of corrections, whose budget this run shares; None for a run that corrects none."""
    corrected: Limits = field(default_factory=dict)
    """The accounts of the run that this one corrects, with their limits."""
    job_for_row: Callable[[RunRow], Awaitable[Job]] | None = None
    """Makes the job of a part that began under another version of its flow."""


AfterRun: TypeAlias = Callable[[str, Watcher | None], Awaitable[Json]]
"""Called with the id and the watcher of a run that has ended without success and has an undo policy. Returns a report
for the result of the run, or None."""


class Engine:
    """Executes jobs on one store."""

    # Safe to use from several event loops.

    def __init__(self, store: Store, lease: Lease | None = None) -> None:
        self.store, self.lease = store, lease or getattr(store, "lease", None)
        self.spread: MapChunks | None = None  # runs the chunks of large maps on workers
        self.hands_back = False
        """Whether the next server resumes the runs that are cancelled here: true in a server."""
        self.live: dict[str, Run] = {}
        """The runs that execute now, by id."""
        self.log_limits = LOG_LIMITS
        """How much of what the tool of a step prints is kept."""
        self.after_run: AfterRun | None = None
        self.project_budget: Callable[[Job, bool], Limits] = lambda job, is_part: {}
        """Returns the accounts that the project sets for a new run, which may be part of another one."""
        self.watchers: list[Watcher] = []
        """Each gets the events of every run that begins from now on, parts of other runs included."""
        self._parts: dict[str, set[str]] = {}  # by id of a live run: the ids of its parts
        self._programs: dict[tuple[str, int, bool, bool, bool, bool], Program] = {}

    def program(self, job: Job) -> Program:
        """Compile the flow of a job, or take the program from the cache if flow, tools and mode are the same."""
        caller = job.caller
        watched = job.watcher is not None or bool(self.watchers)
        knows_secrets = bool(job.secrets)
        waits = job.parent is not None and job.parent.waits is not None
        key = (job.new.fingerprint, id(caller), self.store.durable, watched, knows_secrets, waits)
        program = self._programs.get(key)
        if program is not None and program.version == caller.version and program.caller is caller:
            return program
        if len(self._programs) >= PROGRAMS:
            oldest = next(iter(self._programs))
            del self._programs[oldest]
        chunks = self.spread
        if chunks is not None:
            from .map_chunks import KINDS  # imported only where there are workers

            if job.new.kind not in KINDS:
                chunks = None
        program = self._programs[key] = compile_flow(
            job.flow,
            caller,
            durable=self.store.durable,
            watched=watched,
            lease=self.lease,
            spread=chunks,
            knows_secrets=knows_secrets,
            waits=waits,
        )
        return program

    def forget_programs(self) -> None:
        """Forget the compiled programs, which hold the tools that they call; runs in progress keep theirs."""
        self._programs.clear()

    async def run(self, job: Job) -> dict[str, Json]:
        """Execute a job to its ending."""

        # If another process executes the run, this waits for it. An outer cancellation leaves a durable run resumable.
        while True:
            # A run that executes on this loop has one result for everybody.
            live = self.live.get(job.new.id)
            if live is not None and live.loop is asyncio.get_running_loop():
                check_same_run(live.log.run, job.new)
                try:
                    return await self._ending_of(live, job)
                except _Abandoned:
                    continue
            try:
                log = await self.open(job)
            except RunBusy:
                row = await self._elsewhere(job.new)
                if row is not None:
                    return _result(row.result)
                continue
            # A run that another caller began must be the same run.
            if log.resumed and log.finished is None:
                try:
                    check_same_input(log.run, job.new)
                except RunExists:
                    await log.release()
                    raise
            return await self.drive(job, log)

    async def _ending_of(self, live: Run, job: Job) -> dict[str, Json]:
        """Wait for the result of a run of this loop; a job that parks does not wait for events and approvals."""
        ended, waits = live.ended(), live.waits
        while job.park and self.store.durable and waits is not None and not ended.done():
            if waits.only_waits():  # the other caller keeps the run, and continues it
                ending = Ending(run_id=live.id, status="waiting")
                return {**await rendered(job, ending), "waitingFor": _waits_to_json(waits.waiting())}
            await asyncio.wait({ended}, timeout=POLL)
        return _result(await asyncio.shield(ended))

    async def open(self, job: Job) -> Log:
        """Open the journal of a new run with its budgets, or that of the existing run of this id."""
        budgets.open_budgets(job, self.project_budget)
        return await self.store.open(job.new)

    async def run_part(self, job: Job, key: str | None) -> dict[str, Json]:
        """Run a job as part of the live run that makes a call with this idempotency key."""

        # The key becomes the id of the part, so that a repeated call resumes it. Without such a live run, the job runs
        # on its own.
        parent = self.live_run(key)
        if parent is None or key is None:
            return await self.run(job)
        job.allowed |= parent.allowed
        job.new = replace(job.new, id=key, parent=parent.id, input=parent.redact(job.input))
        job.secrets = parent.secrets
        job.parent = parent
        self._parts.setdefault(parent.id, set()).add(key)
        try:
            result = await self.run(job)
        except (DefinitionChanged, RunExists) as error:
            if error.run_id != key or not await self._keep_version(job, key):
                raise
            result = await self.run(job)
        self._parts.get(parent.id, set()).discard(key)
        return result

    async def _keep_version(self, job: Job, key: str) -> bool:
        """Let a part continue under the definition it began with, as its outer run does."""

        # A part without recorded steps takes the present definition, because `retry` has started its node from nothing.
        row = await run_sync_in_thread(self.store, lambda: self.store.get_run(key))
        if row is None or job.job_for_row is None or row.fingerprint == job.new.fingerprint:
            return False
        if row.ended_at is None:
            log = await self.store.reopen(key)
            try:
                if all(entry.kind == "ending" for entry in log.past.values()):
                    await log.pin(job.new.document, job.new.fingerprint)
                    return True
            finally:
                await log.release()
        earlier = await job.job_for_row(row)
        job.new = replace(job.new, document=earlier.new.document, fingerprint=earlier.new.fingerprint)
        job.flow, job.caller = earlier.flow, earlier.caller
        job.render, job.add_places = earlier.render, earlier.add_places
        return True

    def has_caller(self, key: str | None) -> bool:
        """Return True if the call with this idempotency key comes from a run that this engine executes."""
        return self.live_run(key) is not None

    def live_run(self, key: str | None) -> Run | None:
        """Return the live run of a key `<run id>/<path>`."""

        # Both may contain slashes, so try every prefix.
        while key:
            key = key.rpartition("/")[0]
            run = self.live.get(key)
            if run is not None:
                return run
        return None

    async def _elsewhere(self, new: NewRun) -> RunRow | None:
        """Wait for a run of another process or loop, and return its row when it has ended."""
        loop, run_id = asyncio.get_running_loop(), new.id
        while True:
            live = self.live.get(run_id)
            if live is not None and live.loop is loop:
                return None
            row = await run_sync_in_thread(self.store, lambda: self.store.get_run(run_id))
            if row is not None:
                check_same_run(row, new)
            if row is None or row.status in ENDS:
                return row
            if row.status == "waiting":
                return None
            orphans = await run_sync_in_thread(self.store, self.store.orphans)
            if any(orphan.id == run_id for orphan in orphans):
                return None
            await asyncio.sleep(POLL)

    async def drive(self, job: Job, log: Log) -> dict[str, Json]:
        """Execute a job whose journal is open."""
        finished = log.finished
        if finished is not None:
            check_same_run(finished, job.new)
            return _result(finished.result)
        try:
            if log.resumed:
                _check_resumable(job, log.run)
            opened = log.run if log.resumed else job.new  # the row of a new run takes time to make
            late = await _begin(job, log, opened, self.store)
            program = self.program(job)
            run = self._make_run(program, job, log, log.run.spent if log.resumed else 0.0)
        except BaseException:
            await _release_quietly(log)  # otherwise this process would own a run that it does not execute
            raise
        if program.secrets or job.secrets is not None:
            run.allow(job.allowed, job.secrets)
        if run.waits is not None:
            run.waits.park = job.park and self.store.durable
        log.attach(run)
        self.live[run.id] = run
        if (began := getattr(job.caller, "began", None)) is not None:
            began(run.id)
        ending: Ending | None = None
        token = budgets.enter(opened)
        try:
            if run.watcher is not None:
                about = {"nodes": program.node_count, "name": job.new.name, "kind": job.new.kind}
                run.report("run.resumed" if log.past else "run.started", data=about)
            if len(log.past) > _LONG:
                gc_disabled_until_next_tick(run.loop)  # the recorded steps are read back without a pause
            ending = await run.execute()
            if ending.status == "timeout" and late is not None:
                ending.error = late
            if ending.status == "waiting":
                result = await self._parked(job, run, ending)
            else:
                if ending.status in ("completed", "partial") and hasattr(job.caller, "ends"):
                    job.caller.ends()
                await budgets.end(opened, self.store, ending.duration)
                result = await self._record_ending(job, run, ending)
        except BaseException as exc:
            self._parts.pop(run.id, None)  # they continue when this run is resumed
            await self._interrupt(job, run, ending, exc)
            raise
        finally:
            budgets.leave(token)
            if self.live.get(run.id) is run:  # it is another one if somebody resumed the run after this loop was closed
                del self.live[run.id]
            if (ended := getattr(job.caller, "ended", None)) is not None:
                await ended(run.id)
        if (self._parts or log.resumed) and result.get("status") != "waiting":
            await run_sync_in_thread(self.store, lambda: self._end_parts(run.id, log.resumed))
        # The row of a run in memory is made when it is first read, so it is read last.
        if result.get("status") in UNSUCCESSFUL and log.run.undo_policy is not None:
            result = await self._undone(run.id, job.watcher, result)
        if run.waiting is not None:
            run.waiting.set_result(result)
        return result

    async def _undone(self, run_id: str, watcher: Watcher | None, result: dict[str, Json]) -> dict[str, Json]:
        """Undo a run by its policy and add the report to its result."""

        # If that fails, recovery does it later.
        if self.after_run is None:
            return result
        try:
            report = await self.after_run(run_id, watcher)
        except RopewalkError as error:
            logger.error("run %s is not undone: %s", run_id, error)
            return result
        if report is not None:
            result["undo"] = report
        return result

    def _make_run(self, program: Program, job: Job, log: Log, spent: float) -> Run:
        """Make the run of a job; it is part of its parent if that executes on this loop."""
        watcher = everyone(self.watchers, job.watcher) if self.watchers else job.watcher
        parent = job.parent if job.parent is not None and job.parent.loop is asyncio.get_running_loop() else None
        run = Run(
            program, job.new.id, job.input, log,
            state=job.state, spent=spent, watcher=watcher, listener=job.watcher, parent=parent,
        )  # fmt: skip
        run.log_limits = self.log_limits
        outer = None if parent is None else parent.begun
        if outer is not None or getattr(log, "after_death", False):
            from .begun_calls import BegunCalls  # only a run that has lost a process needs it

            run.begun = BegunCalls(run, job.add_places, outer)
        return run

    async def _record_ending(self, job: Job, run: Run, ending: Ending) -> dict[str, Json]:
        """Record the ending of a run, and return the result in the words of its notation."""
        run.log.touch("", ending.duration)
        try:
            result, status = await _recorded(job, run, ending)
        except InvalidValue as exc:  # its values together are too large for a store, so end it without them
            ending.status, ending.error = "failed", exc
            ending.value, ending.state, ending.outputs = None, {}, {}
            result, status = await _recorded(job, run, ending)
        if status != ending.status:
            ending.status = status
            result = with_cause(await rendered(job, ending), ending)
        run.emit_held_events(committed=True)
        if run.watcher is not None:
            data: dict[str, Json] = {"status": status, "ms": round(ending.duration * 1000, 3)}
            if ending.error is not None and not ending.failures:  # no event of a step has the cause
                data["message"] = message_of(ending.error)
            run.report("run.finished", data=data)
        return result

    async def _parked(self, job: Job, run: Run, ending: Ending) -> dict[str, Json]:
        """Return the result of a parked run; its `waitingFor` lists the open waits."""
        row = await run_sync_in_thread(self.store, lambda: self.store.get_run(run.id))
        if row is not None and row.status == "stopped":
            ending.status = row.status  # somebody stopped it right after it was parked
        if run.watcher is not None:
            run.report("run.waiting" if ending.status == "waiting" else "run.finished", data={"status": ending.status})
        waiting = run.waits.parked if run.waits is not None else []
        return {**await rendered(job, ending), "waitingFor": _waits_to_json(waiting)}

    async def _interrupt(self, job: Job, run: Run, ending: Ending | None, exc: BaseException) -> None:
        """Release a run that has no ending, or the record of its ending failed."""
        run.emit_held_events(committed=False)
        root = run.waits.root if run.waits is not None and self.store.durable else None
        parked = root is not None and bool(root.parked or root.cut)
        run.report("run.waiting" if parked else "run.interrupted", data={"status": "waiting"} if parked else None)
        try:
            if isinstance(exc, GeneratorExit):  # a closed coroutine cannot wait for anything
                await self._release(job, run, ending, exc)
            else:
                await complete(self._release(job, run, ending, exc))
        finally:
            if run.waiting is not None:
                run.waiting.set_exception(exc if isinstance(exc, Exception) else _Abandoned())
                run.waiting.exception()  # mark it as retrieved, because nobody may be waiting any more

    async def _release(self, job: Job, run: Run, ending: Ending | None, exc: BaseException) -> None:
        """Record that this process no longer executes a run."""
        if ending is not None or not isinstance(exc, asyncio.CancelledError):
            await _release_quietly(run.log)  # so that somebody can resume it and end it again
        elif self.store.durable:
            await leave(run, self.store, hand_back=self.hands_back)
        elif run.waiting is not None:
            await run.log.release()
        elif (stopped := run.broken_off()) is not None:
            await _recorded(job, run, stopped)
        else:
            await run.log.finish("stopped", None)

    def stop(self, run_id: str) -> bool:
        """Stop a run and its parts."""

        # The store marks the run at once, and its process then cancels the steps in progress. The parts are marked
        # here, too, since it may be that no process executes them.
        stopped = self.store.request_stop(run_id)
        if stopped:
            self._end_parts(run_id, True)
        return stopped

    def _end_parts(self, run_id: str, look: bool) -> None:
        """Stop the unfinished parts of a run that has ended; with `look`, also parts that another process began."""
        parts = self._parts.pop(run_id, set())
        if look:
            parts = parts | {row.id for row in self.store.list_runs(parent=run_id, status="running", limit=MOST_PARTS)}
        for part in parts:
            self.stop(part)


def everyone(watchers: Sequence[Watcher], more: Watcher | None) -> Watcher:
    """Make one watcher that passes each event to all of them."""

    # If a watcher raises, the others still get the event; then the last error is raised.
    receivers = (*watchers, more) if more is not None else tuple(watchers)

    def emit(event: Event) -> None:
        error = None
        for watcher in receivers:
            try:
                watcher(event)
            except Exception as exc:  # noqa: BLE001 - raised when all watchers have the event
                error = exc
        if error is not None:
            raise error

    return emit


def check_run_id(id: object, place: str = "run id") -> None:
    """Check that an id can name a run in a URL and on one line."""

    # None means that no id is chosen. Ids of parts of runs contain slashes, but nobody chooses these.
    if id is None:
        return
    check_json(id, place)
    if not isinstance(id, str) or not re.fullmatch(_RUN_ID, id) or id.strip() != id:
        excerpt = f"{id[:80]}..." if isinstance(id, str) and len(id) > 80 else id
        raise InvalidValue(place, f"{excerpt!r} is not a valid run id; write {_ID_RULE}")


async def _recorded(job: Job, run: Run, ending: Ending) -> tuple[dict[str, Json], str]:
    """Record an ending; return the result in the words of its notation, and the status in the store."""
    result, error = await rendered(job, ending), ending.error
    payload = None if error is None else {"message": message_of(error), "kind": type(error).__name__}
    if payload is not None and (listed := errors_in(result)) and "place" in listed[-1]:
        payload["place"] = listed[-1]["place"]
    counts = {"results": len(ending.outputs), "errors": max(len(ending.failures), int(error is not None))}
    status = await run.log.finish(ending.status, result, payload, **counts)
    return with_cause(result, ending), status


def with_cause(result: dict[str, Json], ending: Ending) -> dict[str, Json]:
    """Return the result of a run; that of a failed one carries the exception of the tool."""
    if ending.error is None and not ending.failures:
        return result
    return FailedResult(result, local_cause(ending.error or ending.failures[0]))


class _Abandoned(Exception):
    """The task that executed a run was cancelled; whoever waits for the run takes over."""


async def _begin(job: Job, log: Log, opened: RunRow | NewRun, store: Store) -> BudgetExceeded | None:
    """Begin a run unless its caller refuses, and return the error if its time ends by a budget."""
    if (begins := getattr(job.caller, "begins", None)) is not None:
        await begins(log.run, store)
    return await budgets.begin(job, opened, store)


def _check_resumable(job: Job, row: RunRow) -> None:
    """Raise if a job cannot continue a run: it has another definition, or lacks the executor that the run needs."""
    if row.fingerprint and row.fingerprint != job.new.fingerprint:
        raise DefinitionChanged(job.new.id, ())
    if (row.context or {}).get("executor") and not (job.new.context or {}).get("executor"):
        raise NoExecutor(job.new.id)


async def _release_quietly(log: Log) -> None:
    """Release a run that cannot continue here."""

    # An error of the store is dropped: the caller raises a worse one.
    try:
        await log.release()
    except StoreError:
        return


def _waits_to_json(waits: Sequence[Entry]) -> list[Json]:
    from ..journal.open_waits import wait_to_json  # few runs wait

    return [wait_to_json(entry) for entry in waits]


def _result(value: Any) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


class NullLog:
    """The log of a run without a journal."""

    past: Mapping[Key, Entry] = {}
    on_stop: Callable[[], None] | None = None
    on_signal: Callable[[], None] | None = None

    def append(self, entry: Entry, /) -> asyncio.Future[None]:
        raise AssertionError("a run without a journal appends nothing")

    async def take(self, waits: Sequence[OpenWait], /) -> list[Entry]:
        """Return nothing, since nobody can send an event."""
        return []

    def touch(self, current_node: str, spent: float, /) -> None:
        """Do nothing, since nobody looks from outside."""


async def run_program(
    program: Program, input: Json = None, *, run_id: str = "run", watcher: Watcher | None = None
) -> Ending:
    """Run a compiled program once, in the caller's task."""
    log: Any = NullLog()
    return await Run(program, run_id, input, log, watcher=watcher, listener=watcher).execute()


async def run_flow(flow: Flow, caller: Caller, input: Json = None) -> Ending:
    """Compile and run a checked flow once."""
    return await run_program(compile_flow(flow, caller), input)
