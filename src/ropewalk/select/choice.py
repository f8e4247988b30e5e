"""Which tools may be chosen, and which of those that were rated are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from .index import Index
from .options import Options
from .usage import Rate

Array: TypeAlias = np.ndarray[Any, Any]

RECENT: Final = 1.05  # by how much a tool may be behind one that was not used recently, and still stand before it


def cut(
    index: Index, scores: Array, slots: Array, rates: Mapping[str, Rate], options: Options, setbacks: bool = False
) -> tuple[list[tuple[float, int, int]], int]:
    """The best as (score, slot, place) of slots with their scores, the best first, and how many there were to choose
    from: past success counts, equals stand by name. With `setbacks` only failures count."""
    rated = []
    cards = index.cards
    most, least = options.max_results, options.threshold
    total, near = 0, len(scores)
    if not rates and not options.recent:  # nothing moves a score: who is far behind need not be looked at
        total = near = int(np.count_nonzero((scores.round(4) >= least) & (scores > 0)))
        if total > most:
            near = int(np.count_nonzero(scores >= scores.item(most - 1) - 1e-4))
    for place, (score, slot) in enumerate(zip(scores[:near].tolist(), slots[:near].tolist(), strict=True)):
        card = cards[slot]
        assert card is not None
        rate = rates.get(card.key)
        value = score if rate is None else score * rate.setback if setbacks else min(1.0, score * rate.factor)
        if value > 0 and round(value, 4) >= least:  # as it is shown: a score equal to the threshold is enough
            order = value * RECENT if options.recent and is_recent(index, slot, options) else value
            rated.append((-round(order, 4), card.key, value, slot, place))
    rated.sort()
    return [(value, slot, place) for _, _, value, slot, place in rated[:most]], total or len(rated)


def is_recent(index: Index, slot: int, options: Options) -> bool:
    """Whether a tool is among those that were used recently."""
    card = index.cards[slot]
    return card is not None and (card.key in options.recent or card.name in options.recent)


def allowed(index: Index, options: Options) -> Array | None:
    """Of each slot whether it may be chosen; None when all may."""
    if not options.exclude_tools and (options.allow_tools, options.category, options.namespace) == (None,) * 3:
        return None
    may = np.ones(index.size, np.bool_)
    for wanted, place in (
        (options.allow_tools, None),
        (options.category, index.by_category),
        (options.namespace, index.by_namespace),
    ):
        if wanted is not None:
            some = np.zeros(index.size, np.bool_)
            some[_slots(index, wanted, place)] = True
            may &= some
    may[_slots(index, options.exclude_tools, None)] = False
    return may & index.alive[: index.size]


def _slots(index: Index, names: Iterable[str], place: dict[str, set[int]] | None) -> list[int]:
    """The slots that go by these names: of tools (by id, or by name in any namespace) or of a place."""
    found = set[int]()
    for name in names:
        if place is not None:
            found |= place.get(name, set())
        else:
            found |= {index.slots[name]} if name in index.slots else index.by_name.get(name, set())
    return list(found)
