"""One execution: a program, its input, what it has recorded, and how it ends."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ..errors import ExpressionError, InvalidValue, NodeFailed, RunStopped, RunTimeout
from ..events import Event
from ..frozen import dataclass
from ..ir import Node
from ..journal.journal import Entry, Log
from ..journal.past import keys_of, latest_start
from ..redaction import Redaction
from ..values import Json, own
from .durable import attempt_of
from .frame import (
    CLOCKS,
    DEAD,
    FIRST,
    LINE,
    NODES,
    REGION,
    ROUNDS,
    SKIPPED,
    STATE,
    Frame,
    Outcome,
    Spot,
    path_of,
    round_of,
    status_in,
    value_in,
)
from .lane import INSIST, Lane, arrived, clock, watch_of
from .program import Program

if TYPE_CHECKING:
    from .waits import Waits

Watcher = Callable[[Event], None]
TURN = 0.01  # seconds; a run may have the loop to itself for two of these, but for the node that runs then
_MARKS = r"@\d+|\[[^\]]*\]"  # of attempts, arms and rounds in a path


@dataclass(slots=True, kw_only=True)
class Ending:
    """How a run ended. `value` is the flow's value (None unless it ran to its end), `state` the
    channels, `outputs` the values of the main region's nodes that were decided, `failures` every
    failure that was reported, the last one being what ended a failed run; `skipped` names the nodes
    that did not run, where the value of the flow is not that of its nodes."""

    run_id: str
    status: str
    value: Json = None
    state: dict[str, Json] = field(default_factory=dict)
    outputs: dict[str, Json] = field(default_factory=dict)
    failures: list[NodeFailed] = field(default_factory=list)
    skipped: frozenset[str] = frozenset()
    error: Exception | None = None
    started: float = 0.0
    duration: float = 0.0
    ran: Callable[[], set[str]] = set
    """The ids of the nodes that ran, those included that failed, and those of the processes before."""
    calls: Callable[[], Iterable[tuple[Node, Json]]] = tuple
    """Every tool call that gave a value, rounds included, with its node."""


class Run(Lane):
    """The execution in progress: what frames and steps reach through `frame[RUN]`.

    It is the lane of the task it runs in, and the watch's timer for its own timeout, at `when`.
    """

    __slots__ = (
        "allowed", "attempts", "ending", "errors", "frame", "halted", "id", "input", "listener", "log", "loop", "mono",
        "parent", "playing", "program", "records", "round", "secrets", "spent", "state", "stopping", "timeouts", "turn",
        "waiting", "waits", "wall", "watch", "watcher", "when",
    )  # fmt: skip

    def __init__(
        self,
        program: Program,
        run_id: str,
        input: Json,
        log: Log,
        *,
        state: Mapping[str, Json] | None = None,
        spent: float = 0.0,
        watcher: Watcher | None = None,
        listener: Watcher | None = None,
        parent: Run | None = None,
    ) -> None:
        self.program, self.id, self.input, self.log, self.watcher = program, run_id, input, log, watcher
        self.listener = listener  # the watcher of this run alone: it also takes the events of runs inside this one
        self.state, self.spent, self.parent = state, spent, parent
        self.records: list[list[Any]] = []  # a flat track per region instance, see region.py
        self.errors: list[NodeFailed] = []
        self.attempts: list[tuple[str, str, NodeFailed, float | None, float, float, bool]] = []
        self.allowed: frozenset[str] = frozenset()
        self.secrets: Redaction | None = None
        self.playing = False
        self.ending = False  # no node starts any more
        self.turn, self.round = 0.0, -1  # when a node that ends gives the loop a turn, or is the last: see `give_way`
        self.stopping = self.timeouts = 0  # how often it was cancelled to stop it, and for its timeout
        self.loop = asyncio.get_running_loop()
        self.waiting: asyncio.Future[Any] | None = None
        self.wall, self.mono = time.time(), clock()
        self.halted: float | None = None  # since when it only waits, or is over
        if log.past:
            self.wall = max(self.wall, latest_start(log.past))
        self.frame: Frame | None = None
        self.waits = _waits(self) if program.waits else None

    def outermost(self) -> tuple[str, str]:
        """Return the id of the run that people resume, and the path of its node that calls the flow which this run is
        in: "" for a run that is part of no other."""
        run, call, parent = self, "", self.parent
        while parent is not None:
            call = run.id.removeprefix(f"{parent.id}/")
            run, parent = parent, parent.parent
        return run.id, call

    def now(self) -> float:
        """Wall-clock seconds that never go back, not even from what the journal holds: a clock that is set back
        would make every pause longer by as much."""
        return max(time.time(), self.wall + clock() - self.mono)

    def elapsed(self) -> float:
        """See `Live`."""
        halted = self.halted  # first: `spent` is lowered before this is cleared
        return self.spent + (clock() if halted is None else halted) - self.mono

    def ended(self) -> asyncio.Future[Any]:
        """Done when the run is over, with its result; made for the first who asks."""
        if self.waiting is None:
            self.waiting = self.loop.create_future()
        return self.waiting

    def allow(self, names: frozenset[str], known: Redaction | None) -> None:
        """Let the run read these secrets. All of them are redacted from now on, with those that are `known` already:
        one that is read later can be a part of a result that comes before."""
        from ..config.secret import SHORTEST, note  # only flows that read secrets

        self.allowed, self.secrets = names, Redaction() if known is None else known
        held = {name: os.environ.get(name, "") for name in sorted(names)}
        note(held.values())  # for the logs of this process
        for name, value in held.items():
            if len(value) >= SHORTEST:
                self.secrets.add(value, f"$secret.{name}")

    def secret(self, name: str) -> str:
        """Read a secret from the environment, and redact it from now on.

        Raises:
            ExpressionError: The run may not read it, or it is not set.
        """
        if name not in self.allowed or self.secrets is None:
            from ..config.secret import refused

            raise ExpressionError(refused(name))
        value = os.environ.get(name)
        if value is None:
            raise ExpressionError(f"$secret.{name}: the environment variable {name} is not set")
        self.secrets.add(value, f"$secret.{name}")
        return value

    def redact(self, value: Json) -> Json:
        """The value with every secret used so far replaced by its reference."""
        return self.secrets.value(value) if self.secrets else value

    def past_attempt(self, path: str) -> tuple[NodeFailed, float | None] | None:
        entry = self.log.past.get((path, "attempt"))
        return None if entry is None else attempt_of(entry)

    def failed_attempt(
        self, frame: Frame, spot: Spot, count: int, failed: NodeFailed, due: float | None, took: float, handled: bool
    ) -> None:
        path, now = path_of(frame, spot), self.now()
        self.attempts.append((path, spot.name, failed, due, now - took, now, handled))
        if self.watcher is not None:
            data = {"message": failed.message, "kind": failed.kind, "attempt": count, "due": due}
            data |= {"replayed": True} if (path, "attempt") in self.log.past else {}
            self.tell("attempt.failed", path, spot.name, data)

    def disown(self, path: str) -> None:
        """Drop what was reported inside a node instance that failed after all: its failure stands
        for it, and a resumed run, which does not enter it again, would not have it either."""
        if self.errors:
            inside = (path + "/", path + "[")
            self.errors = [e for e in self.errors if not e.path.startswith(inside)]

    def tell(self, kind: str, path: str = "", node: str = "", data: Json = None) -> None:
        """Hand an event to the watcher; a watcher that raises does not break the run."""
        if self.watcher is not None:
            self.emit(self.watcher, Event(run_id=self.id, kind=kind, at=self.now(), path=path, node=node, data=data))

    def emit(self, watcher: Watcher, event: Event) -> None:
        """Hand a finished event to a watcher. What the watcher raises goes to the handler of the event loop."""
        try:
            watcher(event)
        except Exception as exc:  # noqa: BLE001 - told to the loop's handler, never to the run
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"the watcher of run {self.id} raised on {event.kind}", "exception": exc}
            )

    # --- running ------------------------------------------------------------------------------

    def stop(self) -> None:
        """Cancel what is in flight; the run ends as stopped. Called on the run's own loop."""
        if self.playing:
            self.stopping += 1
            self.ending, self.turn = True, 0.0
            self.task.cancel()
            # A tool that keeps the cancellation to itself gets another one.
            self.loop.call_later(INSIST, self.stop)

    def expire(self) -> None:
        """Its time is over: no node starts any more, whatever a tool makes of its cancellation."""
        self.timeouts += 1
        self.ending, self.turn = True, 0.0
        self.task.cancel()

    async def give_way(self) -> None:
        """Between nodes, when `turn` is over: where nothing suspends, deadlines and stops are not heard of, and nobody
        else has the loop. Where something has suspended since this was last asked, the loop has come round."""
        if not self.ending:
            before, self.round = self.round, self.watch.round()
            self.turn = (now := clock()) + TURN
            if self.round != before:
                return
            if self.watch.when <= now:
                self.watch.look()
        await asyncio.sleep(0)
        if self.ending:
            raise asyncio.CancelledError  # the tool kept its own to itself

    def begins(self, node: str, at: float) -> float:
        """Say where a durable run is, for people who look from outside; what `now` is `at` that clock reading."""
        passed = at - self.mono
        self.log.touch(node, self.spent + passed)
        return max(time.time(), self.wall + passed)

    async def execute(self) -> Ending:
        """Run to an ending. Only what is no ending is raised: an outer cancellation, a journal
        that does not fit, a store that fails."""
        program = self.program
        task = asyncio.current_task()
        assert task is not None
        Lane.__init__(self, task)
        watch = self.watch = watch_of(self.loop)
        watch.add(self, program.limit, self.mono)
        self.playing, self.turn = True, self.mono + TURN
        self.log.on_stop = self.stop
        limit = program.flow.timeout
        if limit is not None:
            self.when = self.mono + max(0.0, limit - self.spent)
            watch.set(self)
        waits = self.waits
        if waits is not None:
            waits.begin()
        frame = self.frame = self._open()
        value: Json = None
        status = ""
        error: Exception | None = None
        cancelled: asyncio.CancelledError | None = None
        try:
            value = (await program.play(frame)).value
            status = "partial" if self.errors else "completed"
        except NodeFailed as exc:
            status, error = "failed", exc
            self.errors.append(exc)
        except (ExpressionError, InvalidValue) as exc:
            # No node's: what is left once they are all done is the result of the flow.
            status, error = "failed", ExpressionError(f"result: {exc}")
            error.__cause__ = exc
        except asyncio.CancelledError as exc:
            cancelled = exc
        finally:
            self.playing, self.log.on_stop = False, None
            self.halted = self.halted or clock()
            if self.ending:
                cancelled = await arrived() or cancelled
            # Whatever became of our own cancellations, the caller's task must not keep them.
            parked = waits is not None and bool(waits.parked)
            ours = self.stopping + self.timeouts + parked
            for _ in range(ours):
                task.uncancel()
            if limit is not None:
                watch.unset(self)
            self.forgive()
            watch.remove(self)
            if waits is not None:
                await waits.end()
        if cancelled is not None and (not ours or task.cancelling() > self.before):
            raise cancelled
        if parked:
            status = "waiting"
        elif self.stopping:
            status, error = "stopped", RunStopped(self.id)
        elif self.timeouts:
            status, error = "timeout", RunTimeout(self.id, limit or 0.0)
        return self._ending(frame, status, value, error)

    def broken_off(self) -> Ending | None:
        """What it came to when its caller was cancelled; None where it had not begun."""
        return self._ending(self.frame, "stopped", None, RunStopped(self.id)) if self.frame is not None else None

    def _open(self) -> Frame:
        program = self.program
        region = program.region
        # Each run has its own: whoever is handed the result may change it.
        state = {name: own(c.initial) for name, c in program.flow.state.items() if c.present}
        if self.state:
            state.update(self.state)
        if program.flow.seeds and type(self.input) is dict:
            state.update((name, self.input[name]) for name in program.flow.seeds if name in self.input)
        log: list[Any] | None = [] if region.writes else None
        return [None, self, region, 1, None, None, None, state, log, self, "", *([None] * (region.size - FIRST))]

    def _ending(self, frame: Frame, status: str, value: Json, error: Exception | None) -> Ending:
        whole = status in ("completed", "partial")
        state, outputs, skipped = frame[STATE], {}, set()
        if not whole or not self.program.lists_nodes:
            main = self.program.main
            # A region that came to its end has decided all its nodes: no need to go through the records.
            mine = whole and main is self.program.region
            for spot, inner in zip(main.spots.values(), repeat(frame)) if mine else self._decided():
                if not spot.node.meta.hidden:
                    slot = inner[spot.slot]
                    outputs[spot.id] = value_in(slot)
                    if slot is SKIPPED or slot is DEAD:
                        skipped.add(spot.id)
            if not whole:
                # In loop mode the state is with the last round's frame.
                rounds = [track[0] for track in self.records if track[0][REGION] is main and main.sequential]
                state = self.program.folded(frame, rounds[-1][STATE] if rounds else state)
        elif type(value) is dict:
            outputs = value
        return Ending(
            run_id=self.id,
            status=status,
            value=self.redact(value),
            state=self.redact(state),
            outputs=self.redact(outputs),
            failures=self.errors,
            skipped=frozenset(skipped),
            error=error,
            started=self.wall,
            duration=self.elapsed(),
            ran=self.ran,
            calls=self.calls,
        )

    def ran(self) -> set[str]:
        """See `Ending.ran`. What ran inside a node that failed after all is known from its failure, or from
        the journal where a resumed run does not enter it again."""
        found = {spot.id for spot, inner, _, _ in self.steps() if status_in(inner[spot.slot]) in ("ok", "failed")}
        for some in keys_of(self.log.past):
            found |= _ids_in(path for path, kind in some if kind not in ("skip", "ending", "offer"))
        paths = [failed.path for failed in self.errors]
        paths += [attempt[2].path for attempt in self.attempts]
        for track in self.records:
            owner = track[0][REGION].owner
            while owner is not None:
                found.add(owner.id)
                owner = owner.region.owner
        return found | _ids_in(paths)

    def _decided(self) -> Iterator[tuple[Spot, Frame]]:
        """Every node of the main region that was decided, in loop mode in the last round in which any was."""
        main = self.program.main
        for track in reversed([track for track in self.records if track[LINE][REGION] is main]):
            nodes, done = track[NODES], len(track) - CLOCKS - 1
            found = track[2::3] if nodes is None else nodes[: done and (done - 1) % len(nodes) + 1]
            if found:
                yield from zip(found, repeat(track[LINE]))
                return

    def steps(self) -> Iterator[tuple[Spot, Frame, float, float]]:
        """Every node instance that was decided, with when it started and ended."""
        for track in list(self.records):
            frame, nodes = track[LINE], track[NODES]
            if nodes is None:
                for i in range(2, len(track) - 2, 3):
                    yield track[i], frame, track[i + 1], track[i + 2]
                continue
            times, rounds = track[CLOCKS:], track[ROUNDS]
            for i in range(len(times) - 1):
                if rounds is not None and not i % len(nodes):
                    frame = round_of(track[LINE], rounds, i // len(nodes))
                yield nodes[i % len(nodes)], frame, times[i], times[i + 1]

    def calls(self) -> Iterator[tuple[Node, Json]]:
        """Every tool call that gave a value, with its node."""
        for spot, frame, _, _ in self.steps():
            if spot.tool is not None and type(frame[spot.slot]) is not Outcome:
                yield spot.node, self.redact(frame[spot.slot])

    def position(self) -> str | None:
        """The node that the run's own task is at."""
        spot = self.at()[0] if self.frame is not None else None
        return spot.id if spot is not None and not spot.node.meta.hidden else None

    def entries(self) -> list[Entry]:
        """The journal of a run whose store keeps none."""
        from .entries import entries  # only where somebody looks

        return entries(self)


def _ids_in(paths: Iterable[str]) -> set[str]:
    """The ids of all nodes that these paths lead to or through."""
    plain = re.sub(_MARKS, "", "\0".join(paths)).split("\0")
    return set[str]().union(*(path.split("/") for path in set(plain) if path))


def _waits(run: Run) -> Waits:
    from .waits import Waits  # only runs of flows that have any

    return Waits(run)
