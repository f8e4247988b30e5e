"""A run that kills its workers is parked; the runs beside it are not, and end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tiers import Scale, sampled

from .crew import Crew

LONG = """
kind: chain
name: long
timeout: 0
nodes:
  - {id: first, type: tool, tool: who, params: {at: $input.at, ms: $input.ms}, timeout: 60000}
  - {id: last, type: tool, tool: who, params: {at: last}}
"""
DEADLY = """
kind: chain
name: deadly
nodes:
  - {id: only, type: tool, tool: die, params: {at: $input.at, until: never}}
"""
Start = Callable[..., Crew]


def scene_of(crew: Start, recoveries: int) -> Crew:
    scene = crew(LONG, f"[workers]\nrecoveries = {recoveries}\nlease = 1.5\n")
    scene.write("deadly.yaml", DEADLY)
    return scene


def put(scene: Crew, source: str, id: str, ms: int = 0) -> None:
    scene.submit(source, input={"at": id, "ms": ms}, id=id)


def attend(scene: Crew, ids: list[str], workers: int = 1, most: int = 40) -> None:
    """Replace workers that die until none of the runs is under way."""
    for _ in range(most):
        missing = workers - sum(worker.poll() is None for worker in scene.workers)
        if missing:
            scene.hire(missing)
        scene.until(
            lambda: (
                all(scene.status(id) != "running" for id in ids)
                or sum(worker.poll() is None for worker in scene.workers) < workers
            )
        )
        if all(scene.status(id) != "running" for id in ids):
            return
    raise AssertionError({id: scene.status(id) for id in ids})


@pytest.mark.timeout(3600)
@pytest.mark.campaign("recovery", only=True)
@pytest.mark.parametrize("healthy", sampled("recovery", [1, 3], 1))
def test_a_healthy_run_beside_a_poison_run_is_not_parked_with_it(crew: Start, healthy: int, scale: Scale) -> None:
    scene = scene_of(crew, scale(2, 5))
    innocent = [f"i{n}" for n in range(healthy)]
    for id in innocent:
        put(scene, "chain.yaml", id, scale(2500, 20_000))
    scene.hire()
    scene.until(lambda: {line.split()[1] for line in scene.lines()} >= set(innocent))
    put(scene, "deadly.yaml", "poison")
    attend(scene, [*innocent, "poison"])
    assert scene.status("poison") == "parked"
    assert {id: scene.status(id) for id in innocent} == dict.fromkeys(innocent, "completed")


@pytest.mark.campaign("recovery", only=True)
def test_several_poison_runs_are_each_found(crew: Start) -> None:
    scene = scene_of(crew, 2)
    put(scene, "chain.yaml", "innocent", 3000)
    for id in ("p1", "p2"):
        put(scene, "deadly.yaml", id)
    attend(scene, ["innocent", "p1", "p2"])
    assert [scene.status(id) for id in ("innocent", "p1", "p2")] == ["completed", "parked", "parked"]
