"""The overview, the schedules and the statistics of tools over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from patience import until
from ropewalk import App, tool
from ropewalk.app.cron_text import cron_text
from ropewalk.app.overview import FailureGroup, group_failures
from ropewalk.config.settings import Queue, Schedule, WorkerSettings
from ropewalk.doors.cli.overview import overview as overview_command
from ropewalk.doors.http.site import make_site
from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.journal.run_counts import FailureCount
from ropewalk.journal.sql.timetable import Timetable

HEAD = {"Authorization": "Bearer t"}


def asking(app: App, *asked: tuple[str, str]) -> list[httpx2.Response]:
    async def scenario() -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(make_site(app, "t"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEAD) as client:
            return [await client.request(method, path) for method, path in asked]

    return asyncio.run(scenario())


@tool
def halve(n: int) -> int:
    """Halve an even number."""
    if n % 2:
        raise ValueError(f"{n} is odd\nin all bases")
    return n // 2


HALVE = {
    "kind": "chain",
    "name": "halving",
    "nodes": [{"id": "half", "type": "tool", "tool": "halve", "args": {"n": "$input.n"}}],
}
ASKS = {
    "kind": "chain",
    "name": "asking",
    "nodes": [{"id": "ok", "type": "wait", "approval": "Go?"}],
}


@pytest.fixture
def served(tmp_path: Path) -> App:
    """An app with three runs that failed, one that completed, two that wait and one in a queue."""
    app = App(store=tmp_path / "runs.db", tools=[halve])

    async def fill() -> None:
        for n in (1, 3, 5, 6):
            await app.run(HALVE, {"n": n}, run_id=f"half-{n}")
        await app.run(ASKS, run_id="asking", park=True)
        # It waits in its process, so the store has it as running.
        log = await app.store.open(NewRun(id="inside", kind="chain", name="asking"))
        await log.append(Entry("ok", "wait", "ok", {"approval": "Go?", "due": None}))
        await (await app.store.open(NewRun(id="queued", kind="chain", context={"queue": "fast"}))).release()

    asyncio.run(fill())
    return app


def test_an_overview_counts_runs_and_groups_failures_that_differ_in_numbers(served: App) -> None:
    [answer] = asking(served, ("GET", "/api/overview?periods=4"))
    found = answer.json()
    assert (found["runs"], len(found["periods"])) == (7, 4)
    assert {status: counts[3] for status, counts in found["statuses"].items()} == {
        "failed": 3, "completed": 1, "waiting": 2, "interrupted": 1,
    }  # fmt: skip
    first = found["definitions"][0]
    assert (first["name"], first["runs"], first["statuses"]) == ("halving", 4, {"failed": 3, "completed": 1})
    [failure] = found["failures"]
    assert {key: failure[key] for key in ("name", "node", "message", "count", "runId")} == {
        "name": "halving", "node": "half", "message": "5 is odd", "count": 3, "runId": "half-5",
    }  # fmt: skip
    assert found["waiting"] == {"approvals": 2, "events": 0, "questions": 0}
    assert [(q["name"], q["waiting"], q["running"]) for q in found["queues"]] == [("fast", 1, 0)]


def test_an_overview_names_what_waits_and_the_runs_without_a_process(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def waits_inside(app: App, id: str) -> None:
        log = await app.store.open(NewRun(id=id, kind="chain", name="asking"))
        await log.append(Entry("ok", "wait", "ok", {"approval": "Go?", "due": None}))

    async def prepare() -> None:
        async with App(store=path) as gone:
            for id in ("killed", "approved"):
                await waits_inside(gone, id)
        async with App(store=path) as app:
            app.runs.approve("approved", "ok")
            await app.run(ASKS, run_id="asks", park=True)

    asyncio.run(prepare())
    app = App(store=path)
    found = asking(app, ("GET", "/api/overview?periods=1"))[0].json()
    assert {status: counts[0] for status, counts in found["statuses"].items()} == {
        "interrupted": 1, "answered": 1, "waiting": 1,
    }  # fmt: skip
    assert found["waiting"]["approvals"] == 2
    text = overview_command(since="1h", store=str(path), project=tmp_path).text
    assert "\n\nwaiting: 2 approvals\n" in text
    assert f"    ropewalk runs approve asks ok --store {path}" in text


def test_an_overview_of_no_time_is_refused() -> None:
    refused = {
        "since=5&until=5": "query.since",
        "since=soon": "query.since",
        "since=-1e300": "query.since",
        "until=1e300": "query.until",
        "periods=0": "periods",
        "periods=367": "periods",
    }
    answers = asking(App("memory"), *(("GET", f"/api/overview?{query}") for query in refused))
    assert [answer.status_code for answer in answers] == [422] * len(refused)
    assert all(place in answer.text for place, answer in zip(refused.values(), answers, strict=True))


def failed(message: str, n: int = 1, *, kind: str = "NodeFailed", name: str = "a", at: float = 1.0) -> FailureCount:
    error = {"kind": kind, "message": message}
    return FailureCount(kind="chain", definition_id=None, name=name, error=error, count=n, last=at, run_id=f"r{at:g}")


@pytest.mark.parametrize(
    ("failures", "groups"),
    [
        # The same node in another iteration, and another number in the text.
        (
            [failed("each[3]/b: gone 7", 2, at=9), failed("each[41]/b@2: gone 12", 3, at=4)],
            [("each/b", "gone 7", 5, "r9")],
        ),
        ([failed("b: gone"), failed("c: gone")], [("b", "gone", 1, "r1"), ("c", "gone", 1, "r1")]),
        ([failed("b: gone"), failed("b: gone", 2, name="other")], [("b", "gone", 2, "r1"), ("b", "gone", 1, "r1")]),
        # An error of the whole run may have a colon.
        ([failed("x: too long", kind="RunTimeout")], [(None, "x: too long", 1, "r1")]),
        ([failed("b: one\ntwo"), failed("b: one\nthree", at=2)], [("b", "one", 2, "r1")]),
        ([failed(f"b: {'x' * 1000}")], [("b", "x" * 300, 1, "r1")]),
    ],
)
def test_failures_are_grouped_by_definition_node_and_first_line(
    failures: list[FailureCount], groups: list[Any]
) -> None:
    def shown(group: FailureGroup) -> tuple[Any, ...]:
        return group.node, group.message, group.count, group.run_id

    assert [shown(group) for group in group_failures(failures)] == groups


def test_statistics_of_tools_name_the_run_of_the_last_failure(served: App) -> None:
    stats, tools = asking(served, ("GET", "/api/tool-stats"), ("GET", "/api/tools"))
    [row] = stats.json()["tools"]
    assert (row["tool"], row["calls"], row["failed"], row["lastFailedRun"]) == ("halve", 4, 3, "half-5")
    assert row["lastError"].startswith("5 is odd")
    assert row["p95Ms"] >= row["p50Ms"] > 0
    [listed] = [one for one in tools.json()["tools"] if one["name"] == "halve"]
    assert (listed["effect"], listed["undo"], listed["source"]) == ("write", None, "local")
    [none] = asking(served, ("GET", "/api/tool-stats?since=4000000000"))
    assert none.json() == {"tools": [], "runs": 0, "unread": 0}


@pytest.mark.parametrize(
    ("cron", "text"),
    [
        ("30 2 * * *", "every day at 02:30"),
        ("0 30 2 * * *", "every day at 02:30"),
        ("@daily", "every day at 00:00"),
        ("@hourly", "every hour at :00"),
        ("*/10 * * * *", "every 10 minutes"),
        ("* * * * *", "every minute"),
        ("5 */6 * * *", "every 6 hours at :05"),
        ("0 9 * * mon-fri", "Monday to Friday at 09:00"),
        ("0 9 * * 1,0", "every Monday, Sunday at 09:00"),
        ("0 0 15 * *", "on day 15 of each month at 00:00"),
        # None of these has short words.
        ("*/7 * * * *", None),
        ("*/0 * * * *", None),
        ("0 9 * 1 *", None),
        ("0 9 1 * 1", None),
        ("0 9-17 * * *", None),
        ("5 0 9 * * *", None),
        ("0 9 * * 1#2", None),
        ("0 9 L * *", None),
        ("* 5 * * *", None),
        ("0 9 * * mon-fri,sun", None),
        ("nonsense", None),
    ],
)
def test_a_simple_cron_line_has_words(cron: str, text: str | None) -> None:
    assert cron_text(cron) == text


def test_schedules_say_why_this_server_cannot_change_them() -> None:
    settings = WorkerSettings(schedules={"nightly": Schedule(cron="30 2 * * *", flow="c.yaml")})
    listed, paused = asking(
        App("memory", settings=settings), ("GET", "/api/schedules"), ("POST", "/api/schedules/nightly/pause")
    )
    found = listed.json()
    assert (found["schedules"], found["idle"]) == ([], ["nightly"])
    assert "Postgres" in found["unavailable"]
    assert paused.status_code == 503


def test_a_schedule_is_paused_resumed_and_started_over_http(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("kind: chain\nname: c\nnodes: [{id: a, type: tool, tool: halve, args: {n: 4}}]\n")
    name = "every/night"  # keys of TOML may have any character
    schedule = Schedule(cron="30 2 * * *", flow=str(tmp_path / "c.yaml"), timezone="Europe/Berlin", queue="slow")
    settings = WorkerSettings(schedules={name: schedule}, queues={"slow": Queue(concurrency=2)})
    app = App(tmp_path / "runs.db", tools=[halve], settings=settings)
    app.schedules.apply()
    place = "/api/schedules/every%2Fnight"
    before, paused, during, started, resumed, after, overview, unknown = asking(
        app, ("GET", "/api/schedules"), ("POST", f"{place}/pause"), ("GET", "/api/schedules"), ("POST", f"{place}/run"),
        ("POST", f"{place}/resume"), ("GET", "/api/schedules"), ("GET", "/api/overview"),
        ("POST", "/api/schedules/gone/run"),
    )  # fmt: skip
    [row] = before.json()["schedules"]
    assert (row["name"], row["times"], row["paused"], before.json()["unavailable"]) == (
        name, "every day at 02:30", False, None,
    )  # fmt: skip
    assert len(row["upcoming"]) == 3
    assert row["upcoming"][0] == row["next"]
    assert {due[11:16] for due in row["upcoming"]} == {"02:30"}
    assert paused.json()["done"] == "paused"
    [row] = during.json()["schedules"]
    assert (row["paused"], row["next"], row["upcoming"]) == (True, None, [])
    assert started.json()["runId"].startswith(f"schedule/{name}/")
    assert "no worker is running" in started.json()["unattended"]
    assert (resumed.json()["done"], after.json()["schedules"][0]["paused"]) == ("resumed", False)
    found = overview.json()
    assert [(q["name"], q["waiting"], q["concurrency"]) for q in found["queues"]] == [("slow", 1, 2)]
    assert [s["name"] for s in found["schedules"]] == [name]
    assert found["workers"] == []
    assert unknown.status_code == 404


@tool
def size(text: str) -> int:
    """Return the number of characters of a text."""
    return len(text)


def test_stored_input_is_shown_without_the_secrets_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHT_KEY", "of-the-night-4711")
    app = App(tmp_path / "runs.db", tools=[size])
    node = {"id": "size", "type": "tool", "tool": "size", "args": {"text": "$input.text"}}

    async def fill() -> None:
        for id, text in (("a", "with of-the-night-4711"), ("b", "without")):
            await app.run({"kind": "chain", "name": "sizes", "nodes": [node]}, {"text": text}, run_id=id)

    asyncio.run(fill())
    run, arguments, diff = asking(
        app, ("GET", "/api/runs/a"), ("GET", "/api/runs/a/arguments"), ("GET", "/api/runs/a/diff?with=b")
    )
    assert run.json()["input"] == {"text": "with ***"}
    assert arguments.json()["arguments"] == {"size": {"text": "with ***"}}
    assert "with ***" in str(diff.json()["input"])
    assert "4711" not in run.text + arguments.text + diff.text


async def serve_until_due(app: App) -> None:
    """Let a worker start the run of a schedule that is overdue."""
    Timetable(app.store).replace_all([replace(row, next=1.0) for row in Timetable(app.store).rows()], None)
    workers: list[Any] = []
    serving = asyncio.create_task(app.workers.serve(started=workers.append))
    await until(lambda: bool(workers) and app.schedules.list()[0].last is not None)
    workers[0].stop()
    await serving


def test_a_schedule_that_cannot_start_its_run_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHT_KEY", "of-the-night-4711")
    schedule = Schedule(cron="30 2 * * *", flow=str(tmp_path / "gone.yaml"), input={"key": "of-the-night-4711"})
    app = App(tmp_path / "runs.db", settings=WorkerSettings(schedules={"every/night": schedule}))
    app.schedules.apply()
    asyncio.run(serve_until_due(app))
    [listed] = asking(app, ("GET", "/api/schedules"))
    [row] = listed.json()["schedules"]
    assert (row["status"], row["error"], row["input"]) == ("failed", f"no file {schedule.flow!r}", {"key": "***"})
    place = f"/api/runs/{quote(row['runId'], safe='')}"
    run, actions, stats, *refused = asking(
        app, ("GET", place), ("GET", f"{place}/actions"), ("GET", "/api/tool-stats"), ("GET", f"{place}/graph"),
        ("GET", f"{place}/arguments"), ("POST", f"{place}/fork"), ("POST", f"{place}/retry"),
    )  # fmt: skip
    found = run.json()
    assert [found[key] for key in ("kind", "name", "status", "input")] == [
        "schedule", "every/night", "failed", {"key": "***"},
    ]  # fmt: skip
    assert found["error"]["message"] == row["error"]
    next_step = "to start another run: POST /api/schedules/every%2Fnight/run"
    assert actions.json() == {"actions": [], "next": next_step}
    assert stats.json() == {"tools": [], "runs": 0, "unread": 0}
    for answer in refused:
        error = answer.json()["error"]
        assert (answer.status_code, error["kind"]) == (409, "RunNotBegun")
        assert error["message"].endswith("; to start another run: POST /api/schedules/every%2Fnight/run")
