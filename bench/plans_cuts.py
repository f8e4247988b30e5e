"""Cuts of programs in memory: each run is cut after every row and resumed, retried if it failed, and replayed."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from plans.grammar import PARAMETERS, Grammar
from plans.simulation import Cut, Simulation, usual_delay
from plans.test_grammar import world
from ropewalk.plans import rows as r
from ropewalk.plans.program import Program
from ropewalk.plans.rows import Row
from ropewalk.plans.session import Outcome

CONCURRENT: Final = re.compile(r"create_task\(|gather\(|TaskGroup\(|as_completed\(|wait\(")


class Tally:
    """What the cuts of many programs showed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def expect(self, value: Any, expected: Any, fault: str) -> None:
        """Note a fault unless a value is what was expected."""
        if value != expected:
            self.faults.append(f"{fault}: {value!r:.300} instead of {expected!r:.300}")


def timed(text: str) -> str:
    """Return a program whose short times are seconds, so that its timers are in its rows."""
    return re.sub(r"\b0\.0?([1-9])\b", r"\1", re.sub(r"/ (?:10|20|30)\b", "* 1", text))


def programs(count: int, seed: int, concurrent: bool) -> Iterator[tuple[int, Program]]:
    """Yield programs of the grammar that do or do not make several calls at the same time."""
    while count:
        text = timed(Grammar(seed).program())
        program = Program(text, PARAMETERS, function=True)
        body = text.partition("queue = asyncio.Queue()")[2] or text
        if not program.problems and bool(CONCURRENT.search(body)) is concurrent:
            yield seed, program
            count -= 1
        seed += 1


def steps_of(rows: list[Row]) -> list[tuple[str, ...]]:
    """Return the rows without their values: when a timer is due depends on when a resumed run makes it."""
    return sorted((row.path, row.kind, row.name, row.arguments, row.status) for row in rows)


def cut_everywhere(seed: int, program: Program, tally: Tally) -> None:
    """Cut a program after every row, resume it, and compare it with the run that nobody cut."""
    whole = Simulation(PARAMETERS, world())
    outcome, rows = whole.run(program)
    tally.counts["timers"] += sum(row.status == "due" for row in rows)
    tally.counts["cancelled calls"] += sum(row.status == "cancelled" for row in rows)
    tally.counts["failed calls"] += sum(row.kind == "call" and row.status == "failed" for row in rows)
    for cut in range(1, len(rows)):
        simulated = Simulation(PARAMETERS, world())
        try:
            simulated.run(program, cut_after=cut)
        except Cut:
            again, more = simulated.run(program, rows=simulated.rows[:cut])
        else:
            tally.faults.append(f"seed {seed}: no cut after row {cut}")
            continue
        tally.counts["cuts"] += 1
        tally.expect(again, outcome, f"seed {seed}, cut {cut}, outcome")
        tally.expect(simulated.performed, whole.performed, f"seed {seed}, cut {cut}, calls that succeeded")
        tally.expect(steps_of(more), steps_of(rows), f"seed {seed}, cut {cut}, rows")
    if outcome.status == "failed":
        retry_failed(seed, program, whole, outcome, rows, tally)


def retry_failed(
    seed: int, program: Program, simulated: Simulation, outcome: Outcome, rows: list[Row], tally: Tally
) -> None:
    """Retry a failed run whose tools work now; everything that succeeded must have succeeded once."""
    try:
        journal = r.retry(rows, outcome.failed)
    except r.Unhelpful:
        tally.counts["failures of the program itself"] += 1
        return
    simulated.answer = lambda tool, arguments: arguments.get("value")
    _, more = simulated.run(program, rows=journal)
    tally.counts["retries"] += 1
    succeeded = Counter((row.name, row.arguments) for row in more if row.kind == "call" and row.status == "ok")
    succeeded.update((row.name, row.arguments) for row in r.unclaimed(more, lambda tool: True))
    performed = Counter((tool, json.dumps(arguments)) for tool, arguments in simulated.performed)
    tally.expect(performed, succeeded, f"seed {seed}, calls that succeeded in a run and its retry")


def replay_order(seed: int, program: Program, tally: Tally) -> None:
    """Replay a run in a world whose answers come in another order: nothing is called, and the result is the same."""
    outcome, rows = Simulation(PARAMETERS, world()).run(program)

    def delay(number: int, tool: str, arguments: Any) -> float:
        return 0.5 / (usual_delay(number, tool, arguments) * 100)

    for kept in (len(rows), len(rows) // 2):
        other = Simulation(PARAMETERS, world(), delay)
        resumed, more = other.run(program, rows=rows[:kept])
        again = Simulation(PARAMETERS, world())
        replayed, _ = again.run(program, rows=more)
        tally.expect(more[:kept], rows[:kept], f"seed {seed}, the first {kept} rows")
        tally.expect((replayed, again.calls), (resumed, []), f"seed {seed}, a replay of {len(more)} rows")
        if kept == len(rows):
            tally.expect((resumed, other.calls), (outcome, []), f"seed {seed}, a replay in another order")
    tally.counts["order replays"] += 1


def cut_programs(count: int, seed: int, seconds: float) -> bool:
    """Cut, retry and replay programs, half of them concurrent; return True if no fault was found."""
    tally, ends = Tally(), time.monotonic() + seconds
    for concurrent in (False, True):
        for number, program in programs(count // 2, seed, concurrent):
            if time.monotonic() > ends:
                break
            tally.counts["concurrent" if concurrent else "sequential"] += 1
            cut_everywhere(number, program, tally)
    for number, program in programs(2 * count, seed + 1_000_000, True):
        if time.monotonic() > ends:
            break
        replay_order(number, program, tally)
    for fault in tally.faults[:20]:
        print(fault)
    print(", ".join(f"{name} {number}" for name, number in {**tally.counts, "faults": len(tally.faults)}.items()))
    return not tally.faults
