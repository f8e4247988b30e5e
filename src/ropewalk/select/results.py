"""The results of a selection: which tools may be chosen, which are best, and what a result says of each.

Scores come from a strategy; past success and recent use move them here. This module does without numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ..values import Json
from .options import Options
from .tool_card import FIELDS
from .usage import Rate
from .word_index import WordIndex

# How far a recently used tool may be behind another one and still come before it.
RECENT_FACTOR: Final = 1.05


class RankedSlot(NamedTuple):
    """A result: its score, the slot of its tool, and its place in the ranking before success rates were counted."""

    score: float
    slot: int
    place: int


def keep_best(
    index: WordIndex,
    scores: Sequence[float],
    slots: Sequence[int],
    rates: Mapping[str, Rate],
    options: Options,
    past: Mapping[str, Rate],
    setbacks: bool = False,
) -> tuple[list[RankedSlot], int]:
    """Return the best slots, at most `options.max_results`, and how many match."""

    # Past success counts. With `setbacks` only failures count. The runs of `past` served unknown requests, so they only
    # order equal scores, before the name.
    rated = []
    cards = index.cards
    limit, threshold = options.max_results, options.threshold
    total, close = 0, len(scores)
    # Without rates nothing changes the order, so slots far behind the last result are left out.
    if not rates and not options.recent:
        total = close = sum(score > 0 and round(score, 4) >= threshold for score in scores)
        if total > limit:
            close = sum(score >= scores[limit - 1] - 1e-4 for score in scores)
    for place, (score, slot) in enumerate(zip(scores[:close], slots[:close], strict=True)):
        card = cards[slot]
        assert card is not None
        rate = rates.get(card.key)
        value = score if rate is None else score * rate.setback if setbacks else min(1.0, score * rate.factor)
        if value > 0 and round(value, 4) >= threshold:  # as it is shown: a score equal to the threshold is enough
            order = value * RECENT_FACTOR if options.recent and is_recent(index, slot, options) else value
            known = past.get(card.key)
            failed = 0.0 if known is None else known.failure_share
            rated.append((-round(order, 4), failed, card.key, value, slot, place))
    rated.sort()
    return [RankedSlot(value, slot, place) for *_, value, slot, place in rated[:limit]], total or len(rated)


def is_recent(index: WordIndex, slot: int, options: Options) -> bool:
    """Return True if a tool was used recently."""
    card = index.cards[slot]
    return card is not None and (card.key in options.recent or card.name in options.recent)


class Allowed(NamedTuple):
    """The slots that may be chosen: `listed` ones, or all if that is None, without `excluded` ones."""

    listed: set[int] | None
    excluded: set[int]

    def has(self, slot: int) -> bool:
        """Return True if the tool of a slot may be chosen."""
        return (self.listed is None or slot in self.listed) and slot not in self.excluded


def allowed_tools(index: WordIndex, options: Options) -> Allowed | None:
    """Return the slots that the options allow; None if all may be chosen."""
    if not options.exclude_tools and (options.allow_tools, options.category, options.namespace) == (None,) * 3:
        return None
    listed: set[int] | None = None
    for names, place in (
        (options.allow_tools, None),
        (options.category, index.by_category),
        (options.namespace, index.by_namespace),
    ):
        if names is not None:
            slots = _slots_named(index, names, place)
            listed = slots if listed is None else listed & slots
    return Allowed(listed, _slots_named(index, options.exclude_tools, None))


def _slots_named(index: WordIndex, names: Iterable[str], place: dict[str, set[int]] | None) -> set[int]:
    """Return the slots with these names: ids or names of tools, or names of a place."""
    slots = set[int]()
    for name in names:
        if place is not None:
            slots |= place.get(name, set())
        else:
            slots |= {index.slots[name]} if name in index.slots else index.by_name.get(name, set())
    return slots


PAST_SUCCESS: Final = "past success"  # what it added to a score; with it, what a strategy gave
USED_RECENTLY: Final = "used recently"  # what it would have added: only the place changes


def add_score_changes(reasons: dict[str, Json], success: float, recently: float) -> None:
    """Add to the reasons of a result what moved it after the ranking."""
    features = reasons["features"]
    assert isinstance(features, dict)
    for name, by in ((PAST_SUCCESS, success), (USED_RECENTLY, recently)):
        if round(by, 3):
            features[name] = round(by, 3)


_FIELDS_OF: Final = [
    [name for number, name in enumerate(FIELDS) if bits >> number & 1] for bits in range(1 << len(FIELDS))
]


def fields_of(bits: int) -> list[Json]:
    """Return the names of the fields of these bits."""
    return [*_FIELDS_OF[bits]]


def shape_results(
    index: WordIndex,
    best: list[RankedSlot],
    ranked: Sequence[float],
    reasons: list[dict[str, Json]],
    options: Options,
    rates: Mapping[str, Rate],
) -> list[dict[str, Json]]:
    """Shape the kept results, with the features that moved their scores after the ranking."""
    results: list[dict[str, Json]] = []
    for (score, slot, place), reason in zip(best, reasons, strict=True):
        results.append(_result(index, slot, score, reason))
        if options.recent or rates:
            recently = score * (RECENT_FACTOR - 1) if is_recent(index, slot, options) else 0.0
            add_score_changes(reason, score - ranked[place], recently)
    return results


def _result(index: WordIndex, slot: int, score: float, matches: dict[str, Json]) -> dict[str, Json]:
    card = index.cards[slot]
    assert card is not None
    result: dict[str, Json] = {
        "name": card.key,
        "description": card.description,
        "score": round(score, 4),
        "matches": matches,
        "category": card.category,
        "inputSchema": card.input_schema,
    }
    if card.namespace is not None:
        result["namespace"] = card.namespace
    return result
