"""The benchmark measures what it says, refuses wrong answers, and runs with one command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture(autouse=True)
def _bench_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def test_a_wrong_answer_is_no_result() -> None:
    from measure import Contender, WrongAnswer, compare

    async def right() -> int:
        return 1

    async def wrong() -> int:
        return 2

    with pytest.raises(WrongAnswer, match="cheat gives 2, not 1"):
        compare({"asyncio": Contender(right, 1), "cheat": Contender(wrong, 1)}, rounds=1)


def test_a_ratio_compares_the_rounds_pair_by_pair() -> None:
    from measure import Timing, percentile

    # A machine that slows down ten times in mid-run leaves the ratio alone.
    assert Timing(seconds=(2.0, 20.0, 2.0)).ratio(Timing(seconds=(1.0, 10.0, 1.0))) == 2.0
    assert percentile([float(n) for n in range(1, 101)], 0.99) == 99.0


def test_the_floor_and_the_chain_do_the_same_work() -> None:
    import asyncio

    import byhand
    import floor
    import ours

    async def give(work: object) -> object:
        return await work()  # type: ignore[operator]

    pairs = [
        (floor.chain(5, floor.suspends), ours.chain(5)),
        (floor.fan_out(5, floor.suspends), ours.fan_out(5)),
        (floor.fan_out_limited(5, floor.suspends, 2), ours.fan_out(5, 2)),
        (floor.dag(120), ours.dag(120)),
    ]
    for base, document in pairs:
        house = ours.House(floor.suspends)
        assert asyncio.run(give(base)) == asyncio.run(give(house.executed(document)))
        assert asyncio.run(give(base)) == asyncio.run(give(house.bare(document)))
    for base, hand in (
        (floor.chain(5, floor.suspends), byhand.chain(5, floor.suspends)),
        (floor.fan_out(5, floor.suspends), byhand.fan_out(5, floor.suspends)),
        (floor.loop(5, floor.suspends), byhand.loop(5, floor.suspends)),
    ):
        assert asyncio.run(give(base)) == asyncio.run(give(hand))


def test_one_command_prints_the_table_and_writes_it_as_json(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, str(BENCH / "run.py"), "--quick", "--no-peers", "--only", "looping", "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "loop of 1000 with a condition" in done.stdout
    (row,) = json.loads(out.read_text())["rows"]
    assert row["target"] == 6
    assert set(row["times"]) == {"asyncio", "ropewalk", "by hand"}
    assert row["met"] == (row["value"] <= 6)


def test_tokens_are_counted_as_said_and_every_round_counts() -> None:
    from ropewalk.agents.model import Request
    from tokens import sent, tokens

    assert tokens("a morning, 12345") == 1 + 2 + 1 + 2
    assert tokens({"a_b": "é"}) == len(["{", '"', "a", "_", "b", '"', ":", '"', "é", '"', "}"])
    turn = {"role": "user", "content": "go on"}
    once = Request(messages=[turn], tools=[{"name": "look"}])
    twice = Request(messages=[turn, turn], tools=[{"name": "look"}])
    assert sent([once, twice])["messages"] == tokens([turn]) + tokens([turn, turn])
    assert sent([once, twice])["definitions"] == 2 * sent([once])["definitions"]
