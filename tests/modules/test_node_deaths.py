"""How a Node.js process dies: killed, held, ended by a module, left behind. The next call works, and nothing stays."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from engine.lab import flow, lit, node, obj, on
from modules.folder import PID, SPIN, WAIT, call, caller, needs_node, pid_of, refused, written, written_by
from patience import until
from ropewalk.errors import ToolTimeout
from ropewalk.expr.ast import Ref
from ropewalk.ir import Graph, Policy, Retry
from ropewalk.ops import Call
from ropewalk.tools.directory import javascript
from ropewalk.tools.directory.directory import DirectoryCaller
from tools.mcp_lab import alive, gone

pytestmark = [pytest.mark.process, needs_node]


async def test_a_process_killed_in_mid_call_is_told_and_the_next_call_works(tmp_path: Path) -> None:
    """MODULE-17"""
    tools, mark = caller(tmp_path, {"pid.mjs": PID, "wait.mjs": WAIT}), tmp_path / "mark"
    waiting = asyncio.ensure_future(refused(tools, "impl:wait.mjs", {"file": str(mark)}))
    pid = await written_by(mark)
    os.kill(pid, signal.SIGKILL)
    assert await waiting == "wait.mjs: the Node.js process of this run ended: was killed by SIGKILL"
    assert gone(pid)
    other = await pid_of(tools)
    assert other != pid
    [start] = tools._node._starts.values()
    os.kill(other, signal.SIGKILL)  # now between two calls
    await until(start.result()._child.exited.is_set)  # we have heard of it
    assert await pid_of(tools) not in (pid, other)
    await tools.close()


@pytest.mark.campaign("reliability", only=True)
async def test_an_endless_loop_is_killed_at_its_time_and_the_others_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MODULE-16"""
    monkeypatch.setattr(javascript, "_PING_TIMEOUT", 0.2)  # a process that is blocked answers no ping, however long
    tools, mark = caller(tmp_path, {"pid.mjs": PID, "wait.mjs": WAIT, "spin.mjs": SPIN}), tmp_path / "mark"
    tools_in_time = DirectoryCaller(tools.base, tmp_path, timeout=1.5)
    tools_in_time._node = tools._node  # the same processes, with less time
    other = asyncio.ensure_future(refused(tools, "impl:wait.mjs", {"file": str(mark)}))
    pid = await written_by(mark)
    with pytest.raises(ToolTimeout):
        await call(tools_in_time, "impl:spin.mjs")
    next_one = await pid_of(tools)
    assert next_one != pid
    said = "wait.mjs: the Node.js process of this run ended: spin.mjs was cancelled and blocked it, so it was killed"
    assert await other == said
    assert gone(pid)
    await tools.close()


async def test_an_endless_loop_ends_with_the_run(tmp_path: Path) -> None:
    tools = caller(tmp_path, {"pid.mjs": PID, "spin.mjs": SPIN})
    pid = await pid_of(tools)
    spinning = asyncio.ensure_future(refused(tools, "impl:spin.mjs"))
    await asyncio.sleep(0)
    await tools.ended("r")
    assert "spin.mjs: the Node.js process of this run ended: was ended with its run" in await spinning
    assert gone(pid)


async def test_a_run_that_is_stopped_in_an_endless_loop_has_no_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(javascript, "_PING_TIMEOUT", 60.0)
    tools = caller(tmp_path, {"pid.mjs": PID, "spin.mjs": SPIN})
    pid = await pid_of(tools)
    before = cpu(pid)
    spinning = asyncio.ensure_future(call(tools, "impl:spin.mjs"))
    await until(lambda: cpu(pid) >= before + 5)
    spinning.cancel()
    await asyncio.wait([spinning])
    ending = asyncio.ensure_future(tools.ended("r"))
    await asyncio.wait([ending], timeout=10)
    assert ending.done()
    assert gone(pid)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("export default () => {\n  process.exit(3)\n}", "process.exit(3) was called at x.mjs:2:11"),
        ("export default () => {\n  process.exit()\n}", "process.exit() was called at x.mjs:2:11"),
        ("export default () => new Promise(() => setTimeout(() => {\n  throw new Error('late')\n}, 1))",
         "an error was not caught at x.mjs:2:9: Error: late"),
        ("export default () => new Promise(() => {\n  Promise.reject(new Error('nobody'))\n})",
         "a rejected promise was not handled at x.mjs:2:18: Error: nobody"),
        ("export default () => process.kill(process.pid, 'SIGTERM') && new Promise(() => {})", "was killed by SIGTERM"),
        ("export default () => process.abort()", "was killed by SIGABRT"),
        ("import { closeSync } from 'node:fs'\nexport default () => {\n"
         "  for (let i = 3; i < 100; i++) try { closeSync(i) } catch {}\n"
         "  return new Promise(() => setInterval(() => {}, 1000))\n}", "ended"),
    ],
    ids=["exit", "exit without code", "timer", "rejection", "signal", "abort", "descriptors"],
)  # fmt: skip
async def test_a_module_that_ends_the_process_is_told_and_the_next_call_works(
    tmp_path: Path, source: str, said: str
) -> None:
    """MODULE-19"""
    tools = caller(tmp_path, {"x.mjs": source, "pid.mjs": PID}, timeout=10)
    told = await refused(tools, "impl:x.mjs")
    assert told.startswith("x.mjs: the Node.js process of this run ended: ")
    assert said in told
    assert await pid_of(tools)
    await tools.close()


async def test_calls_that_a_dead_process_took_with_it_are_tried_again_where_their_node_says_so(tmp_path: Path) -> None:
    source = """import { existsSync, writeFileSync } from 'node:fs'
    export default (args) => {
      if (existsSync(args.mark)) return { state_delta: { ok: true } }
      writeFileSync(args.mark, '')
      process.kill(process.pid, 'SIGKILL')
    }"""
    tools = caller(tmp_path, {"x.mjs": source})
    retry = Policy(retry=Retry(attempts=2))
    step = node("a", Call(tool="impl:x.mjs", args=obj(mark=lit(str(tmp_path / "mark")))), policy=retry)
    ended = await on(None, flow(Graph(nodes=(step,), result=Ref("out", ("a",)))), tools)
    assert ended["value"] == {"state_delta": {"ok": True}}


async def test_a_start_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "node").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/mark\nexec sleep 600\n")
    (tmp_path / "bin" / "node").chmod(0o755)
    env = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    tools = caller(tmp_path, {"pid.mjs": PID}, env=env)
    waiting = asyncio.ensure_future(call(tools, "impl:pid.mjs"))
    pid = await written_by(tmp_path / "mark")
    await tools.ended("r")
    await asyncio.wait([waiting])
    assert waiting.cancelled() or waiting.exception() is not None
    assert await asyncio.to_thread(gone, pid)


PARENT = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from modules.folder import call, caller
from patience import until
from pathlib import Path

async def main():
    tools = caller(Path(sys.argv[2]))
    print((await call(tools, "impl:pid.mjs"))["state_delta"]["pid"], flush=True)
    if sys.argv[3] != "idle":
        await call(tools, f"impl:{sys.argv[3]}.mjs")
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("doing", ["idle", "spin"])
async def test_nothing_is_left_when_we_are_killed(tmp_path: Path, doing: str) -> None:
    """MODULE-17"""
    said = "import { writeSync } from 'node:fs'\nexport default () => { writeSync(1, 'x'); for (;;); }"
    written(tmp_path, {"pid.mjs": PID, "spin.mjs": said})
    tests = str(Path(__file__).parents[1])
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, tests, str(tmp_path), doing, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    assert alive(pid)
    if doing == "spin":
        before = cpu(pid)
        await until(lambda: cpu(pid) >= before + 5)
    parent.kill()
    await parent.wait()
    assert gone(pid)


def cpu(pid: int) -> int:
    """Clock ticks that a process has used."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
