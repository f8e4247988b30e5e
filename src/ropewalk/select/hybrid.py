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
from .candidates import Candidates
from .features import NAMES, measure
from .index import Index
from .memory import Memory, Recalled
from .reading import Reading

Array: TypeAlias = np.ndarray[Any, Any]

CANDIDATES: Final = 64
SURE_AGAIN: Final = 12.0  # how fast a request becomes one that was asked before,
LIKE_BEFORE: Final = 0.5  # and how like it must be for even chances
MOST_SEEN: Final = 10_000
NEXT: Final = 0.99  # how sure what comes after the candidates is at most, against the last of them
FALL: Final = 0.08  # by which power of its chance, against the best one's, a result is less sure
RECALLED: Final = 30  # tools that were asked something like it, and are looked at too


@dataclass(frozen=True, slots=True)
class Ranking:
    """Slots best first, the score of each (0 to 1), and a row of features for each."""

    slots: Array
    scores: Array
    features: Array  # in the order of the slots as measured, each in the way that speaks most for it
    found: Candidates
    order: Array | None = None  # place as measured, by rank
    with_model: bool = False
    added: Array | None = None  # by what the tool was asked before, in the order of the slots as measured


@lru_cache(maxsize=2)
def weight_row(with_model: bool) -> Array:
    """The weights in the order of NAMES."""
    table = weights.MODEL if with_model else weights.PLAIN
    return np.array([table.get(name, 0.0) for name in NAMES])


@lru_cache(maxsize=2)
def _single(with_model: bool) -> Array:
    return weight_row(with_model).astype(np.float32)


def rank(
    index: Index,
    reading: Reading,
    allowed: Array | None = None,
    near: Array | None = None,
    memory: Memory | None = None,
    after: Ranking | None = None,
    most: int = CANDIDATES,
) -> Ranking:
    """Rank the tools of an index for a request. `allowed` says of each slot whether it may be chosen, `near` what a
    model thinks of each, `memory` has the requests that tools answered before. Those `after` others are the rest of the
    best `most`, each with a lower score."""
    found = Candidates(index, reading)
    slots = found.find(allowed, most, near)
    if after is not None:
        slots = np.setdiff1d(slots, after.slots)
    recalled = memory.recall(reading) if memory is not None else None
    added: Array | None = None
    places: list[int] = []
    if memory is not None and recalled is not None:
        slots, places = joined(index, memory, recalled, slots, allowed)
        added = recalled.value[:, places]
    if not len(slots):
        return Ranking(slots, np.zeros(0, np.float32), np.zeros((0, len(NAMES)), np.float32), found)
    measured = measure(found, slots, near)
    words = measured @ _single(near is not None)
    shares = chances(words, reading.shares)
    if recalled is not None and added is not None:
        shares = chances(words + recalled.beyond_doubt[:, places], reading.shares)
    chance = shares.sum(0)
    best_way = shares.argmax(0)
    if added is not None:
        chance = reordered(chance, chances(words + added, reading.shares).sum(0), np.array(places) >= 0)
    order = (-chance).argsort(kind="stable")
    choice = len(index) if allowed is None else int(allowed.sum())
    sure = sureness(words, reading.shares, choice, near is not None, shares if added is None else None)
    columns = np.arange(len(slots))
    if recalled is not None and added is not None:
        place = places[order[0]]
        like = float(recalled.alike[place]) if place >= 0 else 0.0
        sure = max(sure, _logistic(SURE_AGAIN * (like - LIKE_BEFORE)))
        added = added[best_way, columns]
    if after is not None:
        sure = NEXT * after.scores.item(-1)
    scores = sure * (chance[order] / chance[order[0]]) ** FALL
    return Ranking(slots[order], scores, measured[best_way, columns], found, order, near is not None, added)


def joined(
    index: Index, memory: Memory, recalled: Recalled, slots: Array, allowed: Array | None
) -> tuple[Array, list[int]]:
    """These slots with those of the tools that what they were asked before speaks most for; and the place in the memory
    of each, -1 for none."""
    places: dict[int, int] = {}
    for slot in slots.tolist():
        card = index.cards[slot]
        places[slot] = memory.places.get(card.key, -1) if card is not None else -1
    best = recalled.beyond_doubt[:, :-1].max(0)
    likest = best.argsort()[::-1] if allowed is not None else best.argpartition(-min(RECALLED, len(best)))[-RECALLED:]
    more = 0
    for place in likest.tolist():
        slot = index.slots.get(memory.tools[place]) if best[place] > 0 and more < RECALLED else None
        if slot is not None and (allowed is None or allowed[slot]):
            places[slot] = place
            more += 1
    found = sorted(places)
    return np.array(found, slots.dtype), [places[slot] for slot in found]


def reordered(chance: Array, remembered: Array, used: Array) -> Array:
    """The chances with those of used tools dealt out again among them, by what is remembered: each place in the order
    that a tool without memory has stays with it."""
    made = chance.copy()
    columns = used.nonzero()[0]
    made[columns[(-remembered[columns]).argsort(kind="stable")]] = -np.sort(-chance[columns])
    return made


def chances(values: Array, shares: Array, others: float = 0.0) -> Array:
    """How likely each candidate is the tool meant, in each way to read the request: a softmax for each, by its share.
    `others` is what stands against the candidates besides."""
    best = values.max(1, keepdims=True, initial=0.0)
    power = np.exp(values - best)
    against = power.sum(1, keepdims=True)
    if others:
        against += others * np.exp(-best)
    likely: Array = power * (shares[:, None] / against)
    return likely


def evidence(values: Array, shares: Array, usual: float, known: Array | None = None) -> tuple[float, float]:
    """What tells whether a request has a tool among these: the chance of the first five, and by how much the best one's
    value is above the middle one's.

    Where there are fewer than CANDIDATES, tools of a usual value stand in for the others, so that the best of a few
    is not likely only because they are few. `known` are the chances without those, where they were worked out."""
    missing = max(0, CANDIDATES - values.shape[1])
    likely = chances(values, shares, missing * math.exp(usual)) if missing or known is None else known
    chance = likely.sum(0)
    best = chance.argmax()
    way = values[likely[:, best].argmax()]
    chance.sort()
    five = sum(chance[-5:].tolist())
    ordered = np.concatenate((way, np.full(missing, usual))) if missing else way.copy()
    ordered.sort()
    middle = (ordered.item((len(ordered) - 1) // 2) + ordered.item(len(ordered) // 2)) / 2
    return five, way.item(best) - middle


def sureness(values: Array, shares: Array, choice: int, with_model: bool, known: Array | None = None) -> float:
    """How likely a tool for the request is among the first five, of a `choice` of so many tools: the best of many is
    more often good by chance. `known` as in `evidence`."""
    sure = weights.SURE["model" if with_model else "plain"]
    five, value = evidence(values, shares, sure["usual"], known)
    return _logistic(sure["bias"] + sure["five"] * five + sure["value"] * value + sure["size"] * size_of(choice))


def size_of(choice: int) -> float:
    """The logarithm of a number of tools, of as many as were seen when it was fitted."""
    return math.log(max(1, min(choice, MOST_SEEN)))


def _logistic(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, z))))
