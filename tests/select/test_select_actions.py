"""Which action a request wants and a tool does, and what that changes in the ranking."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.select.action_sense import AGREEMENT, Sense, request_senses, tool_senses
from ropewalk.select.selector import Selector

READS = {Sense.LIST, Sense.ONE, Sense.FIND}
NO_HINTS = frozenset[str]()


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("Please create an invoice for Bob", {Sense.CREATE}),
        ("Can you turn the kitchen lights off?", {Sense.CHANGE}),
        ("get rid of that branch", {Sense.DELETE}),
        ("take the old poster down", {Sense.DELETE}),
        ("I want to look up a customer", {Sense.FIND}),
        ("let Bob know that I am late", {Sense.SEND}),
        ("kick the nightly job off", {Sense.RUN}),
        ("show me the open issues of the project", {Sense.LIST}),
        ("show me the issue", {Sense.ONE}),
        ("How many users signed up?", {Sense.COUNT}),
        ("Who created this invoice?", READS),
        ("When did we delete the branch?", READS),
        ("How do I create an invoice?", {Sense.CREATE}),
        ("is there a way to delete it", {Sense.DELETE}),
        ("the list of the delete button", {Sense.LIST}),
        ("weather in Berlin", set()),
        ("Wetter in Berlin", set()),
        ("", set()),
    ],
)
def test_the_sense_of_a_request(request_text: str, expected: set[Sense]) -> None:
    assert {sense for sense in Sense if request_senses(request_text)[sense]} == expected


@pytest.mark.parametrize(
    ("name", "description", "hints", "expected"),
    [
        ("get issues", "", NO_HINTS, {Sense.LIST}),
        ("get issue", "", NO_HINTS, {Sense.ONE}),
        ("get status of issues", "", NO_HINTS, {Sense.ONE}),
        ("issue delete", "Creates nothing", NO_HINTS, {Sense.DELETE}),
        ("invoice", "Creates an invoice", NO_HINTS, {Sense.CREATE}),
        ("invoice", "An invoice is created", NO_HINTS, set()),
        ("invoice", "", frozenset({"readOnlyHint"}), READS),
        ("run report", "", frozenset({"readOnlyHint"}), READS),
        ("invoice", "", frozenset({"destructiveHint"}), {Sense.DELETE, Sense.CHANGE}),
    ],
)
def test_the_sense_of_a_tool(name: str, description: str, hints: frozenset[str], expected: set[Sense]) -> None:
    assert {sense for sense in Sense if tool_senses(name.split(), description, hints)[sense]} == expected


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from(["get", "how", "many", "turn", "off", "what", "do", "i", "Ärger", "s", "?", "7"])).map(
        " ".join
    )
)
def test_the_senses_of_any_request_are_shares(text: str) -> None:
    assert 0 <= sum(request_senses(text)) <= 1 + 1e-9


def test_only_the_wrong_action_harms_and_a_question_never_wants_a_change() -> None:
    for wanted in Sense:
        row = AGREEMENT[wanted]
        assert max(row) == row[wanted] > 0
        assert all((row[done] < 0) == (done not in (READS | {Sense.COUNT})) for done in Sense if done != wanted)


def _tools(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "description": "", **more} for name in names]


def _action_of(selector: Selector, request: str) -> dict[str, float]:
    results = selector.select(request, threshold=0, max_results=20).results
    return {result["name"]: result["matches"]["features"].get("action", 0.0) for result in results}  # type: ignore[index, union-attr, call-overload, misc]


def test_a_tool_or_a_request_without_a_sense_is_neither_helped_nor_harmed() -> None:
    selector = Selector(_tools("invoice_pdf", "create_invoice", "delete_invoice"))
    parts = _action_of(selector, "create an invoice")
    assert parts["invoice_pdf"] == 0
    assert parts["create_invoice"] > 0 > parts["delete_invoice"]
    assert set(_action_of(selector, "invoice").values()) == {0}


@pytest.mark.parametrize(
    ("request_text", "first"),
    [
        ("Which invoices does Bob have?", "find_invoices"),
        ("throw the invoice out", "delete_invoices"),
        ("How do I get rid of an invoice?", "delete_invoices"),
        ("Is this invoice from May?", "find_invoices"),
    ],
)
def test_the_right_action_on_the_same_thing_is_first(request_text: str, first: str) -> None:
    selector = Selector(_tools("create_invoices", "delete_invoices", "find_invoices", "update_invoices"))
    assert selector.select(request_text, threshold=0).results[0]["name"] == first


def test_a_hint_tells_what_a_name_does_not() -> None:
    tools = [*_tools("invoice_b", annotations={"readOnlyHint": True}), *_tools("invoice_a", "other")]
    assert Selector(tools).select("what is in the invoice", threshold=0).results[0]["name"] == "invoice_b"
