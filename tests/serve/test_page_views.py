"""The page in a real browser: what each view shows, to keys and to eyes; long lists; nothing of it from elsewhere."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from ropewalk import App
from ropewalk.testing import ScriptedModel, wants
from tiers import sampled

from .seen import begin, box, shows, status
from .server import Served
from .test_http_api import call, chain, fresh

if TYPE_CHECKING:
    from playwright.sync_api import Page

AUDIT = (Path(__file__).parents[2] / "scripts" / "pictured" / "audit.js").read_text()
AGENT = {
    "kind": "agent", "name": "Adder", "prompt": "Add.", "tools": ["add"],
}  # fmt: skip
NAMELESS = """() => [...document.querySelectorAll("button, a, input, select, textarea, [role=tab]")].filter((one) =>
  !(one.getAttribute("aria-label") || one.textContent.trim() || one.title || one.labels?.length))
  .map((one) => one.outerHTML)"""
FOCUS = """() => {
  const one = document.activeElement, style = getComputedStyle(one);
  return [one.getAttribute("aria-label") || one.textContent, style.outlineStyle + parseFloat(style.outlineWidth)];
}"""
MOVING = """() => [...document.querySelectorAll("*")].filter((one) => {
  const style = getComputedStyle(one);
  return style.animationName !== "none" || style.transitionDuration.split(", ").some((time) => parseFloat(time) > 0);
}).map((one) => one.className)"""


@pytest.mark.campaign("pages", only=True)
def test_a_list_longer_than_a_page_goes_on_page_by_page(page: Page, served: Served) -> None:
    from playwright.sync_api import expect

    name = fresh()
    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda _: begin(served, chain(call("a", "add", a=1), name=name), wait=20), range(230)))
    pages: list[str] = []
    page.on("request", lambda asked: pages.append(asked.url) if "after=" in asked.url else None)
    page.goto(f"/runs?text={name}")
    expect(page.get_by_role("row")).to_have_count(101)  # with the head
    page.get_by_role("button", name="Older runs").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("row")).to_have_count(201)
    page.get_by_role("button", name="Older runs").scroll_into_view_if_needed()
    expect(page.get_by_role("row")).to_have_count(231)
    page.get_by_role("button", name="Older runs").wait_for(state="detached")
    shown = page.locator("[data-row]").evaluate_all("links => links.map((link) => link.pathname.split('/').pop())")
    assert len(pages) == 2
    assert sorted(shown) == sorted(ids)


@pytest.mark.campaign("pages", only=True)
def test_a_node_shows_what_its_call_was_given(page: Page, served: Served) -> None:
    nodes = [call("a", "add", a="$input.n", b=2), call("n", "need", name="${$output.a}.txt")]
    id = begin(served, chain(*nodes), input={"n": 40}, wait=20)
    assert served.get(f"/api/runs/{id}/arguments").json()["arguments"] == {
        "a": {"a": 40, "b": 2},
        "n": {"name": "42.txt"},
    }
    page.goto(f"/runs/{id}?node=n")
    failed = page.get_by_role("complementary", name="Node n")
    assert "42.txt" in failed.get_by_role("region", name="Input").inner_text()
    failed.get_by_role("button", name="a", exact=True).click()  # what it waits for
    done = page.get_by_role("complementary", name="Node a")
    assert "40" in done.get_by_role("region", name="Input").inner_text()
    assert done.get_by_role("region", name="Output").inner_text().endswith("42")


@pytest.mark.process
def test_arguments_of_a_run_that_waits_and_of_one_that_is_not_there(served: Served) -> None:
    nodes = [call("a", "add", a=1), {"id": "w", "type": "wait", "event": "e"}, call("b", "add", a="$output.w")]
    id = begin(served, chain(*nodes), wait=1)
    assert served.get(f"/api/runs/{id}/arguments").json()["arguments"] == {"a": {"a": 1}}
    assert served.post(f"/api/runs/{id}/send", {"event": "e", "payload": 5}).status_code in (200, 202)
    assert served.get("/api/runs/gone/arguments").status_code == 404


@pytest.mark.campaign("pages", only=True)
def test_what_models_cost_is_told_node_by_node(page: Page, served: Served) -> None:
    id = fresh()

    async def run() -> None:
        async with App.open(served.folder) as app:
            app.model = ScriptedModel(
                [wants("add", {"a": 1})], "2", usage={"input_tokens": 1000, "output_tokens": 20}, cost=0.01
            )
            await app.run(AGENT, run_id=id)

    with ThreadPoolExecutor(1) as thread:  # the loop of this one is Playwright's
        thread.submit(lambda: asyncio.run(run())).result()
    page.goto(f"/runs/{id}")
    page.get_by_text("2,040 tokens · $0.0200").wait_for()
    page.get_by_role("tab", name="Costs").click()
    row = page.get_by_role("region", name="Costs").get_by_role("row").filter(has_text="agent/turn")
    assert [cell.inner_text() for cell in row.get_by_role("cell").all()] == ["2", "2,000", "0", "40", "$0.0200"]
    row.get_by_role("button", name="agent/turn").click()
    page.get_by_role("complementary", name="Node agent/turn").wait_for()


@pytest.mark.campaign("pages", only=True)
def test_a_run_that_failed_shows_at_once_what_failed_and_why(page: Page, served: Served) -> None:
    name, file = fresh(), fresh()
    id = begin(served, chain(call("a", "add", a=1), call("n", "need", name=file), name=name), wait=20)
    page.goto(f"/runs?text={name}")
    page.get_by_role("row").filter(has_text=id).get_by_text(f"{file} is not there").wait_for()
    page.get_by_role("link", name=name).click()
    node = page.get_by_role("complementary", name="Node n")
    node.get_by_role("heading", name=f"Error: {file} is not there").wait_for()
    node.get_by_role("region", name="Input").get_by_text(file).wait_for()
    node.get_by_role("button", name="Retry from here").wait_for()
    page.keyboard.press("Escape")  # nothing has the focus
    node.get_by_role("button", name="Close the node").click()
    node.wait_for(state="detached")
    page.get_by_role("tab", name="Timeline").click()
    page.get_by_role("region", name="Timeline").get_by_role("button", name="a ").wait_for()
    assert node.count() == 0  # what was closed stays closed
    page.get_by_role("button", name="Show n").click()
    node.wait_for()


@pytest.mark.campaign("pages", only=True)
def test_what_waits_is_told_where_one_is(page: Page, served: Served) -> None:
    name = fresh()
    id = begin(served, chain({"id": "ask", "type": "wait", "approval": "Now?"}, name=name))
    page.goto(f"/runs?text={name}")
    page.get_by_role("row").filter(has_text=name).get_by_text("waiting at ask").wait_for()
    count = page.get_by_role("navigation", name="Views").get_by_role("link", name="Waiting")
    waiting = len(served.get("/api/waiting").json()["waiting"])
    count.get_by_text(str(waiting), exact=True).wait_for()
    served.post(f"/api/runs/{id}/approve", {"node": "ask", "approved": True})
    page.get_by_role("row").filter(has_text=name).get_by_text("completed").wait_for()
    assert page.get_by_text("waiting at ask").count() == 0


@pytest.mark.campaign("pages", only=True)
def test_a_run_that_only_waits_says_so(page: Page, served: Served) -> None:
    name = fresh()
    document = chain({"id": "ask", "type": "wait", "approval": "Now?"}, name=name)
    id = begin(served, document)
    page.goto(f"/runs/{id}")
    status(page, "waiting")
    page.get_by_role("link", name="Waiting").click()
    page.get_by_role("region", name="ask waits").filter(has_text=name).get_by_role("button", name="Approve").click()
    page.goto(f"/runs/{id}")
    status(page, "completed")


@pytest.mark.campaign("pages", only=True)
def test_a_start_form_begins_with_what_the_input_must_have(page: Page, served: Served) -> None:
    id = fresh()
    schema = {"type": "object", "required": ["n", "to"], "properties": {
        "n": {"type": "integer", "description": "How many"}, "to": {"enum": ["you", "me"]}}}  # fmt: skip
    served.post(
        "/api/definitions/chain", {"document": {**chain(call("a", "add", a="$input.n"), id=id), "inputSchema": schema}}
    )
    page.goto(f"/definitions/chain/{id}")
    page.get_by_text("How many", exact=True).wait_for()
    page.get_by_role("tab", name="JSON").click()
    assert page.get_by_label("Input (JSON)").input_value() == "{}"
    page.get_by_label("Input (JSON)").fill('{"n": "x", "to": "me"}')
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("alert").filter(has_text="input.n").wait_for()
    page.get_by_label("Input (JSON)").fill('{"n": 1, "to": "me"}')
    page.get_by_role("button", name="Start", exact=True).click()
    status(page, "completed")


@pytest.mark.campaign("pages", only=True)
def test_every_part_of_a_run_is_reached_by_keys_and_what_has_the_focus_is_seen(page: Page, served: Served) -> None:
    from playwright.sync_api import expect

    id = begin(served, chain(call("a", "add", a=1), call("b", "add", a=2)), wait=20)
    page.goto(f"/runs/{id}")
    shows(page, "b", "ok")
    reached, shown = set(), []
    for _ in range(25):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        name, outline = page.evaluate(FOCUS)
        reached.add(name)
        shown.append(outline)
    assert {
        "Skip to content",
        "Fork…",
        "Compare…",
        "Graph",
        "Find a node",
        "a, Call add, ok",
        "b, Call add, ok",
    } <= reached
    assert {"Zoom In", "Zoom Out", "Fit View", "Dark or light", "Keys"} <= reached
    assert set(shown) == {"solid2"}
    page.get_by_role("tab", name="Graph").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Timeline")).to_have_attribute("aria-selected", "true")
    page.get_by_role("region", name="Timeline").get_by_role("button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary", name="Node b")
    panel.get_by_role("button", name="Close the node").focus()
    page.keyboard.press("Escape")
    panel.wait_for(state="detached")
    page.get_by_role("button", name="Compare…").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Compare…")).to_be_focused()


@pytest.fixture(scope="module")
def strange(served: Served) -> list[str]:
    """The places of a project with names of every kind."""
    names = ["סיכום שבועי", "每周绳索新闻摘要", "<b>bold</b>", "a-very-long-name-" * 12]
    ids = [
        begin(served, chain(call("a", "echo", value=name * 9), call("n" * 120, "add", a=2), name=name), wait=20)
        for name in names
    ]
    asks = begin(served, chain({"id": "ask", "type": "wait", "approval": names[3]}, name=names[3]))
    event = begin(served, chain({"id": "come", "type": "wait", "event": "e"}))
    failed = begin(
        served, chain({**call("f", "fail"), "errorStrategy": "retry", "maxRetries": 1, "retryDelay": 1}), wait=20
    )
    served.post(
        "/api/definitions/chain", {"document": {**chain(call("a", "add", a=1), id="strange"), "name": names[3]}}
    )
    return [
        "/overview?range=7d", "/schedules",
        "/runs", "/waiting", "/definitions", "/definitions/chain/strange", "/tools", "/tools/echo", "/tools?for=add",
        *(f"/runs/{id}?node=a" for id in ids), f"/runs/{failed}?node=f", f"/runs/{failed}?view=time", "/runs?text=gone",
        f"/runs/{ids[3]}?view=data", f"/runs/{ids[0]}/diff?with={ids[3]}", "/nowhere",
        f"/runs/{ids[3]}?node={quote('n' * 120)}", f"/runs/{asks}", f"/runs/{event}",
        f"/runs/{failed}", f"/runs/{asks}?node=gone",
    ]  # fmt: skip


LOOKS = [(360, "light"), (768, "dark"), (1280, "light"), (1280, "dark"), (768, "light"), (360, "dark")]


@pytest.mark.parametrize(("width", "theme"), sampled("pages", LOOKS, 1))
def test_every_view_is_readable(page: Page, strange: list[str], width: int, theme: Any) -> None:
    """No view scrolls sideways; text has the contrast of WCAG AA and stands within its button or chip; nothing to use
    stands on something else, targets are large enough to touch; all has a name."""
    page.set_viewport_size({"width": width, "height": 850})
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    found = {}
    for place in strange:
        with (
            page.expect_response(lambda answer: "/api/" in answer.url)
            if place != "/nowhere"
            else page.expect_event("load")
        ):
            page.goto(place)
        page.wait_for_function("() => !/(Loading|Selecting|Laying out [^ ]+ nodes)…/.test(document.body.innerText)")
        found[place] = page.evaluate(AUDIT, width) + page.evaluate(NAMELESS) + page.evaluate(MOVING)
    assert {place: wrong for place, wrong in found.items() if wrong} == {}


@pytest.mark.campaign("pages", only=True)
def test_a_list_of_old_runs_is_readable_on_a_phone(page: Page, strange: list[str]) -> None:
    page.clock.set_fixed_time(datetime.now() + timedelta(days=400))
    page.set_viewport_size({"width": 360, "height": 850})
    page.goto("/runs")
    page.get_by_role("row").nth(5).wait_for()
    assert page.evaluate(AUDIT, 360) == []


@pytest.mark.campaign("pages", only=True)
def test_a_graph_of_many_nodes_keeps_few_of_them(page: Page, served: Served) -> None:
    count = 2000
    nodes = [{**call(f"n{i}", "add", a=1), "dependsOn": [f"n{(i - 1) // 2}"] if i else []} for i in range(count)]
    id = begin(served, chain(*nodes, mode="dag"), wait=60)
    page.goto(f"/runs/{id}?node=n{count - 166}")
    shows(page, f"n{count - 166}", "ok")
    assert page.locator(".react-flow__node").count() < 150  # what is out of sight is not there
    assert page.locator(".react-flow__edge.mine").count() <= 3
    before = box(page, f"n{count - 166}").bounding_box()
    page.mouse.move(300, 500)
    page.mouse.down()
    page.mouse.move(360, 540, steps=5)
    page.mouse.up()
    after = box(page, f"n{count - 166}").bounding_box()
    assert before is not None
    assert after is not None
    assert (round(after["x"] - before["x"]), round(after["y"] - before["y"])) == (60, 40)


@pytest.mark.campaign("pages", only=True)
def test_the_person_on_duty_finds_failures_schedules_and_figures_of_tools(page: Page, served: Served) -> None:
    failed = begin(served, {**chain(call("broken", "fail")), "name": "night shift"}, wait=20)
    page.goto("/overview")
    page.get_by_role("img", name=re.compile("^Runs over time: .* failed")).wait_for()
    failures = page.get_by_role("region", name="Failures")
    failures.get_by_role("listitem").filter(has_text="night shift at broken").get_by_role("link").first.click()
    page.wait_for_url(f"**/runs/{failed}")
    page.keyboard.press("g")
    page.keyboard.press("s")
    yearly = page.get_by_role("region", name="Schedule yearly")
    yearly.get_by_role("button", name="Pause yearly").click()
    yearly.get_by_text("none while it is paused").wait_for()
    yearly.get_by_role("button", name="Run yearly now").click()
    page.wait_for_url("**/runs/schedule%2Fyearly%2F*")
    page.goto("/schedules")
    yearly.get_by_role("button", name="Resume yearly").click()
    yearly.get_by_role("button", name="Pause yearly").wait_for()
    page.goto("/tools")
    page.get_by_role("button", name="Failed").click()
    page.wait_for_url("**/tools?sort=failed")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="fail", exact=True))
    assert "no luck" in row.inner_text()
    row.get_by_role("link").click()
    panel = page.get_by_role("complementary", name="Tool fail")
    panel.get_by_role("link", name="a run").wait_for()
    assert page.locator("button.main").count() == 1
