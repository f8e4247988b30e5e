"""Read a request as an index does: its words there, the weight of each, and its meaning."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .index import Index, signature, trigrams
from .lexicon import lexicon
from .query import CLAUSES_OF, Request, Term
from .text import STOP, groups, shortened, stemmer

Array: TypeAlias = np.ndarray[Any, Any]


class WordReading(NamedTuple):
    """A word of a request as an index reads it, the same in every request."""

    variants: list[float]
    variant_count: int
    informativeness: float
    vector_rows: tuple[int, ...]
    trigram_bits: int
    is_known: bool  # to the index or to the lexicon


_ENDINGS: Final = ("s", "es", "d", "ed", "ing")
WHOLE_SHARE: Final = 0.4  # the share of all of a request; its clauses have the rest, in proportion to their weights
# How well a variant stands for a word of the request; the word itself has 1.
SYNONYM: Final = 0.5
SHORTENED: Final = 0.9  # a short form for the long one, or the reverse
CORRECTED: Final = 0.9
RELATED: Final = 0.8  # times the likeness of the lexicon
MIN_LIKENESS: Final = 0.55  # of the lexicon, for a related word
UNKNOWN_WORD: Final = 0.35  # informativeness of a word that no tool has, as a share of the rarest possible word's
MIN_LETTERS_WEIGHT: Final = 0.2  # words with a lower weight are not compared by their letters
MAX_CACHED_WORDS: Final = 50_000  # readings of words that an index keeps


class Reading:
    """A request as one index reads it: which words of the index stand for its words, their weights, its vectors."""

    # A *variant* is a word of the index that stands for a word of the request: the word itself, a synonym, a
    # correction. A *way* to read the request is all of it (way 0) or one of its clauses. "Word" below is a word of the
    # request.
    #
    # `term_numbers`: Of each variant its number in the index. The four arrays of variants are sorted by likeness.
    # `positions`: Of each variant the position of the word that it stands for.
    # `likeness`: Of each variant how well it stands for the word, up to 1.
    # `rarity`: Of each variant its inverse document frequency.
    # `last_variant`: Of each variant the last variant with the same number.
    # `word_weights`: Of each word its weight in the request times its informativeness.
    # `weights`: Of each word its weight in the request.
    # `known_share`: The share of known words; of a request in English nearly all.
    # `trigram_bits`: Of each word the bits of its trigrams; 0 for a word of little weight.
    # `has_word`: By way and word, True if the way has the word.
    # `way_weights`: By way and word, the weight of the word in the way.
    # `only_way`: Of each word the way that is the only clause with it; 0 if several clauses have it.
    # `way_totals`: Of each way the sum of its weights.
    # `shares`: Of each way its share in the score of a tool.
    # `way_vectors`: Of each way its direction in meaning.

    def __init__(self, index: Index, request: Request) -> None:
        self.request = request
        # Read each word; the index keeps what does not depend on the request.
        variants, variant_counts = list[float](), list[int]()
        word_weights, trigram_bits, rows, vector_counts = list[float](), list[int](), list[int](), list[int]()
        known, cache = 0.0, index.word_readings
        for term in request.terms:
            word = cache.get(term.plain)
            if word is None:
                if len(cache) >= MAX_CACHED_WORDS:
                    cache.clear()
                word = cache[term.plain] = self._read_word(index, term)
            variants += word.variants
            variant_counts.append(word.variant_count)
            word_weights.append(term.weight * word.informativeness)
            trigram_bits.append(word.trigram_bits if term.weight > MIN_LETTERS_WEIGHT else 0)
            rows += word.vector_rows
            vector_counts.append(len(word.vector_rows))
            known += term.weight * word.is_known
        # A row for each variant: its number, its likeness and its rarity.
        table: Array = np.array(variants).reshape(-1, 3)
        places: Array = np.arange(len(variant_counts)).repeat(np.array(variant_counts, np.intp))
        if request.joined:
            table, places = _with_joined(index, request, table, places)
        order = table[:, 1].argsort(kind="stable")
        table = table[order]
        self.term_numbers: Array = table[:, 0].astype(np.int32)
        self.positions: Array = places[order]
        self.likeness: Array = table[:, 1].astype(np.float32)
        self.rarity: Array = table[:, 2].astype(np.float32)
        numbers = self.term_numbers.tolist()
        last = dict(zip(numbers, range(len(numbers)), strict=True))
        self.last_variant: Array = np.array([*map(last.__getitem__, numbers)], np.intp)
        self.word_weights: Array = np.array(word_weights, np.float32)
        self.weights: Array = np.array([term.weight for term in request.terms], np.float32)
        self.trigram_bits = trigram_bits
        self.known_share = known / (float(self.weights.sum()) or 1.0)
        clauses_of_words = [term.clauses for term in request.terms]
        # The weights of the words in each way to read the request, and the share of each way.
        self.has_word: Array = _words_of_ways(clauses_of_words, request.clauses)
        self.way_weights: Array = self.has_word * self.word_weights
        self.only_way: Array = np.array([*map(_WAY_OF_CLAUSES.__getitem__, clauses_of_words)], np.intp)
        self.way_totals: Array = self.way_weights.sum(1)
        if len(self.way_weights) > 1:
            self.shares: Array = self.way_totals * ((1 - WHOLE_SHARE) / (sum(self.way_totals.tolist()[1:]) or 1.0))
            self.shares[0] = WHOLE_SHARE
        else:
            self.shares = np.ones(1, np.float32)
        # A word may have several vectors, which share its weight.
        several: Array = np.array(vector_counts, np.intp)
        shares: Array = self.has_word * (self.weights / np.maximum(several, 1, dtype=np.float32))
        self.way_vectors: Array = index.lexicon.directions(rows, shares.repeat(several, axis=1))

    @classmethod
    def _read_word(cls, index: Index, term: Term) -> WordReading:
        """Return the data of a word that is the same for every request."""
        plain = cls._corrected(index, term)
        likeness_of: dict[int, float] = {}
        rare: dict[int, float] = {}
        rarest = 0.0
        for stem, likeness in cls._stand_ins(index, term.stem, plain):
            number = index.term_numbers.get(stem)
            if number is not None:
                likeness_of[number] = max(likeness_of.get(number, 0.0), likeness)
                rare[number] = index.rarity(index.frequency(number))
                if likeness == 1.0 or rarest == 0.0:
                    rarest = max(rarest, rare[number] * likeness)
        general = index.lexicon.weight(plain)
        informativeness = (rarest or UNKNOWN_WORD * index.rarity(0)) * (0.75 if general is None else general)
        stand_ins = [
            number_or_value
            for number, likeness in likeness_of.items()
            for number_or_value in (number, likeness, rare[number])
        ]
        bits = signature(trigrams(term.plain))
        is_known = general is not None or term.stem in index.term_numbers
        return WordReading(stand_ins, len(likeness_of), informativeness, index.lexicon.rows(plain), bits, is_known)

    @staticmethod
    def _corrected(index: Index, term: Term) -> str:
        """Return the word itself, or the known word that an unknown one is a misspelling of."""
        if term.stem in index.term_numbers or index.lexicon.weight(term.plain) is not None:
            return term.plain
        endings = [end for end in _ENDINGS if term.plain.endswith(end)]
        if any(index.lexicon.weight(term.plain[: -len(end)]) is not None for end in endings):
            return term.plain  # a form of a known word
        correction = index.spelling.nearest(term.plain)
        if correction is None and not index.lexicon.split(term.plain):
            correction = index.lexicon.nearest(term.plain)
        return correction or term.plain

    @staticmethod
    def _stand_ins(index: Index, stem: str, plain: str) -> list[tuple[str, float]]:
        """Return the stems that may stand for a word, each with its similarity."""
        stems = stemmer()
        stand_ins = [(stem, 1.0)]
        if stem not in index.term_numbers:
            corrected = stems(plain)
            stand_ins.append((corrected, CORRECTED))
            stand_ins.extend((stems(piece), 0.8) for piece in index.lexicon.split(plain) if piece not in STOP)
            stem = corrected
        return [*stand_ins, *_similar_stems(stem, plain)]


def _with_joined(index: Index, request: Request, table: Array, places: Array) -> tuple[Array, Array]:
    """Add stand-ins: words of the index that two neighbouring words of the request form; each stands for both."""
    for stem, first, second in request.joined:
        number = index.term_numbers.get(stem, -1)
        for place in (first, second) if number >= 0 else ():
            is_present = (table[:, 0] == number) & (places == place)
            if is_present.any():
                table[is_present, 1] = 1.0
            else:
                stand_in = number, 1.0, index.rarity(index.frequency(number))
                table, places = np.append(table, [stand_in], axis=0), np.append(places, place)
    return table, places


_WAY_OF_CLAUSES: Final = [clauses[0] + 1 if len(clauses) == 1 else 0 for clauses in CLAUSES_OF]


def _words_of_ways(inside: list[int], clauses: int) -> Array:
    if clauses <= 1:
        return np.ones((1, len(inside)), np.bool_)
    ways = [-1, *[1 << clause for clause in range(clauses)]]  # the whole has every word
    had: Array = (np.array(inside) & np.array(ways)[:, None]) != 0
    return had


@lru_cache(maxsize=50_000)
def _similar_stems(stem: str, plain: str) -> tuple[tuple[str, float], ...]:
    """Return the stems of words with a similar meaning, independent of the tools."""
    stems = stemmer()
    similar = [(synonym, SYNONYM) for synonym in groups().get(stem, ())]
    similar.extend((synonym, SHORTENED) for synonym in shortened().get(stem, ()))
    similar.extend((stems(word), RELATED * like) for word, like in lexicon().near(plain) if like >= MIN_LIKENESS)
    return tuple(similar)
