"""Start forms and tool calls of the web UI in a real browser: made from the JSON Schema, with JSON as the other tab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from .seen import status
from .server import TOKEN, TOOLS, Served, serve
from .test_http_api import call, chain, fresh

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["city", "guests", "meal", "stops"],
    "$defs": {"stop": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string"}, "nights": {"type": "integer", "default": 2, "minimum": 1}}}},
    "properties": {
        "city": {"type": "string", "title": "Town", "description": "Where to go"},
        "guests": {"type": "integer", "minimum": 1, "maximum": 9},
        "budget": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "meal": {"enum": ["none", "breakfast", "all"]},
        "pets": {"type": "boolean", "default": False},
        "smoking": {"type": "boolean"},
        "quiet": {"type": "boolean", "default": True},
        "sunny": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": None},
        "tags": {"type": "array", "items": {"type": "string"}},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}},
        "contact": {"type": "object", "required": ["mail"], "properties": {"mail": {"type": "string"}}},
        "extra": {},
    },
}  # fmt: skip
TREE = (
    TOOLS
    + '''
@tool
def book(city: str, nights: int, tags: list[str] | None = None, vip: bool = False) -> dict:
    """Book a stay."""
    return {"city": city, "nights": nights, "tags": tags, "vip": vip}
'''
)


@pytest.fixture(scope="module")
def booking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("booking"), tools=TREE)


def store(served: Served) -> str:
    id = fresh()
    document = {**chain(call("a", "add", a="$input.guests"), id=id), "inputSchema": SCHEMA}
    served.post("/api/definitions/chain", {"document": document})
    return id


def input_of_run(page: Page, served: Served) -> Any:
    page.wait_for_url("**/runs/*")
    return served.get(f"/api/runs/{page.url.rpartition('/')[2]}").json()["input"]


def test_a_start_form_is_made_from_the_schema(page: Page, served: Served) -> None:
    from playwright.sync_api import expect

    id = store(served)
    page.goto(f"/definitions/chain/{id}")
    page.get_by_text("Where to go", exact=True).wait_for()
    expect(page.get_by_role("tab", name="Form")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("checkbox", name="pets")).not_to_be_checked()
    quiet = page.get_by_role("checkbox", name="quiet")
    expect(quiet).to_be_checked()
    tick, title = quiet.bounding_box(), page.get_by_text("quiet", exact=True).bounding_box()
    assert tick is not None
    assert title is not None
    assert tick["width"] == tick["height"] < 24
    assert 0 < title["x"] - tick["x"] - tick["width"] < 12
    page.get_by_text("quiet", exact=True).click()
    expect(quiet).not_to_be_checked()
    for chosen in ("true", "not set"):  # a choice of three stays one
        page.get_by_label("smoking").select_option(chosen)
    expect(page.get_by_label("sunny")).to_have_value("-1")
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("alert").filter(has_text="Fill in the marked fields.").wait_for()
    for name in ("Town", "guests", "meal"):  # at the fields that are missing
        expect(page.get_by_label(name).first).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Town").fill("Oslo")
    page.get_by_label("guests").fill("12")
    page.get_by_label("meal").select_option("breakfast")
    page.get_by_role("checkbox", name="pets").check()
    page.get_by_role("button", name="Add to tags").click()
    page.get_by_role("textbox", name="tags 1").fill("sea")
    page.get_by_role("button", name="Add to tags").click()
    page.get_by_role("textbox", name="tags 2").fill("gone")
    page.get_by_role("button", name="Remove tags 2").click()
    page.get_by_role("button", name="Add to stops").click()
    expect(page.get_by_label("nights")).to_have_value("2")  # its default
    page.get_by_label("place").fill("Bergen")
    page.get_by_label("nights").fill("0")
    page.get_by_role("button", name="Add contact").click()
    page.get_by_label("mail").fill("ann@example.org")
    page.get_by_label("extra").fill('{"any": [1]}')
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("alert").filter(has_text="Correct the marked fields.").wait_for()
    expect(page.get_by_label("guests")).to_have_accessible_description("12 is greater than the maximum of 9")
    expect(page.get_by_label("nights")).to_have_accessible_description("0 is less than the minimum of 1")
    page.get_by_label("guests").fill("three")
    page.get_by_label("nights").fill("1")
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text("'three' is not of type").or_(page.get_by_text('"three" is not of type')).wait_for()
    page.get_by_label("guests").fill("3")
    page.get_by_role("button", name="Start", exact=True).click()
    status(page, "completed")
    assert input_of_run(page, served) == {
        "city": "Oslo", "guests": 3, "meal": "breakfast", "pets": True, "quiet": False, "sunny": None, "tags": ["sea"],
        "stops": [{"place": "Bergen", "nights": 1}], "contact": {"mail": "ann@example.org"}, "extra": {"any": [1]},
    }  # fmt: skip


@pytest.mark.campaign("pages", only=True)
def test_the_other_tab_is_the_same_value_as_json(page: Page, served: Served) -> None:
    id = store(served)
    page.goto(f"/definitions/chain/{id}")
    page.get_by_label("Town").fill("Oslo")
    page.get_by_role("tab", name="JSON").click()
    field = page.get_by_label("Input (JSON)")
    assert field.input_value() == '{\n  "pets": false,\n  "quiet": true,\n  "sunny": null,\n  "city": "Oslo"\n}'
    field.fill('{"city": "Rome", "guests": 2, "meal": "all", "stops": []')
    page.get_by_role("tab", name="Form").click()
    assert field.is_visible()  # what is no JSON yet is not lost
    field.fill('{"city": "Rome", "guests": 2, "meal": "all", "stops": []}')
    page.get_by_role("tab", name="Form").click()
    assert page.get_by_label("Town").input_value() == "Rome"
    page.get_by_role("tab", name="JSON").click()
    page.get_by_role("button", name="Start", exact=True).click()
    status(page, "completed")
    assert input_of_run(page, served) == {
        "city": "Rome", "guests": 2, "meal": "all", "stops": [], "pets": False, "quiet": True, "sunny": None,
    }  # fmt: skip


@pytest.mark.campaign("pages", only=True)
def test_a_tool_is_called_with_a_form(browser: Browser, booking: Served) -> None:
    context = browser.new_context(base_url=booking.url)
    page = context.new_page()
    page.goto(f"/?token={TOKEN}")
    page.goto("/tools/book")
    page.get_by_role("textbox", name="city").fill("Oslo")
    page.get_by_role("textbox", name="nights").fill("two")
    page.get_by_role("button", name="Call").click()
    page.get_by_text('"two" is not of type "integer"').wait_for()
    page.get_by_role("textbox", name="nights").fill("2")
    page.get_by_role("checkbox", name="vip").check()
    page.get_by_role("button", name="Call").click()
    shown = page.get_by_role("region", name="Result")
    shown.get_by_text("Oslo").wait_for()
    assert '"vip": true' in shown.inner_text()
    context.close()
