"""Workers of another major version take no run of this one, and that is said."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from ropewalk.journal.postgres.session import parse_target
from ropewalk.journal.postgres.worker_registry import WorkerRegistry
from ropewalk.workers.dbos_adapter import code_version

from .crew import Crew
from .test_worker_runs import WHO


def test_doctor_and_runs_show_name_the_other_version(crew: Callable[..., Crew]) -> None:
    scene = crew(WHO)
    (scene.folder / "go").touch()
    scene.submit("chain.yaml", id="x")
    others = WorkerRegistry(parse_target(scene.url), lease=600)
    about = orjson.dumps({"concurrency": 1, "queues": ["default"], "version": "ropewalk-7"}).decode()
    try:
        for words in (["runs", "show", "x"], ["doctor"]):
            others.record_heartbeat("other", about)
            done = scene.run(*words)
            assert "Ropewalk 7.x and this is 0.x" in done.out, done
        assert code_version() == "ropewalk-0"
        scene.hire()
        assert "Ropewalk 7.x" not in scene.run("runs", "show", "x").out
        assert scene.until_ended("x") == "completed"
    finally:
        others.remove_worker("other")
        others.close()
