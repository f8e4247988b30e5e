"""The graph of a run in a real browser: it fits its place, keeps siblings together, and shows only failures red."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from .seen import begin, box, shows, status
from .server import Served
from .test_http_api import call, chain, fresh

if TYPE_CHECKING:
    from playwright.sync_api import Page

SLACK = 2
TINT = """(one) => {
  const probe = (css) => {
    const made = document.createElement("i");
    made.style.color = css;
    one.append(made);
    const colour = getComputedStyle(made).color;
    made.remove();
    return colour;
  };
  return probe("var(--tint)") === probe("var(--failed)");
}"""


def after(id: str, *before: str) -> dict[str, Any]:
    return {**call(id, "add", a=1), "dependsOn": list(before)}


def bounds(page: Page, path: str) -> dict[str, float]:
    found = box(page, path).bounding_box()
    assert found is not None
    return found  # type: ignore[no-any-return]


def all_in_view(page: Page, paths: list[str]) -> bool:
    view = page.locator(".graph").bounding_box()
    assert view is not None
    return all(
        view["x"] - SLACK <= one["x"]
        and one["x"] + one["width"] <= view["x"] + view["width"] + SLACK
        and view["y"] - SLACK <= one["y"]
        and one["y"] + one["height"] <= view["y"] + view["height"] + SLACK
        for one in (bounds(page, path) for path in paths)
    )


def wait_until_in_view(page: Page, paths: list[str]) -> None:
    for _ in range(40):
        if all_in_view(page, paths):
            return
        page.wait_for_timeout(100)
    raise AssertionError({path: bounds(page, path) for path in paths})


@pytest.mark.campaign("pages", only=True)
def test_a_graph_refits_when_a_panel_opens_and_on_a_phone(page: Page, served: Served) -> None:
    nodes = [after("a"), after("b", "a"), after("c", "a"), after("d", "a"), after("e", "a"), after("f", "b", "c")]
    id = begin(served, chain(*nodes, mode="dag"), wait=20)
    paths = ["a", "b", "c", "d", "e", "f"]
    page.goto(f"/runs/{id}")
    shows(page, "f", "ok")
    wait_until_in_view(page, paths)
    wide = bounds(page, "e")["x"]
    page.mouse.click(bounds(page, "e")["x"] + 60, bounds(page, "e")["y"] + 12)
    page.get_by_role("complementary", name="Node e").wait_for()
    wait_until_in_view(page, paths)
    assert bounds(page, "e")["x"] < wide  # the panel took some of the width
    page.get_by_role("button", name="Close the node").click()
    for _ in range(40):
        if abs(bounds(page, "e")["x"] - wide) < SLACK:
            break
        page.wait_for_timeout(100)
    assert abs(bounds(page, "e")["x"] - wide) < SLACK

    two = begin(served, chain(after("a"), after("b", "a"), after("c", "a"), mode="dag"), wait=20)
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(f"/runs/{two}")
    shows(page, "c", "ok")
    wait_until_in_view(page, ["a", "b", "c"])
    box(page, "b").click()
    page.get_by_role("complementary", name="Node b").wait_for()
    wait_until_in_view(page, ["a", "b", "c"])


@pytest.mark.campaign("pages", only=True)
def test_siblings_stand_together_and_long_edges_pass_between_boxes(page: Page, served: Served) -> None:
    nodes = [
        after("start"), after("a", "start"), after("b", "start"), after("c", "start"),
        after("a1", "a"), after("a2", "a"), after("a3", "a1"), after("b1", "b"),
        after("end", "a3", "a2", "b1", "c", "start"),
    ]  # fmt: skip
    id = begin(served, chain(*nodes, mode="dag"), wait=20)
    page.goto(f"/runs/{id}")
    shows(page, "end", "ok")
    wait_until_in_view(page, [str(node["id"]) for node in nodes])
    for siblings in (["a", "b", "c"], ["a1", "a2"]):
        places = sorted((bounds(page, one) for one in siblings), key=lambda one: one["x"])
        assert len({round(one["y"]) for one in places}) == 1
        for left, right in pairwise(places):
            assert right["x"] - left["x"] - left["width"] < 60
    # `start` to `end` is what the other edges say, too.
    assert page.locator(".react-flow__edge").count() == 11
    crossed = page.evaluate(
        """() => [...document.querySelectorAll(".react-flow__edge")].flatMap((edge) => {
          const path = edge.querySelector("path.react-flow__edge-path"), ends = edge.dataset.id.split("→");
          const matrix = path.getScreenCTM();
          const nodes = [...document.querySelectorAll(".react-flow__node")];
          const boxes = nodes.filter((one) => !ends.includes(one.dataset.id));
          const crossed = new Set();
          for (let n = 0; n <= 100; n++) {
            const { x, y } = path.getPointAtLength((path.getTotalLength() * n) / 100).matrixTransform(matrix);
            for (const one of boxes) {
              const { left, right, top, bottom } = one.getBoundingClientRect();
              const isInside = x > left && x < right && y > top && y < bottom;
              if (isInside) crossed.add(`${edge.dataset.id} over ${one.dataset.id}`);
            }
          }
          return [...crossed];
        })"""
    )
    assert crossed == []


@pytest.mark.campaign("pages", only=True)
def test_a_recovered_step_and_an_attempt_that_was_retried_are_not_red(page: Page, served: Served) -> None:
    name = fresh()
    fallback = {**call("f", "fail"), "errorStrategy": "fallback", "fallback": 0}
    id = begin(served, chain(call("a", "add", a=1), fallback, name=name), wait=20)
    page.goto(f"/runs?text={name}")
    row = page.get_by_role("row").filter(has_text=id)
    row.get_by_text("completed").wait_for()
    assert row.locator(".bad").count() == 0
    page.goto(f"/runs/{id}")
    shows(page, "f", "recovered")
    assert not box(page, "f").evaluate(TINT)
    page.get_by_role("tab", name="Timeline").click()
    bars = page.get_by_role("region", name="Timeline").locator(".bar")
    assert [bar.evaluate(TINT) for bar in bars.all()] == [False, False]

    file = fresh()
    retried = {**call("n", "need", name=file), "errorStrategy": "retry", "maxRetries": 20, "retryDelay": 300}
    second = begin(served, chain(retried))
    page.goto(f"/runs/{second}")
    box(page, "n").and_(page.locator(".is-retrying, .is-running")).wait_for()
    page.wait_for_timeout(700)
    assert not box(page, "n").evaluate(TINT)
    (served.folder / file).touch()
    status(page, "completed")
    box(page, "n").click()
    table = page.get_by_role("complementary", name="Node n").get_by_role("table", name="Attempts")
    table.get_by_text("failed, retried").first.wait_for()
    assert not any(one.evaluate(TINT) for one in table.locator(".status").all())


@pytest.mark.campaign("pages", only=True)
def test_a_run_that_waits_is_waiting_in_every_list(page: Page, served: Served) -> None:
    name = fresh()
    id = begin(served, chain({"id": "ask", "type": "wait", "approval": "Now?"}, name=name))
    ended = begin(served, chain(call("a", "add", a=1), name=name), wait=20)
    page.goto(f"/runs?text={name}&status=waiting")
    row = page.get_by_role("row").filter(has_text=id)
    row.locator(".status.is-waiting").wait_for()
    assert page.get_by_role("row").filter(has_text=ended).count() == 0
    page.goto(f"/runs?text={name}")
    page.get_by_role("row").filter(has_text=id).locator(".status.is-waiting").wait_for()
    page.goto(f"/runs?text={name}&status=running")
    page.get_by_text("No matching run.").or_(page.get_by_text("No run matches")).wait_for()
    page.goto(f"/runs/{id}")
    status(page, "waiting")
    listed = served.get("/api/runs", params={"text": name, "status": "waiting"}).json()["runs"]
    assert [(run["runId"], run["waiting"]) for run in listed] == [(id, True)]
    assert served.get("/api/runs", params={"text": name, "status": "running"}).json()["runs"] == []
    page.get_by_role("button", name="Approve").click()
    status(page, "completed")


PROGRAM = """total = 0
for n in [1, 2]:
    total = (await add(a=total, b=n))
if total > 100:
    await add(a=1, b=1)
await asyncio.gather(add(a=3, b=4), fail())
await approve("Go?")
"""


@pytest.mark.campaign("pages", only=True)
def test_the_steps_of_a_program_are_shown_on_its_outline(page: Page, served: Served) -> None:
    program = {"kind": "plan", "code": PROGRAM.replace(", fail()", ""), "name": fresh()}
    id = begin(served, program)
    page.goto(f"/runs/{id}")
    for place, shown in {"7:7": "waiting", "3:20": "ok", "2:1": "ok", "6:22": "ok", "5:11": "none"}.items():
        shows(page, f"program/{place}", shown)
    box(page, "program/3:20").click()
    panel = page.get_by_role("complementary", name="Node program/3:20")
    panel.get_by_text("2 instances").wait_for()
    panel.get_by_role("combobox", name="Instance").select_option("program[0-3:20.2]/add")
    panel.get_by_role("region", name="Input").get_by_text("2").wait_for()
    assert panel.get_by_role("region", name="Output").inner_text().endswith("3")

    failed = begin(served, {"kind": "plan", "code": PROGRAM, "name": fresh()}, wait=20)
    page.goto(f"/runs/{failed}")
    shows(page, "program/6:37", "failed")
    shows(page, "program/6:7", "failed")
    shows(page, "program/2:1", "ok")
    outer, last = bounds(page, "program"), bounds(page, "program/7:7")  # a tall box reaches around what is in it
    assert last["y"] + last["height"] < outer["y"] + outer["height"]
