"""The disk is full while a run is under way: a clear error, nothing lost, and later it goes on."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.scene import Scene

LARGE = """
kind: chain
name: large
timeout: 60000
nodes:
  - id: many
    type: loop
    items: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
    nodes:
      - {id: one, type: tool, tool: large, params: {at: "many[${$index}]/one", size: 100000}}
"""
PAGES = 600_000  # bytes that the store may have: some of the results fit, not all


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    done = mount and subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True)
    if not done or done.returncode:
        pytest.skip("a small disk can only be made by root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_file_that_may_not_grow_fails_the_run_clearly_and_a_later_resume_completes(tmp_path: Path) -> None:
    scene = Scene(tmp_path, LARGE)

    def may_not_grow() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (PAGES, PAGES))

    failed = scene.run("run", "chain.yaml", "--json", "--id", "x", before=may_not_grow)
    _failed_clearly_and_goes_on(scene, failed.code, failed.out + failed.err)


def test_a_full_disk_fails_the_run_clearly_and_a_later_resume_completes(small_disk: Path) -> None:
    scene = Scene(small_disk / "p", LARGE)
    failed = scene.run("run", "chain.yaml", "--json", "--id", "x")
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    _failed_clearly_and_goes_on(scene, failed.code, failed.out + failed.err)


def test_a_full_disk_is_told_before_a_run_and_spoils_no_file_of_before(small_disk: Path) -> None:
    scene = Scene(small_disk / "p", LARGE)
    out = small_disk / "p" / "out.yaml"
    assert scene.run("convert", "chain.yaml", "--to", "flow", "-o", str(out)).code == 0
    before = out.read_text()
    with (small_disk / "rest").open("wb", buffering=0) as rest, contextlib.suppress(OSError):
        while True:
            rest.write(bytes(512))
    refused = scene.run("convert", "chain.yaml", "--to", "flow", "-o", str(out))
    assert (refused.code, out.read_text()) == (2, before)
    assert f"cannot write {out.name}: No space left on device" in refused.err
    assert not [name for name in os.listdir(out.parent) if name.endswith(".new")]
    told = scene.run("doctor")
    assert (told.code, "its disk is full" in told.out) == (1, True), told.out


def _failed_clearly_and_goes_on(scene: Scene, code: int, said: str) -> None:
    assert code == 1, said
    assert "StoreError" in said
    assert "Traceback" not in said
    recorded, lines = scene.recorded("x"), len(scene.lines())
    assert 0 < len(recorded) < 20, "it failed somewhere in between"
    row = scene.row("x")
    assert row is not None
    assert row.status == "running", "it can be gone on with"
    done = scene.run("resume", "x", "--json")
    assert done.code == 0, done.err
    assert [len(one) for one in done.data["result"]["many"]] == [100_000] * 20
    assert not recorded & set(scene.started(since=lines))
    assert len(scene.started()) <= 20 + 1
