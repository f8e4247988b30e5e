"""A tool that holds the Python interpreter: its worker is busy, not dead, for as long as it computes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tiers import Scale, sampled

from .crew import Crew, kill

Start = Callable[..., Crew]
TOOLS = '''

@tool
def crunch(at: str, seconds: float) -> str:
    """Computes and never lets go of the interpreter, as a long call into C."""
    import sys
    note("start", at, os.getpid())
    until = time.monotonic() + seconds
    sys.setswitchinterval(1000)
    while time.monotonic() < until:
        pass
    sys.setswitchinterval(0.005)
    note("end", at, os.getpid())
    return "done"

@tool
async def crunch_in_loop(at: str, seconds: float) -> str:
    """The same on the event loop."""
    return crunch.fn(at=at, seconds=seconds) if hasattr(crunch, "fn") else crunch(at=at, seconds=seconds)

@tool
def freeze(at: str, seconds: float) -> str:
    """Sleeps and never lets go of the interpreter, once."""
    import ctypes
    note("start", at, os.getpid())
    if not os.path.exists("frozen"):
        open("frozen", "w").close()
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    note("end", at, os.getpid())
    return "done"
'''


def chain(tool: str, seconds: float) -> str:
    return f"""
kind: chain
name: busy
timeout: 600000
nodes:
  - {{id: long, type: tool, tool: {tool}, timeout: 300000, params: {{at: long, seconds: {seconds}}}}}
  - {{id: next, type: tool, tool: who, params: {{at: next}}}}
"""


def busy(crew: Start, tool: str, seconds: float, settings: str = "") -> Crew:
    scene = crew(chain(tool, seconds), f"[workers]\nlease = 1.0\n{settings}")
    file = scene.folder / "tools.py"
    file.write_text(file.read_text() + TOOLS)
    return scene


def said(worker: subprocess.Popen[str]) -> str:
    worker.send_signal(signal.SIGTERM)
    assert worker.stderr is not None
    return worker.stderr.read()


@pytest.mark.campaign("reliability", only=True)
@pytest.mark.parametrize("tool", sampled("reliability", ["crunch", "crunch_in_loop"], 1))
def test_a_tool_that_holds_the_interpreter_runs_once_and_is_named(crew: Start, tool: str, scale: Scale) -> None:
    scene = busy(crew, tool, scale(2.5, 6))
    scene.hire(2)
    scene.submit("chain.yaml", id="x")
    assert scene.until_ended("x") == "completed"
    assert scene.started() == ["long", "next"]
    worker = scene.worker(int(next(line for line in scene.lines() if line.startswith("start long")).split()[2]))
    text = said(worker)
    # A coroutine may be over before the thread that looks for it runs, on a machine that is very busy.
    assert f"tool {tool}" in text or (tool == "crunch_in_loop" and "a tool held" in text), text
    assert "held the Python interpreter for " in text
    assert "others have taken over" not in text


@pytest.mark.campaign("reliability", only=True)
def test_a_tool_that_holds_the_interpreter_for_longer_than_is_allowed_loses_its_run(crew: Start) -> None:
    scene = busy(crew, "crunch", 12, "longest_block = 1\n")
    scene.hire(2)
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: len(scene.started()) == 2)
    callers = {line.split()[2] for line in scene.lines() if line.startswith("start ")}
    assert len(callers) == 2


@pytest.mark.campaign("reliability", only=True)
def test_a_worker_that_is_held_and_computes_nothing_is_silent(crew: Start) -> None:
    scene = busy(crew, "freeze", 60)
    scene.hire(2)
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: "end long" in "\n".join(scene.lines()))
    assert scene.until_ended("x") == "completed"
    assert scene.started() == ["long", "long", "next"]


def heartbeats(worker: int) -> list[int]:
    """The heartbeat processes that a worker has started."""
    found = []
    for task in Path(f"/proc/{worker}/task").iterdir():
        for pid in map(int, (task / "children").read_text().split()):
            if b"heartbeat_process.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc")
def test_the_heartbeat_ends_with_its_worker_and_is_replaced_when_it_dies(crew: Start) -> None:
    scene = crew(chain("who", 0).replace(", seconds: 0", ""))
    [worker] = scene.hire()
    [heartbeat] = heartbeats(worker.pid)
    os.kill(heartbeat, signal.SIGTERM)  # as a service manager sends it to all processes
    os.kill(heartbeat, signal.SIGINT)
    os.kill(heartbeat, signal.SIGKILL)
    replaced: set[int] = set()

    def is_replaced() -> bool:
        # A process that the kernel is replacing or ending can be missing in one look.
        replaced.update(set(heartbeats(worker.pid)) - {heartbeat})
        return bool(replaced)

    scene.until(is_replaced)
    [heartbeat] = replaced
    assert scene.until_ended(scene.submit("chain.yaml")) == "completed"
    kill(worker)
    scene.until(lambda: is_gone(heartbeat))
    [worker] = scene.hire()
    [heartbeat] = heartbeats(worker.pid)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(50) == 0
    assert is_gone(heartbeat)
