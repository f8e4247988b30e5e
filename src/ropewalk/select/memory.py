"""Remember which tools answered earlier requests, and compute what that says about a new request.

`selector.py` keeps one `Memory`; `rank` in `hybrid.py` asks it for `RememberedEvidence`. Two kinds of evidence for a
tool are added up:

- Words, as in naive Bayes: how much more often the tool was asked with the words of this request than tools in general.
- The most similar remembered requests, each by what it tells beyond the others (kernel ridge regression among these
  few). So ten requests that say the same count as one, and what all requests have in common counts nothing.

A tool without remembered requests has no evidence for or against it. One with a single request has little, except for a
request much like that one. To remember or forget a request takes the time to read it; nothing is rebuilt.

This compares tools that were used with each other. Evidence lifts a used tool above unused ones only by the share that
exceeds a bound: `ChanceSample` measures on remembered requests how much others speak for a wrong tool by chance.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..fast_dataclass import dataclass
from ..journal.tool_usage import ToolUse
from .lexicon import lexicon, products
from .query import Request, Term, read_request

if TYPE_CHECKING:
    from .reading import Reading

BOUND_QUANTILE: Final = 0.97  # of the requests that stay below the bound
SAMPLE_SIZE: Final = 128  # remembered requests that are asked about
_PRIOR_BOUND, _PRIOR_BOUND_GROWTH = (
    4.0,
    1.4,
)  # the bound for one request before anything is known, and more for e times as many,
_PRIOR_WEIGHT: Final = 3.0  # counts as much as this number of values


class ChanceSample:
    """How much requests speak for wrong tools, measured on some remembered ones."""

    # `measure` returns it for a row, or None.

    def __init__(self, measure: Callable[[int], float | None]) -> None:
        self._measure = measure
        self._values: dict[int, float] = {}  # by row, the one measured longest ago first
        self._value_at_share: float | None = None

    def fill(self, rows: Sequence[int]) -> None:
        """Measure rows at even distances."""
        for n in range(min(SAMPLE_SIZE, len(rows))):
            self._measure_row(rows[n * len(rows) // min(SAMPLE_SIZE, len(rows))])

    def refresh(self, row: int) -> None:
        """Measure a new row, and the one measured longest ago again: both in constant time."""
        self._values.pop(row, None)
        if self._values:
            oldest = next(iter(self._values))
            del self._values[oldest]
            if len(self._values) < SAMPLE_SIZE - 1:
                self._measure_row(oldest)
        self._measure_row(row)

    def _measure_row(self, row: int) -> None:
        value = self._measure(row)
        if value is not None:
            self._values[row] = value
        self._value_at_share = None

    def bound(self, remembered: int) -> float:
        """Return the bound for `remembered` requests, for a tool with very many of them; others have a lower one."""
        count = len(self._values)
        if self._value_at_share is None:
            values = sorted(self._values.values())
            self._value_at_share = values[min(count - 1, int(BOUND_QUANTILE * count))] if values else 0.0
        expected = _PRIOR_BOUND + _PRIOR_BOUND_GROWTH * math.log(max(1, remembered))
        return (self._value_at_share * count + expected * _PRIOR_WEIGHT) / (count + _PRIOR_WEIGHT)


Array: TypeAlias = np.ndarray[Any, Any]

MAX_REQUESTS: Final = 50_000  # requests of all tools that are remembered; of more the newest
MAX_REQUESTS_BY_WAY: Final = 5_000  # up to so many each way to read a request is compared, above only the whole
WORDS_WEIGHT, NEAREST_WEIGHT = 0.75, 9.0  # what both are worth beside the features' weights: bench/select_learning.py
HALF_TRUST_REQUESTS: Final = 3.0  # requests of a tool for half of that,
LIKENESS_POWER: Final = 6  # and by which power of how like one of them is the other half comes without
LIFT_RATE: Final = 2.0  # how fast what is beyond doubt counts, up to the whole value
MAX_NEIGHBOURS: Final = 64  # requests most like one
_RIDGE: Final = 0.3  # by how much they are not believed
_MIN_VOTE: Final = -0.2  # that they say against a tool
_PRIOR_WORDS: Final = 15.0  # words a tool must have been asked with to count as much as what tools are asked in general
# Before anything is remembered, count as if this many words had been asked, each word this share of them.
_GENERAL_WORDS, _GENERAL = 100.0, 1e-3

_NUMBER: Final = re.compile(r"\d+")


class RememberedRequest(NamedTuple):
    """A request as remembered: its words, by number, and what each is worth."""

    tool: str
    request: str
    words: Array
    weights: Array
    sources: frozenset[str]  # who asked it


class WholeReading(NamedTuple):
    """A request read in one way, as a whole, without an index."""

    request: Request
    has_word: Array
    way_vectors: Array


class Occurrences(NamedTuple):
    """The remembered requests that have a word."""

    rows: Array
    weights: Array
    places: Array
    amounts: Array
    total: float


@dataclass(frozen=True, slots=True)
class RememberedEvidence:
    """The evidence of remembered requests for each tool, for one new request."""

    # The arrays have an element for each place of `Memory.tools`, and a last one for every tool that was never asked.

    # By way to read the request and place, the evidence of its words.
    by_words: Array
    # By way and place, the evidence of the most similar requests.
    by_nearest: Array
    # By place, the similarity of the tool's most similar request.
    likeness: Array
    # By place, the value below which evidence says nothing against tools that were never used.
    chance_bound: Array

    @property
    def total(self) -> Array:
        """By way and place, the amount that is added to a tool's value."""
        value: Array = WORDS_WEIGHT * self.by_words + NEAREST_WEIGHT * self.by_nearest
        return value

    @property
    def above_chance(self) -> Array:
        """By way and place, the amount that lifts a tool above unused ones."""
        total = self.total
        lift: Array = np.clip(LIFT_RATE * (total - self.chance_bound), 0.0, np.maximum(total, 0.0))
        return lift


class Memory:
    """The remembered requests."""

    # `places` has the column of each tool, `tools` the tool of each column.

    def __init__(self, uses: list[ToolUse]) -> None:
        self.places: dict[str, int] = {}
        self.tools: list[str] = []
        self._free_places: list[int] = []
        self._requests: list[RememberedRequest | None] = []  # by row
        self._free_rows: list[int] = []
        self._rows: dict[str, dict[str, int]] = {}  # of a tool, by request
        self._newest: dict[tuple[str, str], None] = {}  # the oldest first
        self._newest_variant: dict[
            tuple[str, str], str
        ] = {}  # of a tool and a request without its numbers: the newest one
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []
        self._free_words: list[int] = []
        self._weights_by_row: list[dict[int, float]] = []  # of a word: by row, what it is worth there
        self._occurrences: dict[int, Occurrences] = {}  # the same as arrays; without what changed
        self._total = 0.0
        size = lexicon().size
        self._columns: dict[str, Array] = {
            "vectors": np.zeros((64, size), np.float32),
            "lengths": np.ones(64, np.float32),  # of the words, by what each was worth when the request came
            "owners": np.zeros(64, np.intp),
            "word_totals": np.zeros(64, np.float32),  # by place: what the words of all requests of a tool are worth
            "request_counts": np.zeros(64, np.float32),  # by place: how many they are
            "word_counts": np.zeros(64, np.float32),  # by word: how many requests have it
        }
        for use in sorted(uses, key=lambda use: use.at)[-MAX_REQUESTS:]:
            self._remember(use)
        self._chance_sample = ChanceSample(self._evidence_for_wrong_tools)
        self._chance_sample.fill([row for row, one in enumerate(self._requests) if one is not None])

    def _column(self, name: str, place: int) -> Array:
        """Return a column that has this place."""
        column = self._columns[name]
        if place >= len(column):
            self._columns[name] = np.concatenate((column, np.zeros_like(column)))
        return self._columns[name]

    def remember(self, use: ToolUse) -> None:
        """Remember a request that a tool answered."""

        # Repetitions and other numbers in it change nothing.
        self._chance_sample.refresh(self._remember(use))

    def _remember(self, use: ToolUse) -> int:
        sources = self._sources_of(use.tool, use.request) | {use.source}
        self.forget_request(use.tool, use.request)
        variant = use.tool, _NUMBER.sub("#", use.request.casefold())
        if variant in self._newest_variant:  # repeating it with other numbers teaches nothing new
            sources |= self._sources_of(use.tool, self._newest_variant[variant])
            self.forget_request(use.tool, self._newest_variant[variant])
        self._newest_variant[variant] = use.request
        terms = read_request(use.request).terms
        words: Array = np.array([self._number(term.stem) for term in terms], np.intp)
        weights: Array = np.array([term.weight for term in terms], np.float32)
        request = RememberedRequest(use.tool, use.request, words, weights, sources)
        row = self._free_rows.pop() if self._free_rows else len(self._requests)
        if row == len(self._requests):
            self._requests.append(None)
        self._requests[row] = request
        self._rows.setdefault(use.tool, {})[use.request] = row
        self._newest[use.tool, use.request] = None
        self._column("owners", row)[row] = self._place(use.tool)
        vector = lexicon().vector([(term.plain, term.weight) for term in terms])
        self._column("vectors", row)[row] = vector
        self._add_to_counts(row, request, 1)
        for word, weight in zip(words.tolist(), weights.tolist(), strict=True):
            self._weights_by_row[word][row] = weight
        self._column("lengths", row)[row] = np.linalg.norm(weights * self._rarity(words)) + 1e-6
        if len(self._newest) > MAX_REQUESTS:
            self.forget_request(*next(iter(self._newest)))
        return row

    def sources(self, place: int) -> frozenset[str]:
        """Return the sources that taught the tool at a place."""
        tool = self.tools[place]
        return frozenset().union(*(self._sources_of(tool, request) for request in self._rows.get(tool, ())))

    def _sources_of(self, tool: str, request: str) -> frozenset[str]:
        row = self._rows.get(tool, {}).get(request)
        remembered = self._requests[row] if row is not None else None
        return remembered.sources if remembered is not None else frozenset()

    def forget_request(self, tool: str, request: str, source: str | None = None) -> None:
        """Forget a request of a tool, if it is remembered; with `source` only that this one asked it."""
        rows = self._rows.get(tool, {})
        row = rows.get(request)
        remembered = self._requests[row] if row is not None else None
        if row is None or remembered is None or (source is not None and source not in remembered.sources):
            return
        if source is not None and len(remembered.sources) > 1:
            self._requests[row] = remembered._replace(sources=remembered.sources - {source})
            return
        del rows[request]
        self._requests[row] = None
        del self._newest[tool, request]
        variant = tool, _NUMBER.sub("#", request.casefold())
        if self._newest_variant.get(variant) == request:
            del self._newest_variant[variant]
        for word in remembered.words.tolist():
            del self._weights_by_row[word][row]
            if not self._weights_by_row[word]:
                del self._numbers[self._words[word]]
                self._free_words.append(word)
        self._add_to_counts(row, remembered, -1)
        self._columns["vectors"][row] = 0
        self._columns["lengths"][row] = 1e9  # like nothing
        self._free_rows.append(row)
        if not rows:
            place = self.places.pop(tool)
            del self._rows[tool]
            self._columns["word_totals"][place] = self._columns["request_counts"][place] = 0
            self._free_places.append(place)

    def forget_tool(self, tool: str) -> None:
        """Forget all requests of a tool."""
        for request in list(self._rows.get(tool, ())):
            self.forget_request(tool, request)

    def _place(self, tool: str) -> int:
        place = self.places.get(tool)
        if place is None:
            place = self._free_places.pop() if self._free_places else len(self.tools)
            self.tools[place : place + 1] = [tool]
            self.places[tool] = place
        return place

    def _number(self, stem: str) -> int:
        number = self._numbers.get(stem)
        if number is None:
            number = self._free_words.pop() if self._free_words else len(self._weights_by_row)
            self._weights_by_row[number : number + 1] = [{}]
            self._words[number : number + 1] = [stem]
            self._numbers[stem] = number
        return number

    def _add_to_counts(self, row: int, request: RememberedRequest, sign: int) -> None:
        worth = sign * float(request.weights.sum())
        place = int(self._columns["owners"][row])
        self._column("word_totals", place)[place] += worth
        self._column("request_counts", place)[place] += sign
        self._total += worth
        self._column("word_counts", len(self._weights_by_row))[request.words] += sign
        for word in request.words.tolist():
            self._occurrences.pop(word, None)

    def _rarity(self, words: Array) -> Array:
        """Return the rarity of words, by the number of requests that have them."""
        rare: Array = np.log1p(len(self._newest) / np.maximum(1.0, self._columns["word_counts"][words]))
        return rare

    def evidence_for(self, reading: Reading) -> RememberedEvidence | None:
        """Return what the remembered requests say about a new one; None if there are none."""
        return self._evidence_for(reading, None) if self._newest else None

    def _evidence_for_wrong_tools(self, row: int) -> float | None:
        """Return the most that other tools' requests speak for one of them, for a request that this row's tool
        answered; None if the row is empty or no other tool has requests."""
        remembered = self._requests[row]
        if remembered is None or len(self.places) < 2:
            return None
        request = read_request(remembered.request)
        inside: Array = np.ones((1, len(request.terms)), np.bool_)
        place = int(self._columns["owners"][row])
        recalled = self._evidence_for(WholeReading(request, inside, self._columns["vectors"][row][None]), place)
        value = recalled.total[0, :-1] / np.maximum(self._trust_by_place(), 1e-6)
        value[self._columns["request_counts"][: len(value)] == 0] = 0.0
        value[place] = 0.0
        return float(value.max())

    def _trust_by_place(self) -> Array:
        """By place, how much a tool is believed for the number of its requests."""
        times = self._columns["request_counts"][: len(self.tools)]
        weight: Array = times / (times + HALF_TRUST_REQUESTS)
        return weight

    def _evidence_for(self, reading: Reading | WholeReading, excluded_place: int | None) -> RememberedEvidence:
        """Return what is recalled without the requests of the tool at the place `excluded_place`."""
        occurrences = {
            n: self._occurrences_of(term) for n, term in enumerate(reading.request.terms) if term.stem in self._numbers
        }
        words, (nearest, likeness) = (
            self._evidence_by_words(reading, occurrences),
            self._evidence_by_nearest(reading, occurrences, excluded_place),
        )
        trust_by_count = self._trust_by_place()
        trust = 1 - (1 - trust_by_count) * (1 - np.clip(likeness, 0, 1) ** LIKENESS_POWER)
        words[:, :-1] *= trust
        nearest[:, :-1] *= trust
        chance_bound = np.append(trust_by_count * self._chance_sample.bound(len(self._newest)), 0.0)
        return RememberedEvidence(words, nearest, likeness, chance_bound)

    def _occurrences_of(self, term: Term) -> Occurrences:
        word = self._numbers[term.stem]
        occurrences = self._occurrences.get(word)
        if occurrences is None:
            weight_by_row = self._weights_by_row[word]
            rows, weights = np.array([*weight_by_row], np.intp), np.array([*weight_by_row.values()], np.float32)
            places, which = np.unique(self._columns["owners"][rows], return_inverse=True)
            amounts = np.bincount(which, weights, len(places))
            occurrences = self._occurrences[word] = Occurrences(rows, weights, places, amounts, float(weights.sum()))
        return occurrences

    def _evidence_by_words(self, reading: Reading | WholeReading, occurrences: dict[int, Occurrences]) -> Array:
        """Return, by way and place, how much more likely the words are for a tool than in general."""
        worth = reading.has_word * np.array([term.weight for term in reading.request.terms], np.float32)
        size, all_over = len(self.tools), self._total + _GENERAL_WORDS
        value: Array = np.zeros((len(worth), size + 1), np.float32)
        if occurrences:
            places = np.concatenate([having_word.places for having_word in occurrences.values()])
            general = [
                _PRIOR_WORDS * (having_word.total + _GENERAL_WORDS * _GENERAL) / all_over
                for having_word in occurrences.values()
            ]
            times = [
                having_word.amounts / usual for having_word, usual in zip(occurrences.values(), general, strict=True)
            ]
            likelier = np.log1p(np.concatenate(times))
            lengths = [len(having_word.places) for having_word in occurrences.values()]
            for way, weights in zip(value, worth[:, list(occurrences)], strict=True):
                way[:size] = np.bincount(places, likelier * weights.repeat(lengths), size)
        length = worth.sum(1, keepdims=True)
        value[:, :size] -= length * np.log1p(self._columns["word_totals"][:size] / _PRIOR_WORDS)
        value /= np.sqrt(length + 2.0)
        return value

    def _evidence_by_nearest(
        self, reading: Reading | WholeReading, occurrences: dict[int, Occurrences], excluded_place: int | None
    ) -> tuple[Array, Array]:
        """Return, by way and place, what the most similar requests say; and by place, the similarity of the best."""
        near = self._nearest_rows(reading, occurrences, excluded_place)
        rows = np.array([row for row in near.tolist() if self._requests[row] is not None], np.intp)
        neighbours = [neighbour for row in rows.tolist() if (neighbour := self._requests[row]) is not None]
        words = np.concatenate([neighbour.words for neighbour in neighbours])
        different, column = np.unique(words, return_inverse=True)
        shared: Array = np.zeros((len(rows), len(different)), np.float32)
        weights = np.concatenate([neighbour.weights for neighbour in neighbours])
        shared[np.arange(len(rows)).repeat([len(neighbour.words) for neighbour in neighbours]), column] = weights
        # Compare by rare words and by meaning, half each.
        shared *= self._rarity(different)
        shared /= np.linalg.norm(shared, axis=1, keepdims=True) + 1e-6
        vectors = self._columns["vectors"][rows]
        each = 0.5 * (shared @ shared.T + vectors @ vectors.T)
        each.reshape(-1)[:: len(rows) + 1] += _RIDGE
        terms = reading.request.terms
        numbers = np.array([self._numbers.get(term.stem, -1) for term in terms], np.intp)
        rarity = np.where(numbers >= 0, self._rarity(numbers), np.log1p(len(self._newest)))
        worth = reading.has_word * (rarity * np.array([term.weight for term in terms])).astype(np.float32)
        worth /= np.linalg.norm(worth, axis=1, keepdims=True) + 1e-6
        positions = different.searchsorted(numbers)
        known = (positions < len(different)).nonzero()[0]
        known = known[different[positions[known]] == numbers[known]]
        similarity = worth[:, known] @ shared[:, positions[known]].T + reading.way_vectors @ vectors.T
        similarity *= 0.5
        owners = self._columns["owners"][rows]
        votes: Array = np.zeros((len(worth), len(self.tools) + 1), np.float32)
        np.add.at(votes.T, owners, np.linalg.solve(each, similarity.T))
        likest: Array = np.zeros(len(self.tools), np.float32)
        np.maximum.at(likest, owners, similarity.max(0))
        return np.clip(votes, _MIN_VOTE, 1.0), likest

    def _nearest_rows(
        self, reading: Reading | WholeReading, occurrences: dict[int, Occurrences], excluded_place: int | None
    ) -> Array:
        """Return the rows of the requests that are most similar to one of the ways to read this one."""
        size = len(self._requests)
        ways = len(reading.has_word) if size <= MAX_REQUESTS_BY_WAY else 1
        owners = self._columns["owners"][:size]
        if len(self._newest) <= MAX_NEIGHBOURS:
            return np.arange(size) if excluded_place is None else np.flatnonzero(owners != excluded_place)
        vectors, lengths = self._columns["vectors"][:size], self._columns["lengths"][:size]
        terms = reading.request.terms
        best: Array = np.zeros(size, np.float32)
        for inside, vector in zip(reading.has_word[:ways], reading.way_vectors, strict=False):
            shared: Array = np.zeros(size, np.float32)
            length = 1e-6
            for n, term in enumerate(terms):
                if inside[n]:
                    having_word = occurrences.get(n)
                    rarity = float(
                        np.log1p(len(self._newest) / max(1, len(having_word.rows) if having_word is not None else 1))
                    )
                    length += (term.weight * rarity) ** 2
                    if having_word is not None and len(having_word.rows):
                        shared[having_word.rows] += having_word.weights * np.float32(term.weight * rarity**2)
            np.maximum(best, shared / (lengths * np.float32(length**0.5)) + products(vectors, vector), out=best)
        # Leave out free rows and the requests of the excluded tool.
        best[self._free_rows] = -1.0
        if excluded_place is not None:
            best[owners == excluded_place] = -1.0
        return best.argpartition(-MAX_NEIGHBOURS)[-MAX_NEIGHBOURS:]
