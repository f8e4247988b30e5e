"""Large maps are cut into chunks that several workers play; everything is as in one process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from ropewalk.journal.address import open_store
from tiers import Scale

from .crew import Crew, kill

SQUARES = """
kind: chain
name: squares
timeout: 120000
nodes:
  - {id: base, type: tool, tool: who, params: {at: base}}
  - id: each
    type: loop
    items: $input.items
    %s
    nodes:
      - {id: one, type: tool, tool: item, params: {at: $item, base: $output.base}}
      - {id: two, type: tool, tool: item, params: {at: $prev.at, base: 1}}
  - {id: end, type: tool, tool: async_step, params: {at: end}}
"""
TOOLS = '''

@tool
async def item(at: int, base: int = 0, ms: int = 0) -> dict[str, int]:
    """One item."""
    if base != 1:
        note("start", f"item{at}", os.getpid())
    if at == -1:
        raise ValueError("minus one")
    await asyncio.sleep(0.002)
    while os.path.exists(os.path.join(os.path.dirname(__file__), "gate")):
        await asyncio.sleep(0.01)
    if base != 1:
        note("end", f"item{at}", os.getpid())
    return {"at": at, "base": base}
'''
Start = Callable[..., Crew]


def squares(crew: Start, more: str = "concurrency: 200") -> Crew:
    scene = crew(SQUARES % more)
    tools = scene.folder / "tools.py"
    tools.write_text(tools.read_text() + TOOLS)
    return scene


def given(scene: Crew, items: list[int]) -> str:
    return "@" + scene.write("input.json", json.dumps({"items": items}))


def calls(scene: Crew, word: str = "end") -> Counter[str]:
    return Counter(line.split()[1] for line in scene.lines() if line.startswith(f"{word} item"))


def values(scene: Crew, run_id: str) -> Any:
    row = scene.row(run_id)
    assert row is not None
    return row.result["results"]["each"]


def test_a_large_map_is_shared_and_keeps_the_order_of_its_items(crew: Start) -> None:
    scene = squares(crew)
    gate = scene.folder / "gate"
    gate.touch()
    workers = scene.hire(3)
    scene.submit("chain.yaml", id="x", input={"items": list(range(1000))})
    scene.until(lambda: len({line.split()[2] for line in scene.lines() if line.startswith("start item")}) >= 2)
    gate.unlink()
    assert scene.until_ended("x") == "completed"
    assert [value["at"] for value in values(scene, "x")] == list(range(1000))
    assert set(calls(scene).values()) == {1}
    recorded = scene.recorded("x")  # in the run's own journal
    assert {f"each[{i}]/{node}" for i in range(1000) for node in ("one", "two")} <= recorded
    assert len(workers) == 3


@pytest.mark.campaign("recovery")
def test_a_worker_killed_in_its_chunks_costs_no_recorded_item(crew: Start, scale: Scale) -> None:
    scene, count = squares(crew), scale(1200, 6000)
    scene.hire(3)
    scene.submit("chain.yaml", id="x", input={"items": list(range(count))})
    scene.until(lambda: len(calls(scene)) > 200)
    owner = scene.pids("base")[0]
    by = {int(line.split()[2]) for line in scene.lines() if line.startswith("end item")}
    victim = next(iter(by - {owner}), owner)
    recorded = scene.recorded("x")
    before = len(scene.lines())
    kill(scene.worker(victim))
    assert scene.until_ended("x") == "completed"
    again = {line.split()[1] for line in scene.lines()[before:] if line.startswith("start item")}
    done = {
        f"item{path[5:].partition(']')[0]}" for path in recorded if path.startswith("each[") and path.endswith("one")
    }
    assert again.isdisjoint(done)
    assert [value["at"] for value in values(scene, "x")] == list(range(count))


@pytest.mark.campaign("recovery", only=True)
def test_the_worker_that_has_the_run_may_be_killed_too(crew: Start) -> None:
    scene, count = squares(crew), 6000
    scene.hire(3)
    scene.submit("chain.yaml", id="x", input={"items": list(range(count))})
    scene.until(lambda: len(calls(scene)) > 200)
    kill(scene.worker(scene.pids("base")[0]))
    assert scene.until_ended("x") == "completed"
    assert [value["at"] for value in values(scene, "x")] == list(range(count))
    assert len(scene.pids("base")) == 1


def test_the_failure_of_an_item_ends_the_run_as_in_one_process(crew: Start) -> None:
    items = [*range(700), -1, *range(701, 1400)]
    scene, alone = squares(crew), squares(crew)
    (alone.folder / "ropewalk.toml").write_text('[tools]\nmodules = ["tools"]\n')
    scene.hire(2)
    scene.submit("chain.yaml", id="x", input={"items": items})
    assert scene.until_ended("x") == "failed"
    one = alone.run("run", "chain.yaml", "--json", "--id", "y", "-i", given(alone, items))
    row = scene.row("x")
    assert row is not None
    assert row.error["message"] == one.data["errors"][-1]["message"] or "minus one" in row.error["message"]
    assert "each[700]/one" in row.error["message"]


def test_items_that_may_fail_are_told_as_in_one_process(crew: Start) -> None:
    items = [*range(10), -1, *range(600), -1]
    scene, alone = squares(crew), squares(crew)
    (alone.folder / "ropewalk.toml").write_text('[tools]\nmodules = ["tools"]\n')
    for one in (scene, alone):
        text = (one.folder / "chain.yaml").read_text()
        (one.folder / "chain.yaml").write_text(
            text.replace("base: $output.base}", "base: 2}, errorHandling: {strategy: continue}")
        )
    scene.hire(2)
    there = scene.run("run", "chain.yaml", "--json", "--id", "x", "-i", given(scene, items))
    here = alone.run("run", "chain.yaml", "--json", "--id", "y", "-i", given(alone, items))
    for key in ("status", "results", "errors"):
        assert there.data.get(key) == here.data.get(key), key


@pytest.mark.campaign("reliability", only=True)
@pytest.mark.parametrize("limit", [4])
def test_a_limit_holds_over_all_workers_together(crew: Start, limit: int) -> None:
    scene = squares(crew, f"concurrency: {limit}")
    scene.hire(2)
    scene.submit("chain.yaml", id="x", input={"items": list(range(600))})
    assert scene.until_ended("x") == "completed"
    now = most = 0
    for line in scene.lines():
        if " item" in line:
            now += 1 if line.startswith("start") else -1
            most = max(most, now)
    assert most <= limit


def test_a_stop_reaches_every_chunk(crew: Start) -> None:
    scene = squares(crew)
    scene.hire(2)
    # A worker spreads a map once it has heard of another one, so the first runs may have no parts.
    for number in range(40):
        before = calls(scene, "start").total() if number else 0
        scene.submit("chain.yaml", id=(id := f"x{number}"), input={"items": list(range(20000))})
        scene.until(lambda before=before: calls(scene, "start").total() > before + 300)  # type: ignore[misc]
        assert scene.run("runs", "stop", id).code == 0
        scene.until(lambda: all(row["status"] != "running" for row in parts(scene)))
        if parts(scene):
            break
    assert any(row["status"] == "stopped" for row in parts(scene))
    assert len(calls(scene)) < 20000
    before = len(calls(scene, "start"))
    scene.run("runs", "ls")
    assert len(calls(scene, "start")) == before


def parts(scene: Crew) -> list[Any]:
    rows: list[Any] = scene.run("runs", "ls", "--all", "--limit", "1000", "--json").data
    return [row for row in rows if row["kind"] == "chunk"]


@pytest.mark.campaign("reliability", only=True)
def test_a_budget_holds_over_the_chunks_of_all_workers(crew: Start) -> None:
    scene = squares(crew)
    chain = scene.folder / "chain.yaml"
    chain.write_text("".join(line for line in chain.read_text().splitlines(True) if "id: two" not in line))
    settings = scene.folder / "ropewalk.toml"
    settings.write_text(f'{settings.read_text()}\n[budget]\ncalls = 700\nper = "run"\n')
    scene.hire(2)
    # A worker spreads a map once it has heard of another one, so the first runs may have no parts.
    for number in range(40):
        before = calls(scene, "start").total() if number else 0
        scene.submit("chain.yaml", id=(id := f"x{number}"), input={"items": list(range(1500))})
        assert scene.until_ended(id) == "failed"
        if parts(scene):
            break
    row = scene.row(id)
    assert row is not None
    assert "the budget of 700 calls is used up" in row.error["message"]
    assert parts(scene)
    assert 300 < calls(scene, "start").total() - before < 700  # one call was that of `base`
    with closing(open_store(scene.url)) as store:
        assert store.used(f"project run:{id}")["calls"] == 700  # type: ignore[attr-defined]
