"""The page in a real browser: runs live, failures, retries, stops, approvals, hostile text, large graphs."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fastapi import FastAPI

import fork_server
from ropewalk import App, tool
from ropewalk.doors.security import serve_until_cancelled

from .seen import begin, box, shows, status
from .server import COMMAND, TOKEN, Served
from .test_http_again import park
from .test_http_api import call, chain, events, fresh

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = """<img src=x onerror="document.title='run'"><script>document.title='run'</script>"""


def test_a_run_is_started_and_watched_until_it_ends(page: Page, served: Served) -> None:
    from playwright.sync_api import expect

    id, go = fresh(), fresh()
    first, last = call("a", "count_aloud", to=300), call("b", "add", a=2)
    document = chain(first, call("w", "wait_for", name="$input.file"), last, id=id)
    served.post("/api/definitions/chain", {"document": {**document, "name": f"Watched {id}"}})
    page.get_by_role("link", name="Definitions", exact=True).click()
    page.get_by_role("link", name=f"Watched {id}").click()
    page.get_by_label("Input (JSON)").fill(f'{{"file": "{go}"}}')
    page.get_by_role("button", name="Start", exact=True).click()
    shows(page, "a", "ok")
    shows(page, "w", "running")
    shows(page, "b", "none")
    status(page, "running")
    page.get_by_role("tab", name="Logs").click()
    logs = page.get_by_role("region", name="Lines, live")
    expect(logs.get_by_text(f"waiting for {go}")).to_be_visible()
    expect(logs.get_by_text("counted to 300").locator("..")).to_contain_text("stderr")
    page.get_by_text("201 lines are not kept").wait_for()
    page.get_by_label("Node of the lines").select_option("w")
    expect(page.get_by_role("region", name="Logs").get_by_role("status")).to_have_text("1 line")
    assert page.url.endswith("?view=logs&of=w")
    page.get_by_role("tab", name="Graph").click()
    box(page, "a").click()
    page.get_by_role("complementary", name="Node a").get_by_role("tab", name="Logs").click()
    node = page.get_by_role("complementary", name="Node a").get_by_role("region", name="Lines, live")
    expect(node.get_by_text("counted to 300")).to_be_visible()
    node.focus()
    page.keyboard.press("Home")
    expect(node.get_by_text("line 1", exact=True)).to_be_visible()
    assert node.locator(".log").count() < 90  # of a hundred
    (served.folder / go).touch()
    status(page, "completed")
    shows(page, "w", "ok")
    shows(page, "b", "ok")
    page.get_by_role("link", name="Ropewalk").click()
    page.get_by_role("searchbox", name="Search runs").fill(id)
    expect(page.get_by_role("row")).to_have_count(2)  # with the head
    page.get_by_role("link", name=f"Watched {id}").wait_for()


def test_a_failed_node_is_looked_at_and_the_run_retried(page: Page, served: Served) -> None:
    from playwright.sync_api import expect

    file = fresh()
    failing = {**call("n", "need", name=file), "errorStrategy": "retry", "maxRetries": 1, "retryDelay": 1}
    id = begin(served, chain(call("a", "add", a=1), failing), wait=20)
    page.goto(f"/runs/{id}")
    status(page, "failed")
    page.get_by_role("button", name="Show n").click()
    node = page.get_by_role("complementary", name="Node n")
    node.get_by_role("heading", name=f"Error: {file} is not there").wait_for()
    place = re.compile(r"^at tools\.py:\d+ in need$")
    expect(page.get_by_text(place)).to_have_count(2)  # at the run and at the node
    for folded in page.get_by_role("group").filter(has_text="Traceback").all():
        expect(folded.get_by_text("Traceback")).not_to_be_visible()
        folded.get_by_text(place).click()
        expect(folded.get_by_text('in need\n    raise RuntimeError(f"{name} is not there")')).to_be_visible()
    expect(node.get_by_role("table", name="Attempts").get_by_role("row")).to_have_count(3)
    (served.folder / file).touch()
    page.get_by_role("button", name="Retry", exact=True).click()
    status(page, "completed")
    shows(page, "n", "ok")
    assert node.get_by_role("region", name="Output").inner_text().endswith("found")


@pytest.mark.campaign("pages", only=True)
def test_a_failed_run_is_undone_and_its_steps_carry_a_sign(page: Page, served: Served) -> None:
    made = {**call("made", "add", a=1), "undo": {"tool": "echo", "args": {"value": "taken back"}}}
    id = begin(served, chain(made, call("kept", "echo", value="x"), call("n", "fail")), wait=20)
    page.goto(f"/runs/{id}?view=time")
    page.get_by_role("button", name="Undo…", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Undo", exact=True).click()
    page.get_by_role("region", name="Undo").get_by_text("1 of 1 step").wait_for()
    rows = page.get_by_role("region", name="Timeline").get_by_role("button")
    rows.filter(has_text="↶ made").wait_for()
    rows.filter(has_text="✓ kept").wait_for()
    assert page.get_by_role("button", name="Retry", exact=True).count() == 0
    page.get_by_role("link", name=f"{id}~undo").click()
    status(page, "completed")


@pytest.mark.campaign("pages", only=True)
def test_a_run_leads_to_its_definition_also_where_that_is_a_file(page: Page, served: Served) -> None:
    name = f"{fresh()}.yaml"
    file = served.folder / name
    file.write_text("kind: chain\nname: Filed\nnodes:\n  - {id: a, type: tool, tool: add, params: {a: 1}}\n")
    given = {"definition": {"kind": "file", "id": name}, "wait": 20}
    page.goto(f"/runs/{served.post('/api/runs', given).json()['runId']}")
    page.get_by_role("link", name=f"chain {name}").click()
    page.get_by_role("heading", name="Filed").wait_for()
    page.get_by_role("button", name="Start", exact=True).wait_for()
    file.unlink()


def test_a_long_run_is_stopped(page: Page, served: Served) -> None:
    go = fresh()
    id = begin(served, chain(call("w", "wait_for", name=go), call("b", "add", a=1)))
    page.goto(f"/runs/{id}")
    shows(page, "w", "running")
    page.get_by_role("button", name="Stop").click()
    status(page, "stopped")
    shows(page, "w", "left")
    assert [kind for _, kind, _ in events(served, id)][-1] == "end"  # its tasks are over
    assert (served.folder / f"{go}.cancelled").exists()


def test_what_waits_is_approved_and_rejected(page: Page, served: Served) -> None:
    document = chain({"id": "ask", "type": "wait", "approval": "Ship it?"}, call("b", "echo", value="$output.ask.note"))
    first, second = begin(served, document), begin(served, document)
    page.get_by_role("link", name="Waiting").click()
    asked = page.get_by_role("region", name="ask waits").filter(has_text=first)
    asked.get_by_text("Facts", exact=True).click()
    asked.get_by_text("at most 1 call", exact=False).first.wait_for()
    asked.get_by_label("Note").fill("too dear")
    asked.get_by_role("button", name="Reject").click()
    asked.wait_for(state="detached")
    page.goto(f"/runs/{first}")
    status(page, "failed")
    page.get_by_text("too dear").first.wait_for()
    page.goto(f"/runs/{second}")
    shows(page, "ask", "waiting")
    page.get_by_role("group").get_by_role("row", name="echo write none at most 1").wait_for()
    page.get_by_label("Note").fill("with care")
    page.get_by_role("button", name="Approve").click()
    status(page, "completed")
    box(page, "b").click()
    assert page.get_by_role("region", name="Output").inner_text().endswith("with care")


@pytest.mark.campaign("pages", only=True)
def test_what_was_answered_elsewhere_is_called_that_and_resumed(page: Page, served: Served) -> None:
    id = fresh()
    park(served, id)
    fork_server.run([COMMAND, "runs", "approve", id], cwd=served.folder, capture_output=True, check=True)
    page.goto("/runs")
    page.get_by_role("row").filter(has_text=id).get_by_text("answered").wait_for()
    page.goto(f"/runs/{id}")
    status(page, "answered")
    page.get_by_role("button", name="Resume", exact=True).click()
    status(page, "completed")


def test_hostile_text_stays_text_and_runs_nothing(page: Page, served: Served) -> None:
    document = chain(call("x", "echo", value=HOSTILE), {"id": "ask", "type": "wait", "approval": HOSTILE}, name=HOSTILE)
    id = begin(served, document)
    places = ["/runs", "/waiting", f"/runs/{id}?node=x", f"/runs/{id}?view=data", f"/runs/{id}?view=time"]
    for place in places:
        page.goto(place)
        page.get_by_text("<img src=x onerror").first.wait_for()
        assert page.locator("main img, main script").count() == 0
        assert page.title() != "run"
    page.goto(f"/runs/{id}?node=x")
    assert HOSTILE in page.get_by_role("region", name="Output").inner_text()
    page.get_by_role("button", name="Stop").click()
    status(page, "stopped")
    page.goto("/tools/echo")
    page.get_by_role("tab", name="JSON").click()
    page.get_by_label("Arguments (JSON)").fill('{"value": "<script>document.title=1</script>"}')
    page.get_by_role("button", name="Call").click()
    page.get_by_role("region", name="Result").get_by_text("<script>document.title=1</script>").wait_for()
    assert page.title() != "run"


@pytest.mark.campaign("pages", only=True)
def test_instances_of_a_loop_are_chosen_and_runs_compared(page: Page, served: Served) -> None:
    loop = {"id": "l", "type": "loop", "items": "$input.items", "nodes": [call("in", "add", a="$item")]}
    id = begin(served, chain(loop), input={"items": [5, 6]}, wait=20)
    page.goto(f"/runs/{id}")
    box(page, "l/in").click()
    node = page.get_by_role("complementary", name="Node l/in")
    node.get_by_label("Instance").select_option("l[1]/in")
    assert node.get_by_role("region", name="Item of l[1]").inner_text().endswith("6")
    assert node.get_by_role("region", name="Output").inner_text().endswith("7")
    page.get_by_role("tab", name="Timeline").click()
    page.get_by_role("button", name="l[0]/in").click()
    assert node.get_by_role("region", name="Output").inner_text().endswith("6")
    page.get_by_role("button", name="Fork…", exact=True).click()
    page.get_by_role("textbox", name="Input", exact=True).fill('{"items": [5, 8]}')
    page.get_by_role("dialog").get_by_role("button", name="Fork").click()
    page.wait_for_url(lambda url: "/runs/" in url and id not in url)
    status(page, "completed")
    other = page.url.rpartition("/runs/")[2].partition("?")[0]
    page.goto(f"/runs/{id}/diff?with={other}")
    row = page.get_by_role("row").filter(has_text="items[1]").first
    row.wait_for()
    assert [cell.inner_text() for cell in row.get_by_role("cell").all()][-2:] == ["6", "8"]


@pytest.mark.campaign("pages", only=True)
def test_two_thousand_nodes_open_and_are_found(page: Page, served: Served) -> None:
    nodes = [{**call(f"n{i}", "add", a=1), "dependsOn": [f"n{(i - 1) // 2}"] if i else []} for i in range(2000)]
    id = begin(served, chain(*nodes, mode="dag"), wait=60)
    page.goto(f"/runs/{id}")
    page.locator(".graph[data-ready]").wait_for(timeout=10_000)
    assert 10 < int(page.locator(".graph").get_attribute("data-shown") or 0) <= 300
    page.get_by_text("2,000 ok").wait_for()
    page.get_by_role("searchbox", name="Find a node").fill("n1777")
    page.keyboard.press("Enter")
    page.get_by_role("complementary", name="Node n1777").wait_for()
    shows(page, "n1777", "ok")
    assert box(page, "n1777").is_visible()


@pytest.mark.campaign("pages", only=True)
def test_the_keyboard_is_enough(page: Page, served: Served) -> None:
    ids = [begin(served, chain(call("a", "add", a=1)), wait=20) for _ in range(2)]
    page.get_by_role("row").nth(1).wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type(ids[1])
    page.get_by_role("row").nth(1).filter(has_text=ids[1]).wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{ids[1]}")
    page.locator(".react-flow__node").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("complementary", name="Node a").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/tools")


def test_tools_are_selected_and_called(page: Page) -> None:
    page.goto("/tools")
    page.get_by_role("searchbox").fill("add two numbers")
    page.keyboard.press("Enter")
    page.get_by_text("score").first.wait_for()
    page.get_by_role("link", name="add").first.click()
    page.get_by_role("tab", name="JSON").click()
    page.get_by_label("Arguments (JSON)").fill('{"a": 41}')
    page.get_by_role("button", name="Call").click()
    page.get_by_role("region", name="Result").get_by_text("42").wait_for()
    page.get_by_label("Arguments (JSON)").fill('{"a": "x"}')
    page.get_by_role("button", name="Call").click()
    page.get_by_role("alert").filter(has_text="args.a").wait_for()
    page.goto("/tools/fail")
    page.get_by_role("button", name="Call").click()
    failed = page.get_by_role("alert").filter(has_text="no luck")
    failed.locator("summary").click()
    failed.get_by_text('raise RuntimeError("no luck")').wait_for()


@pytest.mark.campaign("pages", only=True)
def test_without_a_stream_the_run_is_asked_for(page: Page, served: Served) -> None:
    go = fresh()
    id = begin(served, chain(call("w", "wait_for", name=go), call("b", "add", a=1)))
    page.route("**/events", lambda route: route.fulfill(status=204))
    page.goto(f"/runs/{id}")
    status(page, "running")
    (served.folder / go).touch()
    status(page, "completed")
    shows(page, "b", "ok")


@pytest.mark.campaign("pages", only=True)
def test_dark_and_light_follow_the_system_until_one_is_chosen(page: Page) -> None:
    shown = page.locator("html[data-theme=dark]")
    page.emulate_media(color_scheme="dark")
    shown.wait_for()
    page.get_by_role("button", name="Dark or light").click()
    page.locator("html[data-theme=light]").wait_for()
    page.reload()
    page.get_by_role("heading", name="Runs").wait_for()
    assert shown.count() == 0


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[tuple[str, threading.Event]]:
    """The address of a FastAPI application in which an app is mounted under a path, and what its tool waits for."""
    go, leave = threading.Event(), threading.Event()

    @tool
    def hold() -> str:
        """Waits for the event."""
        go.wait()
        return "let go"

    with ThreadPoolExecutor(1) as thread, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        async def serve() -> None:
            async with App(f"sqlite:///{tmp_path / 'runs.db'}") as app:
                app.toolbox.register(hold)
                outer = FastAPI()
                outer.mount("/ropes/walk", app.asgi(token=TOKEN))
                ended = asyncio.ensure_future(serve_until_cancelled(outer, listening, 1))
                await asyncio.to_thread(leave.wait)
                ended.cancel()
                await ended

        served = thread.submit(lambda: asyncio.run(serve()))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", go
        go.set()
        leave.set()
        served.result()


def test_without_the_token_a_browser_is_told_how_to_come_in_also_under_a_path(
    browser: Browser, mounted: tuple[str, threading.Event]
) -> None:
    url, go = mounted
    context = browser.new_context(base_url=url)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    answer = page.goto("/ropes/walk/definitions")
    assert answer is not None
    assert answer.status == 401
    page.get_by_text("Enter the token that this application passes to app.asgi(token=...)").wait_for()
    page.get_by_label("Token").fill("a wrong one")
    page.get_by_role("button", name="Open").click()
    page.get_by_role("heading", name="This token is wrong").wait_for()
    page.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Runs").wait_for()
    assert TOKEN not in page.url
    page.get_by_role("link", name="Definitions", exact=True).click()
    document = chain(call("w", "hold"))
    page.get_by_label("as YAML or JSON").fill(json.dumps(document))
    page.get_by_role("button", name="Start", exact=True).click()
    shows(page, "w", "running")
    go.set()
    status(page, "completed")
    page.reload()
    status(page, "completed")
    assert f"{url}/ropes/walk/runs/" in page.url
    assert any(one.endswith("/events") for one in asked)
    assert [one for one in asked if not one.startswith(f"{url}/ropes/walk/")] == []
    context.close()


@pytest.mark.campaign("pages", only=True)
def test_logging_out_ends_the_session_of_this_browser(browser: Browser, served: Served) -> None:
    context = browser.new_context(base_url=served.url)
    page = context.new_page()
    page.goto(f"/?token={TOKEN}")
    page.get_by_role("button", name="Log out").click()
    page.get_by_text("You are logged out.").wait_for()
    page.reload()
    page.get_by_role("heading", name="This browser has no token").wait_for()
    assert served.get("/api/runs").status_code == 200
    context.close()
