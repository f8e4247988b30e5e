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
from .request import Request, Term
from .synonyms import groups, shortened
from .text import STOP, stemmer

Array: TypeAlias = np.ndarray[Any, Any]

# Of a word: what stands for it here, how well, and how rare that is; its rarity here and in general; the rows of its
# vectors; the bits of its trigrams.
_Read: TypeAlias = tuple[list[int], list[float], list[float], float, float, tuple[int, ...], int]

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
        terms, likeness, rare, places = list[int](), list[float](), list[float](), list[int]()
        worth, letters, rows, owner, shares = list[float](), list[int](), list[int](), list[int](), list[float]()
        unknown = UNKNOWN * index.rarity(0) if len(index) else 1.0
        read = index.read
        for place, term in enumerate(request.terms):
            weight = term.weight
            known = read.get((term.stem, term.plain))
            if known is None:
                if len(read) >= MOST_READ:  # whoever asks may have no end of words
                    read.clear()
                known = read[term.stem, term.plain] = self._read(index, term)
            numbers, likes, rarities, rarest, general, pieces, bits = known
            terms += numbers
            likeness += likes
            rare += rarities
            places += [place] * len(numbers)
            worth.append(weight * (rarest or unknown) * general)
            letters.append(bits if weight > TOLD else 0)
            if pieces:
                rows += pieces
                owner += [place] * len(pieces)
                shares += [weight / len(pieces)] * len(pieces)
        for stem, first, second in request.joined:
            number = index.terms.get(stem)
            if number is not None:
                for place in (first, second):
                    if not _stands(number, place, terms, places, likeness):
                        terms.append(number)
                        places.append(place)
                        likeness.append(1.0)
                        rare.append(index.rarity(index.frequency(number)))
        order = np.array(likeness).argsort(kind="stable")
        self.terms: Array = np.array(terms, np.int32)[order]
        self.places: Array = np.array(places, np.int32)[order]
        self.likeness: Array = np.array(likeness, np.float32)[order]
        self.rare: Array = np.array(rare, np.float32)[order]
        numbers = self.terms.tolist()
        last = dict(zip(numbers, range(len(numbers)), strict=True))
        self.words: Array = np.array([*map(last.__getitem__, numbers)], np.intp)
        self.worth: Array = np.array(worth, np.float32)
        self.weights: Array = np.array([term.weight for term in request.terms], np.float32)
        self.letters = letters
        self.inside: Array = _inside(request)  # of each way to read the request, whether it has a word
        self.ways: Array = self.inside * self.worth
        # Of each word the way that is the one clause it stands in, 0 where it stands in several.
        homes = [0 if len(term.clauses) > 1 else min(term.clauses) + 1 for term in request.terms]
        self.homes: Array = np.array(homes, np.intp)
        self.said: Array = self.ways.sum(1)  # what the words of each way are worth
        self.shares: Array = np.ones(len(self.ways), np.float32)
        if len(self.ways) > 1:
            said = self.said[1:]
            self.shares[0] = WHOLE
            self.shares[1:] = said * ((1 - WHOLE) / (float(said.sum()) or 1.0))
        self.way_vectors: Array = index.lexicon.directions(rows, self.inside[:, owner] * np.array(shares, np.float32))

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
        general = 0.75 if general is None else general
        stand_ins = list(found), list(found.values()), list(rare.values())
        return *stand_ins, rarest, general, index.lexicon.rows(plain), signature(trigrams(term.plain))

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


def _stands(number: int, place: int, terms: list[int], places: list[int], likeness: list[float]) -> bool:
    """Whether a word of the index stands for one of the request already; if so, it does as well as the word itself."""
    for n, other in enumerate(terms) if number in terms else ():
        if other == number and places[n] == place:
            likeness[n] = 1.0
            return True
    return False


def _inside(request: Request) -> Array:
    clauses, width = request.clauses, len(request.terms)
    if clauses <= 1:
        return np.ones((1, width), np.bool_)
    inside: Array = np.zeros((clauses + 1) * width, np.bool_)
    inside[:width] = True
    at = [width * (clause + 1) + place for place, term in enumerate(request.terms) for clause in term.clauses]
    inside[at] = True
    return inside.reshape(-1, width)


@lru_cache(maxsize=50_000)
def _alike(stem: str, plain: str) -> tuple[tuple[str, float], ...]:
    """The stems of words that mean much the same, whatever the tools."""
    stems = stemmer()
    found = [(other, SYNONYM) for other in groups().get(stem, ())]
    found.extend((other, SHORTENED) for other in shortened().get(stem, ()))
    found.extend((stems(word), RELATED * like) for word, like in lexicon().near(plain) if like >= LEAST_LIKE)
    return tuple(found)


__all__ = ["Reading"]
