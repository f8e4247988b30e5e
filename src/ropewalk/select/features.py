"""What is measured of a candidate: numbers between 0 and 1 or so, which the weights add up to a score.

A request is read in several ways: as a whole, and clause by clause, since each may need a tool of its own. Each way
measures every candidate by the same features, so what holds of requests for one tool holds of those for several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from .contents import BITS, pairs_of, signature, trigrams
from .index import FIELD_BITS, FIELD_MASK, TELLING, Index, unpacked
from .lexicon import lexicon, products
from .request import Request, Term
from .synonyms import groups, shortened
from .text import STOP, stemmer

Array: TypeAlias = np.ndarray[Any, Any]

NAMES: Final = (
    "coverage", "only in parameters", "exact words", "telling words", "tool covered", "description covered",
    "neighbours", "letters of name", "meaning", "best meaning", "model", "best model",
)  # fmt: skip

_ENDINGS: Final = ("s", "es", "d", "ed", "ing")
WHOLE: Final = 0.4  # what a request of several clauses counts as a whole; the rest is the clauses', by what they say
SYNONYM: Final = 0.5
SHORTENED: Final = 0.9  # the one for the other
CORRECTED: Final = 0.9
RELATED: Final = 0.8  # of the likeness that the lexicon gives
LEAST_LIKE: Final = 0.55
UNKNOWN: Final = 0.35  # a word no tool has, against the rarest there can be
LOOKED_UP: Final = 60_000  # postings that are added up to find candidates
MOST_READ: Final = 50_000  # words of requests that are known in an index
DENSE_CLAUSES: Final = 5_000  # up to so many tools those of single clauses, too
DENSE: Final = 20_000  # up to so many tools meanings are compared with all, above with those that share a word


class Reading:
    """A request against an index: what stands for its words there, what each is worth, and its vectors.

    `terms`, `places` and `likeness` go together: a word of the index, the place of the request's word that it stands
    for, and how well it does, those that do best last; `words` is of each the last one of the same word of the index.
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
                if len(read) >= MOST_READ:  # whoever asks may have no end of words
                    read.clear()
                known = read[term.stem, term.plain] = self._read(index, term)
            numbers, likes, rarest, general, pieces = known
            terms += numbers
            likeness += likes
            places += [place] * len(numbers)
            worth.append(term.weight * (rarest or unknown) * general)
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
        last = {term: place for place, term in enumerate(self.terms.tolist())}
        self.words: Array = np.array([last[term] for term in self.terms.tolist()], np.intp)
        self.worth: Array = np.array(worth, np.float32)
        self.weights: Array = np.array([term.weight for term in request.terms], np.float32)
        clauses = max(1, request.clauses)
        inside: Array = np.ones((1 if clauses == 1 else clauses + 1, len(worth)), np.bool_)
        if clauses > 1:
            inside[1:] = False
            width = len(worth)
            both = [width * clause + place for place, term in enumerate(request.terms) for clause in term.clauses]
            inside[1:].reshape(-1)[both] = True
        self.inside = inside  # of each way to read the request, whether it has a word
        self.ways: Array = inside * self.worth
        self.clauses: Array = self.ways[-clauses:]
        self.shares: Array = np.ones(len(inside), np.float32)
        if clauses > 1:
            said = self.clauses.sum(1)
            self.shares[0] = WHOLE
            self.shares[1:] = (1 - WHOLE) * said / (said.sum() or 1.0)
        self.way_vectors: Array = index.lexicon.directions(rows, inside[:, owner] * np.array(shares, np.float32))

    @staticmethod
    def _put(number: Any, place: int, terms: list[int], places: list[int], likeness: list[float]) -> None:
        """Have a word of the index stand for one of the request as well as the word itself."""
        for n, other in enumerate(terms) if number in terms else ():
            if other == number and places[n] == place:
                likeness[n] = 1.0
                return
        terms.append(number)
        places.append(place)
        likeness.append(1.0)

    @classmethod
    def _read(cls, index: Index, term: Term) -> tuple[list[int], list[float], float, float, tuple[int, ...]]:
        """What is the same of a word in whatever request: what stands for it, its rarity here and in general, and the
        rows of its vectors."""
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
        general = 0.75 if general is None else general
        return list(found), list(found.values()), rarest, general, index.lexicon.rows(plain)

    @staticmethod
    def _meant(index: Index, term: Term) -> str:
        """The word itself; of one that is in no dictionary and no tool, the known word it is a misspelling of."""
        if term.stem in index.terms or index.lexicon.weight(term.plain) is not None:
            return term.plain
        endings = [end for end in _ENDINGS if term.plain.endswith(end)]
        if any(index.lexicon.weight(term.plain[: -len(end)]) is not None for end in endings):
            return term.plain  # a form of a known word
        meant = index.spelling.nearest(term.plain)
        if meant is None and not index.lexicon.split(term.plain):
            meant = index.lexicon.nearest(term.plain)
        return meant or term.plain

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
    found.extend((other, SHORTENED) for other in shortened().get(stem, ()))
    found.extend((stems(word), RELATED * like) for word, like in lexicon().near(plain) if like >= LEAST_LIKE)
    return tuple(found)


class Candidates:
    """The postings of a reading, and the candidates found in them."""

    def __init__(self, index: Index, reading: Reading) -> None:
        self.index, self.reading = index, reading
        # Of every posting of the reading: which of its words it is of, its slot, its impact, and its number.
        self._seen: tuple[Array, Array, Array, Array] | None = None

    def find(self, allowed: Array | None, most: int, near: Array | None = None) -> Array:
        """The slots of the tools worth a look, at most some `most`; `allowed` says of each slot whether it may,
        `near` what a model thinks of it."""
        index, reading = self.index, self.reading
        size = index.size
        if allowed is not None and int(allowed.sum()) <= most:
            return np.flatnonzero(allowed)
        chosen: Array = np.zeros(size, np.bool_)
        if near is not None:
            _choose(chosen, [near], allowed, most // 2)
        scores, by_clause = self._scored()
        _choose(chosen, [scores], allowed, (most * 2) // 3)
        _choose(chosen, by_clause, allowed, max(12, most // (len(reading.clauses) + 1)))
        if size <= DENSE:
            few = len(reading.clauses) < 4 and size <= DENSE_CLAUSES
            meant = reading.way_vectors[-len(reading.clauses) :] if few else reading.way_vectors[:1]
            alike = (products(index.vectors[:size], way) for way in meant)
            _choose(chosen, alike, allowed, max(10, most // 3))
        return chosen.nonzero()[0]

    def _scored(self) -> tuple[Array, Iterator[Array]]:
        """What each slot has for the words it has: in all, and for those of each clause where there are several. Where
        words are many and in many tools, those worth most are looked up: the rest only counts among the candidates."""
        index, reading = self.index, self.reading
        terms, places = reading.terms, reading.places
        variants: Array = np.arange(len(terms), dtype=np.int16)
        lengths: Array = np.frombuffer(index.counts, np.int32)[terms] if len(terms) else np.zeros(0, np.int32)
        value = reading.worth[places] * reading.likeness
        all_of_them = int(lengths.sum()) <= LOOKED_UP
        if not all_of_them:
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
            variants = home.argsort(kind="stable")
            terms, places, lengths, value, home = (one[variants] for one in (terms, places, lengths, value, home))
        postings = index.postings
        numbers, impacts = unpacked(*[postings[term] for term in terms.tolist()])
        slots = (numbers >> FIELD_BITS).astype(np.intp)
        worth = (impacts * value.repeat(lengths)).astype(np.float64)  # as bincount has it
        if all_of_them:
            self._seen = variants.repeat(lengths), slots, impacts, numbers
        scores = np.bincount(slots, worth, index.size)
        if not several or not len(slots):
            return scores, iter(())
        ends = np.concatenate(([0], lengths.cumsum()))[home.searchsorted(np.arange(len(having) + 1))].tolist()
        several_clauses = home == len(having)
        shared = places[several_clauses].repeat(lengths[several_clauses])
        return scores, self._by_clause(slots, worth, ends, shared)

    def _by_clause(self, slots: Array, worth: Array, ends: list[int], shared: Array) -> Iterator[Array]:
        """The scores of each clause: of the words it has alone, and of those it shares with others."""
        size, last = self.index.size, ends[-1]
        for clause, (start, end) in zip(self.reading.clauses, pairwise(ends), strict=True):
            scores = np.bincount(slots[start:end], worth[start:end], size)
            if len(shared):
                scores = scores + np.bincount(slots[last:], worth[last:] * (clause[shared] > 0), size)
            yield scores

    def _matches(self, slots: Array) -> tuple[Array, Array, Array, Array]:
        """Of every word of these slots that stands for a word of the request, those that are more alike later: which of
        the reading's it is, which of the slots, its impact, and the fields it stands in."""
        variant, column, impacts, fields = self._seen_of(slots) if self._seen else self._had_by(slots)
        later = variant.argsort(kind="stable")
        return variant[later], column[later], impacts[later], fields[later]

    def _seen_of(self, slots: Array) -> tuple[Array, Array, Array, Array]:
        """What was seen of these slots when all postings of the request were looked up."""
        assert self._seen is not None
        variant, owner, impacts, numbers = self._seen
        columns: Array = np.full(self.index.size, -1, np.int32)
        columns[slots] = np.arange(len(slots))
        column = columns[owner]
        hit = (column >= 0).nonzero()[0]
        return variant[hit], column[hit], impacts[hit], numbers[hit] & FIELD_MASK

    def _had_by(self, slots: Array) -> tuple[Array, Array, Array, Array]:
        """The same from the words of these slots."""
        index, reading = self.index, self.reading
        said: Array = np.full(len(index.postings) + 1, -1, np.int16)  # the last one stands for "no word"
        said[reading.terms] = reading.words
        keys, impacts = unpacked(*[index.rows[slot] for slot in slots.tolist()])
        found = said[keys >> FIELD_BITS]
        hit = (found >= 0).nonzero()[0]
        variant: Array = found[hit]
        order = reading.words.argsort(kind="stable")
        if len(order) and (reading.words[order[1:]] == reading.words[order[:-1]]).any():  # one word for several
            starts = reading.words[order].searchsorted(variant)
            times = reading.words[order].searchsorted(variant, side="right") - starts
            hit = hit.repeat(times)
            ends = times.cumsum()
            variant = order[np.arange(len(hit)) - (ends - times - starts).repeat(times)]
        column = np.arange(len(slots), dtype=np.int32).repeat(index.words[slots])[hit]
        return variant, column, impacts[hit], keys[hit] & FIELD_MASK

    def measure(self, slots: Array, near: Array | None = None) -> Array:
        """For each way to read the request and each of these slots a row of features (see NAMES); `near` as in
        `find`."""
        index, reading = self.index, self.reading
        ways, terms, count = reading.ways, len(reading.worth), len(slots)
        total = ways.sum(1)[:, None]
        total[total == 0] = 1.0
        variant, column, impacts, fields = self._matches(slots)
        row, likeness = reading.places[variant], reading.likeness[variant]
        self.hits = row, column, likeness, impacts, fields
        cell = row * count + column
        heard: Array = np.zeros((5, terms * count), np.float32)
        heard[0, cell] = likeness
        heard[1, cell] = _IN_PARAMETERS[fields] * likeness
        # Not where the name or the description says it as well, be it written otherwise (`disk type`, `disk_type`).
        heard[1, cell[(_TELLING[fields] > 0) & (likeness == heard[0, cell])]] = 0
        heard[3, cell] = likeness * impacts
        heard[4, cell] = _DESCRIBING[fields] * likeness
        heard[2] = heard[0] == 1.0
        heard = heard.reshape(5, terms, count)
        out: Array = np.zeros((len(NAMES), len(ways), count), np.float32)
        inside = reading.inside.astype(np.float32)
        out[:3] = ways @ heard[:3] / total
        # What few of the candidates have tells between them, however many tools have it.
        rare = np.log((count + 1) / (heard[0].sum(1) + 0.5)) * reading.weights
        telling = (inside * rare.clip(0)) @ heard[3]
        out[3] = telling / np.maximum(telling.max(1, keepdims=True, initial=0.0), 1e-6)
        out[4] = self._tool_covered(slots, reading.words[variant], column, fields)
        out[5] = inside @ heard[4] / (index.described[slots] + 3.0)
        self._letters(slots, out)
        out[8] = reading.way_vectors @ index.vectors[slots].T
        out[9] = out[8] - out[8].max(1, keepdims=True, initial=0.0)
        if near is not None:
            out[10] = near[slots]
            out[11] = out[10] - float(near.max(initial=0.0))
        return out.transpose(1, 2, 0)

    def _tool_covered(self, slots: Array, word: Array, column: Array, fields: Array) -> Array:
        """How much of what a tool's name and description say each way says, the rarer words counting more. `word` is
        of each match as in Reading.words."""
        index, reading = self.index, self.reading
        alike: Array = np.zeros((len(reading.inside), len(reading.terms)), np.float32)
        way, variant = reading.inside[:, reading.places].nonzero()
        alike[way, reading.words[variant]] = reading.likeness[variant]  # of the same word the most alike comes last
        had: Array = np.zeros((len(reading.terms), len(slots)), np.float32)
        had[word, column] = index.rarities(reading.terms)[word] * _TELLING[fields]
        covered: Array = alike @ had / index.telling(slots)
        return covered

    def _letters(self, slots: Array, out: Array) -> None:
        """The pairs of neighbouring words that each way shares with a tool, and how much of its name's letters."""
        index = self.index
        marks, pairs = self._asked(len(self.reading.inside))
        rows = b"".join([bits.to_bytes(BITS // 8) for bits in (*marks, *pairs)])
        asked: Array = np.frombuffer(rows, np.uint64).reshape(2, len(marks), -1)
        asked = asked.transpose(0, 2, 1).reshape(2 * BITS // 64, len(marks))
        theirs = index.marks.take(slots, axis=0).T.copy()
        shared = np.bitwise_count(theirs[:, None] & asked[:, :, None])
        alike = shared.reshape(2, BITS // 64, len(marks), len(slots)).sum(1, np.uint16)
        most = [[min(bits.bit_count() + 1, 8)] for bits in pairs]
        out[6] = alike[1] / np.array(most, np.float32)
        out[7] = alike[0] / index.trigram_counts[slots]

    def _asked(self, ways: int) -> tuple[list[int], list[int]]:
        """The bits of the trigrams, and those of the pairs of words, that each way to read the request has."""
        request = self.reading.request
        marks, pairs = [0] * ways, [0] * ways
        terms = request.terms
        for term in terms:
            if term.weight > 0.2:
                bits = _trigrams(term.plain)
                marks[0] |= bits
                for clause in term.clauses if ways > 1 else ():
                    marks[clause + 1] |= bits
        for a, b in request.pairs:
            first, second = terms[a], terms[b]
            bits = _pair(first.stem, second.stem)
            pairs[0] |= bits
            for clause in first.clauses & second.clauses if ways > 1 else ():
                pairs[clause + 1] |= bits
        return marks, pairs


@lru_cache(maxsize=50_000)
def _trigrams(word: str) -> int:
    return signature(trigrams(word))


@lru_cache(maxsize=50_000)
def _pair(first: str, second: str) -> int:
    return signature(pairs_of([first, second]))


def _choose(chosen: Array, rows: Iterable[Array], allowed: Array | None, most: int) -> None:
    """Add to the chosen the best `most` of each row of scores, none that has nothing or is not allowed."""
    for scores in rows:
        if allowed is not None:
            scores = np.where(allowed, scores, 0)
        least = float(scores.max(initial=0.0)) / 2 if len(scores) > 4096 else 0.0
        picked: Array = (scores > least).nonzero()[0]
        while len(picked) < most and least > 0.0:  # first the upper half, and lower until there are enough
            least = least / 2 if least > 1e-3 else 0.0
            picked = (scores > least).nonzero()[0]
        if len(picked) > most:
            picked = picked[scores[picked].argpartition(len(picked) - most)[len(picked) - most :]]
        chosen[picked] = True


# By the bits of the fields: in the name or the description, in the description, in parameters.
_TELLING: Final[Array] = np.array([(n & TELLING) > 0 for n in range(1 << FIELD_BITS)], np.float32)
_DESCRIBING: Final[Array] = np.array([n >> 1 & 1 for n in range(1 << FIELD_BITS)], np.float32)
_IN_PARAMETERS: Final[Array] = np.array([(n & 12) > 0 for n in range(1 << FIELD_BITS)], np.float32)


__all__ = ["NAMES", "Candidates", "Reading"]
