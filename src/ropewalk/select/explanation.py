"""What speaks for a result: the words it was found by, where they stand, and what each feature adds."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ..values import Json
from .card import FIELDS

if TYPE_CHECKING:
    from .hybrid import Ranking


def fields_of(bits: int) -> list[Json]:
    return list(_named(bits))


@lru_cache(maxsize=64)
def _named(bits: int) -> list[str]:
    return [name for number, name in enumerate(FIELDS) if bits >> number & 1]


def why(ranking: Ranking, place: int) -> dict[str, Json]:
    """What speaks for a result: the request's words it has and where, and what each feature adds."""
    from .features import NAMES
    from .hybrid import weight_row

    assert ranking.order is not None
    found = ranking.found
    column = int(ranking.order[place])
    terms = found.reading.request.terms
    likeness, bits = found.present[:, column].tolist(), found.fields_hit[:, column].tolist()
    said: dict[str, Json] = {
        term.plain: {"likeness": round(like, 2), "fields": fields_of(bit)}
        for term, like, bit in zip(terms, likeness, bits, strict=True)
        if like > 0
    }
    everywhere = 0
    for bit in bits:
        everywhere |= bit
    row = ranking.features[column].tolist()
    adds = zip(NAMES, row, weight_row(ranking.with_model), strict=True)
    added = {name: round(value * weight, 3) for name, value, weight in adds if weight}
    features: dict[str, Json] = {name: value for name, value in added.items() if value}
    return {"strategy": "hybrid", "fields": fields_of(everywhere), "terms": said, "features": features}
