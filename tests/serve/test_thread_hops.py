"""A request runs in the event loop. Only routes that block, because they read or write a store or a file, may hop to
a thread: each hop costs as much as a short run, and at most 40 are possible at once."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any

import anyio.to_thread
import httpx2
import pytest

from ropewalk.app.app import App
from ropewalk.app.project_versions import ProjectVersions
from ropewalk.doors.http.site import make_routes, page_router

STORE, FILES = "queries the store", "looks at files"
# The routes that run in a thread, and the reason.
MAY_HOP = {
    "DELETE /api/definitions/file/{id:path}": FILES,
    "POST /api/definitions/{kind}": "compiles a document for up to a few seconds, and stores it",
    "GET /api/definitions/{kind}/{id:path}/drawing": STORE,
    "GET /api/definitions/{kind}/{id:path}": STORE,
    "DELETE /api/definitions/{kind}/{id:path}": STORE,
    "GET /api/runs": STORE,
    "GET /api/waiting": STORE,
    "GET /api/overview": STORE,
    "GET /api/tool-stats": STORE,
    "GET /api/schedules": STORE,
    "POST /api/schedules/{name:path}/pause": STORE,
    "POST /api/schedules/{name:path}/resume": STORE,
    "GET /api/runs/{run_id:path}": STORE,
    "GET /api/runs/{run_id:path}/actions": STORE,
    "GET /api/runs/{run_id:path}/content/{hash}": STORE,
    "GET /api/runs/{run_id:path}/diff": STORE,
    "GET /api/runs/{run_id:path}/graph": STORE,
    "GET /api/runs/{run_id:path}/logs": STORE,
    "GET /api/runs/{run_id:path}/waiting": STORE,
    "POST /api/runs/{run_id:path}/stop": STORE,
}
HANDLERS_THAT_MAY_HOP = {"answer_misfit": "compares up to 200 unknown names with the known ones"}


@pytest.fixture
def site() -> Any:
    app = App("memory")
    return make_routes(ProjectVersions(app))


def routes(site: Any) -> Iterator[Any]:
    yield from site.state.routes
    yield from page_router.routes


def dependencies(dependant: Any) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield each.call
        yield from dependencies(each)


def hops(call: Any) -> bool:
    """FastAPI and Starlette call what is no coroutine function in a thread."""
    return not (inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__))


def test_only_routes_that_block_run_in_a_thread(site: Any) -> None:
    found = {f"{min(route.methods)} {route.path}" for route in routes(site) if hops(route.endpoint)}
    assert found == set(MAY_HOP)


def test_no_dependency_runs_in_a_thread(site: Any) -> None:
    calls = {call for route in routes(site) for call in dependencies(route.dependant)}
    calls |= {dependency.dependency for dependency in site.router.dependencies}
    assert {call.__name__ for call in calls if hasattr(call, "__name__")} >= {"_served", "_files", "_going"}
    assert [call for call in calls if hops(call)] == []


def test_only_one_handler_of_errors_runs_in_a_thread(site: Any) -> None:
    own = [handler for handler in site.exception_handlers.values() if handler.__module__.startswith("ropewalk")]
    assert len(own) == 4
    assert {handler.__name__ for handler in own if hops(handler)} == set(HANDLERS_THAT_MAY_HOP)


CHAIN = {"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "inc", "params": {"value": "$input.value"}}]}


def test_starting_a_run_and_waiting_for_its_result_makes_no_hop(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Counter[str] = Counter()
    in_thread = anyio.to_thread.run_sync

    async def counted(work: Any, *args: Any, **options: Any) -> Any:
        made[str(getattr(getattr(work, "func", work), "__qualname__", work))] += 1
        return await in_thread(work, *args, **options)

    async def inc(value: int) -> int:
        return value + 1

    async def case() -> None:
        async with App("memory", tools=[inc]) as app:
            transport = httpx2.ASGITransport(app.asgi())
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                body = {"document": CHAIN, "input": {"value": 1}, "wait": 5}
                done = await client.post("/api/runs", json=body)
                assert (done.status_code, done.json()["result"]) == (200, {"a": 2})
                assert made == {}
                assert (await client.get("/api/runs")).status_code == 200
                assert sum(made.values()) == 1  # the count counts

    monkeypatch.setattr(anyio.to_thread, "run_sync", counted)
    asyncio.run(case())
