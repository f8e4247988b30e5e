"""What the page says wherever one is: that the server is gone or back, and what came of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from ropewalk.journal.protocol import LOG, Entry, NewRun
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.values import Json

from .seen import begin
from .server import TOKEN, Served
from .test_http_api import call, chain, fresh
from .test_page_views import AUDIT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

POLL = 4000  # milliseconds in which every view asks the server at least once


def record(served: Served, new: NewRun, entries: Iterable[Entry], status: str, error: Json = None) -> None:
    """Record a run that has ended, as the process does that executes it."""

    async def write() -> None:
        with closing(SqliteStore(served.folder / ".ropewalk" / "ropewalk.db")) as store:
            log = await store.open(new)
            for entry in entries:
                await log.append(entry)
            await log.finish(status, None, error)

    with ThreadPoolExecutor(1) as thread:  # the loop of this one is Playwright's
        thread.submit(lambda: asyncio.run(write())).result()


def is_readable(page: Page) -> bool:
    """Return True if the view is right on a desktop and on a phone."""
    for width in (1200, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(AUDIT, width) == []
    return True


@pytest.mark.process
def test_the_page_confirms_answers_and_says_that_its_server_is_gone(browser: Browser, served: Served) -> None:
    name = fresh()
    begin(served, chain({"id": "ask", "type": "wait", "approval": "Now?"}, name=name))
    context = browser.new_context(base_url=served.url)
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.clock.install()
    page.goto(f"/waiting?token={TOKEN}")
    notices = page.locator(".notices[role=status][aria-live=polite]")
    wait = page.get_by_role("region", name="ask waits").filter(has_text=name)
    wait.get_by_role("button", name="Approve").click()
    notices.get_by_text(f"Approved ask in the run {name}.").wait_for()
    wait.wait_for(state="detached")

    context.set_offline(True)
    page.clock.run_for(POLL)
    notices.get_by_text("The server does not answer").wait_for()
    assert is_readable(page)
    context.set_offline(False)
    page.clock.run_for(POLL)
    notices.get_by_text("The server answers again.").wait_for()
    notices.get_by_role("button", name="Close the message").click()
    notices.get_by_text("The server answers again.").wait_for(state="detached")
    context.close()


@pytest.mark.campaign("pages", only=True)
def test_a_run_says_why_it_could_not_begin_and_which_step_ran_before(browser: Browser, served: Served) -> None:
    id, repeated = "schedule/yearly/2026-02-28T02:30:00.000000Z", fresh()
    gone: Json = {"message": "no file 'gone.yaml'", "kind": "NotFound"}
    record(served, NewRun(id=id, kind="schedule", name="yearly", document={}), (), "failed", gone)
    begun: Json = {"lines": [{"at": 1000.0, "stream": "stdout", "text": "begun"}]}
    steps = Entry("a", LOG, "a", begun, "", 1000, 1010), Entry("a", "call", "a", 1, "", 1005, 1010)
    record(served, NewRun(id=repeated, kind="chain", document=chain(call("a", "add", a=1))), steps, "completed")
    context = browser.new_context(base_url=served.url)
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.goto(f"/?token={TOKEN}")
    page.goto(f"/runs/{quote(id, safe='')}")
    page.get_by_text("no file 'gone.yaml'").wait_for()
    page.get_by_role("heading", name="The run could not begin").wait_for()
    assert page.get_by_text("Loading").count() == page.get_by_text("unknown kind").count() == 0
    assert is_readable(page)
    page.get_by_role("button", name="Run yearly now").click()
    page.wait_for_url(lambda url: "/runs/schedule%2Fyearly%2F" in url and quote(id, safe="") not in url)
    page.goto(f"/runs/{repeated}?node=a")
    node = page.get_by_role("complementary", name="Node a")
    node.get_by_text("Ran before").wait_for()
    context.close()
