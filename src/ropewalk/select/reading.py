"""A request as an index understands it: what stands for its words there, what each is worth, and what it means.

A request is read in several ways: as a whole, and clause by clause, since each may need a tool of its own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from .contents import signature, trigrams
from .index import Index
from .lexicon import lexicon
from .request import CLAUSES_OF, Request, Term
from .synonyms import groups, shortened
from .text import STOP, stemmer

Array: TypeAlias = np.ndarray[Any, Any]

# Of a word: what stands for it here (number, how well, and how rare that is, one after the other) and how many do; how
# much it tells, by being rare here and in general; the rows of its vectors; the bits of its trigrams.
_Read: TypeAlias = tuple[list[float], int, float, tuple[int, ...], int]

_ENDINGS: Final = ("s", "es", "d", "ed", "ing")
WHOLE: Final = 0.4  # what a request of several clauses counts as a whole; the rest is the clauses', by what they say
SYNONYM: Final = 0.5
SHORTENED: Final = 0.9  # the one for the other
CORRECTED: Final = 0.9
RELATED: Final = 0.8  # of the likeness that the lexicon gives
LEAST_LIKE: Final = 0.55
UNKNOWN: Final = 0.35  # a word no tool has, against the rarest there can be
TOLD: Final = 0.2  # from what weight on a word's letters count
MOST_READ: Final = 50_000  # words of requests that are known in an index


class Reading:
    """A request against an index: what stands for its words there, what each is worth, and its vectors.

    `terms`, `places`, `likeness` and `rare` go together: a word of the index, the place of the request's word that it
    stands for, how well it does, and its rarity, those that do best last; `words` is of each the last one of the same
    word of the index. `letters` are of each word of the request the bits of its trigrams.
    """

    def __init__(self, index: Index, request: Request) -> None:
        self.request = request
        stand_ins, counts = list[float](), list[int]()
        worth, letters, rows, pieces = list[float](), list[int](), list[int](), list[int]()
        read = index.read
        for term in request.terms:
            known = read.get(term.plain)
            if known is None:
                if len(read) >= MOST_READ:  # whoever asks may have no end of words
                    read.clear()
                known = read[term.plain] = self._read(index, term)
            found, count, telling, own, bits = known
            stand_ins += found
            counts.append(count)
            worth.append(term.weight * telling)
            letters.append(bits if term.weight > TOLD else 0)
            rows += own
            pieces.append(len(own))
        table: Array = np.array(stand_ins).reshape(-1, 3)
        places: Array = np.arange(len(counts)).repeat(np.array(counts, np.intp))
        if request.joined:
            table, places = _with_joined(index, request, table, places)
        order = table[:, 1].argsort(kind="stable")
        table = table[order]
        self.terms: Array = table[:, 0].astype(np.int32)
        self.places: Array = places[order]
        self.likeness: Array = table[:, 1].astype(np.float32)
        self.rare: Array = table[:, 2].astype(np.float32)
        numbers = self.terms.tolist()
        last = dict(zip(numbers, range(len(numbers)), strict=True))
        self.words: Array = np.array([*map(last.__getitem__, numbers)], np.intp)
        self.worth: Array = np.array(worth, np.float32)
        self.weights: Array = np.array([term.weight for term in request.terms], np.float32)
        self.letters = letters
        inside = [term.clauses for term in request.terms]
        self.inside: Array = _inside(inside, request.clauses)  # of each way to read the request, whether it has a word
        self.ways: Array = self.inside * self.worth
        # Of each word the way that is the one clause it stands in, 0 where it stands in several.
        self.homes: Array = np.array([*map(_HOME.__getitem__, inside)], np.intp)
        self.said: Array = self.ways.sum(1)  # what the words of each way are worth
        if len(self.ways) > 1:
            self.shares: Array = self.said * ((1 - WHOLE) / (sum(self.said.tolist()[1:]) or 1.0))
            self.shares[0] = WHOLE
        else:
            self.shares = np.ones(1, np.float32)
        several: Array = np.array(pieces, np.intp)
        shares: Array = self.inside * (self.weights / np.maximum(several, 1, dtype=np.float32))
        self.way_vectors: Array = index.lexicon.directions(rows, shares.repeat(several, axis=1))

    @classmethod
    def _read(cls, index: Index, term: Term) -> _Read:
        """What is the same of a word in whatever request."""
        plain = cls._meant(index, term)
        found: dict[int, float] = {}
        rare: dict[int, float] = {}
        rarest = 0.0
        for stem, likeness in cls._stand_ins(index, term.stem, plain):
            number = index.terms.get(stem)
            if number is not None:
                found[number] = max(found.get(number, 0.0), likeness)
                rare[number] = index.rarity(index.frequency(number))
                if likeness == 1.0 or rarest == 0.0:
                    rarest = max(rarest, rare[number] * likeness)
        general = index.lexicon.weight(plain)
        telling = (rarest or UNKNOWN * index.rarity(0)) * (0.75 if general is None else general)
        stand_ins = [one for number, likeness in found.items() for one in (number, likeness, rare[number])]
        return stand_ins, len(found), telling, index.lexicon.rows(plain), signature(trigrams(term.plain))

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


def _with_joined(index: Index, request: Request, table: Array, places: Array) -> tuple[Array, Array]:
    """Stand-ins and the places of the words they stand for, with the words of the index that two of the request's make
    up: each stands for both of them."""
    for stem, first, second in request.joined:
        number = index.terms.get(stem, -1)
        for place in (first, second) if number >= 0 else ():
            there = (table[:, 0] == number) & (places == place)
            if there.any():
                table[there, 1] = 1.0
            else:
                made = number, 1.0, index.rarity(index.frequency(number))
                table, places = np.append(table, [made], axis=0), np.append(places, place)
    return table, places


_HOME: Final = [clauses[0] + 1 if len(clauses) == 1 else 0 for clauses in CLAUSES_OF]


def _inside(inside: list[int], clauses: int) -> Array:
    if clauses <= 1:
        return np.ones((1, len(inside)), np.bool_)
    ways = [-1, *[1 << clause for clause in range(clauses)]]  # the whole has every word
    had: Array = (np.array(inside) & np.array(ways)[:, None]) != 0
    return had


@lru_cache(maxsize=50_000)
def _alike(stem: str, plain: str) -> tuple[tuple[str, float], ...]:
    """The stems of words that mean much the same, whatever the tools."""
    stems = stemmer()
    found = [(other, SYNONYM) for other in groups().get(stem, ())]
    found.extend((other, SHORTENED) for other in shortened().get(stem, ()))
    found.extend((stems(word), RELATED * like) for word, like in lexicon().near(plain) if like >= LEAST_LIKE)
    return tuple(found)


__all__ = ["Reading"]
