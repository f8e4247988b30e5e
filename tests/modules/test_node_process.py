"""The Node.js process of a run: when it starts and ends, what it may see, how it dies, what is sent to it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from engine.lab import flow, job, node, obj
from modules.folder import PID, WAIT, call, caller, needs_node, pid_of, refused, written, written_by
from patience import until
from ropewalk.engine.engine import Engine
from ropewalk.errors import ToolError
from ropewalk.expr.ast import Ref
from ropewalk.ir import Graph
from ropewalk.journal.memory import MemoryStore
from ropewalk.ops import Call
from ropewalk.tools.child_process import INHERITED_VARIABLES
from ropewalk.tools.directory import javascript
from ropewalk.tools.directory.javascript import NodeProcess, SentValues
from tools.mcp_lab import alive, gone

pytestmark = needs_node

# --- its life --------------------------------------------------------------------------------------


async def test_each_run_has_a_process_which_goes_with_it(tmp_path: Path) -> None:
    tools = caller(tmp_path, {"pid.mjs": PID})
    one, again, two = await asyncio.gather(pid_of(tools, "one/a"), pid_of(tools, "one/b[3]/c"), pid_of(tools, "two/a"))
    assert one == again != two
    await tools.ended("one")
    assert gone(one)
    assert alive(two)
    assert await pid_of(tools, "two/b") == two
    await tools.ended("never started")
    await tools.close()
    assert gone(two)


async def test_runs_that_are_parts_of_others_have_processes_of_their_own(tmp_path: Path) -> None:
    tools = caller(tmp_path, {"pid.mjs": PID})
    for run in ("p", "p/each[0]/x", "p/each[1]/x"):
        tools.began(run)
    whole, one, two = [await pid_of(tools, key) for key in ("p/a", "p/each[0]/x/a", "p/each[1]/x/a")]
    assert len({whole, one, two}) == 3
    assert await pid_of(tools, "p/each[0]/y") == whole
    await tools.ended("p/each[0]/x")
    assert gone(one)
    assert [await pid_of(tools, "p/b"), await pid_of(tools, "p/each[1]/x/b")] == [whole, two]
    await tools.ended("p/each[1]/x")
    await tools.ended("p")
    assert gone(two)
    assert gone(whole)


async def test_a_module_keeps_what_it_remembers_for_one_run(tmp_path: Path) -> None:
    tools = caller(tmp_path, {"x.mjs": "let n = 0\nexport default () => ({ state_delta: { n: ++n } })"})
    counts = [(await call(tools, "impl:x.mjs", {}, key))["state_delta"]["n"] for key in ("a/1", "a/2", "b/1")]
    assert counts == [1, 2, 1]
    await tools.close()


@pytest.mark.parametrize("how", ["completed", "failed", "stopped", "cancelled"])
async def test_nothing_is_left_of_it_however_a_run_ends(tmp_path: Path, how: str) -> None:
    """MODULE-13"""
    files = {"pid.mjs": PID, "wait.mjs": WAIT, "bad.mjs": "export default () => { throw new Error('x') }"}
    tools, engine, mark = caller(tmp_path, files), Engine(MemoryStore(durable=True)), tmp_path / "mark"
    last = {"completed": "pid", "failed": "bad"}.get(how, "wait")
    steps = (
        node("a", Call(tool="impl:pid.mjs", args=obj())),
        node("b", Call(tool=f"impl:{last}.mjs", args=obj(file=Ref("input", ())))),
    )
    body = Graph(nodes=steps, ordered=True, result=Ref("out", ("a", "state_delta", "pid")))
    running = asyncio.ensure_future(engine.run(job(flow(body), tools, "r", input=str(mark))))
    if last == "wait":
        pid = await written_by(mark)
        assert engine.stop("r") if how == "stopped" else running.cancel()
    await asyncio.wait([running])
    if how == "cancelled":
        assert running.cancelled()
    else:
        assert running.result()["status"] == how
        pid = running.result()["outputs"]["a"]["state_delta"]["pid"]
    assert gone(pid)


async def test_what_a_module_starts_ends_with_it(tmp_path: Path) -> None:
    source = """import { spawn } from 'node:child_process'
    export default () => ({ state_delta: { pid: spawn('sleep', ['600']).pid } })"""
    tools = caller(tmp_path, {"x.mjs": source})
    pid = (await call(tools, "impl:x.mjs"))["state_delta"]["pid"]
    assert alive(pid)
    await tools.ended("r")
    await until(lambda: not alive(pid))


async def test_calls_under_way_fail_when_everything_is_closed(tmp_path: Path) -> None:
    tools, mark = caller(tmp_path, {"wait.mjs": WAIT}), tmp_path / "mark"
    waiting = asyncio.ensure_future(refused(tools, "impl:wait.mjs", {"file": str(mark)}))
    pid = await written_by(mark)
    await tools.close()
    assert "wait.mjs: the Node.js process of this run ended" in await waiting
    assert gone(pid)


# --- its surroundings --------------------------------------------------------------------------------


async def test_it_gets_a_clean_environment_and_what_was_let_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MODULE-14"""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "must-not-leak")
    monkeypatch.setenv("NODE_OPTIONS", "--no-such-option")
    delta = "{ names: Object.keys(process.env), token: process.env.TOKEN, env: args._env }"
    source = f"export default (args) => ({{ state_delta: {delta} }})"
    tools = caller(tmp_path, {"x.mjs": source}, env={"TOKEN": "t"})
    found = (await call(tools, "impl:x.mjs"))["state_delta"]
    await tools.close()
    assert (found["token"], found["env"]) == ("t", {"TOKEN": "t"})
    assert set(found["names"]) <= {"TOKEN", *INHERITED_VARIABLES}
    assert "PATH" in found["names"]


async def test_it_gets_no_open_file_of_ours(tmp_path: Path) -> None:
    """MODULE-14"""
    source = """import { readdirSync, readlinkSync } from 'node:fs'
    const at = (fd) => { try { return readlinkSync(`/proc/self/fd/${fd}`) } catch { return '' } }
    export default () => ({ state_delta: { open: readdirSync('/proc/self/fd').map(at) } })"""
    tools = caller(tmp_path, {"x.mjs": source, "secret": "x"})
    with open(tmp_path / "secret") as held:  # noqa: ASYNC230 - a file that is open meanwhile
        os.set_inheritable(held.fileno(), True)
        delta = (await call(tools, "impl:x.mjs"))["state_delta"]
        await tools.close()
    assert not [path for path in delta["open"] if "secret" in path]


async def test_without_node_it_is_said_what_to_install(tmp_path: Path) -> None:
    """MODULE-20"""
    tools = caller(tmp_path, {"tools/x.mjs": PID}, env={"PATH": str(tmp_path)})
    with pytest.raises(ToolError) as caught:
        await call(tools, "impl:tools/x.mjs")
    said = caught.value.reason
    assert said.startswith("tools/x.mjs needs Node.js 18 or newer, but `node` is not on the PATH; install it from")
    assert not caught.value.retryable


def fake(folder: Path, script: str) -> dict[str, str]:
    """An environment whose `node` is this script."""
    folder.mkdir()
    (folder / "node").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "node").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


async def test_a_node_that_is_too_old_is_told_so(tmp_path: Path) -> None:
    """MODULE-20"""
    path = os.environ["PATH"]
    written(tmp_path, {"old.cjs": "Object.defineProperty(process, 'versions', "
                                  "{ value: { ...process.versions, node: '16.20.0' } })"})  # fmt: skip
    env = fake(tmp_path / "bin", f'PATH="{path}" exec node -r "{tmp_path}/old.cjs" "$@"')
    said = await refused(caller(tmp_path, {"x.mjs": PID}, env=env), "impl:x.mjs")
    assert said.startswith("x.mjs needs Node.js 18 or newer; ")
    assert "is 16.20.0; install it from" in said


async def test_a_node_that_does_not_start_is_told_with_its_words(tmp_path: Path) -> None:
    env = fake(tmp_path / "bin", "echo 'a library is missing' >&2; exit 7")
    said = await refused(caller(tmp_path, {"x.mjs": PID}, env=env), "impl:x.mjs")
    assert said.startswith("x.mjs: Node.js (")
    assert "exited with code 7; its output ends with:\na library is missing" in said
    (tmp_path / "bin" / "node").write_text("no program")
    said = await refused(caller(tmp_path, env=env), "impl:x.mjs")
    assert "could not start Node.js" in said


async def test_a_link_put_there_later_is_not_followed(tmp_path: Path) -> None:
    """MODULE-8"""
    outside = written(tmp_path, {"outside.mjs": PID}) / "outside.mjs"
    tools = caller(tmp_path / "home", {"pid.mjs": PID})
    bound = tools.bind("impl:pid.mjs")
    (tmp_path / "home" / "pid.mjs").unlink()
    (tmp_path / "home" / "pid.mjs").symlink_to(outside)
    with pytest.raises(ToolError, match=r"pid\.mjs is a link that leads out of the directory"):
        await bound.call({}, "r/n")


# --- what is sent ------------------------------------------------------------------------------------


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The heads of all frames sent in this test."""
    heads: list[dict[str, Any]] = []
    real = NodeProcess._send

    def noted(self: NodeProcess, head: dict[str, Any], body: bytes = b"") -> None:
        heads.append(head)
        real(self, head, body)

    monkeypatch.setattr(NodeProcess, "_send", noted)
    return heads


LENGTH = "export default (args) => ({ state_delta: { n: args._state.rows.length + args._edge_inputs.a.length } })"


async def test_the_state_is_sent_once_and_again_only_where_it_has_changed(
    tmp_path: Path, sent: list[dict[str, Any]]
) -> None:
    """MODULE-6"""
    tools = caller(tmp_path, {"x.mjs": LENGTH})
    rows, other = [1, 2], [3]

    async def length(state: dict[str, Any]) -> int:
        args = {"_state": state, "_edge_inputs": {"a": rows}}
        return int((await call(tools, "impl:x.mjs", args))["state_delta"]["n"])

    assert [await length({"rows": rows, "other": other, "n": i}) for i in range(3)] == [4, 4, 4]
    assert [head["op"] for head in sent] == ["value", "value", "call", "call", "call"]
    assert await length({"rows": [1], "other": other}) == 3
    assert [head["op"] for head in sent][5:] == ["value", "call"]
    await tools.close()


async def test_the_rounds_of_a_map_share_one_state(tmp_path: Path, sent: list[dict[str, Any]]) -> None:
    from ropewalk.expr.ast import Lit
    from ropewalk.ops import Map

    tools = caller(tmp_path, {"x.mjs": "export default (args) => ({ state_delta: { n: args._state.rows.length } })"})
    call_ = Call(tool="impl:x.mjs", args=obj(), also=obj(_state=Ref("state", ())))
    body = Graph(nodes=(node("i", call_),), ordered=True)
    steps = (node("m", Map(items=Lit(list(range(10))), body=body, limit=4)),)
    made = flow(Graph(nodes=steps), state={"rows": [1, 2, 3]})
    ended = await Engine(MemoryStore()).run(job(made, tools))
    assert ended["status"] == "completed"
    assert [head["op"] for head in sent].count("value") == 1
    assert [head["op"] for head in sent].count("call") == 10


async def test_values_not_used_for_long_are_let_go_of(
    tmp_path: Path, sent: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(javascript, "_MAX_SENT_VALUES", 2)
    tools = caller(tmp_path, {"x.mjs": LENGTH})
    kept: list[Any] = [[i] * i for i in range(5)]
    for rows in (*kept, kept[0]):
        args = {"_state": {"rows": rows}, "_edge_inputs": {"a": kept[1]}}
        assert (await call(tools, "impl:x.mjs", args))["state_delta"] == {"n": len(rows) + 1}
    assert len([handle for head in sent if head["op"] == "drop" for handle in head["handles"]]) == 4
    await tools.close()


def test_values_that_were_let_go_of_get_a_new_handle() -> None:
    lent = SentValues()
    one: list[int] = []
    handle, body = lent.handle(one)
    assert body == b"[]"
    assert lent.handle(one) == (handle, None)
    others = [[i] for i in range(javascript._MAX_SENT_VALUES)]
    for other in others:
        lent.handle(other)
    assert lent.drop_oldest() == [handle]
    assert lent.drop_oldest() == []
    again, body = lent.handle(one)
    assert again != handle
    assert body == b"[]"
