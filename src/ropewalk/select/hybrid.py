"""The `hybrid` strategy: find candidates in the index, measure their features, rank them, explain the best.

`select_hybrid` is what `selector.py` calls for this strategy, which is the default one; `rank` is its main part.

A request is read in several ways, as a whole and clause by clause, because each clause may need its own tool. Every
way measures each candidate by the same features; their weights add up to a value, and a softmax turns the values into
chances. The score of the best result is calibrated: it is the share of requests with such a result whose tool was among
the first five.

`features.py` measures the features, and `results.py` shapes the results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..fast_dataclass import dataclass
from ..values import Json
from .candidates import Candidates
from .features import FEATURE_NAMES, measure_features
from .index import Index
from .memory import Memory, RememberedEvidence
from .options import Options
from .query import Request
from .reading import Reading
from .results import RankedSlot, allowed_tools, fields_of, keep_best, shape_results
from .usage import Rate

Array: TypeAlias = np.ndarray[Any, Any]

# Weights of the features, fitted by `bench/select_fit.py` on metatool, bfcl, sealtools, toolbench, alpaca,
# tmdb, spotify, acebench, livemcp and nestful, each counting the same. The first table is for use
# without an embedding model, the second with one. CALIBRATION is fitted on metatool, bfcl and sealtools.
# The calibration with a model is the mean of those with MiniLM and with the multilingual model.
# The weights of "action" were added to the others: fitted on the same sets without toolbench (with a model, without
# acebench, too).
WEIGHTS_WITHOUT_MODEL: Final[dict[str, float]] = {
    "coverage": 1.102,
    "only in parameters": 3.914,
    "exact words": 0.846,
    "telling words": 1.632,
    "tool covered": 4.501,
    "description covered": 1.953,
    "neighbours": 2.498,
    "letters of name": 1.407,
    "meaning": 2.425,
    "best meaning": 2.142,
    "action": 0.8,
    "phrases": 20.0,
}
WEIGHTS_WITH_MODEL: Final[dict[str, float]] = {
    "coverage": 0.696,
    "only in parameters": 3.73,
    "exact words": 0.652,
    "telling words": 1.402,
    "tool covered": 3.592,
    "description covered": 1.469,
    "neighbours": 2.278,
    "letters of name": 1.65,
    "meaning": 1.04,
    "best meaning": 0.938,
    "model": 3.914,
    "best model": 3.097,
    "action": 0.7,
    "phrases": 20.0,
}
CALIBRATION: Final[dict[str, dict[str, float]]] = {
    "plain": {"bias": -1.55, "five": 3.794, "value": 0.424, "size": -0.353, "usual": 0.989},
    "model": {"bias": -2.2, "five": 2.17, "value": 0.585, "size": -0.25, "usual": 0.677},
}


# Shares of known words: requests in English have more than the first, those in others often less than the second.
NATIVE_SHARE: Final = 0.7
FOREIGN_SHARE: Final = 0.3
# Words add nothing to the values of a request in another language. That says nothing against a tool that a model finds.
# Right for the part "developed" of `bench/select_languages.jsonl` would be 2 with a model for many languages, and
# about 0 with one that knows English. No model says which it is.
FOREIGN_CONFIDENCE: Final = 1.0
CANDIDATES: Final = 64  # tools that are measured
# Confidence that a request repeats a remembered one: a logistic curve of their similarity, with this slope and middle.
REPETITION_STEEPNESS: Final = 12.0
REPETITION_LIKENESS: Final = 0.5
NEW_TOOL_SHARE: Final = 0.5  # chance of tools that only remembered requests brought in, as a share of the lowest chance
MAX_FITTED_SIZE: Final = 10_000  # the largest number of tools that the calibration was fitted on
NEXT_RANKING_SHARE: Final = 0.99  # best score of a second ranking, as a share of the last score of the first
MAX_REMEMBERED_TOOLS: Final = 30  # tools of similar remembered requests that join the candidates
SCORE_POWER: Final = 0.08  # a score falls with this power of the chance of its tool, as a share of the best chance


@dataclass(frozen=True, slots=True)
class Ranking:
    """Slots in order of their rank, with scores (0 to 1) and a row of features for each."""

    slots: Array
    scores: Array
    features: Array  # in the order of the slots as measured, each in the way that speaks most for it
    candidates: Candidates
    order: Array | None = None  # place as measured, by rank
    with_model: bool = False
    added: Array | None = None  # by what the tool was asked before, in the order of the slots as measured


@lru_cache(maxsize=2)
def weight_row(with_model: bool) -> Array:
    """Return the weights in the order of FEATURE_NAMES."""
    table = WEIGHTS_WITH_MODEL if with_model else WEIGHTS_WITHOUT_MODEL
    return np.array([table.get(name, 0.0) for name in FEATURE_NAMES])


@lru_cache(maxsize=2)
def _weight_row_float32(with_model: bool) -> Array:
    return weight_row(with_model).astype(np.float32)


def rank(
    index: Index,
    reading: Reading,
    allowed: Array | None = None,
    similarity_by_model: Array | None = None,
    memory: Memory | None = None,
    previous: Ranking | None = None,
    limit: int = CANDIDATES,
) -> Ranking:
    """Rank the tools of an index for a request."""
    candidates, has_model = Candidates(index, reading), similarity_by_model is not None
    slots = candidates.find(allowed, limit, similarity_by_model)
    if previous is not None:
        slots = np.setdiff1d(slots, previous.slots)
    recalled = memory.evidence_for(reading) if memory is not None else None
    added: Array | None = None
    with_remembered: WithRemembered | None = None
    if memory is not None and recalled is not None:
        with_remembered = add_remembered(index, memory, recalled, slots, allowed)
        slots, added = with_remembered.slots, recalled.total[:, with_remembered.places]
    if not len(slots):
        return Ranking(slots, np.zeros(0, np.float32), np.zeros((0, len(FEATURE_NAMES)), np.float32), candidates)
    # Words and features give the first chances; memory lifts some tools.
    features = measure_features(candidates, slots, similarity_by_model)
    values = features @ _weight_row_float32(has_model)
    shares = chance_by_way(values, reading.shares)
    chance = shares.sum(0)
    if added is not None and with_remembered is not None:
        shares = chance_by_way(values + with_remembered.lifts, reading.shares)
        chance = lift_remembered(chance, shares.sum(0), with_remembered)
        chance = reorder_used(
            chance, chance_by_way(values + added, reading.shares).sum(0), np.array(with_remembered.places) >= 0
        )
    best_way = shares.argmax(0)
    order = (-chance).argsort(kind="stable")
    tool_count = len(index) if allowed is None else int(allowed.sum())
    foreign = foreign_share(reading) if has_model else 0.0
    best_score = confidence(values, reading.shares, tool_count, has_model, shares if added is None else None, foreign)
    columns = np.arange(len(slots))
    if recalled is not None and added is not None and with_remembered is not None:
        place = with_remembered.places[order[0]]
        like = float(recalled.likeness[place]) if place >= 0 else 0.0
        best_score = max(best_score, _logistic(REPETITION_STEEPNESS * (like - REPETITION_LIKENESS)))
        added = added[best_way, columns]
    if previous is not None:
        best_score = NEXT_RANKING_SHARE * previous.scores.item(-1)
    # The score falls with a power of the chance, so that good second results keep a good score.
    scores = best_score * (chance[order] / chance[order[0]]) ** SCORE_POWER
    return Ranking(slots[order], scores, features[best_way, columns], candidates, order, has_model, added)


class WithRemembered(NamedTuple):
    """Candidates and the tools that remembered requests add to them: all arrays in the order of `slots`."""

    slots: Array
    places: list[int]  # in the memory, -1 for none
    lifts: Array  # what lifts each above unused tools, by way
    is_new: Array  # True if it is not a candidate by its words


def add_remembered(
    index: Index, memory: Memory, recalled: RememberedEvidence, slots: Array, allowed: Array | None
) -> WithRemembered:
    """Add the tools for which remembered requests say most to some slots, and decide which of them are lifted."""

    # Every source lifts one tool at most in each way to read the request: that for which requests say most, of those it
    # taught and no other source lifts.
    places: dict[int, int] = {}
    for slot in slots.tolist():
        card = index.cards[slot]
        places[slot] = memory.places.get(card.key, -1) if card is not None else -1
    values = recalled.above_chance
    best = values[:, :-1].max(0)
    likest = (
        best.argsort()[::-1]
        if allowed is not None
        else best.argpartition(-min(MAX_REMEMBERED_TOOLS, len(best)))[-MAX_REMEMBERED_TOOLS:]
    )
    more: list[int] = []
    for place in likest.tolist():
        slot = index.slots.get(memory.tools[place]) if best[place] > 0 and len(more) < MAX_REMEMBERED_TOOLS else None
        if slot is not None and (allowed is None or allowed[slot]):
            places[slot] = place
            more.append(place)
    chosen: set[int] = set()
    for way in values:
        used_up: set[str] = set()
        for place in sorted(more, key=lambda place: -way[place]):
            unused_sources = memory.sources(place) - used_up
            if unused_sources and way[place] > 0:
                used_up.add(min(unused_sources))  # a tool of several sources counts for one of them
                chosen.add(place)
    slots_in_order = sorted(places)
    at = [places[slot] for slot in slots_in_order]
    lifts = np.where([place in chosen for place in at], values[:, at], 0.0)
    return WithRemembered(np.array(slots_in_order, slots.dtype), at, lifts, ~np.isin(slots_in_order, slots))


def lift_remembered(chance: Array, raised: Array, with_remembered: WithRemembered) -> Array:
    """Return the chances of candidates when only some are lifted."""

    # The others keep their order, whatever a lift does to the ways of reading a request: together they have what the
    # lifted ones leave. New tools among them come last. So a tool loses at most one place for every lifted tool.
    lifts = with_remembered.lifts.max(0, initial=0.0) > 0
    plain = ~lifts & ~with_remembered.is_new
    if not plain.any():
        return raised
    scaled = chance * (raised[plain].sum() / chance[plain].sum())
    scaled[with_remembered.is_new] = (
        min(scaled[plain].min(), scaled[with_remembered.is_new].min(initial=1.0)) * NEW_TOOL_SHARE
    )
    result: Array = np.where(lifts, np.maximum(raised, scaled), scaled)
    return result


def reorder_used(chance: Array, remembered: Array, used: Array) -> Array:
    """Redistribute the chances of used tools among them, in the order of what is remembered."""
    result = chance.copy()
    columns = used.nonzero()[0]
    result[columns[(-remembered[columns]).argsort(kind="stable")]] = -np.sort(-chance[columns])
    return result


def chance_by_way(values: Array, shares: Array, other_evidence: float = 0.0) -> Array:
    """Return how likely each candidate is the right tool, for each way to read the request: a softmax, weighted by its
    share."""
    best = values.max(1, keepdims=True, initial=0.0)
    power = np.exp(values - best)
    against = power.sum(1, keepdims=True)
    if other_evidence:
        against += other_evidence * np.exp(-best)
    likely: Array = power * (shares[:, None] / against)
    return likely


def match_evidence(values: Array, shares: Array, usual_value: float, known: Array | None = None) -> tuple[float, float]:
    """Return the signs that a request has a tool here: the chance of the first five, and the lead of the best value."""
    missing = max(0, CANDIDATES - values.shape[1])
    likely = chance_by_way(values, shares, missing * math.exp(usual_value)) if missing or known is None else known
    chance = likely.sum(0)
    best = chance.argmax()
    way = values[likely[:, best].argmax()]
    chance.sort()
    first_five = sum(chance[-5:].tolist())
    ordered = np.concatenate((way, np.full(missing, usual_value))) if missing else way.copy()
    ordered.sort()
    middle = (ordered.item((len(ordered) - 1) // 2) + ordered.item(len(ordered) // 2)) / 2
    return first_five, way.item(best) - middle


def foreign_share(reading: Reading) -> float:
    """Return from 0 to 1 how likely a request is in another language than the lexicon, by its known words."""
    return min(1.0, max(0.0, (NATIVE_SHARE - reading.known_share) / (NATIVE_SHARE - FOREIGN_SHARE)))


def confidence(
    values: Array, shares: Array, tool_count: int, with_model: bool, known: Array | None = None, foreign: float = 0.0
) -> float:
    """Return how likely a tool for the request is among the first five, chosen from `tool_count` tools."""
    calibration = CALIBRATION["model" if with_model else "plain"]
    five, value = match_evidence(values, shares, calibration["usual"], known)
    return _logistic(
        calibration["bias"]
        + calibration["five"] * five
        + calibration["value"] * value
        + calibration["size"] * log_size(tool_count)
        + FOREIGN_CONFIDENCE * foreign
    )


def log_size(tool_count: int) -> float:
    """Return the logarithm of a number of tools, limited to the range of the fit."""
    return math.log(max(1, min(tool_count, MAX_FITTED_SIZE)))


def _logistic(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, z))))


ASKED_BEFORE: Final = "asked before"  # the part of remembered requests, in addition to FEATURE_NAMES


def _allowed_mask(index: Index, options: Options) -> Array | None:
    """Return, by slot, True if the tool may be chosen; None if all may."""
    allowed = allowed_tools(index, options)
    if allowed is None:
        return None
    is_allowed: Array = index.is_alive[: index.size].copy()
    if allowed.listed is not None:
        is_allowed[:] = False
        is_allowed[list(allowed.listed)] = True
    is_allowed[list(allowed.excluded)] = False
    return is_allowed


def explain_results(ranking: Ranking, places: list[int]) -> list[dict[str, Json]]:
    """Return the reasons for the results at these places: the matching words, their fields, and the part of each
    feature."""
    assert ranking.order is not None
    columns = ranking.order[places]
    reading = ranking.candidates.reading
    variant, column, _, fields = ranking.candidates.last_matches
    # Maps the column of a match to the number of its result; 0 means that the tool is not shown.
    result_of = np.zeros(len(ranking.order), np.intp)
    result_of[columns] = np.arange(1, len(places) + 1)
    result = result_of[column]
    ours = result.nonzero()[0]
    variant = variant[ours]
    hits: list[dict[int, tuple[float, int]]] = [{} for _ in places]
    for term, n, like, bits in zip(
        reading.positions[variant].tolist(), result[ours].tolist(),
        reading.likeness[variant].astype(np.float64).round(2).tolist(), fields[ours].tolist(), strict=True,
    ):  # the most alike come last  # fmt: skip
        having = hits[n - 1]
        # Matches are sorted by likeness: a better one replaces the earlier one, an equal one adds its fields.
        before = having.get(term)
        having[term] = (like, bits | before[1] if before is not None and before[0] == like else bits)
    adds = (ranking.features[columns] * weight_row(ranking.with_model)).round(3).tolist()
    learnt_of = [0.0] * len(places) if ranking.added is None else ranking.added[columns].round(3).tolist()
    words = [term.plain for term in reading.request.terms]
    return [_explain_result(*hit_and_parts, words) for hit_and_parts in zip(hits, adds, learnt_of, strict=True)]


def _explain_result(
    having: dict[int, tuple[float, int]], adds: list[float], learnt: float, words: list[str]
) -> dict[str, Json]:
    """The reasons of one result: of each word it has, by its place, how alike and where; and what each feature adds."""
    entry: dict[str, Json] = {}
    everywhere = 0
    for place in sorted(having):
        like, bits = having[place]
        entry[words[place]] = {"likeness": like, "fields": fields_of(bits)}
        everywhere |= bits
    features: dict[str, Json] = {name: value for name, value in zip(FEATURE_NAMES, adds, strict=True) if value}
    if learnt:
        features[ASKED_BEFORE] = learnt
    return {"strategy": "hybrid", "fields": fields_of(everywhere), "terms": entry, "features": features}


def select_hybrid(
    index: Index,
    request: Request,
    options: Options,
    similarity_by_model: Array | None,
    memory: Memory | None,
    rates: Mapping[str, Rate],
    past: Mapping[str, Rate],
) -> tuple[list[dict[str, Json]], int]:
    """Return the results of the `hybrid` strategy, and the number of matching tools."""
    reading, allowed = Reading(index, request), _allowed_mask(index, options)
    first = rank(index, reading, allowed, similarity_by_model, memory)
    rankings, ranked, slots = [first], first.scores.astype(np.float64).tolist(), first.slots.tolist()

    # Rank the rest separately: the first results must not depend on how many are requested.
    if options.max_results > CANDIDATES and len(first.slots):
        later = rank(index, reading, allowed, similarity_by_model, previous=first, limit=options.max_results)
        rankings.append(later)
        ranked += later.scores.astype(np.float64).tolist()
        slots += later.slots.tolist()

    best, total = keep_best(index, ranked, slots, rates, options, past, setbacks=True)
    return shape_results(index, best, ranked, _reasons(rankings, best), options, rates), total


def _reasons(rankings: list[Ranking], results_kept: list[RankedSlot]) -> list[dict[str, Json]]:
    """Explain each kept result; its place counts through the rankings one after the other."""
    reasons: dict[int, dict[str, Json]] = {}
    start = 0
    for ranking in rankings:
        end = start + len(ranking.slots)
        places = [kept.place for kept in results_kept if start <= kept.place < end]
        if places:
            explanations = explain_results(ranking, [place - start for place in places])
            reasons.update(zip(places, explanations, strict=True))
        start = end
    return [reasons[kept.place] for kept in results_kept]
