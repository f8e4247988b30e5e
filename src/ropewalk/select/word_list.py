"""The most common English words in the order of their frequency, and the words that were joined in one.

They are the pieces of words in `words.npz`, read without numpy. `lexicon.py` adds their vectors.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from importlib.resources import files
from io import BytesIO
from typing import Final
from zipfile import ZipFile

_SHORT: Final = frozenset(("ai", "id", "ip", "pr", "qr", "tv"))
_HEADER: Final = 10  # bytes before the header of an array; the last two hold its length


class WordList:
    """Words and pieces of words, the most common first."""

    def __init__(self, pieces: list[str]) -> None:
        self._pieces = pieces
        self._row = {piece: row for row, piece in enumerate(pieces)}
        self.split = lru_cache(maxsize=20_000)(self._split)

    def has(self, word: str) -> bool:
        """Return True for a known word."""
        return word in self._row

    def _split(self, word: str) -> tuple[str, ...]:
        """Return the words that were joined in one (`airquality`); () if it is not such a word."""
        if word in self._row or not 6 <= len(word) <= 40 or not word.isascii() or not word.isalpha():
            return ()
        best: list[tuple[float, int]] = [(0.0, 0)]
        for end in range(1, len(word) + 1):
            options = [(best[end - 1][0] + 18.0, end - 1)]  # one letter left over
            for start in range(max(0, end - 14), end - 1):
                piece = word[start:end]
                row = self._row.get(piece) if len(piece) > 2 or piece in _SHORT else None
                if row is not None:
                    options.append((best[start][0] + math.log(row + 10.0) + 3.0, start))
            best.append(min(options))
        pieces, end, left_over = [], len(word), 0
        while end:
            start = best[end][1]
            if end - start == 1:
                left_over += 1
            else:
                pieces.append(word[start:end])
            end = start
        return tuple(reversed(pieces)) if left_over <= 2 and len(pieces) + left_over > 1 and pieces else ()


@cache
def word_list() -> WordList:
    """Return the list, read at the first call."""
    with ZipFile(BytesIO((files(__package__) / "words.npz").read_bytes())) as table:
        array = table.read("words.npy")
    start = _HEADER + int.from_bytes(array[_HEADER - 2 : _HEADER], "little")
    return WordList(array[start:].decode().split("\n"))
