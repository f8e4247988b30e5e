"""What is measured of a candidate: numbers between 0 and 1 or so, which the weights add up to a score."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from .index import FIELD_BITS, Index, pairs_of, signature, trigrams
from .lexicon import lexicon, products
from .request import Request, Term
from .synonyms import groups
from .text import STOP, stemmer

Array: TypeAlias = np.ndarray[Any, Any]

NAMES: Final = (
    "words", "best words", "coverage", "in name", "in description", "in parameters", "in category", "name covered",
    "description covered", "neighbours", "letters of name", "meaning", "best meaning", "meaning of name",
    "best clause", "first in a clause", "clause covered", "meaning of a clause", "exact words", "evidence",
    "model", "best model",
)  # fmt: skip

SYNONYM: Final = 0.5
CORRECTED: Final = 0.9
RELATED: Final = 0.8  # of the likeness that the lexicon gives
LEAST_LIKE: Final = 0.55
UNKNOWN: Final = 0.35  # a word no tool has, against the rarest there can be
LOOKED_UP: Final = 60_000  # postings that are added up to find candidates
DENSE_CLAUSES: Final = 5_000  # up to so many tools those of single clauses, too
DENSE: Final = 20_000  # up to so many tools meanings are compared with all, above with those that share a word


class Reading:
    """A request against an index: what stands for its words there, what each is worth, and its vectors.

    `terms`, `places` and `likeness` go together: a word of the index, the place of the request's word that it stands
    for, and how well it does, those that do best last.
    """

    def __init__(self, index: Index, request: Request) -> None:
        self.request = request
        terms, likeness, places, worth, rows, owner = list[int](), list[float](), [], [], list[int](), list[int]()
        shares: list[float] = []
        unknown = UNKNOWN * index.rarity(0) if len(index) else 1.0
        read = index.read
        for place, term in enumerate(request.terms):
            known = read.get((term.stem, term.plain))
            if known is None:
                known = read[term.stem, term.plain] = self._read(index, term)
            plain, numbers, likes, rarest, general = known
            terms += numbers
            likeness += likes
            places += [place] * len(numbers)
            worth.append(term.weight * (rarest or unknown) * general)
            pieces = index.lexicon.rows(plain)
            rows += pieces
            owner += [place] * len(pieces)
            shares += [term.weight / len(pieces)] * len(pieces) if pieces else ()
        for stem, first, second in request.joined:
            number = index.terms.get(stem)
            for place in (first, second) if number is not None else ():
                self._put(number, place, terms, places, likeness)
        order = np.argsort(np.array(likeness, np.float64), kind="stable")
        self.terms: Array = np.array(terms, np.int32)[order]
        self.places: Array = np.array(places, np.int32)[order]
        self.likeness: Array = np.array(likeness, np.float32)[order]
        self.worth: Array = np.array(worth, np.float32)
        clauses = max(1, request.clauses)
        if clauses == 1:
            self.clauses: Array = self.worth[None]
            weights = np.array(shares, np.float32)[None]
        else:
            inside = np.zeros((clauses + 1, len(worth)), np.float32)
            inside[0] = 1.0
            both = [(clause + 1, place) for place, term in enumerate(request.terms) for clause in term.clauses]
            inside[tuple(zip(*both, strict=True))] = 1.0
            self.clauses = inside[1:] * self.worth
            weights = inside[:, owner] * np.array(shares, np.float32)
        vectors = index.lexicon.directions(rows, weights)
        self.vector: Array = vectors[0]
        self.clause_vectors: Array = vectors if clauses == 1 else vectors[1:]

    @staticmethod
    def _put(number: Any, place: int, terms: list[int], places: list[int], likeness: list[float]) -> None:
        """Have a word of the index stand for one of the request as well as the word itself."""
        for n, other in enumerate(terms):
            if other == number and places[n] == place:
                likeness[n] = 1.0
                return
        terms.append(number)
        places.append(place)
        likeness.append(1.0)

    @classmethod
    def _read(cls, index: Index, term: Term) -> tuple[str, list[int], list[float], float, float]:
        """What is the same of a word in whatever request: the word meant, what stands for it, and its rarity here and
        in general."""
        plain = cls._meant(index, term)
        found: dict[int, float] = {}
        rarest = 0.0
        for stem, likeness in cls._stand_ins(index, term.stem, plain):
            number = index.terms.get(stem)
            if number is not None:
                found[number] = max(found.get(number, 0.0), likeness)
                if likeness == 1.0 or rarest == 0.0:
                    rarest = max(rarest, index.rarity(index.frequency(number)) * likeness)
        general = index.lexicon.weight(plain)
        return plain, list(found), list(found.values()), rarest, 0.75 if general is None else general

    @staticmethod
    def _meant(index: Index, term: Term) -> str:
        """The word itself; of one that is in no dictionary and no tool, the known word it is a misspelling of."""
        if term.stem in index.terms or index.lexicon.weight(term.plain) is not None or index.lexicon.split(term.plain):
            return term.plain
        return index.spelling.nearest(term.plain) or term.plain

    @staticmethod
    def _stand_ins(index: Index, stem: str, plain: str) -> list[tuple[str, float]]:
        """The stems that may stand for a word, each with how well."""
        stems = stemmer()
        found = [(stem, 1.0)]
        if stem not in index.terms:
            meant = stems(plain)
            found.append((meant, CORRECTED))
            found.extend((stems(piece), 0.8) for piece in index.lexicon.split(plain) if piece not in STOP)
            stem = meant
        return [*found, *_alike(stem, plain)]


@lru_cache(maxsize=50_000)
def _alike(stem: str, plain: str) -> tuple[tuple[str, float], ...]:
    """The stems of words that mean much the same, whatever the tools."""
    stems = stemmer()
    found = [(other, SYNONYM) for other in groups().get(stem, ())]
    found.extend((stems(word), RELATED * like) for word, like in lexicon().near(plain) if like >= LEAST_LIKE)
    return tuple(found)


class Candidates:
    """The postings of a reading, and the candidates found in them."""

    def __init__(self, index: Index, reading: Reading) -> None:
        self.index, self.reading = index, reading

    def find(self, allowed: Array | None, most: int, near: Array | None = None) -> Array:
        """The slots of the tools worth a look, at most some `most`; `allowed` says of each slot whether it may,
        `near` what a model thinks of it."""
        index, reading = self.index, self.reading
        size = index.size
        if allowed is not None and int(allowed.sum()) <= most:
            return np.flatnonzero(allowed)
        chosen: Array = np.zeros(size, np.bool_)
        if near is not None:
            chosen[self._best(near, allowed, most // 2)] = True
        scores, by_clause = self._scored()
        chosen[self._best(scores, allowed, (most * 2) // 3)] = True
        share = max(12, most // (len(reading.clauses) + 1))
        for scores in by_clause:
            chosen[self._best(scores, allowed, share)] = True
        if size <= DENSE:
            few = len(reading.clause_vectors) < 4 and size <= DENSE_CLAUSES
            for way in reading.clause_vectors if few else reading.vector[None]:
                chosen[self._best(products(index.vectors[:size], way), allowed, max(10, most // 3))] = True
        return np.flatnonzero(chosen)

    def _scored(self) -> tuple[Array, Iterator[Array]]:
        """What each slot has for the words it has: in all, and for those of each clause where there are several. Where
        words are many and in many tools, those worth most are looked up: the rest only counts among the candidates."""
        index, reading = self.index, self.reading
        terms, places = reading.terms, reading.places
        lengths: Array = np.frombuffer(index.counts, np.int32)[terms] if len(terms) else np.zeros(0, np.int32)
        value = reading.worth[places] * reading.likeness
        if int(lengths.sum()) > LOOKED_UP:
            room, kept = LOOKED_UP, list[int]()
            for n in np.argsort(-value, kind="stable").tolist():
                if lengths[n] <= room or not kept:
                    kept.append(n)
                    room -= int(lengths[n])
            terms, places, lengths, value = terms[kept], places[kept], lengths[kept], value[kept]
        several = len(reading.clauses) > 1
        if several:  # clause by clause, so that what belongs to one stands together, and to several at the end
            having = reading.clauses > 0
            home = np.where(having.sum(0) == 1, having.argmax(0), len(having))[places]
            order = np.argsort(home, kind="stable")
            terms, places, lengths, value, home = (one[order] for one in (terms, places, lengths, value, home))
        postings = [index.postings[term] for term in terms.tolist()]
        slots = _joined([one.slots for one in postings if one is not None], np.int32).astype(np.intp)
        worth = _joined([one.impacts for one in postings if one is not None], np.float32) * np.repeat(value, lengths)
        scores = np.bincount(slots, worth, index.size)
        if not several or not len(slots):
            return scores, iter(())
        ends = np.concatenate([[0], np.cumsum(lengths)])[np.searchsorted(home, np.arange(len(having) + 1))].tolist()
        shared = np.repeat(places[home == len(having)], lengths[home == len(having)])
        return scores, self._by_clause(slots, worth, ends, shared)

    def _by_clause(self, slots: Array, worth: Array, ends: list[int], shared: Array) -> Iterator[Array]:
        """The scores of each clause: of the words it has alone, and of those it shares with others."""
        size, last = self.index.size, ends[-1]
        for clause, (start, end) in zip(self.reading.clauses, pairwise(ends), strict=True):
            scores = np.bincount(slots[start:end], worth[start:end], size)
            if len(shared):
                scores = scores + np.bincount(slots[last:], worth[last:] * (clause[shared] > 0), size)
            yield scores

    def _best(self, scores: Array, allowed: Array | None, most: int) -> Array:
        if allowed is not None:
            scores = np.where(allowed, scores, 0)
        least = float(scores.max(initial=0.0)) / 2 if len(scores) > 4096 else 0.0
        picked = np.flatnonzero(scores > least)
        while len(picked) < most and least > 0.0:  # first the upper half, and lower until there are enough
            least = least / 2 if least > 1e-3 else 0.0
            picked = np.flatnonzero(scores > least)
        if len(picked) > most:
            picked = picked[np.argpartition(scores[picked], len(picked) - most)[len(picked) - most :]]
        return picked

    def _matches(self, slots: Array, said: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Of every word of these slots that stands for a word of the request, those that are more alike later: the
        place of that, which of the slots it is, how alike, its impact, and the fields it stands in."""
        index, reading = self.index, self.reading
        own = slots.tolist()
        keys = _joined([index.numbers[slot] for slot in own], np.int32)
        found = said[keys >> FIELD_BITS]
        hit = np.flatnonzero(found >= 0)
        variant: Array = found[hit]
        each: Array = np.arange(len(reading.terms))
        if (said[reading.terms] != each).any():  # a word that stands for several words of the request
            order = np.argsort(reading.terms, kind="stable")
            starts = np.searchsorted(reading.terms[order], reading.terms)
            times = np.bincount(starts, minlength=len(each))[starts][variant]
            hit = np.repeat(hit, times)
            ends = np.cumsum(times)
            variant = order[np.arange(len(hit)) - np.repeat(ends - times - starts[variant], times)]
        later = np.argsort(variant, kind="stable")
        variant, hit = variant[later], hit[later]
        columns = np.repeat(np.arange(len(own), dtype=np.int32), index.words[slots])[hit]
        impacts = _joined([index.impacts[slot] for slot in own], np.float32)[hit]
        return reading.places[variant], columns, reading.likeness[variant], impacts, keys[hit] & ((1 << FIELD_BITS) - 1)

    def measure(self, slots: Array, near: Array | None = None) -> Array:
        """One row of features (see NAMES) for each of these slots; `near` as in `find`."""
        index, reading = self.index, self.reading
        worth, terms, count = reading.worth, len(reading.worth), len(slots)
        total = float(worth.sum()) or 1.0
        said: Array = np.full(len(index.postings) + 1, -1, np.int16)  # the last one stands for "no word"
        said[reading.terms] = np.arange(len(reading.terms))  # of several the last one, which is the most alike
        self.hits = row, column, likeness, impacts, fields = self._matches(slots, said)
        cell = row * count + column
        heard: Array = np.zeros((2, terms * count), np.float32)
        matched, present = heard
        matched[cell] = likeness * impacts
        present[cell] = likeness
        flags: Array = np.zeros((terms * count, 5), np.float32)
        flagged = _FLAGS[fields] * likeness[:, None]
        flagged[:, 4] = likeness == 1.0
        flags[cell] = flagged
        heard = heard.reshape(2, terms, count)
        parts = (worth @ flags.reshape(terms, count * 5)).reshape(count, 5) / total
        out: Array = np.zeros((len(NAMES), count), np.float32)
        out[0], out[2] = worth @ heard / total
        out[1] = out[0] / (float(out[0].max(initial=0.0)) or 1.0)
        out[3], out[4], out[5], out[6], out[18] = parts.T
        out[8] = flags.reshape(terms, count, 5)[:, :, 1].sum(0) / (index.described[slots] + 3.0)
        self._name(slots, said, out)
        self._letters(slots, out)
        self._meaning(slots, out)
        self._clauses(heard, out)
        out[19] = np.minimum(1.0, out[2] * (total / (2.0 * index.rarity(0))))  # of two rare words
        if near is not None:
            out[20] = near[slots]
            out[21] = out[20] - float(near.max(initial=0.0))
        return out.T

    def _name(self, slots: Array, said: Array, out: Array) -> None:
        """How much of a tool's name the request says, the rarer words counting more."""
        index = self.index
        own = index.name_terms[slots]
        counts = np.frombuffer(index.counts, np.int32)[own].astype(np.float32)
        weights = np.log1p((len(index) - counts + 0.5) / (counts + 0.5)) * (own >= 0)
        likeness = np.append(self.reading.likeness, np.float32(0.0))[said[own]]
        out[7] = (weights * likeness).sum(1) / (weights.sum(1) + 1e-6)

    def _letters(self, slots: Array, out: Array) -> None:
        index, request = self.index, self.reading.request
        marks = pairs = 0
        for term in request.terms:
            if term.weight > 0.2:
                marks |= _trigrams(term.plain)
        for pair in request.pairs:
            pairs |= _pair(*pair)
        both = np.bitwise_count(index.marks[slots] & signature(marks, pairs)).reshape(len(slots), 2, -1).sum(2)
        out[9] = both[:, 1] / min(8.0, pairs.bit_count() + 1.0)
        out[10] = both[:, 0] / index.trigram_counts[slots]

    def _meaning(self, slots: Array, out: Array) -> None:
        index, reading = self.index, self.reading
        vectors = index.vectors[slots]
        out[11] = out[17] = vectors @ reading.vector
        out[12] = out[11] - float(out[11].max(initial=0.0))
        out[13] = index.name_vectors[slots] @ reading.vector
        if len(reading.clause_vectors) > 1:
            out[17] = (reading.clause_vectors @ vectors.T).max(0)

    def _clauses(self, heard: Array, out: Array) -> None:
        clauses = self.reading.clauses
        if len(clauses) == 1:
            out[14], out[15], out[16] = out[1], out[1] == 1.0, out[2]
            return
        sums = clauses.sum(1)
        total = float(sums.sum()) or 1.0
        scores, covered = clauses @ heard
        best = scores.max(1, keepdims=True)
        best[best == 0] = 1.0
        weight = np.minimum(1.0, sums * len(sums) / total)[:, None]  # a clause of little weight says little
        relative = scores / best
        out[14] = (relative * weight).max(0)
        out[15] = ((relative == 1.0) * weight).max(0)
        out[16] = (covered * (weight / (sums[:, None] + 1e-6))).max(0)


_trigrams = lru_cache(maxsize=50_000)(trigrams)


@lru_cache(maxsize=50_000)
def _pair(first: str, second: str) -> int:
    return pairs_of([first, second])


# By the bits of the fields: in the name, in the description, in parameters, in the category; the last is room for more.
_FLAGS: Final[Array] = np.array(
    [[n & 1, n >> 1 & 1, (n & 12) > 0, n >> 4 & 1, 0] for n in range(1 << FIELD_BITS)], np.float32
)


def _joined(parts: list[Any], kind: Any) -> Array:
    """A copy of some buffers as one array."""
    joined: Array = np.frombuffer(b"".join(parts), kind) if parts else np.zeros(0, kind)
    return joined


__all__ = ["NAMES", "Candidates", "Reading"]
