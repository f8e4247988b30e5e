"""The `hybrid` strategy: candidates from the index, ranked by their features, each with how sure one can be.

How sure is measured, not felt: the best result's score is the share of requests with such a result whose tool was
among the first five; the others' fall off with how far they are behind it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from ..frozen import dataclass
from . import weights
from .features import NAMES, Candidates, Reading
from .index import Index

Array: TypeAlias = np.ndarray[Any, Any]

CANDIDATES: Final = 100
SURE_AGAIN: Final = 12.0  # how fast a request becomes one that was asked before,
LIKE_BEFORE: Final = 0.55  # and how like it must be for even chances
REMEMBERED: Final = 4.0  # what a request just like one that a tool answered adds to its score


@dataclass(frozen=True, slots=True)
class Ranking:
    """Slots best first, the score of each (0 to 1), and a row of features for each."""

    slots: Array
    scores: Array
    features: Array  # in the order of the slots as measured
    found: Candidates
    order: Array | None = None  # place as measured, by rank
    with_model: bool = False


@lru_cache(maxsize=2)
def weight_row(with_model: bool) -> tuple[float, ...]:
    """The weights in the order of NAMES."""
    table = weights.MODEL if with_model else weights.PLAIN
    return tuple(table.get(name, 0.0) for name in NAMES)


@lru_cache(maxsize=2)
def _sure_row(with_model: bool) -> list[tuple[int, float]]:
    """The place among NAMES and the weight of what makes one sure."""
    kind = "model" if with_model else "plain"
    both = ((n, weights.SURE.get(f"{kind} {name}", 0.0)) for n, name in enumerate(NAMES))
    return [(n, weight) for n, weight in both if weight]


def rank(
    index: Index,
    reading: Reading,
    allowed: Array | None = None,
    near: Array | None = None,
    remembered: dict[str, float] | None = None,
) -> Ranking:
    """Rank the tools of an index for a request. `allowed` says of each slot whether it may be chosen, `near` what a
    model thinks of each, `remembered` how like a request that a tool answered before this one is."""
    found = Candidates(index, reading)
    slots = found.find(allowed, CANDIDATES, near)
    past = _past(index, remembered or {}, allowed)
    if past:
        slots = np.unique(np.concatenate([slots, np.array(list(past), slots.dtype)]))
    if not len(slots):
        return Ranking(slots, np.zeros(0, np.float32), np.zeros((0, len(NAMES)), np.float32), found)
    features = found.measure(slots, near)
    values = features @ np.array(weight_row(near is not None), np.float32)
    if past:
        bonus = np.array([past.get(slot, 0.0) for slot in slots.tolist()], np.float32)
        values = values + REMEMBERED * bonus
    order = np.argsort(-values, kind="stable")
    ranked, sorted_values = slots[order], values[order]
    scores = sureness(sorted_values, features[order[0]], near is not None, past.get(int(ranked[0]), 0.0))
    return Ranking(ranked, scores, features, found, order, near is not None)


def _past(index: Index, remembered: dict[str, float], allowed: Array | None) -> dict[int, float]:
    """By slot, the best thirty."""
    slots = {index.slots[tool]: like for tool, like in remembered.items() if tool in index.slots}
    if allowed is not None:
        slots = {slot: like for slot, like in slots.items() if allowed[slot]}
    return dict(sorted(slots.items(), key=lambda one: -one[1])[:30])


def sureness(values: Array, features_of_best: Array, with_model: bool, remembered: float = 0.0) -> Array:
    """The scores of candidates in order: how sure the best makes one, and less the further one is behind it."""
    table = weights.SURE
    top = features_of_best.tolist()
    name = "model" if with_model else "plain"
    z = table.get(f"{name} bias", 0.0) + sum(weight * top[n] for n, weight in _sure_row(with_model))
    best = max(_logistic(z), _logistic(SURE_AGAIN * (remembered - LIKE_BEFORE)) if remembered else 0.0)
    behind = (values[0] - values) * table.get(f"{name} fall", 0.1)
    scores: Array = (best * np.exp(-behind)).astype(np.float32)
    return scores


def _logistic(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, z))))
