"""What a reliability campaign proves: calls written down by the tools, against what the journal had acknowledged.

A step is acknowledged once something depends on it: a later step received its result, or the journal showed it. From
then on no process may begin it again. A step that was in progress may begin again for a reason only: the process that
called it was paused or killed. An outage of the database is no reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from reliability_flows import Case

AWAKE: Final = 5.0
"""Seconds after a pause in which the process may still begin a call that it had prepared before."""

Step = tuple[str, str]


@dataclass
class Start:
    """A step that began.

    Args:
        at: Seconds by the machine's monotonic clock.
        pid: The process.
        step: The run and the key.
        seen: Keys of the steps whose results it received.
    """

    at: float
    pid: int
    step: Step
    seen: list[str]


@dataclass
class Facts:
    """What the campaign did, and what it read from the journal meanwhile.

    Args:
        pauses: By process, from when to when it was paused.
        deaths: By process, when it was killed.
        recorded: When the campaign had read the journal, and the steps that were in it.
    """

    pauses: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    deaths: dict[int, float] = field(default_factory=dict)
    recorded: list[tuple[float, frozenset[Step]]] = field(default_factory=list)


@dataclass
class Counts:
    """The result. All but `acknowledged`, `repeated` and `woken` must be empty.

    Args:
        acknowledged: Steps on whose results something depended.
        repeated: Steps in progress that began again since their process was paused or killed.
        woken: Acknowledged steps that a process began which had just been paused; what came of them was refused.
        lost: Acknowledged steps that the journal did not have in the end.
        again: Acknowledged steps that began again.
        causeless: Steps in progress that began again for no reason.
        too_many: Runs in which more steps began again after one interruption than can have been in progress.
        wrong: Runs that ended with another result, with the difference.
        unended: Runs that never ended.
    """

    acknowledged: int = 0
    repeated: int = 0
    woken: int = 0
    lost: list[Any] = field(default_factory=list)
    again: list[Any] = field(default_factory=list)
    causeless: list[Any] = field(default_factory=list)
    too_many: list[Any] = field(default_factory=list)
    wrong: list[Any] = field(default_factory=list)
    unended: list[str] = field(default_factory=list)

    @property
    def violations(self) -> dict[str, list[Any]]:
        """What must not be, by name."""
        return {name: value for name, value in asdict(self).items() if isinstance(value, list) and value}

    def numbers(self) -> dict[str, int]:
        """Return every count as a number."""
        return {name: len(value) if isinstance(value, list) else value for name, value in asdict(self).items()}


def starts_in(effects: Path) -> list[Start]:
    """Read the calls that the tools wrote down, in order of time."""
    if not effects.exists():
        return []
    lines = (json.loads(line) for line in effects.read_text().splitlines())
    found = [Start(line[0], line[1], (line[3], line[4]), line[5]) for line in lines if line[2] == "start"]
    return sorted(found, key=lambda start: start.at)


def judge(
    starts: Sequence[Start],
    facts: Facts,
    cases: Iterable[Case],
    ended: Mapping[str, Any],
    journal: Mapping[str, Mapping[str, Any]],
) -> Counts:
    """Compare what the tools did with what the journal promised.

    Args:
        starts: Every step that began, in order of time.
        facts: What was done to the processes, and what the journal showed meanwhile.
        cases: The runs.
        ended: The recorded result of each run that ended, with its `status`.
        journal: By run, the recorded value of each step in the end.

    Returns:
        The counts.
    """
    counts = Counts()
    acknowledged = _judge_starts(starts, facts, cases := list(cases), counts)
    for case in cases:
        kept = journal.get(case.run, {})
        promised = {key for key in case.keys if (case.run, key) in acknowledged}
        counts.lost += [(case.run, key) for key in sorted(promised - set(kept))]
        result = ended.get(case.run)
        if result is None:
            counts.unended.append(case.run)
        elif result["status"] != "completed" or result.get("results") != case.results:
            counts.wrong.append((case.run, result["status"], _difference(case.results, result.get("results") or {})))
        counts.wrong += [
            (case.run, key, kept[key]) for key, value in case.keys.items() if kept.get(key, value) != value
        ]
        # The ending of a run depends on all its steps.
        counts.acknowledged += len(case.keys if result is not None else promised)
    return counts


def _judge_starts(starts: Sequence[Start], facts: Facts, cases: Sequence[Case], counts: Counts) -> set[Step]:
    acknowledged: set[Step] = set()
    begun: dict[Step, Start] = {}
    repeats: Counter[tuple[str, tuple[int, float]]] = Counter()
    recorded = iter(facts.recorded)
    coming = next(recorded, None)
    for start in starts:
        while coming is not None and coming[0] <= start.at:
            acknowledged |= coming[1]
            coming = next(recorded, None)
        before = begun.get(start.step)
        if start.step in acknowledged:
            if _is_awake(facts, start.pid, start.at):
                counts.woken += 1
            else:
                counts.again.append((*start.step, start.pid, start.at))
        elif before is not None:
            if cause := _cause(facts, before, start):
                counts.repeated += 1
                repeats[start.step[0], cause] += 1
            else:
                counts.causeless.append((*start.step, before.pid, before.at, start.pid, start.at))
        begun[start.step] = start
        acknowledged |= {(start.step[0], key) for key in start.seen}
    acknowledged |= coming[1] if coming is not None else set()
    for _, steps in recorded:
        acknowledged |= steps
    # A step may have ended and been on its way to the journal, while the next one was in progress.
    widths = {case.run: 2 * case.width + 1 for case in cases}
    counts.too_many += [(run, count) for (run, _), count in repeats.items() if count > widths[run]]
    return acknowledged


def _cause(facts: Facts, before: Start, again: Start) -> tuple[int, float] | None:
    """Return what interrupted a step that began again: a process, and since when it was paused or dead."""
    died = facts.deaths.get(before.pid)
    if died is not None and before.at <= died <= again.at:
        return before.pid, died
    for begin, end in facts.pauses.get(before.pid, []):
        if begin <= again.at and before.at <= end + AWAKE:
            return before.pid, begin
    return (again.pid, again.at) if _is_awake(facts, again.pid, again.at) else None


def _is_awake(facts: Facts, pid: int, at: float) -> bool:
    return any(begin <= at <= end + AWAKE for begin, end in facts.pauses.get(pid, []))


def _difference(expected: Mapping[str, Any], results: Mapping[str, Any]) -> list[str]:
    return [name for name in expected if results.get(name) != expected[name]][:3]
