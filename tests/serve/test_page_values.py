"""Values and documents of the web UI in a real browser: the result first, JSON that folds, the author's own text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from .seen import begin
from .server import Served
from .test_http_api import call, chain, fresh

if TYPE_CHECKING:
    from playwright.sync_api import Page

YAML = """\
# Counts what was ordered.
kind: chain
name: Orders
nodes:
  - {id: a, type: tool, tool: add, params: {a: 1}}  # one at a time
"""
CODE = "# Adds twice.\nfirst = await add(a=1, b=2)\nresult = await add(a=first, b=2)\n"
PLAN = "kind: plan  # a program\nname: Twice\ncode: |\n" + "".join(f"  {line}\n" for line in CODE.splitlines())


@pytest.mark.campaign("pages", only=True)
def test_the_result_comes_before_everything_that_was_recorded_with_it(page: Page, served: Served) -> None:
    id = begin(served, chain(call("a", "add", a="$input.n")), input={"n": 40}, wait=20)
    page.goto(f"/runs/{id}?view=data")
    page.get_by_role("region", name="Result", exact=True).wait_for()
    regions = page.locator("section.value").evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
    assert regions == ["Result", "Input", "Details of the result"]
    result = page.get_by_role("region", name="Result", exact=True).inner_text()
    assert '"a": 41' in result
    details = page.get_by_role("region", name="Details of the result").inner_text()
    assert "variables" in details
    assert "executionId" not in result + details


@pytest.mark.campaign("pages", only=True)
def test_json_is_coloured_and_folds(page: Page, served: Served) -> None:
    from playwright.sync_api import expect

    value = {"rows": [{"name": "hemp", "metres": n, "sold": None} for n in range(300)], "of": "ropes"}
    id = begin(served, chain(call("a", "add", a=1)), input=value, wait=20)
    page.goto(f"/runs/{id}?view=data")
    region = page.get_by_role("region", name="Input")
    rows = region.get_by_role("button", name="Collapse rows, 300 items")
    rows.wait_for()
    colours = {
        kind: region.locator(f".{kind}").first.evaluate("one => getComputedStyle(one).color")
        for kind in ("key", "text", "line")
    }
    assert len(set(colours.values())) == 3
    assert "metres" not in region.inner_text()  # the inner levels of a long value are closed
    region.get_by_role("button", name="Expand value, 3 keys").first.click()
    expect(region.get_by_text('"metres": 0')).to_be_visible()
    assert region.locator(".line").count() < 250
    region.get_by_role("button", name="Show more of 300 items").click()
    expect(region.get_by_role("button", name="Expand value, 3 keys")).to_have_count(299)
    rows.click()
    expect(region.get_by_role("button", name="Expand value, 3 keys")).to_have_count(0)
    expect(region.get_by_text('"ropes"')).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy: Input").click()
    page.get_by_text("Copied").wait_for()
    assert json.loads(page.evaluate("() => navigator.clipboard.readText()")) == value


@pytest.mark.campaign("pages", only=True)
def test_document_is_the_text_of_its_author(page: Page, served: Served) -> None:
    name = fresh()
    for suffix, text in ((".yaml", YAML), ("-plan.yaml", PLAN)):
        file = served.folder / f"{name}{suffix}"
        file.write_text(text)
        found = served.get(f"/api/definitions/file/{file.name}").json()
        assert (found["source"], found["sourceName"]) == (text, file.name)
        page.goto(f"/definitions/file/{file.name}")
        shown = page.get_by_role("region", name="Document")
        shown.wait_for()
        assert shown.locator("pre").inner_text().rstrip() == text.rstrip()
        assert shown.locator("pre .key").first.inner_text() == "kind"
        file.unlink()
    served.post("/api/definitions/chain", {"document": chain(call("a", "add", a=1), id=name)})
    found = served.get(f"/api/definitions/chain/{name}").json()
    assert (found["source"], found["sourceName"], found["inputSchema"]) == (None, None, None)
    page.goto(f"/definitions/chain/{name}")
    page.get_by_role("region", name="Document").get_by_text('"tool"').first.wait_for()


@pytest.mark.campaign("pages", only=True)
def test_integers_beyond_what_javascript_counts_keep_their_digits(page: Page, served: Served) -> None:
    id = begin(served, chain(call("a", "add", a="$input.n")), input={"n": 2**62}, wait=20)
    page.goto(f"/runs/{id}?view=data")
    page.get_by_role("region", name="Result", exact=True).wait_for()
    assert str(2**62 + 1) in page.get_by_role("region", name="Result", exact=True).inner_text()
    assert str(2**62) in page.get_by_role("region", name="Input", exact=True).inner_text()
