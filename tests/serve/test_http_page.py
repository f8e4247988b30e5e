"""The files of the page: behind the guard, at every address that is not one of the API, under a path, in the wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from ropewalk import App
from ropewalk.doors.http.root_path import read_root_path
from ropewalk.doors.http.site import make_site

from .server import TOKEN, Served

PROJECT = Path(__file__).parents[2]
STATIC = PROJECT / "src/ropewalk/doors/web/static"


def test_every_address_of_the_page_is_the_page(served: Served) -> None:
    for path in ("/", "/runs", "/runs/a%2Fb/diff?with=c", "/tools/fs:read"):
        found = served.get(path)
        assert (found.status_code, found.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "script-src 'self'" in found.headers["content-security-policy"]
        page = (STATIC / "index.html").read_text("utf-8")
        assert found.text == page.replace('"./', '"/').replace("<html ", "<html data-sessionless ")
    assert served.get("/api/nothing").json()["error"]["kind"] == "NotFound"
    assert served.get("/apis").status_code == 200


def test_files_of_the_page_are_served_and_no_others(served: Served) -> None:
    names = re.findall(r'(?:src|href)="(/[^"]+)"', served.get("/").text)
    assert sorted(Path(name).suffix for name in names) == [".css", ".js", ".svg"]
    for name in names:
        found = served.get(name)
        assert (found.status_code, "immutable" in found.headers["cache-control"]) == (200, True)
    for name in ("/assets/../index.html", "/assets/%2e%2e%2fpage.py", "/assets/nothing.js"):
        found = served.get(name)
        assert "import" not in found.text
    assert served.get("/assets/nothing.js").status_code == 404
    with httpx2.Client(base_url=served.url) as nobody:
        assert nobody.get(names[0]).status_code == 401


def mounted(app: App) -> Any:
    outer = FastAPI()
    outer.mount("/ropes/walk", app.asgi(token=TOKEN))
    return outer


def behind_proxy(app: App) -> Any:
    outer = FastAPI()
    outer.mount("/walk", app.asgi(token=TOKEN))

    async def with_root_path(scope: Any, receive: Any, send: Any) -> None:
        await outer({**scope, "root_path": "/ropes"}, receive, send)  # not in `path`, as some servers do

    return with_root_path


def prefixed(app: App) -> Any:
    return make_site(app, TOKEN, root_path="/ropes/walk")


WAYS = {
    "mounted": (mounted, "/ropes/walk"),
    "proxy that strips, mounted": (behind_proxy, "/walk"),
    "proxy that keeps, mounted": (behind_proxy, "/ropes/walk"),
    "proxy that strips": (prefixed, ""),
    "proxy that keeps": (prefixed, "/ropes/walk"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("make", "sent"), WAYS.values(), ids=WAYS)
async def test_under_a_path_all_addresses_have_it(make: Any, sent: str) -> None:
    root = "/ropes/walk"
    async with App("memory") as app:
        transport = httpx2.ASGITransport(make(app))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def get(path: str, **more: Any) -> httpx2.Response:
                return await client.get(sent + path.removeprefix(root), **more)

            asks = await get("/runs/x", headers={"accept": "text/html"})
            assert (asks.status_code, f'action="{root}/"' in asks.text) == (401, True)
            came = await get(f"/runs?token={TOKEN}&status=failed")
            assert (came.status_code, came.headers["location"]) == (303, f"{root}/runs?status=failed")
            assert f"; Path={root}; " in came.headers["set-cookie"]
            client.headers |= {"cookie": came.headers["set-cookie"].partition(";")[0], "origin": "http://localhost"}
            for place in ("/", "/runs/a%2Fb"):
                names = re.findall(r'(?:src|href)="([^"]+)"', (await get(place)).text)
                assert [name.startswith(f"{root}/assets/") for name in names] == [True] * 3
            assert [(await get(name)).status_code for name in names] == [200] * 3
            assert ((await get("/api/runs")).json(), (await get("/healthz")).text) == ({"runs": []}, "ok")
            assert (await get("/api/nothing")).status_code == 404
            left = await client.post(f"{sent}/api/logout")
            assert (left.json(), f"; Path={root}; Max-Age=0" in left.headers["set-cookie"]) == ({"ended": 1}, True)


@pytest.mark.parametrize("text", ["/api", "/assets/x", "//", "/a//b", "/a b", "https://x/y", "/..", '/"'])
def test_a_path_that_cannot_be_served_is_refused(text: str) -> None:
    if text == "//":
        assert read_root_path(text) == read_root_path("") == ""
        return
    with pytest.raises(ValueError, match=r"is not a path such as /ropewalk|is a path of the server itself"):
        read_root_path(text)
    assert read_root_path("ropes/walk/") == "/ropes/walk"


def test_the_address_that_is_printed_leads_to_the_page(served: Served) -> None:
    with httpx2.Client(base_url=served.url, follow_redirects=True) as browser:
        found = browser.get(f"/?token={TOKEN}")
        assert (found.status_code, found.url.path, "token" in str(found.url)) == (200, "/", False)


def test_the_page_names_no_other_server_and_has_no_inline_script() -> None:
    index = (STATIC / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", index) == []
    assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", index) == []
    for file in (STATIC / "assets").iterdir():
        text = file.read_text("utf-8")
        assert re.findall(r"""(?:fetch|import|WebSocket|EventSource|Worker)\(["'`](?:https?:)?//""", text) == []
        assert re.findall(r"""url\(["']?(?:https?:)?//|@import""", text) == []
        assert "sourceMappingURL" not in text


def test_the_page_is_small() -> None:
    files = [file for file in STATIC.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 700_000
    assert {file.suffix for file in files} == {".html", ".js", ".css", ".svg"}


@pytest.mark.process
def test_the_wheel_has_the_page(tmp_path: Path) -> None:
    if importlib.util.find_spec("hatchling") is None and "CI" not in os.environ:
        pytest.skip("hatchling, which builds the wheel, is not installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(build, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    inside = {name.removeprefix("ropewalk/doors/web/static/") for name in zipfile.ZipFile(wheel).namelist()}
    there = {file.relative_to(STATIC).as_posix() for file in STATIC.rglob("*") if file.is_file()}
    assert there <= inside
    assert len(there) == 6
