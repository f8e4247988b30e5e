"""Which known word a misspelt one was meant to be.

Each known word is found by itself with any one letter left out, so a look-up costs as many steps as the misspelt
word has letters, whatever the number of known words. Refused: short words, where anything is near anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Final

SHORTEST: Final = 5
LONGEST: Final = 24


class Spelling:
    """The words of the tools, by their spellings with a letter left out."""

    def __init__(self) -> None:
        self.stems: dict[str, str] = {}
        self._counts: dict[str, int] = {}  # tools that have a word
        self._near: dict[str, str | tuple[str, ...]] = {}  # mostly one word: no tuple is made for that

    def put(self, tools: Iterable[Iterable[tuple[str, str]]]) -> None:
        """Know the words of some tools, given as the (stem, word) of each."""
        counts = self._counts
        having = Counter(chain.from_iterable(map(dict.fromkeys, tools)))
        for (stem, plain), more in having.items():
            count = counts[plain] = counts.get(plain, 0) + more
            if count == more:
                self._know(plain, stem)

    def _know(self, plain: str, stem: str) -> None:
        self.stems[plain] = stem
        near = self._near
        for key in _without_a_letter(plain):
            known = near.setdefault(key, plain)
            if known is not plain:
                near[key] = (*known, plain) if isinstance(known, tuple) else (known, plain)

    def drop(self, words: Iterable[str]) -> None:
        """Forget the words of a tool that no other has."""
        for plain in words:
            self._counts[plain] -= 1
            if not self._counts[plain]:
                del self._counts[plain], self.stems[plain]
                self._forget(plain)

    def _forget(self, plain: str) -> None:
        for key in _without_a_letter(plain):
            known = self._near[key]
            left = () if isinstance(known, str) else tuple(word for word in known if word != plain)
            if not left:
                del self._near[key]
            else:
                self._near[key] = left if len(left) > 1 else left[0]

    def nearest(self, word: str) -> str | None:
        """The known word of the fewest slips (letters left out, added, changed or swapped): one, or two in a word of
        eight letters or more. None when there is none."""
        from rapidfuzz.distance import OSA

        found: set[str] = set()
        for key in _without_a_letter(word):
            known = self._near.get(key, ())
            found.update((known,) if isinstance(known, str) else known)
        most = 1 if len(word) < 8 else 2
        best: tuple[int, int, str] | None = None
        for other in found:
            slips = OSA.distance(word, other, score_cutoff=most)
            rank = (slips, int(other[0] != word[0]), other)
            if 0 < slips <= most and (best is None or rank < best):
                best = rank
        return best[2] if best else None


def _without_a_letter(word: str) -> set[str]:
    if not SHORTEST <= len(word) <= LONGEST:
        return set()
    return {word, *[word[:n] + word[n + 1 :] for n in range(len(word))]}
