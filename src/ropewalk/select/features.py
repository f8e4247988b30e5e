"""What is measured of a candidate: numbers between 0 and 1 or so, which the weights add up to a score."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .index import BITS, Index, pairs_of, signature, trigrams
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


class Variant(NamedTuple):
    """A word of the index that stands for a word of the request."""

    term: int
    place: int  # of the request's word
    likeness: float


class Reading:
    """A request against an index: its words' variants there, what each is worth, and its vectors."""

    def __init__(self, index: Index, request: Request) -> None:
        self.request = request
        variants: dict[tuple[int, int], float] = {}
        worth, self.plain = [], list[str]()
        unknown = UNKNOWN * index.rarity(0) if len(index) else 1.0
        read = index.read
        for place, term in enumerate(request.terms):
            known = read.get((term.stem, term.plain))
            if known is None:
                known = read[term.stem, term.plain] = self._read(index, term)
            plain, found, rarest, general = known
            self.plain.append(plain)
            for number, likeness in found:
                variants[number, place] = likeness
            worth.append(term.weight * (rarest or unknown) * general)
        for stem, first, second in request.joined:
            number = index.terms.get(stem)
            if number is not None:
                variants[number, first] = variants[number, second] = 1.0
        self.variants = [Variant(term, place, like) for (term, place), like in variants.items()]
        self.variants.sort(key=lambda one: one.likeness)
        self.worth: Array = np.array(worth, np.float32)
        clauses = max(1, request.clauses)
        self.clauses: Array = np.zeros((clauses, len(worth)), np.float32)
        for place, term in enumerate(request.terms):
            self.clauses[list(term.clauses), place] = self.worth[place]
        vector, terms = index.lexicon.vector, list(zip(self.plain, request.terms, strict=True))
        self.vector: Array = vector([(plain, term.weight) for plain, term in terms])
        self.clause_vectors: Array = (
            self.vector[None]
            if clauses == 1
            else np.stack([vector([(p, t.weight) for p, t in terms if n in t.clauses]) for n in range(clauses)])
        )

    @classmethod
    def _read(cls, index: Index, term: Term) -> tuple[str, list[tuple[int, float]], float, float]:
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
        return plain, list(found.items()), rarest, 0.75 if general is None else general

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
        variants = reading.variants
        self._places = np.array([one.place for one in variants], np.int32)
        self._terms = np.array([one.term for one in variants], np.int32)
        self._likeness = np.array([one.likeness for one in variants], np.float32)

    def find(self, allowed: Array | None, most: int, near: Array | None = None) -> Array:
        """The slots of the tools worth a look, at most some `most`; `allowed` says of each slot whether it may,
        `near` what a model thinks of it."""
        index, reading = self.index, self.reading
        size = index.size
        if allowed is not None and int(allowed.sum()) <= most:
            return np.flatnonzero(allowed)
        chosen: list[Array] = [] if near is None else [self._best(near, allowed, most // 2)]
        several = len(reading.clauses) > 1
        slots, value, places = self._scored()
        if len(slots):
            scores = np.bincount(slots, value, size)
            chosen.append(self._best(scores, allowed, (most * 2) // 3))
        share = max(12, most // (len(reading.clauses) + 1))
        for clause in reading.clauses if several and len(slots) else ():
            inside = clause[places] > 0
            scores = np.bincount(slots[inside], value[inside], size)
            chosen.append(self._best(scores, allowed, share))
        if size <= DENSE:
            few = len(reading.clause_vectors) < 4 and size <= DENSE_CLAUSES
            ways = reading.clause_vectors if few else reading.vector[None]
            for way in ways:
                chosen.append(self._best(products(index.vectors[:size], way), allowed, max(10, most // 3)))
        return np.unique(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)

    def _scored(self) -> tuple[Array, Array, Array]:
        """Slots, what each has for having a word, and the place of that word in the request. Where words are many and
        in many tools, those worth most are looked up: the rest only counts among the candidates."""
        index, reading = self.index, self.reading
        postings = [found for one in reading.variants if (found := index.postings[one.term]) is not None]
        lengths = np.array([len(one.slots) for one in postings], np.int64)
        value = reading.worth[self._places] * self._likeness
        places = self._places
        if int(lengths.sum()) > LOOKED_UP:
            room, kept = LOOKED_UP, list[int]()
            for n in np.argsort(-value, kind="stable").tolist():
                if lengths[n] <= room or not kept:
                    kept.append(n)
                    room -= int(lengths[n])
            postings = [postings[n] for n in kept]
            lengths, value, places = lengths[kept], value[kept], places[kept]
        slots = _joined([one.slots for one in postings], np.int32)
        impacts = _joined([one.impacts for one in postings], np.float32)
        return slots, impacts * np.repeat(value, lengths), np.repeat(places, lengths)

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

    def _matches(self, slots: Array, own: list[int]) -> tuple[Array, Array, Array]:
        """Of every word of these slots that stands for a word of the request, those that are more alike later: the
        variant, which of the slots it is, and where it stands among all their words."""
        index = self.index
        numbers = _joined([index.numbers[slot] for slot in own], np.int32)
        columns = np.repeat(np.arange(len(own)), index.words[slots])
        first = np.full(len(index.postings), -1, np.int32)
        each: Array = np.arange(len(self._terms))
        first[self._terms] = each
        found = first[numbers]
        hit = np.flatnonzero(found >= 0)
        if np.array_equal(first[self._terms], each):
            variant: Array = found[hit]
        else:  # a word that stands for several words of the request
            order = np.argsort(self._terms, kind="stable")
            terms, starts, counts = np.unique(self._terms[order], return_index=True, return_counts=True)
            first[terms] = np.arange(len(terms))
            which = first[numbers[hit]]
            times = counts[which]
            hit = np.repeat(hit, times)
            ends = np.cumsum(times)
            variant = order[np.arange(len(hit)) - np.repeat(ends - times, times) + np.repeat(starts[which], times)]
        later = np.argsort(variant, kind="stable")
        return variant[later], columns[hit[later]], hit[later]

    def measure(self, slots: Array, near: Array | None = None) -> Array:
        """One row of features (see NAMES) for each of these slots; `near` as in `find`."""
        index, reading = self.index, self.reading
        terms, count = len(reading.worth), len(slots)
        matched = np.zeros((terms, count), np.float32)
        present = self.present = np.zeros((terms, count), np.float32)
        fields = self.fields_hit = np.zeros((terms, count), np.uint8)
        own = slots.tolist()
        variant, column, at = self._matches(slots, own)
        row, likeness = self._places[variant], self._likeness[variant]
        impacts = _joined([index.impacts[slot] for slot in own], np.float32)
        matched[row, column] = likeness * impacts[at]
        present[row, column] = likeness
        fields[row, column] = _joined([index.fields[slot] for slot in own], np.uint8)[at]
        worth, out = reading.worth, np.zeros((count, len(NAMES)), np.float32)
        total = float(worth.sum()) or 1.0
        out[:, 0] = worth @ matched / total
        out[:, 1] = out[:, 0] / (float(out[:, 0].max(initial=0.0)) or 1.0)
        out[:, 2] = worth @ present / total
        named = present * (fields & 1)
        out[:, 3] = worth @ named / total
        out[:, 4] = worth @ (present * ((fields >> 1) & 1)) / total
        out[:, 5] = worth @ (present * ((fields & 12) > 0)) / total
        out[:, 6] = worth @ (present * ((fields >> 4) & 1)) / total
        self._name(slots, out)
        told = (present * ((fields >> 1) & 1)).sum(0)
        out[:, 8] = told / (index.described[slots] + 3.0)
        self._letters(slots, out)
        self._meaning(slots, out)
        self._clauses(matched, present, out)
        out[:, 18] = worth @ (present == 1.0) / total
        out[:, 19] = np.minimum(1.0, worth @ present / (2.0 * index.rarity(0)))  # of two rare words
        if near is not None:
            out[:, 20] = near[slots]
            out[:, 21] = out[:, 20] - float(near.max(initial=0.0))
        return out

    def _name(self, slots: Array, out: Array) -> None:
        """How much of a tool's name the request says, the rarer words counting more."""
        index = self.index
        said = np.zeros(len(index.postings) + 1, np.float32)  # the last one stands for "no word"
        for term, _, likeness in self.reading.variants:
            said[term] = likeness
        own = index.name_terms[slots]
        counts = np.frombuffer(index.counts, np.int32)[own].astype(np.float32)
        weights = np.log1p((len(index) - counts + 0.5) / (counts + 0.5)) * (own >= 0)
        out[:, 7] = (weights * said[own]).sum(1) / (weights.sum(1) + 1e-6)

    def _letters(self, slots: Array, out: Array) -> None:
        index = self.index
        pairs = pairs_of_request(self.reading.request)
        if pairs:
            row = signature(pairs)
            out[:, 9] = np.bitwise_count(index.pairs[slots] & row).sum(1, np.int32) / min(8.0, len(pairs) + 1.0)
        marks: set[int] = set()
        for term in self.reading.request.terms:
            if term.weight > 0.2:
                marks |= _trigrams(term.plain)
        if marks:
            row = signature(marks)
            both = np.bitwise_count(index.trigrams[slots] & row).sum(1, np.int32)
            out[:, 10] = both / index.trigram_counts[slots]

    def _meaning(self, slots: Array, out: Array) -> None:
        index, reading = self.index, self.reading
        vectors = index.vectors[slots]
        near = vectors @ reading.vector
        out[:, 11] = near
        out[:, 12] = near - float(near.max(initial=0.0))
        out[:, 13] = index.name_vectors[slots] @ reading.vector
        if len(reading.clause_vectors) > 1:
            out[:, 17] = (vectors @ reading.clause_vectors.T).max(1)
        else:
            out[:, 17] = near

    def _clauses(self, matched: Array, present: Array, out: Array) -> None:
        clauses = self.reading.clauses
        if len(clauses) == 1:
            out[:, 14], out[:, 15], out[:, 16] = out[:, 1], out[:, 1] == 1.0, out[:, 2]
            return
        sums = clauses.sum(1)
        total = float(sums.sum()) or 1.0
        scores = clauses @ matched
        best = scores.max(1, keepdims=True)
        best[best == 0] = 1.0
        weight = np.minimum(1.0, sums * len(sums) / total)[:, None]  # a clause of little weight says little
        relative = scores / best
        out[:, 14] = (relative * weight).max(0)
        out[:, 15] = ((relative == 1.0) * weight).max(0)
        covered = (clauses @ present) / (sums[:, None] + 1e-6)
        out[:, 16] = (covered * weight).max(0)


_trigrams = lru_cache(maxsize=50_000)(trigrams)


def _joined(parts: list[Any], kind: Any) -> Array:
    """A copy of some buffers as one array."""
    joined: Array = np.frombuffer(b"".join(parts), kind) if parts else np.zeros(0, kind)
    return joined


def pairs_of_request(request: Request) -> set[int]:
    """The bits of the pairs of neighbouring words of a request."""
    return {bit for pair in request.pairs for bit in pairs_of(list(pair))}


__all__ = ["BITS", "NAMES", "Candidates", "Reading", "Variant"]
