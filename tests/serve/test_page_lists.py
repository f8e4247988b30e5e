"""Lists of the web UI in a real browser: runs to compare with, filters, attempts, icons of kinds."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from .seen import begin, box, shows, status
from .server import Served
from .test_http_api import call, chain, fresh

if TYPE_CHECKING:
    from playwright.sync_api import Page


def stored(served: Served, name: str) -> str:
    id = fresh()
    document = {**chain(call("a", "add", a="$input.n"), id=id), "name": name}
    assert served.post("/api/definitions/chain", {"document": document}).status_code == 201
    return id


def run_of(served: Served, id: str, n: int) -> str:
    given = {"definition": {"kind": "chain", "id": id}, "input": {"n": n}, "wait": 20}
    return str(served.post("/api/runs", given).json()["runId"])


@pytest.mark.campaign("pages", only=True)
def test_compare_picks_from_a_list_of_runs(page: Page, served: Served) -> None:
    name = f"Compared {fresh()}"
    id = stored(served, name)
    first, second = run_of(served, id, 1), run_of(served, id, 2)
    other = begin(served, chain(call("a", "add", a=3), name="Another"), wait=20)
    page.goto(f"/runs/{first}")
    page.get_by_role("button", name="Compare…").click()
    listed = page.get_by_role("list", name="Runs to compare with")
    listed.get_by_text(second).wait_for()
    assert listed.get_by_text(first).count() == 0
    assert listed.get_by_text(other).count() == 0
    page.get_by_label("All definitions").check()
    listed.get_by_text(other).wait_for()
    page.get_by_label("Search the other run").fill(second)
    listed.get_by_text(other).wait_for(state="detached")
    listed.get_by_role("button", name=name).click()
    page.wait_for_url(f"**/runs/{first}/diff?with={second}")
    row = page.get_by_role("row").filter(has_text="Input").first
    row.wait_for()
    assert [cell.inner_text() for cell in row.get_by_role("cell").all()][-2:] == ["1", "2"]


@pytest.mark.campaign("pages", only=True)
def test_runs_are_filtered_by_definition_and_by_date(page: Page, served: Served) -> None:
    from playwright.sync_api import expect

    one, two = stored(served, f"One {fresh()}"), stored(served, f"Two {fresh()}")
    mine, other = run_of(served, one, 1), run_of(served, two, 1)
    page.goto("/runs")
    page.get_by_label("Definition").select_option(f"definition {one}")
    expect(page.get_by_role("row")).to_have_count(2)  # with the head
    assert mine in page.get_by_role("row").nth(1).inner_text()
    today = datetime.now().date()
    page.get_by_label("From").fill(str(today))
    page.get_by_label("To", exact=True).fill(str(today))
    page.wait_for_url(f"**since={today}**")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_label("To", exact=True).fill(str(today + timedelta(days=9)))
    page.get_by_label("From").fill(str(today + timedelta(days=1)))
    expect(page.get_by_role("row")).to_have_count(0)
    page.get_by_label("From").fill("")
    expect(page.get_by_role("row")).to_have_count(2)
    page.reload()  # the address keeps the filters
    expect(page.get_by_label("Definition")).to_have_value(f"definition {one}")
    page.get_by_label("Definition").select_option("")
    page.get_by_role("row").filter(has_text=other).wait_for()

    file = served.folder / f"{fresh()}.yaml"
    name = f"Filed {file.stem}"
    file.write_text(f"kind: chain\nname: {name}\nnodes:\n  - {{id: a, type: tool, tool: add, params: {{a: 1}}}}\n")
    filed = begin(served, {"kind": "chain", "name": name, "nodes": [call("a", "add", a=1)]}, wait=20)
    page.goto("/runs")
    page.get_by_label("Definition").select_option(f"flow {name}")
    expect(page.get_by_role("row")).to_have_count(2)
    assert filed in page.get_by_role("row").nth(1).inner_text()
    file.unlink()


@pytest.mark.process
def test_runs_are_listed_by_flow_and_until_a_time(served: Served) -> None:
    name = f"Flow {fresh()}"
    id = begin(served, chain(call("a", "add", a=1), name=name), wait=20)

    def ids(**given: str) -> list[str]:
        return [run["runId"] for run in served.get("/api/runs", params={"flow": name, **given}).json()["runs"]]

    assert ids() == [id]
    assert ids(until="4e9") == [id]
    assert ids(until="2020-01-01") == []
    found = served.get("/api/runs", params={"until": "tomorrow"})
    assert (found.status_code, "query.until: 'tomorrow' is not a time" in found.text) == (422, True)


@pytest.mark.campaign("pages", only=True)
def test_earlier_attempts_of_a_retried_node_are_shown(page: Page, served: Served) -> None:
    file = fresh()
    node = {**call("n", "need", name=file), "errorStrategy": "retry", "maxRetries": 20, "retryDelay": 100}
    id = begin(served, chain(node))
    page.goto(f"/runs/{id}")
    box(page, "n").locator(".tries").wait_for()  # while it is retried
    (served.folder / file).touch()
    status(page, "completed")
    page.goto(f"/runs/{id}?node=n")
    shows(page, "n", "ok")
    rows = page.get_by_role("table", name="Attempts").get_by_role("row")
    rows.nth(2).wait_for()
    attempts = [row.inner_text() for row in rows.all()[1:]]
    assert ["failed, retried" in one for one in attempts] == [True] * (len(attempts) - 1) + [False]
    assert f"{file} is not there" in attempts[0]
    assert box(page, "n").get_by_text(f"↻ {len(attempts)}").count() == 1

    file = fresh()
    id = begin(served, chain(call("n", "need", name=file)), wait=20)
    (served.folder / file).touch()
    page.goto(f"/runs/{id}")
    page.get_by_role("button", name="Retry", exact=True).click()
    status(page, "completed")
    page.goto(f"/runs/{id}?node=n")
    before = page.get_by_role("table", name="Attempts").get_by_role("row").nth(1)
    before.get_by_text(re.compile(rf"{file} is not there \(at .+, before the run was retried\)")).wait_for()
    assert "failed" in before.inner_text()


@pytest.mark.campaign("pages", only=True)
def test_each_kind_of_node_has_an_icon(page: Page, served: Served) -> None:
    loop = {"id": "l", "type": "loop", "items": [1], "nodes": [call("in", "add", a="$item")]}
    choice = {"id": "c", "type": "condition", "condition": "true", "then": [call("t", "add", a=1)]}
    wait = {"id": "w", "type": "wait", "event": "e"}
    id = begin(served, chain(call("a", "add", a=1), loop, choice, wait))
    page.goto(f"/runs/{id}")
    shows(page, "w", "waiting")
    kinds = {
        node: box(page, node).locator("svg.kind").first.get_attribute("data-kind") for node in ("a", "l", "c", "w")
    }
    assert kinds["a"] == "Call"
    assert kinds["w"] == "Wait"
    assert len(set(kinds.values())) == 4
    paths = page.locator("svg.kind path").evaluate_all("all => all.map((one) => one.getAttribute('d'))")
    assert len(set(paths)) == 4
