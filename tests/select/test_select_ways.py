"""A request is read as a whole and clause by clause; few tools, or none that fits, make nobody sure."""

from __future__ import annotations

import numpy as np
import pytest
from registry import TOOLS, definition, names

from ropewalk.select.hybrid import CANDIDATES, chance_by_way, match_evidence
from ropewalk.select.selector import Selector

SEVERAL = (
    "Create the monthly tax invoice for the customer, a new and final invoice with id and credit of the customer. "
    "After that, reserve a table for four."
)


def test_each_clause_brings_the_tool_it_needs() -> None:
    """SELECT-CLAUSES-1"""
    kinds = ("new", "big", "draft", "late", "tax", "final", "monthly", "credit")
    near = [definition(f"create_{what}_invoice", f"Create a {what} invoice for the customer.", "id") for what in kinds]
    found = names(Selector([*TOOLS, *near]).select(SEVERAL, threshold=0))
    assert "book_table" in found[:5]  # though eight tools have more of the words of the whole
    assert any("invoice" in name for name in found[:5])


def test_a_way_of_small_share_cannot_outdo_one_of_large_share() -> None:
    """SELECT-CLAUSES-1"""
    values = np.array([[5.0, 0.0], [0.0, 50.0]])
    likely = chance_by_way(values, np.array([0.9, 0.1]))
    assert likely.sum() == pytest.approx(1.0)
    assert likely.sum(0)[0] > 0.89


def test_the_best_of_a_few_is_not_likely_because_they_are_few() -> None:
    """SELECT-SURE-1"""
    few, _ = match_evidence(np.full((1, 3), 2.0), np.ones(1), 2.0)
    many, _ = match_evidence(np.full((1, CANDIDATES), 2.0), np.ones(1), 2.0)
    assert few == pytest.approx(3 / CANDIDATES)
    assert many == pytest.approx(5 / CANDIDATES)


@pytest.mark.parametrize("foreign", ["knit a woollen sock", "who won the chess championship", "tune my guitar"])
def test_a_request_that_no_tool_fits_finds_none(foreign: str) -> None:
    """SELECT-SURE-1"""
    assert names(Selector(TOOLS).select(foreign)) == []
    assert names(Selector(TOOLS[:1]).select(foreign)) == []


def test_requests_remembered_move_nothing_they_are_not_like() -> None:
    """SELECT-LEARN-1"""
    selector = Selector(TOOLS)
    before = names(selector.select("reserve a table for two", threshold=0))
    for number in range(8):
        selector.record(f"find guitar chords of song {number}", "movie_search", True)
    assert names(selector.select("reserve a table for two", threshold=0))[:1] == before[:1] == ["book_table"]
    assert names(selector.select("which guitar chords has this song"))[0] == "movie_search"


def test_requests_vote_for_their_tools_by_how_like_they_are() -> None:
    """SELECT-LEARN-1"""
    selector = Selector([definition("zork", "A plugin."), definition("blip", "A plugin."), *TOOLS])
    for request in ("chords for my guitar", "tune the guitar", "a melody for guitar"):
        selector.record(request, "zork", True)
    selector.record("paint the guitar red", "blip", True)
    assert names(selector.select("guitar melody with chords"))[0] == "zork"
    assert names(selector.select("paint something red"))[0] == "blip"
