"""What speaks for a result: the words it was found by, where they stand, and what each feature adds."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..values import Json
from .card import FIELDS
from .features import NAMES
from .hybrid import Ranking, weight_row

ASKED_BEFORE: Final = "asked before"  # what requests remembered add, beside features.NAMES


PAST_SUCCESS: Final = "past success"  # what it added to a score; with it, what a strategy gave
USED_RECENTLY: Final = "used recently"  # what it would have added: only the place changes


def add_moved(reasons: dict[str, Json], success: float, recently: float) -> None:
    """Say of a result what moved it after it was rated."""
    features = reasons["features"]
    assert isinstance(features, dict)
    for name, by in ((PAST_SUCCESS, success), (USED_RECENTLY, recently)):
        if round(by, 3):
            features[name] = round(by, 3)


_FIELDS_OF: Final = [
    [name for number, name in enumerate(FIELDS) if bits >> number & 1] for bits in range(1 << len(FIELDS))
]


def fields_of(bits: int) -> list[Json]:
    """The names of the fields of these bits."""
    return [*_FIELDS_OF[bits]]


def explained(ranking: Ranking, places: list[int]) -> list[dict[str, Json]]:
    """What speaks for the results at these places: the request's words each has, where, and what each feature adds."""
    assert ranking.order is not None
    columns = ranking.order[places]
    reading = ranking.found.reading
    variant, column, _, fields = ranking.found.hits
    result_of = np.zeros(len(ranking.order), np.intp)
    result_of[columns] = np.arange(1, len(places) + 1)
    result = result_of[column]
    ours = result.nonzero()[0]
    variant = variant[ours]
    hits: list[dict[int, tuple[float, int]]] = [{} for _ in places]
    for term, n, like, bits in zip(
        reading.places[variant].tolist(), result[ours].tolist(),
        reading.likeness[variant].astype(np.float64).round(2).tolist(), fields[ours].tolist(), strict=True,
    ):  # the most alike come last  # fmt: skip
        having = hits[n - 1]
        before = having.get(term)
        having[term] = (like, bits | before[1] if before is not None and before[0] == like else bits)
    adds = (ranking.features[columns] * weight_row(ranking.with_model)).round(3).tolist()
    learnt_of = [0.0] * len(places) if ranking.added is None else ranking.added[columns].round(3).tolist()
    words = [term.plain for term in reading.request.terms]
    return [_reason(*one, words) for one in zip(hits, adds, learnt_of, strict=True)]


def _reason(
    having: dict[int, tuple[float, int]], adds: list[float], learnt: float, words: list[str]
) -> dict[str, Json]:
    """The reasons of one result: of each word it has, by its place, how alike and where; and what each feature adds."""
    said: dict[str, Json] = {}
    everywhere = 0
    for place in sorted(having):
        like, bits = having[place]
        said[words[place]] = {"likeness": like, "fields": fields_of(bits)}
        everywhere |= bits
    features: dict[str, Json] = {name: value for name, value in zip(NAMES, adds, strict=True) if value}
    if learnt:
        features[ASKED_BEFORE] = learnt
    return {"strategy": "hybrid", "fields": fields_of(everywhere), "terms": said, "features": features}
