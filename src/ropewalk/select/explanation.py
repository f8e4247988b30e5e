"""What speaks for a result: the words it was found by, where they stand, and what each feature adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ..values import Json
from .card import FIELDS

if TYPE_CHECKING:
    from .hybrid import Ranking


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
    from .features import NAMES
    from .hybrid import weight_row

    assert ranking.order is not None
    columns = ranking.order[places]
    found = ranking.found
    reading, terms = found.reading, found.reading.request.terms
    variant, column, _, fields = found.hits
    place_of = np.full(len(ranking.order), -1)
    place_of[columns] = np.arange(len(places))
    place = place_of[column]
    hits: list[dict[int, tuple[float, int]]] = [{} for _ in places]
    ours = (place >= 0).nonzero()[0]
    variant = variant[ours]
    alike = reading.likeness[variant].astype(np.float64).round(2)
    both = zip(
        reading.places[variant].tolist(), place[ours].tolist(), alike.tolist(), fields[ours].tolist(), strict=True
    )
    for term, result, like, bits in both:  # the most alike come last
        before, others = hits[result].get(term, (0.0, 0))
        hits[result][term] = (like, bits | others if like == before else bits)
    adds = (ranking.features[columns] * weight_row(ranking.with_model)).round(3).tolist()
    learnt_of = [0.0] * len(places) if ranking.added is None else ranking.added[columns].round(3).tolist()
    made: list[dict[str, Json]] = []
    for having, values, learnt in zip(hits, adds, learnt_of, strict=True):
        said: dict[str, Json] = {}
        everywhere = 0
        for term in sorted(having):
            like, bits = having[term]
            said[terms[term].plain] = {"likeness": like, "fields": fields_of(bits)}
            everywhere |= bits
        features: dict[str, Json] = {name: value for name, value in zip(NAMES, values, strict=True) if value}
        if learnt:
            features[ASKED_BEFORE] = learnt
        made.append({"strategy": "hybrid", "fields": fields_of(everywhere), "terms": said, "features": features})
    return made
