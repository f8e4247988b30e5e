"""Health checks without a token, and unknown paths of the API, also where the app is mounted."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from ropewalk import App
from ropewalk.doors.http import health
from ropewalk.doors.http.site import make_site
from ropewalk.errors import StoreError
from ropewalk.journal.memory import MemoryStore

pytestmark = pytest.mark.anyio


async def asked(site: Any, method: str, path: str, **headers: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(site)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path, headers=headers)


class Failing(MemoryStore):
    """A store that can be read once; `reads` counts how often it was tried."""

    reads = 0

    def get_run(self, *args: Any, **options: Any) -> Any:
        self.reads += 1
        if self.reads > 1:
            raise StoreError("postgresql://ropewalk:s3cret@db: no route to host")
        return super().get_run(*args, **options)


def mounted(app: App) -> FastAPI:
    outer = FastAPI()
    outer.mount("/tools/ropewalk", app.asgi(token="t"))
    return outer


@pytest.mark.parametrize(("prefix", "make"), [("", lambda app: make_site(app, "t")), ("/tools/ropewalk", mounted)])
async def test_a_probe_needs_no_token_and_learns_nothing_else(tmp_path: Path, prefix: str, make: Any) -> None:
    async with App(f"sqlite:///{tmp_path / 'runs.db'}") as app:
        site = make(app)
        for path in ("/healthz", "/readyz"):
            answer = await asked(site, "GET", prefix + path, host="10.1.2.3:8321")
            assert (answer.status_code, answer.text, answer.headers["cache-control"]) == (200, "ok", "no-store")
            assert (await asked(site, "HEAD", prefix + path)).status_code == 200
            assert (await asked(site, "POST", prefix + path)).status_code == 401
        for path in ("/healthz/", "/healthz/x", "/", "/api/runs", "/metrics"):
            assert (await asked(site, "GET", prefix + path)).status_code == 401


async def test_without_its_store_a_server_is_alive_and_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_MAX_AGE", 0.0)
    async with App(Failing()) as app:
        site = make_site(app, "t")
        assert (await asked(site, "GET", "/readyz")).text == "ok"
        answer = await asked(site, "GET", "/readyz")
        assert (answer.status_code, answer.text) == (503, "not ok")
        assert (await asked(site, "GET", "/healthz")).text == "ok"


async def test_a_store_that_hangs_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_PATIENCE", 0.0)
    free, reads = threading.Event(), []

    class Hanging(MemoryStore):
        def get_run(self, *args: Any, **options: Any) -> Any:
            reads.append(args)
            free.wait(50)

    async with App(Hanging()) as app:
        site = make_site(app, "t")
        answers = [await asked(site, "GET", "/readyz") for _ in range(5)]
        free.set()
        monkeypatch.setattr(health, "_PATIENCE", 50.0)
        answers.append(await asked(site, "GET", "/readyz"))
    assert [answer.status_code for answer in answers] == [503] * 5 + [200]
    assert len(reads) == 1


@pytest.mark.parametrize(("prefix", "make"), [("", lambda app: make_site(app, "t")), ("/tools/ropewalk", mounted)])
async def test_an_unknown_path_of_the_api_is_404_in_json(prefix: str, make: Any) -> None:
    head = {"authorization": "Bearer t", "accept": "text/html"}
    async with App("memory") as app:
        site = make(app)
        for method in ("GET", "POST", "DELETE"):
            for path in ("/api", "/api/", "/api/nope", "/API/nope", "/%61pi/nope", "/api/nope/x.js"):
                answer = await asked(site, method, prefix + path, **head)
                assert (answer.status_code, answer.json()["error"]["kind"]) == (404, "NotFound"), (method, path)
        assert "/api/runs takes GET and POST" in (await asked(site, "PUT", f"{prefix}/api/runs", **head)).text
        assert (await asked(site, "GET", f"{prefix}/runs/nope", **head)).text.startswith("<!doctype html>")
        answer = await raw(site, f"{prefix}//api/nope" if prefix else "//api/nope")
        assert answer == 404


async def raw(site: Any, path: str) -> int:
    """The status of a path that a client would tidy."""
    statuses: list[int] = []

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": ""}
    scope |= {"query_string": b"", "scheme": "http", "client": None, "server": None}
    scope["headers"] = [(b"host", b"localhost"), (b"authorization", b"Bearer t")]
    await site(scope, receive, send)
    return statuses[0]
