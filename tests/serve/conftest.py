from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .server import TOKEN, Served, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
REFUSED = ("status of 422", "status of 502")  # which the browser logs, and the page shows


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "flows").mkdir()
    (folder / "flows" / "yearly.yaml").write_text(
        "kind: chain\nname: yearly\nnodes: [{id: a, type: tool, tool: add, args: {a: 1}}]\n"
    )
    settings = 'strict_output = ["misfit"]\n[limits]\nlog_lines = 100\n'
    settings += '[schedules.yearly]\ncron = "30 2 29 2 *"\nflow = "flows/yearly.yaml"\n'
    yield from serve(folder, settings=settings)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists() and "CI" not in os.environ:
        pytest.skip(f"no Chromium at {CHROMIUM}: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    """A page that has come in by the address that is printed; whatever it complains about fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 800}, base_url=served.url)
    context.set_default_timeout(20_000)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda said: (
            wrong.append(said.text)
            if said.type == "error" and not any(status in said.text for status in REFUSED)
            else None
        ),
    )
    page.on("request", lambda asked: None if asked.url.startswith(served.url) else wrong.append(asked.url))
    page.goto(f"/?token={TOKEN}")
    yield page
    context.close()
    assert [one for one in wrong if not one.startswith("data:")] == []
