"""Content of runs over HTTP: what may be shown is, everything else is to be saved, and nothing is guessed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ropewalk import App, tool
from ropewalk.content import content
from ropewalk.doors.http.site import make_site

from .server import TOKEN


async def ask(app: App, *paths: str, token: str = TOKEN) -> list[httpx2.Response]:
    site = httpx2.ASGITransport(make_site(app, TOKEN), raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=site, base_url="http://localhost") as client:
        return [await client.get(path, headers={"authorization": f"Bearer {token}"}) for path in paths]


@pytest.mark.parametrize("store", ["memory", "file"])
@pytest.mark.parametrize(
    ("mime", "shown"),
    [
        ("image/png", True), ("audio/wav", True), ("image/svg+xml", False), ("text/html", False),
        ("application/pdf", False), ("image/png; charset=x", True),
    ],
)  # fmt: skip
def test_content_has_safe_headers(mime: str, shown: bool, store: str, tmp_path: Path) -> None:
    @tool
    async def draw() -> Any:
        """Draw."""
        return {"plan": [content(f"<b>{mime}</b>".encode(), mime, name='a "b"\r\nc.html')]}

    async def case() -> None:
        async with App("memory" if store == "memory" else tmp_path / "s.db", tools=[draw]) as app:
            nodes = [{"id": "d", "type": "tool", "tool": "draw"}]
            done = await app.run({"kind": "chain", "name": "c", "nodes": nodes}, run_id="r")
            await app.run(
                {"kind": "chain", "name": "o", "nodes": [{"id": "w", "type": "delay", "delay": 1}]}, run_id="o"
            )
            hash = done.results["d"]["plan"][0]["$content"]["blob"]
            paths = [f"/api/runs/{id}/content/{hash}" for id in ("r", "o", "none")]
            paths += ["/api/runs/r/content/" + "0" * 64, "/api/runs/r/content/xyz"]
            answers = await ask(app, *paths)
            assert [answer.status_code for answer in answers] == [200, 404, 404, 404, 422]
            found = answers[0]
            assert found.content == f"<b>{mime}</b>".encode()
            assert found.headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in found.headers["content-security-policy"]
            disposition = found.headers.get("content-disposition", "")
            if shown:
                assert (found.headers["content-type"], disposition) == (mime.partition(";")[0], "")
            else:
                assert found.headers["content-type"] == "application/octet-stream"
                assert disposition == "attachment; filename*=UTF-8''a%20%22b%22%0D%0Ac.html"
            [refused] = await ask(app, paths[0], token="wrong")
            assert refused.status_code == 401

    asyncio.run(case())
