"""`kill -9` of a real run, again and again, each time gone on with: the same result as a run that
was left alone, and nothing that was recorded is called again."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from faults.scene import Scene, ended, kill
from faults.tally import Counts
from faults.verdict import check
from tiers import Scale, on_one_store

KILLS, MORE = 5, 50  # in the slice, and in the campaign
AT_ONCE = 5  # calls that may be under way when a process dies: two of `many`, two of `both`, one of `rounds`


WAITS = """
kind: chain
name: w
nodes:
  - {id: w, type: tool, tool: wait_for_file, params: {at: w, name: go}}
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    scene = Scene(tmp_path_factory.mktemp("undisturbed"))
    done = scene.run("run", "chain.yaml", "--json", "--id", "x")
    assert done.code == 0, done.err
    assert Counter(scene.started()) == Counter(scene.recorded("x")), "each once"
    return dict(done.data["result"])


@pytest.mark.timeout(3600)
@pytest.mark.campaign("faults")
def test_a_run_killed_again_and_again_ends_as_if_it_had_been_left_alone(
    tmp_path: Path, undisturbed: dict[str, object], store: str | None, counts: Counts, scale: Scale, seed: int
) -> None:
    counts.item = f"kill -9 of the command at random: {'SQLite' if store is None else 'Postgres'}"
    chance = random.Random(f"kill {seed}")
    kills = number = 0
    while kills < scale(KILLS, MORE):
        number += 1
        id = f"x{number}"
        scene = Scene(tmp_path / f"p{number}", store=store)
        deaths: list[tuple[int, set[str]]] = []  # per kill: lines of the log, and what was recorded
        process = scene.start("run", "chain.yaml", "--json", "--id", id)
        while True:
            more = len(scene.lines()) + chance.randint(0, 12)
            scene.until(lambda most=more: len(scene.lines()) > most, process)  # type: ignore[misc]  # noqa: B023
            if process.poll() is not None:
                break
            kill(process)
            if scene.row(id) is None:
                break  # not even the run was on disk yet
            kills += 1
            deaths.append((len(scene.lines()), scene.recorded(id)))
            counts.points += 1
            process = scene.start("resume", id, "--json")
        done = ended(process)
        if scene.row(id) is None:
            continue
        assert done.code == 0, done.err
        assert done.data["status"] == "completed"
        if done.data["result"] != undisturbed:
            counts.wrong.append(id)
        for lines, recorded in deaths:
            check(scene, id, scene.lines()[:lines], recorded, counts)
        extra = sum(Counter(scene.started()).values()) - len(scene.recorded(id))
        assert 0 <= extra <= AT_ONCE * len(deaths)
        assert scene.recorded(id) == set(scene.started())
        again = scene.run("resume", id, "--json")
        assert again.data["result"] == undisturbed, "a finished run gives its result"
    counts.clean()


def test_two_processes_that_resume_one_run_do_nothing_twice(
    tmp_path: Path, undisturbed: dict[str, object], store: str | None
) -> None:
    scene = Scene(tmp_path, store=store)
    process = scene.start("run", "chain.yaml", "--json", "--id", "x")
    scene.until(lambda: len(scene.recorded("x")) >= 3, process)
    kill(process)
    lines, recorded = len(scene.lines()), scene.recorded("x")
    both = [scene.start("resume", "x", "--json") for _ in range(2)]
    results = [ended(one) for one in both]
    good = [done for done in results if done.code == 0]
    assert good, results
    assert all(done.data["result"] == undisturbed for done in good)
    for done in results:
        if done.code != 0:
            assert "is being executed by" in done.out + done.err
    since = Counter(scene.started(since=lines))
    assert max(since.values()) == 1
    assert not recorded & set(since)


@on_one_store("faults", "sqlite")
def test_a_second_run_of_the_same_id_gives_the_result_of_the_first(tmp_path: Path, store: str | None) -> None:
    scene = Scene(tmp_path, WAITS, store)
    first = scene.start("run", "chain.yaml", "--json", "--id", "x")
    scene.until(lambda: scene.started() == ["w"], first)
    second = scene.start("run", "chain.yaml", "--json", "--id", "x")
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(timeout=1.0)  # it waits; nothing tells from outside that it does, but that it does not end
    (tmp_path / "go").touch()
    results = [ended(first), ended(second)]
    assert [done.code for done in results] == [0, 0], results
    assert [done.data["result"] for done in results] == [{"w": "there"}] * 2
    assert scene.started() == ["w"]


@on_one_store("faults", "postgres")
def test_the_second_process_takes_over_when_the_first_is_killed(tmp_path: Path, store: str | None) -> None:
    scene = Scene(tmp_path, WAITS, store)
    first = scene.start("run", "chain.yaml", "--json", "--id", "x")
    scene.until(lambda: scene.started() == ["w"], first)
    second = scene.start("run", "chain.yaml", "--json", "--id", "x")
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(timeout=1.0)
    kill(first)
    scene.until(lambda: scene.started() == ["w", "w"], second)
    (tmp_path / "go").touch()
    done = ended(second)
    assert (done.code, done.data["result"]) == (0, {"w": "there"})


STOPPED = """
kind: chain
name: s
mode: parallel
timeout: 60000
nodes:
  - {id: w1, type: tool, tool: wait_for_file, params: {at: w1, name: never}}
  - {id: w2, type: tool, tool: wait_for_file, params: {at: w2, name: never}}
  - {id: quick, type: tool, tool: async_step, params: {at: quick}}
"""


def test_a_run_is_stopped_from_another_process(tmp_path: Path, store: str | None) -> None:
    scene = Scene(tmp_path, STOPPED, store)
    process = scene.start("run", "chain.yaml", "--json", "--id", "x")
    scene.until(lambda: scene.recorded("x") == {"quick"} and len(scene.started()) == 3, process)
    stop = scene.run("runs", "stop", "x", "--json")
    assert (stop.code, stop.data["stopped"]) == (0, True)
    row = scene.row("x")
    assert row is not None
    assert row.status == "stopped"
    done = ended(process)
    assert (done.code, done.data["status"]) == (130, "stopped")
    cancelled = [line.split() for line in scene.lines() if line.startswith("cancelled")]
    assert sorted(at for _, at, _ in cancelled) == ["w1", "w2"]
    assert scene.run("resume", "x", "--json").data["status"] == "stopped"
    assert len(scene.started()) == 3
