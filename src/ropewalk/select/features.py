"""What is measured of a candidate: numbers between 0 and 1 or so, which the weights add up to a score."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .index import BITS, Index, pairs_of, signature, trigrams
from .lexicon import lexicon
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
        self.plain = [self._meant(index, term) for term in request.terms]
        variants: dict[tuple[int, int], float] = {}
        worth, common = [], index.lexicon.weight
        unknown = UNKNOWN * index.rarity(0) if len(index) else 1.0
        for place, term in enumerate(request.terms):
            rarest = 0.0
            for stem, likeness in self._stand_ins(index, term.stem, self.plain[place]):
                known = index.terms.get(stem)
                if known is None:
                    continue
                variants[known, place] = max(variants.get((known, place), 0.0), likeness)
                if likeness == 1.0 or rarest == 0.0:
                    rarest = max(rarest, index.rarity(index.frequency(known)) * likeness)
            general = common(self.plain[place])
            worth.append(term.weight * (rarest or unknown) * (0.75 if general is None else general))
        for stem, first, second in request.joined:
            known = index.terms.get(stem)
            if known is not None:
                variants[known, first] = variants[known, second] = 1.0
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
        found = [index.postings[one.term] for one in reading.variants]
        self.slots = _joined([one.slots for one in found if one is not None], np.int32)
        self.impacts = _joined([one.impacts for one in found if one is not None], np.float32)
        self.fields = _joined([one.fields for one in found if one is not None], np.uint8)
        lengths = [len(one.slots) for one in found if one is not None]
        places = np.array([one.place for one in reading.variants], np.int32)
        self.places = np.repeat(places, lengths)
        self.likeness = np.repeat(np.array([one.likeness for one in reading.variants], np.float32), lengths)

    def find(self, allowed: Array | None, most: int, near: Array | None = None) -> Array:
        """The slots of the tools worth a look, at most some `most`; `allowed` says of each slot whether it may,
        `near` what a model thinks of it."""
        index, reading = self.index, self.reading
        size = index.size
        if allowed is not None and int(allowed.sum()) <= most:
            return np.flatnonzero(allowed)
        chosen: list[Array] = [] if near is None else [self._best(near, allowed, most // 2)]
        value = self.impacts * self.likeness
        ways = [reading.worth] if len(reading.clauses) == 1 else [reading.worth, *reading.clauses]
        share = most if len(ways) == 1 else max(12, most // len(ways))
        for way in ways:
            if len(self.slots) == 0:
                break
            scores = np.bincount(self.slots, way[self.places] * value, size).astype(np.float32)
            chosen.append(self._best(scores, allowed, share if way is not reading.worth else (most * 2) // 3))
        if size <= DENSE:
            for vector in reading.clause_vectors if len(reading.clause_vectors) < 4 else reading.vector[None]:
                near = index.vectors[:size] @ vector
                chosen.append(self._best(near, allowed, max(10, most // 3)))
        return np.unique(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)

    def _best(self, scores: Array, allowed: Array | None, most: int) -> Array:
        if allowed is not None:
            scores = np.where(allowed, scores, 0)
        picked = np.flatnonzero(scores > 0)  # first: among many zeros the partition is slow
        if len(picked) > most:
            picked = picked[np.argpartition(scores[picked], len(picked) - most)[len(picked) - most :]]
        return picked

    def measure(self, slots: Array, near: Array | None = None) -> Array:
        """One row of features (see NAMES) for each of these slots; `near` as in `find`."""
        index, reading = self.index, self.reading
        terms, count = len(reading.worth), len(slots)
        where = np.full(index.size, -1, np.int32)
        where[slots] = np.arange(count)
        column = where[self.slots]
        hit = column >= 0
        column, row = column[hit], self.places[hit]
        matched = np.zeros((terms, count), np.float32)
        present = self.present = np.zeros((terms, count), np.float32)
        fields = self.fields_hit = np.zeros((terms, count), np.uint8)
        likeness = self.likeness[hit]
        matched[row, column] = likeness * self.impacts[hit]
        present[row, column] = likeness
        fields[row, column] = self.fields[hit]
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
            out[:, 9] = np.bitwise_count(index.pairs[slots] & row).sum(1) / min(8.0, len(pairs) + 1.0)
        marks: set[int] = set()
        for term in self.reading.request.terms:
            if term.weight > 0.2:
                marks |= trigrams(term.plain)
        if marks:
            row = signature(marks)
            both = np.bitwise_count(index.trigrams[slots] & row).sum(1)
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


def _joined(parts: list[Any], kind: Any) -> Array:
    """A copy of some buffers as one array."""
    joined: Array = np.frombuffer(b"".join(parts), kind) if parts else np.zeros(0, kind)
    return joined


def pairs_of_request(request: Request) -> set[int]:
    """The bits of the pairs of neighbouring words of a request."""
    return {bit for pair in request.pairs for bit in pairs_of(list(pair))}


__all__ = ["BITS", "NAMES", "Candidates", "Reading", "Variant"]
