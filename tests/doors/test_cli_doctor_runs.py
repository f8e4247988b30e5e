"""`doctor --runs` without workers: what each unfinished run needs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from faults.scene import Scene
from ropewalk.journal.address import open_store
from ropewalk.journal.protocol import NewRun


@pytest.mark.parametrize("way", ["text", "json"])
def test_doctor_counts_unfinished_runs_and_says_how_to_continue_them(tmp_path: Path, way: str) -> None:
    scene = Scene(tmp_path / "project")

    async def begin() -> None:
        store = open_store(scene.address)
        for id in ("left", "waits", "ended"):
            log = await store.open(NewRun(id=id, kind="chain", name="x", document={}))
            if id == "waits":
                assert await log.park(None, ["go"])
            elif id == "ended":
                await log.finish("completed", None)
            else:
                await log.release()
        store.close()

    asyncio.run(begin())
    done = scene.run("doctor", "--runs", *(["--json"] if way == "json" else []))
    assert done.code == 0, done.err
    if way == "text":
        assert "unfinished: 0 executing, 1 waiting, 0 parked, 1 interrupted" in done.out
        assert "its process is gone; continue it with: ropewalk resume left" in done.out
    else:
        names = [one["name"] for one in json.loads(done.out)["findings"]]
        assert {"runs", "run left"} <= set(names)
    assert "unfinished:" not in scene.run("doctor").out
