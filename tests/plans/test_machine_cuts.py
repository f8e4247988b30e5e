"""Random programs that are cut after every row, retried, and resumed in a world with another order of deliveries."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from ropewalk.plans.program import Program
from ropewalk.plans.rows import Row
from ropewalk.plans.session import Outcome
from tiers import Scale

from . import journals
from .grammar import PARAMETERS, Grammar
from .simulation import Cut, Simulation
from .test_grammar import world

Answer = Callable[[str, dict[str, Any]], Any]


def programs(first: int, count: int) -> Iterator[tuple[int, Program]]:
    """Yield programs that the machine accepts, with their seeds."""
    for seed in range(first, first + count):
        program = Program(Grammar(seed).program(), PARAMETERS, function=True)
        if not program.problems:
            yield seed, program


def broken_world() -> Answer:
    """Return tools of which each call fails once, if it is the third or a later one and not yet known."""
    answer, known = world(), set[str]()

    def fail_once(tool: str, arguments: dict[str, Any]) -> Any:
        call = json.dumps([tool, arguments])
        if call not in known and len(known) % 3 == 2:
            known.add(call)
            raise ConnectionError("down")
        known.add(call)
        return answer(tool, arguments)

    return fail_once


def failing_world() -> Answer:
    """Return tools of which every seventh call fails."""
    answer, count = world(), itertools.count(1)

    def fail_at_times(tool: str, arguments: dict[str, Any]) -> Any:
        if next(count) % 7 == 0:
            raise ConnectionError("down")
        return answer(tool, arguments)

    return fail_at_times


def other_order(number: int, tool: str, arguments: Mapping[str, Any]) -> float:
    """Return a delay that lets later calls end first."""
    return 0.3 / (number % 7 + 1) + 0.0001 * (number % 97)


def cut_everywhere(program: Program, make: Callable[[], Simulation], rows: list[Row], outcome: Outcome) -> int:
    """Cut a run after each row and resume it; return how many cuts there were."""
    whole = make()
    assert whole.run(program) == (outcome, rows)
    for cut in range(1, len(rows)):
        simulated = make()
        with pytest.raises(Cut):
            simulated.run(program, cut_after=cut)
        assert simulated.rows == rows[:cut]
        resumed, more = simulated.run(program, rows=rows[:cut])
        assert len(set(simulated.paths)) == len(simulated.paths), cut
        if any(row.status == "cancelled" for row in rows[:cut]):
            # A call that was cancelled before the cut is not begun again, so later calls have other delays.
            assert more[:cut] == rows[:cut]
            assert make().run(program, rows=more) == (resumed, more), cut
            continue
        assert (resumed, more) == (outcome, rows), cut
        assert simulated.paths == whole.paths
        if rows[cut - 1].kind != "printed":  # its process died between the record of a text and the log
            assert simulated.printed == whole.printed
    return max(len(rows) - 1, 0)


@pytest.mark.campaign("plans")
def test_a_run_that_is_cut_after_any_row_makes_each_call_once(scale: Scale, seed: int) -> None:
    counts = {"programs": 0, "concurrent": 0, "cancelled": 0, "failed calls": 0, "timers": 0, "cuts": 0}
    for number, program in programs(seed * 1_000_000, scale(24, 520)):

        def make(number: int = number) -> Simulation:
            return Simulation(PARAMETERS, failing_world() if number % 3 == 0 else world(), late=number % 2 == 0)

        outcome, rows = make().run(program)
        if outcome.status == "stopped":
            continue
        counts["cuts"] += cut_everywhere(program, make, rows, outcome)
        counts["programs"] += 1
        counts["concurrent"] += any("." in row.path.partition("/")[0] for row in rows)
        counts["cancelled"] += any(row.status == "cancelled" for row in rows)
        counts["failed calls"] += any(row.status == "failed" for row in rows)
        counts["timers"] += any(row.status == "due" for row in rows)
    print(counts)
    assert all(counts.values())


@pytest.mark.campaign("plans")
def test_a_retry_calls_nothing_again_that_succeeded(scale: Scale, seed: int) -> None:
    retries = cuts = 0
    for number, program in programs(seed * 1_000_000 + 500_000, scale(40, 1_000)):
        simulated = Simulation(PARAMETERS, broken_world(), late=bool(number % 2))
        outcome, rows = simulated.run(program)
        for _ in range(50):
            if not outcome.failed:
                break
            journal = journals.retry(rows, outcome.failed)
            outcome, rows = simulated.run(program, rows=journal)
            retries += 1
            # Another step with the same tool and arguments may take a result before the step that got it.
            known = [row for row in rows if row.kind == "call" and row.status in ("ok", "late")]
            known += journals.unclaimed(rows, lambda tool: True)
            made = Counter((tool, json.dumps(arguments)) for tool, arguments in simulated.performed)
            assert made == Counter((row.name, row.arguments) for row in known), number
            for cut in range(len(journal), len(rows)):
                cuts += 1
                again = Simulation(PARAMETERS, world())
                resumed, more = again.run(program, rows=rows[:cut])
                assert more[:cut] == rows[:cut]
                assert Simulation(PARAMETERS, world(), other_order).run(program, rows=more) == (resumed, more), number
    print({"retries": retries, "cuts": cuts})
    assert retries


@pytest.mark.campaign("plans")
def test_the_same_rows_give_the_same_result_in_any_order_of_deliveries(scale: Scale, seed: int) -> None:
    replays = changed = 0
    for number, program in programs(seed * 1_000_000 + 700_000, scale(8, 250)):
        outcome, rows = Simulation(PARAMETERS, world()).run(program)
        if outcome.status == "stopped":
            continue
        for part in (1, 2, 3, 4):
            cut = max(len(rows) * part // 4, 1)
            other = Simulation(PARAMETERS, world(), other_order)
            resumed, more = other.run(program, rows=rows[:cut])
            changed += more != rows
            assert more[:cut] == rows[:cut]
            replayed = Simulation(PARAMETERS, world())
            assert replayed.run(program, rows=more) == (resumed, more), (number, cut)
            assert replayed.calls == []
            replays += 1
    print({"replays": replays, "with another order": changed})
    assert changed
