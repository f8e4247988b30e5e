"""The files of the page: behind the guard, at every address that is not one of the API, and in the wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx2
import pytest

from .server import TOKEN, Served

PROJECT = Path(__file__).parents[2]
STATIC = PROJECT / "src/ropewalk/doors/web/static"


def test_every_address_of_the_page_is_the_page(served: Served) -> None:
    for path in ("/", "/runs", "/runs/a%2Fb/diff?with=c", "/tools/fs:read"):
        found = served.get(path)
        assert (found.status_code, found.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "script-src 'self'" in found.headers["content-security-policy"]
        assert found.text == (STATIC / "index.html").read_text("utf-8")
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
