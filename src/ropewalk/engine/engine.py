"""Running jobs against a store: open the journal, execute, record how it ended.

A run is opened once: the same id again waits for, and gives, the first result. A run whose process
died is taken over and goes on from what its journal holds.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from uuid_utils import uuid7

from ..errors import DefinitionChanged, InvalidValue, NoExecutor, RunBusy, RunExists, StoreError
from ..events import Event
from ..frozen import dataclass
from ..ir import Flow
from ..journal.journal import ENDS, Log, NewRun, RunRow, Store
from ..journal.offloop import off_loop
from ..redaction import Redaction
from ..uncollected import uncollected_turn
from ..values import Json, check_json
from .again import check_given, check_same
from .caller import Caller, Lease
from .interruption import complete, leave
from .program import Program, compile_flow
from .run import Ending, Run, Watcher

if TYPE_CHECKING:
    from .chunks import Spread

_LONG = 1000  # recorded facts
POLL = 0.05  # seconds between looks at a run that another process executes
MOST_PARTS = 100_000
PROGRAMS = 256  # compiled programs kept per engine
_RUN_ID: Final = r"(?!\.{1,2}$)[^/\\\x00-\x1f\x7f-\x9f\u2028\u2029]{1,500}"
_ID_RULE: Final = "1 to 500 characters on one line, without slashes or blanks around them, and not . or .."


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """What to run: a checked flow, what the store is told of it, and how its ending is written down.

    Not changed any more once it runs; not frozen only because that doubles the cost of making one.
    `input` is what runs get, `new.input` what is written down of it. The run may read the secrets that are `allowed`;
    a part of another run shares the `secrets` that one knows, so that none is written down here either. One that
    may `park` is released while it only waits, where the store is durable; its result then has the status `waiting`.
    `parent` is the live run that this one is a part of. `begun` makes the job of a part that began under another
    version of its flow.
    """

    new: NewRun
    flow: Flow
    caller: Caller
    render: Callable[[Ending], dict[str, Json]]
    input: Json = None
    state: Mapping[str, Json] | None = None
    watcher: Watcher | None = None
    allowed: frozenset[str] = frozenset()
    secrets: Redaction | None = None
    park: bool = False
    parent: Run | None = None
    begun: Callable[[RunRow], Awaitable[Job]] | None = None


class Engine:
    """Executes jobs on one store; safe to use from several event loops. With a `lease`, no tool is called
    while it is not sure that the run is still its own."""

    def __init__(self, store: Store, lease: Lease | None = None) -> None:
        # Only a store that several processes share has one; workers have one of their own.
        self.store, self.lease = store, lease or getattr(store, "lease", None)
        self.spread: Spread | None = None  # who plays large maps elsewhere
        self.hands_back = False
        """Whether runs that are cancelled here are for the next server to resume: true while this is one."""
        self.live: dict[str, Run] = {}
        self.watchers: list[Watcher] = []
        """Each is handed the events of every run that begins from now on, parts of others included."""
        self._parts: dict[str, set[str]] = {}  # of live runs: the runs that are part of them
        self._programs: dict[tuple[str, int, bool, bool, bool], Program] = {}

    def program(self, job: Job) -> Program:
        """The compiled flow, from the cache when flow, tools and mode are those of before."""
        caller = job.caller
        watched = job.watcher is not None or bool(self.watchers)
        guarded = bool(job.secrets)
        key = (job.new.fingerprint, id(caller), self.store.durable, watched, guarded)
        found = self._programs.get(key)
        if found is None or found.version != caller.version or found.caller is not caller:
            if len(self._programs) >= PROGRAMS:
                del self._programs[next(iter(self._programs))]
            cut, durable = self.spread, self.store.durable
            if cut is not None:
                from .chunks import KINDS  # only where there are workers

                cut = cut if job.new.kind in KINDS else None
            how: dict[str, Any] = {"durable": durable, "watched": watched, "guarded": guarded}
            found = compile_flow(job.flow, caller, lease=self.lease, spread=cut, **how)
            self._programs[key] = found
        return found

    async def run(self, job: Job) -> dict[str, Json]:
        """Execute a job to its ending and return what `render` made of it.

        Raises RunBusy never: a run that is under way elsewhere is waited for. An outer
        cancellation leaves a durable run as it is, to be resumed.
        """
        while True:
            live = self.live.get(job.new.id)
            if live is not None and live.loop is asyncio.get_running_loop():
                check_same(live.log.run, job.new)
                try:
                    return _result(await asyncio.shield(live.ended()))
                except _Abandoned:
                    continue
            try:
                log = await self.store.open(job.new)
            except RunBusy:
                row = await self._elsewhere(job.new)
                if row is not None:
                    return _result(row.result)
                continue
            if log.resumed and log.finished is None:
                try:
                    check_given(log.run, job.new)
                except RunExists:
                    await log.release()
                    raise
            return await self.drive(job, log)

    async def run_part(self, job: Job, key: str | None) -> dict[str, Json]:
        """Run a job as part of the live run whose call has this idempotency key; the key is the id of
        the part, so that the call made again goes on with it. A job of no live run is one of its own."""
        parent = self._caller_of(key)
        if parent is None or key is None:
            return await self.run(job)
        told = parent.redact(job.input)
        job.allowed |= parent.allowed
        job.new, job.secrets = replace(job.new, id=key, parent=parent.id, input=told), parent.secrets
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
        """Let a part continue under the definition it began with, as its outer run does.

        A part of which nothing is recorded takes the present definition: `retry` with its node started it from nothing.

        Returns:
            False if it did not begin under another definition, or nobody can say what that was.
        """
        row = await off_loop(self.store, lambda: self.store.get_run(key))
        if row is None or job.begun is None or row.fingerprint == job.new.fingerprint:
            return False
        if row.ended_at is None:
            log = await self.store.reopen(key)
            try:
                if all(entry.kind == "ending" for entry in log.past.values()):
                    await log.pin(job.new.document, job.new.fingerprint)
                    return True
            finally:
                await log.release()
        begun = await job.begun(row)
        job.new = replace(job.new, document=begun.new.document, fingerprint=begun.new.fingerprint)
        job.flow, job.caller, job.render = begun.flow, begun.caller, begun.render
        return True

    def has_caller(self, key: str | None) -> bool:
        """Return True if the call with this idempotency key comes from a run that this engine executes."""
        return self._caller_of(key) is not None

    def _caller_of(self, key: str | None) -> Run | None:
        """The live run that a key `<run id>/<path>` comes from; both may have slashes in them."""
        while key:
            key = key.rpartition("/")[0]
            found = self.live.get(key)
            if found is not None:
                return found
        return None

    async def _elsewhere(self, new: NewRun) -> RunRow | None:
        """Wait for a run of another process or loop; None when its owner died on the way or has parked it, or
        when it turns out to be run on this loop."""
        loop, run_id = asyncio.get_running_loop(), new.id
        while True:
            live = self.live.get(run_id)
            if live is not None and live.loop is loop:
                return None
            row = await off_loop(self.store, lambda: self.store.get_run(run_id))
            if row is not None:
                check_same(row, new)
            if row is None or row.status in ENDS:
                return row
            if row.status == "waiting":
                return None
            orphans = await off_loop(self.store, self.store.orphans)
            if any(orphan.id == run_id for orphan in orphans):
                return None
            await asyncio.sleep(POLL)

    async def drive(self, job: Job, log: Log) -> dict[str, Json]:
        """Execute with an opened journal."""
        finished = log.finished
        if finished is not None:
            check_same(finished, job.new)
            return _result(finished.result)
        spent = 0.0
        if log.resumed:
            spent = log.run.spent
            if log.run.fingerprint and log.run.fingerprint != job.new.fingerprint:
                await log.release()
                raise DefinitionChanged(job.new.id, ())
            if (log.run.context or {}).get("executor") and not (job.new.context or {}).get("executor"):
                await log.release()
                raise NoExecutor(job.new.id)
        try:
            program = self.program(job)
            run = self._made(program, job, log, spent)
        except BaseException:
            await _given_up(log)  # else this process would own a run that it does not execute
            raise
        if program.secrets or job.secrets is not None:
            run.allow(job.allowed, job.secrets)
        if run.waits is not None:
            run.waits.park = job.park and self.store.durable
        log.attach(run)
        self.live[run.id] = run
        began = getattr(job.caller, "began", None)
        if began is not None:
            began(run.id)
        ending: Ending | None = None
        try:
            if run.watcher is not None:
                about = {"nodes": program.spots, "name": job.new.name, "kind": job.new.kind}
                run.tell("run.resumed" if log.past else "run.started", data=about)
            if len(log.past) > _LONG:
                uncollected_turn(run.loop)  # what is read back is read back in one go
            ending = await run.execute()
            if ending.status == "waiting":
                result = await self._parked(job, run, ending)
            else:
                result = await self._ended(job, run, ending)
        except BaseException as exc:
            self._parts.pop(run.id, None)  # they go on when this run does
            await self._broke_off(job, run, ending, exc)
            raise
        finally:
            if self.live.get(run.id) is run:  # no other has gone on with it since its loop was closed
                del self.live[run.id]
            ended = getattr(job.caller, "ended", None)
            if ended is not None:
                await ended(run.id)
        if (self._parts or log.resumed) and result.get("status") != "waiting":
            await off_loop(self.store, lambda: self._end_parts(run.id, log.resumed))
        if run.waiting is not None:
            run.waiting.set_result(result)
        return result

    def _made(self, program: Program, job: Job, log: Log, spent: float) -> Run:
        """Make the run that a job is; part of its parent where that executes on this loop."""
        watcher = everyone(self.watchers, job.watcher) if self.watchers else job.watcher
        parent = job.parent if job.parent is not None and job.parent.loop is asyncio.get_running_loop() else None
        return Run(
            program, job.new.id, job.input, log,
            state=job.state, spent=spent, watcher=watcher, listener=job.watcher, parent=parent,
        )  # fmt: skip

    async def _ended(self, job: Job, run: Run, ending: Ending) -> dict[str, Json]:
        """Record the ending; returns it in the words of its notation."""
        run.log.touch("", ending.duration)
        try:
            result, status = await _recorded(job, run, ending)
        except InvalidValue as exc:  # Together its values are more than a store takes: it would never end.
            ending.status, ending.error = "failed", exc
            ending.value, ending.state, ending.outputs = None, {}, {}
            result, status = await _recorded(job, run, ending)
        if status != ending.status:
            ending.status = status
            result = job.render(ending)
        if run.watcher is not None:
            run.tell("run.finished", data={"status": status, "ms": round(ending.duration * 1000, 3)})
        return result

    async def _parked(self, job: Job, run: Run, ending: Ending) -> dict[str, Json]:
        """What is said of a run that was released while it only waits; `waitingFor` lists for what."""
        from ..journal.waiting import shown

        row = await off_loop(self.store, lambda: self.store.get_run(run.id))
        if row is not None and row.status == "stopped":
            ending.status = row.status  # by somebody who came right after
        if run.watcher is not None:
            run.tell("run.waiting" if ending.status == "waiting" else "run.finished", data={"status": ending.status})
        waiting = run.waits.parked if run.waits is not None else []
        return {**job.render(ending), "waitingFor": [shown(entry) for entry in waiting]}

    async def _broke_off(self, job: Job, run: Run, ending: Ending | None, exc: BaseException) -> None:
        """Let go of a run that has not come to an ending, or whose ending could not be recorded."""
        root = run.waits.root if run.waits is not None and self.store.durable else None
        parked = root is not None and bool(root.parked or root.cut)
        run.tell("run.waiting" if parked else "run.interrupted", data={"status": "waiting"} if parked else None)
        try:
            if isinstance(exc, GeneratorExit):  # a closed coroutine cannot wait for anything
                await self._release(job, run, ending, exc)
            else:
                await complete(self._release(job, run, ending, exc))
        finally:
            if run.waiting is not None:
                run.waiting.set_exception(exc if isinstance(exc, Exception) else _Abandoned())
                run.waiting.exception()  # retrieved: whoever waits may be gone

    async def _release(self, job: Job, run: Run, ending: Ending | None, exc: BaseException) -> None:
        """Write down that this process no longer executes a run."""
        if ending is not None or not isinstance(exc, asyncio.CancelledError):
            await _given_up(run.log)  # so that it can be ended again
        elif self.store.durable:
            await leave(run, self.store, hand_back=self.hands_back)
        elif run.waiting is not None:
            await run.log.release()
        elif (stopped := run.broken_off()) is not None:
            await _recorded(job, run, stopped)
        else:
            await run.log.finish("stopped", None)

    def stop(self, run_id: str) -> bool:
        """Mark a running execution as stopped at once; its process cancels what is in flight. What is
        part of it is stopped, too: it may be that nobody runs them."""
        stopped = self.store.request_stop(run_id)
        if stopped:
            self._end_parts(run_id, True)
        return stopped

    def _end_parts(self, run_id: str, look: bool) -> None:
        """Nobody goes on with the unfinished parts of a run that has ended. Those that another process
        began are looked for in the store."""
        parts = self._parts.pop(run_id, set())
        if look:
            parts = parts | {row.id for row in self.store.list_runs(parent=run_id, status="running", limit=MOST_PARTS)}
        for part in parts:
            self.stop(part)


def everyone(watchers: Sequence[Watcher], own: Watcher | None) -> Watcher:
    """One watcher for all: what one of them raises is told when all have heard of the event."""
    told = (*watchers, own) if own is not None else tuple(watchers)

    def tell(event: Event) -> None:
        raised = None
        for watcher in told:
            try:
                watcher(event)
            except Exception as exc:  # noqa: BLE001 - the others hear of it all the same
                raised = exc
        if raised is not None:
            raise raised

    return tell


def new_run_id() -> str:
    """A time-ordered id (UUID version 7)."""
    return str(uuid7())


def check_run_id(given: object, place: str = "run id") -> None:
    """Refuse (InvalidValue) an id chosen for a run that cannot stand in an address or in a line; None: none is chosen.
    Those of parts of runs, which nobody chooses, have slashes."""
    if given is None:
        return
    check_json(given, place)
    if not isinstance(given, str) or not re.fullmatch(_RUN_ID, given) or given.strip() != given:
        said = f"{given[:80]}..." if isinstance(given, str) and len(given) > 80 else given
        raise InvalidValue(place, f"{said!r} is no id of a run: {_ID_RULE}")


async def _recorded(job: Job, run: Run, ending: Ending) -> tuple[dict[str, Json], str]:
    """The ending in the words of its notation, and the status that stands in the store."""
    result, error = job.render(ending), ending.error
    told = None if error is None else {"message": str(error), "kind": type(error).__name__}
    counts = {"results": len(ending.outputs), "errors": max(len(ending.failures), int(error is not None))}
    return result, await run.log.finish(ending.status, result, told, **counts)


class _Abandoned(Exception):
    """The task that executed a run was cancelled; somebody who waits for it takes over."""


async def _given_up(log: Log) -> None:
    """Let go of a run that cannot go on here; the error that is on its way matters more."""
    try:
        await log.release()
    except StoreError:
        return


def _result(value: Any) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}
