"""The page in a real browser: text that hides what it says, what fails without a record of its own, keys, phones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .seen import begin, box, shows, status
from .server import Served
from .test_http_api import call, chain

if TYPE_CHECKING:
    from playwright.sync_api import Page

TURNED = "a\u202egpj.exe\u202c safe"
PLAIN = "a\ufffdgpj.exe\ufffd safe"


@pytest.mark.campaign("pages", only=True)
def test_what_turns_text_around_is_shown_as_a_mark_and_copied_as_it_is(page: Page, served: Served) -> None:
    asks = {"id": "ask", "type": "wait", "approval": "Delete ${$input.file}"}
    document = chain(call("x", "echo", value="$input.file"), asks, name=f"Turned {TURNED}")
    id = begin(served, document, input={"file": TURNED})
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for place in ("/waiting", f"/runs/{id}?node=x", f"/runs/{id}?view=data", f"/runs/{id}?view=time", "/runs"):
        page.goto(place)
        page.get_by_text(PLAIN).first.wait_for()
        assert "\u202e" not in page.evaluate("() => document.body.innerHTML + document.title"), place
    page.goto(f"/runs/{id}?node=x")
    asked = page.get_by_role("region", name="ask waits")
    assert f"Delete {PLAIN}" in asked.inner_text()
    page.get_by_role("button", name="Copy: Output").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == TURNED
    asked.get_by_role("button", name="Reject").click()
    status(page, "failed")


@pytest.mark.campaign("pages", only=True)
def test_a_rejected_approval_is_a_failed_node_with_its_error(page: Page, served: Served) -> None:
    id = begin(served, chain({"id": "ask", "type": "wait", "approval": "fine?"}, call("b", "add", a=1)))
    page.goto(f"/runs/{id}")
    page.get_by_label("Note").fill("too dear")
    page.get_by_role("button", name="Reject").click()
    status(page, "failed")
    page.goto(f"/runs/{id}")  # of what was recorded alone
    shows(page, "ask", "failed")
    page.get_by_role("button", name="Show ask").wait_for()
    node = page.get_by_role("complementary", name="Node ask")
    node.get_by_role("heading", name="Error: rejected: too dear").wait_for()
    (failed,) = [one for one in served.get(f"/api/runs/{id}").json()["nodes"] if one["status"] == "failed"]
    assert (failed["path"], failed["error"]["kind"]) == ("ask", "Rejected")


def test_the_check_of_a_document_says_what_may_be_meant(page: Page) -> None:
    page.goto("/definitions")
    document = page.get_by_label("A chain or composition, as YAML or JSON")
    page.locator("summary").wait_for()
    if not page.locator("details[open]").count():  # it is open where no definition is stored
        page.locator("summary").click()
    document.fill("kind: chain\nname: x\nnodes:\n  - {id: a, type: tool, tool: ad, params: {a: 1}}\n")
    page.get_by_role("button", name="Check").click()
    page.get_by_text("did you mean add?").wait_for()


@pytest.mark.campaign("pages", only=True)
def test_tools_that_do_not_fit_are_not_praised(page: Page) -> None:
    page.goto("/tools?for=bake+a+cake")
    page.get_by_text("No tool matches well.").wait_for()
    page.goto("/tools?for=add+two+numbers")
    page.get_by_text("best first").wait_for()
    assert page.get_by_text("No tool matches well.").count() == 0


@pytest.mark.campaign("pages", only=True)
def test_keys_go_on_where_one_was(page: Page, served: Served) -> None:
    from playwright.sync_api import expect

    page.get_by_label("Status").focus()
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "Search runs"
    id = begin(served, chain(call("a", "add", a=1), call("b", "add", a=1)), wait=20)
    page.goto(f"/runs/{id}")
    panel = page.get_by_role("complementary", name="Node b")
    page.locator(".react-flow__node[data-id=b]").focus()
    page.keyboard.press("Enter")
    panel.wait_for()
    page.keyboard.press("Escape")
    panel.wait_for(state="detached")
    expect(page.locator(".react-flow__node[data-id=b]")).to_be_focused()
    box(page, "b").click()
    panel.get_by_role("button", name="Close the node").focus()
    page.keyboard.press("Escape")
    panel.wait_for(state="detached")
    expect(page.locator(".react-flow__node[data-id=b]")).to_be_focused()
