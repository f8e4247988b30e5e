"""What can be done with a run is exactly what it accepts when somebody tries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from patience import until
from ropewalk import App, tool
from ropewalk.doors.http.site import make_site
from ropewalk.errors import RopewalkError

pytestmark = pytest.mark.anyio


@tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


@tool
def fail() -> None:
    """Fail."""
    raise RuntimeError("no luck")


@tool
async def hang() -> None:
    """Never end."""
    await asyncio.Event().wait()


def node(id: str, name: str, /, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": name, "params": {"a": 1} if name == "add" else {}, **more}


UNDOABLE = node("made", "add", undo={"tool": "add", "args": {"a": 2}})
WAIT = {"id": "w", "type": "wait", "event": "e"}


def chain(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "chain", "name": "c", "nodes": list(nodes)}


async def started(app: App, id: str, *nodes: dict[str, Any], **options: Any) -> str:
    await app.run(chain(*nodes), run_id=id, **options)
    return id


async def running(app: App, id: str) -> str:
    task = asyncio.ensure_future(app.run(chain(node("h", "hang")), run_id=id))
    await until(lambda: task.done() or app.runs.row(id) is not None)
    return id


async def undone(app: App, id: str) -> str:
    await started(app, id, UNDOABLE, node("f", "fail"))
    await app.runs.undo(id)
    return id


async def own_failure(app: App, id: str) -> str:
    await app.run({"kind": "plan", "name": "p", "code": "x = (await add(a=1))\nreturn 1 // (x - x)\n"}, run_id=id)
    return id


async def executed(app: App, id: str) -> str:
    async def executor(tool: str, arguments: Any) -> None:
        raise RuntimeError("no luck")

    return await started(app, id, node("a", "add"), executor=executor)


async def part(app: App, id: str) -> str:
    await started(app, id, node("i", "inner"))
    return f"{id}/i"


CASES: dict[str, tuple[Callable[[App, str], Awaitable[str]], str, str]] = {
    "completed": (lambda app, id: started(app, id, node("a", "add")), "fork", "a"),
    "completed, with an undo": (lambda app, id: started(app, id, UNDOABLE), "undo fork", "made"),
    "failed": (lambda app, id: started(app, id, node("a", "add"), node("f", "fail")), "retry fork", "f"),
    "failed, with an undo": (lambda app, id: started(app, id, UNDOABLE, node("f", "fail")), "retry undo fork", "gone"),
    "undone": (undone, "fork", "f"),
    "running": (running, "stop fork", "h"),
    "waiting": (lambda app, id: started(app, id, WAIT, park=True), "stop resume fork", "w"),
    "failed by its own program": (own_failure, "fork", "program"),
    "run with an executor": (executed, "", "a"),
    "part of another run": (part, "fork", "f"),
}


async def accepts(app: App, id: str, name: str, nodes: list[str]) -> bool:
    """Whether a run accepts an action: by trying it, until it is refused, has ended or has begun another run."""
    if name == "stop":
        return app.runs.stop(id)
    if name == "resume":
        action = app.resume(id, park=True)
    elif name == "undo":
        action = app.runs.undo(id)
    else:
        action = (
            app.runs.retry(id, nodes)
            if name == "retry"
            else app.runs.fork(id, at=nodes, new_id=f"{id}-fork".replace("/", "-"))
        )
    task = asyncio.ensure_future(action)
    await until(lambda: task.done() or app.runs.row(f"{id}-fork".replace("/", "-")) is not None)
    return not task.done() or not isinstance(task.exception(), RopewalkError)


async def test_a_run_accepts_what_is_offered_and_nothing_else(tmp_path: Path) -> None:
    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[add, fail, hang]) as app:
        app.toolbox.register(app.as_tool(app.load({**chain(node("f", "fail")), "name": "inner", "id": "inner"})))
        transport = httpx2.ASGITransport(make_site(app, None))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def offered(id: str, **query: str) -> list[str]:
                return (await client.get(f"/api/runs/{id}/actions", params=query)).json()["actions"]  # type: ignore[no-any-return]

            wrong = []
            for case, (make, expected, of) in CASES.items():
                for number, name in enumerate(("stop", "resume", "retry", "undo", "fork")):
                    id = await make(app, f"{case} {number}")
                    assert (case, await offered(id)) == (case, expected.split())
                    if (case, name) == ("undone", "undo") or (name == "resume" and "stop" not in expected):
                        continue  # done already, which gives the result
                    if await accepts(app, id, name, []) != (name in expected.split()):
                        wrong.append((case, name))
                id = await make(app, f"{case} at")
                answer = await offered(id, node=of)
                assert set(answer) <= {"retry", "fork"}
                if await accepts(app, id, "retry", [of]) != ("retry" in answer):
                    wrong.append((case, f"retry from {of}"))
            assert wrong == [], wrong


async def test_a_run_in_memory_is_neither_retried_nor_forked() -> None:
    async with App("memory", tools=[add, fail]) as app:
        await started(app, "r", UNDOABLE, node("f", "fail"))
        assert app.runs.actions("r") == ["undo"]


@tool
def broken() -> int:
    """Answer with something else than its schema says."""
    return [1, 2]  # type: ignore[return-value]


async def test_a_retry_that_reuses_a_bad_answer_is_not_offered_but_one_of_its_step_is(tmp_path: Path) -> None:
    async with App(str(tmp_path / "runs.db"), tools=[add, broken]) as app:
        check = {"id": "check", "type": "validate", "input": "$output.n", "schema": {"type": "integer"}}
        failed = await app.run(chain(node("a", "add"), node("n", "broken"), check), run_id="c")
        [error] = failed["errors"]
        assert (error["nodeId"], error["needs"], error["steps"]) == ("check", "restart", ["n"])
        assert app.runs.actions("c") == ["fork"]
        assert app.runs.actions("c", "n") == ["retry", "fork"]
        with pytest.raises(RopewalkError, match=r"to run it again: await app\.runs\.retry\('c', \['n'\]\)"):
            failed.raise_if_failed()
        again = await app.runs.retry("c", ["n"])
        assert (again["status"], again["errors"][0]["steps"]) == ("failed", ["n"])
