"""One answer of a selector: a request is read, tools are ranked by a strategy, and the best are given with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from ..values import Json
from .choice import RECENT, allowed, cut, is_recent
from .documented import INTENTS, Intent, Question, detect, scored, why
from .explanation import add_moved, explained
from .hybrid import CANDIDATES, Ranking, rank
from .index import Index
from .memory import Memory
from .options import Options
from .reading import Reading
from .request import Request, read_request
from .usage import Rate

Array: TypeAlias = np.ndarray[Any, Any]
Kept: TypeAlias = list[tuple[float, int, int]]  # as `cut` gives them


def asked(query: str, intents: Mapping[str, Intent] | None) -> tuple[Request, str | None]:
    """What a query asks for, and its intent by a table (the documented one when None)."""
    request = read_request(query)
    return request, detect(request, INTENTS if intents is None else intents)


def answered(
    index: Index,
    request: Request,
    options: Options,
    near: Array | None,
    memory: Memory | None,
    rates: Mapping[str, Rate],
) -> tuple[list[dict[str, Json]], int]:
    """The results of the `hybrid` strategy, and how many there were to choose from. `near` is what a model thinks of
    each tool by slot, `memory` has past requests, `rates` how each tool did."""
    reading, may = Reading(index, request), allowed(index, options)
    first = rank(index, reading, may, near, memory)
    rankings, rated, slots = [first], first.scores.astype(np.float64), first.slots
    if options.max_results > CANDIDATES and len(first.slots):  # what comes first is the same, however many are wanted
        more = rank(index, reading, may, near, after=first, most=options.max_results)
        rankings.append(more)
        rated, slots = np.concatenate((rated, more.scores)), np.concatenate((slots, more.slots))
    kept, total = cut(index, rated, slots, rates, options, setbacks=True)
    return _results(index, kept, rated, _reasons(rankings, kept), options, rates), total


def _reasons(rankings: list[Ranking], kept: Kept) -> list[dict[str, Json]]:
    """What speaks for each of what is kept of some rankings, one after the other."""
    reasons: dict[int, dict[str, Json]] = {}
    start = 0
    for ranking in rankings:
        end = start + len(ranking.slots)
        places = [place for _, _, place in kept if start <= place < end]
        if places:
            reasons |= zip(places, explained(ranking, [place - start for place in places]), strict=True)
        start = end
    return [reasons[place] for _, _, place in kept]


def as_documented(
    index: Index,
    request: Request,
    options: Options,
    near: Array | None,
    intents: Mapping[str, Intent] | None,
    intent: str | None,
    rates: Mapping[str, Rate],
) -> tuple[list[dict[str, Json]], int]:
    """The same of one of the documented strategies."""
    question = Question(index, request, INTENTS if intents is None else intents, intent, near)
    scores = scored(question, options.strategy)
    may = allowed(index, options)
    if may is not None:
        scores = np.where(may, scores, 0)
    slots = np.flatnonzero(scores > 0)
    slots = slots[(-scores[slots]).argsort(kind="stable")]
    rated = scores[slots].astype(np.float64)
    kept, total = cut(index, rated, slots, rates, options)
    reasons = [why(question, options.strategy, slot) for _, slot, _ in kept]
    return _results(index, kept, rated, reasons, options, rates), total


def _results(
    index: Index, kept: Kept, rated: Array, reasons: list[dict[str, Json]], options: Options, rates: Mapping[str, Rate]
) -> list[dict[str, Json]]:
    """What is given back of these, with what moved their scores after they were rated."""
    made = [_result(index, slot, score, reason) for (score, slot, _), reason in zip(kept, reasons, strict=True)]
    if options.recent or rates:
        for (score, slot, place), reason in zip(kept, reasons, strict=True):
            recently = score * (RECENT - 1) if is_recent(index, slot, options) else 0.0
            add_moved(reason, score - rated.item(place), recently)
    return made


def _result(index: Index, slot: int, score: float, matches: dict[str, Json]) -> dict[str, Json]:
    card = index.cards[slot]
    assert card is not None
    made: dict[str, Json] = {
        "name": card.key,
        "description": card.description,
        "score": round(score, 4),
        "matches": matches,
        "category": card.category,
        "inputSchema": card.input_schema,
    }
    if card.namespace is not None:
        made["namespace"] = card.namespace
    return made
