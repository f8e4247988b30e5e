"""General knowledge of words, the same for every registry: how common one is, what it is like, and its vector.

`words.npz` is made by `bench/select_words.py` with all-MiniLM-L6-v2 (Apache-2.0): some 26,000 of its word pieces in the
order of their frequency, each with a vector of 128 numbers and, for whole words, the nearest words. No model is run
here: the vector of a text is the weighted sum of those of its words, which were taught to give what the model would.
Refused: other languages than the model's (English); a word that is not there and cannot be put together has no vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np

from .word_list import WordList

Vector: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
Counts: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

COMMON: Final = 3e-4  # a word of this share of all text counts half
TOGETHER: Final = 1024  # rows of vectors that are multiplied at once, at most
NUMBERS_TOGETHER: Final = TOGETHER * 384  # numbers in those rows, at most


class Lexicon(WordList):
    """The table in memory; made once per process by `lexicon`, of the file that comes with it."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        pieces: list[str] = table["words"].tobytes().decode().split("\n")
        super().__init__(pieces)
        self.vectors: Vector = table["vectors"] * table["lengths"].astype(np.float32)[:, None]
        self._near, self._like = table["near"], table["like"]
        self._longest: dict[str, int] = {}  # piece that begins with some two letters
        for piece in pieces:
            start = piece[: 4 if piece[:2] == "##" else 2]
            if len(piece) > self._longest.get(start, 0):
                self._longest[start] = len(piece)
        share = 1.0 / (np.arange(len(pieces), dtype=np.float32) + 2.7)
        share /= share.sum()
        self.weights = (COMMON / (COMMON + share)).astype(np.float32)
        self.size: int = self.vectors.shape[1]
        self.rows = lru_cache(maxsize=100_000)(self._rows)
        self.nearest = lru_cache(maxsize=20_000)(self._nearest)
        self._by_look: dict[tuple[str, int], list[str]] = {}

    def weight(self, word: str) -> float | None:
        """Return how much a word says by being rare in general (0 to 1); None for an unknown word."""
        row = self._row.get(word)
        return None if row is None else float(self.weights[row])

    def near(self, word: str) -> list[tuple[str, float]]:
        """Return words with a similar meaning and their similarity (0 to 1), nearest first."""
        row = self._row.get(word)
        if row is None or row >= len(self._near):
            return []
        both = zip(self._near[row].tolist(), self._like[row].tolist(), strict=True)
        return [(self._pieces[n], like / 255.0) for n, like in both if like]

    def _rows(self, word: str) -> tuple[int, ...]:
        """Return the pieces that a word consists of, the longest first; () if they do not cover it."""
        row_of_word = self._row.get(word)
        if row_of_word is not None:
            return (row_of_word,)
        if len(word) > 32:
            return ()
        rows, remaining, mark = list[int](), word, 0
        while len(remaining) > mark:  # what is left of the word, but for its beginning with the mark of a piece within
            longest = self._longest.get(remaining[: mark + 2], mark + 1)
            for end in range(min(len(remaining), longest), mark, -1):
                row = self._row.get(remaining[:end])
                if row is not None:
                    rows.append(row)
                    remaining, mark = f"##{remaining[end:]}", 2
                    break
            else:
                return ()
        return tuple(rows)

    def pieces(self, words: Iterable[str]) -> tuple[list[int], Counts]:
        """Return the pieces of some words, concatenated, and the number of pieces of each word."""
        rows = [*map(self.rows, words)]
        return [*chain.from_iterable(rows)], np.array([*map(len, rows)], np.int64)

    def vector(self, words: list[tuple[str, float]]) -> Vector:
        """Return the direction of words with weights: length 1, or 0 if none is known."""

        # Pieces of a word share its weight.
        rows, counts = self.pieces([word for word, _ in words])
        weights = np.array([weight for _, weight in words]) / np.maximum(counts, 1)
        direction: Vector = self.directions(rows, weights.repeat(counts)[None].astype(np.float32))[0]
        return direction

    def directions(self, rows: list[int], weights: Vector) -> Vector:
        """Return the directions of several texts of these pieces, one for each row of weights."""
        if not rows:
            return np.zeros((len(weights), self.size), np.float32)
        picked = np.array(rows, np.intp)
        return _unit(weights @ self.vectors[picked])

    def each_direction(self, rows: list[int], weights: Vector, lengths: Counts) -> Vector:
        """The direction of each of several texts, given as the pieces of all with their weights, and how many each
        has."""
        picked = np.array(rows, np.intp)
        weights, vectors = weights[None], self.vectors[picked]
        total = np.zeros((len(lengths), self.size), np.float32)
        start = 0
        for n, end in enumerate(lengths.cumsum().tolist()):
            np.matmul(weights[:, start:end], vectors[start:end], out=total[n : n + 1])
            start = end
        return _unit(total)

    def _nearest(self, word: str) -> str | None:
        """Return the known word that one is a misspelling of: same first letter, one slip, the more common first."""
        from rapidfuzz.distance.OSA import distance
        from rapidfuzz.process import extractOne

        if not 6 <= len(word) <= 24:
            return None
        if not self._by_look:
            looks: dict[tuple[str, int], list[str]] = {}
            for piece in self._pieces:  # the common ones first
                if len(piece) >= 5 and piece.isalpha():
                    looks.setdefault((piece[0], len(piece)), []).append(piece)
            self._by_look = looks
        for length in (len(word), len(word) + 1, len(word) - 1):
            match = extractOne(word, self._by_look.get((word[0], length), ()), scorer=distance, score_cutoff=1)
            if match is not None:  # the first of those that are as near
                return str(match[0])
        return None


def _unit(total: Vector) -> Vector:
    """Return the directions scaled to length 1; a zero stays zero."""
    total /= np.maximum(np.sqrt(np.vecdot(total, total)), 1e-30)[:, None]
    return total


def products(rows: Vector, vector: Vector) -> Vector:
    """The product of each row with a vector, in steps that BLAS does not divide among threads: those would wait for
    one another, at the cost of all cores, longer than the whole takes."""
    out: Vector = np.empty(len(rows), np.float32)
    step = min(TOGETHER, max(1, NUMBERS_TOGETHER // len(vector)))
    for start in range(0, len(rows), step):
        np.matmul(rows[start : start + step], vector, out=out[start : start + step])
    return out


@cache
def lexicon() -> Lexicon:
    """Return the lexicon, read at the first call."""
    with (files(__package__) / "words.npz").open("rb") as file, np.load(file) as table:
        return Lexicon(table)
