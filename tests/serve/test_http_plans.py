"""Programs over HTTP: the five operations as routes, with approvals and corrections."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2

from ropewalk import App, tool
from ropewalk.doors.http.site import make_site

HEAD = {"Authorization": "Bearer t"}


def open_app(path: Path, made: list[int]) -> App:
    @tool(annotations={"readOnlyHint": True})
    async def get(id: int) -> int:
        """Get a number."""
        made.append(id)
        return id * 2

    @tool(annotations={"destructiveHint": True})
    async def drop(id: int) -> bool:
        """Drop something."""
        made.append(-id)
        return True

    return App(f"sqlite:///{path / 'runs.db'}", tools=[get, drop])


def client_of(app: App) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(make_site(app, "t"))
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEAD)


def posted(app: App, steps: Any) -> None:
    """Run steps with a function that posts to `/api/plans/...` and returns the status and the answer."""

    async def scenario() -> None:
        async with client_of(app) as client:

            async def post(operation: str, **body: Any) -> tuple[int, Any]:
                answer = await client.post(f"/api/plans/{operation}", json=body)
                return answer.status_code, answer.json()

            await steps(post)

    asyncio.run(scenario())


def test_find_check_run(tmp_path: Path) -> None:
    made: list[int] = []

    async def steps(post: Any) -> None:
        status, found = await post("find", request="get a number", limit=1)
        assert status == 200
        assert "async def get(*, id: int) -> int:" in found["stubs"]
        _, checked = await post("check", code="await gett(id=1)")
        assert (checked["ok"], checked["problems"][0]["column"]) == (False, 7)
        _, ran = await post("run", code="return await get(id=n)", input={"n": 4}, budget={"calls": 1}, runId="mine")
        assert (ran["status"], ran["result"], ran["runId"]) == ("completed", 8, "mine")
        assert made == [4]
        status, _ = await post("run", code="1", budget={"weeks": 1})
        assert status == 422
        status, _ = await post("run", code=1)
        assert status == 422

    posted(open_app(tmp_path, made), steps)


def test_approve_and_save(tmp_path: Path) -> None:
    made: list[int] = []

    async def steps(post: Any) -> None:
        _, waiting = await post("run", code="await get(id=1)\nreturn await drop(id=1)")
        assert waiting["status"] == "waiting"
        assert made == [1]
        decision = {"approved": True, "note": "fine"}
        _, done = await post("resume", runId=waiting["runId"], decision=decision, by="ann")
        assert (done["status"], done["result"], made) == ("completed", True, [1, -1])
        _, asked = await post("save", name="twice", code="n: int\nreturn await get(id=n)", description="Double it.")
        assert asked["status"] == "waiting"
        _, saved = await post("resume", runId=asked["runId"], decision={"approved": True})
        assert saved["result"]["tool"] == "plans:twice"
        _, ran = await post("run", code="return await plans.twice(n=5)")
        assert ran["result"] == 10
        status, _ = await post("resume", runId="nobody")
        assert status == 404

    posted(open_app(tmp_path, made), steps)


ASKS = """
await approve('Go?')
answer = await approve('Sure?')
try:
    await wait_for('paid', timeout=0)
except TimeoutError:
    pass
return await get(id=1)
"""


def test_the_questions_of_a_completed_plan_are_finished_steps(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with client_of(open_app(tmp_path, [])) as client:
            run = (await client.post("/api/plans/run", json={"code": ASKS})).json()["runId"]
            for approved in (True, False):
                body = {"runId": run, "decision": {"approved": approved}, "by": "ann"}
                done = (await client.post("/api/plans/resume", json=body)).json()
            assert (done["status"], done["result"]) == ("completed", 2)

            shown = (await client.get(f"/api/runs/{run}")).json()
            ended = [step for step in shown["nodes"] if step["kind"] not in ("wait", "signal")]
            assert [step["path"].partition("]")[2] for step in ended] == ["/approve", "/approve", "/event", "/get", ""]
            assert [step["status"] for step in ended] == ["ok", "ok", "recovered", "ok", "ok"]
            assert [step["value"]["approved"] for step in ended[:2]] == [True, False]
            assert ended[2]["error"]["message"] == "timed out after 0 s waiting for event 'paid'"
            kinds = {event["path"]: event["kind"] for event in shown["events"] if event["kind"] != "node.printed"}
            assert kinds == {
                step["path"]: "node.recovered" if step["status"] == "recovered" else "node.finished" for step in ended
            }

    asyncio.run(scenario())


def test_corrected_code(tmp_path: Path) -> None:
    made: list[int] = []

    async def steps(post: Any) -> None:
        _, failed = await post("run", code="a = await get(id=1)\nreturn 1 // (a - a)")
        assert (failed["status"], failed["error"]["line"]) == ("failed", 2)
        _, done = await post("resume", runId=failed["runId"], code="a = await get(id=1)\nreturn a")
        assert (done["result"], made) == (2, [1])

    posted(open_app(tmp_path, made), steps)
