"""A killed conversation goes on: no finished turn is asked for again, no recorded call is made again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fork_server

from .wire import StandIn, calls

CHILD = str(Path(__file__).with_name("child.py"))
pytestmark = pytest.mark.node


def start(*argv: str) -> subprocess.Popen[str]:
    return fork_server.Popen([sys.executable, CHILD, *argv], stdout=subprocess.PIPE, text=True, env={**os.environ})


def test_kill_in_mid_loop_and_resume(api: StandIn, tmp_path: Path) -> None:
    usage = {"usage": {"input_tokens": 100, "output_tokens": 10}}
    api.answer(
        calls(("quick", {"n": 1}), ("quick", {"n": 2}), **usage),
        calls(("quick", {"n": 3}), ("slow", {"n": 4}), **usage),
        {"content": "finished", **usage},
    )
    store = f"sqlite:///{tmp_path}/runs.db"
    first = start(store, api.url, "conversation")
    assert first.stdout is not None
    said = []
    for line in first.stdout:
        said.append(line.strip())
        if line.startswith("slow"):
            break
    first.kill()
    first.wait()
    first.stdout.close()
    assert said == ["quick 1", "quick 2", "quick 3", "slow 4"]
    assert len(api.bodies) == 2

    second = start(store, api.url, "conversation", "resume")
    output, _ = second.communicate(timeout=300)
    assert second.returncode == 0
    lines = output.split("\n")
    assert lines[-2] == "done finished 3 300 4"  # tokens of the turns before the kill are counted, and were paid once
    assert [line for line in lines if line.startswith("slow")] == ["slow 4"]
    assert not [line for line in lines if line in ("quick 1", "quick 2")]
    assert len(api.bodies) == 3
    assert [block["content"] for block in api.bodies[2]["messages"][-1]["content"]] == ["6", "12"]
