"""Words of a text: normalised, split where names are joined, stemmed.

Every script is a word here; Chinese, Japanese and Thai, which put no spaces, become pairs of characters.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable
from importlib import import_module
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

_V = TypeVar("_V")
_Pieces: TypeAlias = tuple[tuple[str, str], ...]

LONGEST_WORD: Final = 64
_MOST_MET: Final = 50_000

_SURFACE: Final = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_PIECE: Final = re.compile(
    r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z](?:[^\W\d_A-Z])*|[^\W_]"
)
_APOSTROPHE: Final = re.compile(r"(?<=\w)['’`´](?=\w)")
_ACCENT: Final = re.compile("[\u0300-\u036f]")
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)

_STOP: Final = """
    a about above after again all also although am an and any anyone anything are as at be because been before
    being below between both but by can could did do does doing done during each either else ever every everyone
    few for from further had has have having he her here hers herself him himself his how however i id ids if im
    in into is isnt it its itself ive just let lets like may me might mine more most much must my myself no nor
    not of off ok on once one ones only onto or other others our ours ourselves out over own per please s same
    shall she should so some someone something such t than that thats the their theirs them themselves then there
    theres these they theyre this those though through thus to too under until up upon us use used uses using very
    via was we were what whats whatever when where whether which while who whom whose why will with within without
    would yes you youd your youre yours yourself yourselves dont doesnt cant couldnt wouldnt id ill youll weve"""
STOP: Final = frozenset(_STOP.split())
"""Words that say nothing about what a tool does; left out of texts, and of requests that have others."""


class Word(NamedTuple):
    """A word of a text: its stem, the word itself in lower case, and where it stands in the text."""

    stem: str
    plain: str
    start: int


def normalised(text: str) -> str:
    """One spelling: NFKC, no accents, no apostrophes inside words."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", text)))
    elif "'" not in text and "`" not in text:
        return text
    return _APOSTROPHE.sub("", text)


class _Met(dict[str, _V]):
    """What was worked out of the words met so far; emptied when it is full. A look-up is one step of C, even of a whole
    text with `map`."""

    def __init__(self, make: Callable[[str], _V]) -> None:
        self._make = make

    def __missing__(self, word: str) -> _V:
        if len(self) > _MOST_MET:
            self.clear()
        found = self[word] = self._make(word)
        return found


class _Stems(threading.local):
    """Stemmers are not to be shared by threads; each has its own, with what it has met: the `stem` of a lower-case
    word, the (stem, word) of each of the `pieces` of a stretch of letters, and of the whole when there are several,
    and those of them that are `telling`, no stop words."""

    def __init__(self) -> None:
        native: Any = import_module("Stemmer").Stemmer("english", 0)  # only where tools are selected
        self.stem: _Met[str] = _Met(native.stemWord)
        self.pieces: _Met[_Pieces] = _Met(lambda surface: tuple(_split(surface, self.stem)))
        self.telling: _Met[_Pieces] = _Met(self._telling)

    def __call__(self, word: str) -> str:
        return self.stem[word]

    def _telling(self, surface: str) -> _Pieces:
        pieces = self.pieces[surface]
        left = tuple([one for one in pieces if one[1] not in STOP])
        return pieces if len(left) == len(pieces) else left


_stems: _Stems | None = None
_making: Final = threading.Lock()


def stemmer() -> _Stems:
    """What gives the stem of a lower-case word."""
    global _stems
    if _stems is None:
        with _making:
            _stems = _stems or _Stems()
    return _stems


def placed(text: str, limit: int = 100_000) -> list[tuple[str, str, int]]:
    """(stem, word, where it stands) of the words of a normalised text in order; a name of several pieces is there in
    pieces and as a whole."""
    pieces = stemmer().pieces
    surfaces = islice(_SURFACE.finditer(text), limit)
    found = [(stem, plain, match.start()) for match in surfaces for stem, plain in pieces[match[0]]]
    del found[limit:]
    return found


def words(text: str, limit: int = 100_000) -> list[Word]:
    """The words of a normalised text in order, as `placed` finds them."""
    return [Word(*one) for one in placed(text, limit)]


def told(text: str, limit: int) -> list[tuple[str, str]]:
    """(stem, word) of the words of a normalised text that say something: without places, and no stop words."""
    stems, surfaces = stemmer(), _SURFACE.findall(text)
    if len(text) >= limit:  # else there is no room for so many words
        pieces, left = stems.pieces, limit
        for place, surface in enumerate(surfaces):
            left -= len(pieces[surface])
            if left <= 0:
                del surfaces[place + 1 :]
                break
    return list(chain.from_iterable(map(stems.telling.__getitem__, surfaces)))


def _split(surface: str, stems: _Met[str]) -> list[tuple[str, str]]:
    if surface.islower() and surface.isascii() and surface.isalpha():  # most words: nothing to split
        plain = surface[:LONGEST_WORD]
        return [(stems[plain], plain)]
    found: list[tuple[str, str]] = []
    pieces = _PIECE.findall(surface)
    for piece in pieces:
        if not piece.isascii() and _UNSPACED.search(piece):
            found.extend((stems[pair], pair) for pair in _pairs(piece))
        else:
            plain = piece.casefold()[:LONGEST_WORD]
            found.append((stems[plain], plain))
    if len(pieces) > 1 and len(surface) <= LONGEST_WORD and surface.isascii():
        whole = surface.replace("_", "").lower()
        found.append((stems[whole], whole))
    return found


def _pairs(run: str) -> list[str]:
    """The characters of an unspaced script two by two; what stands beside them whole."""
    found, end = [], 0
    for match in _UNSPACED.finditer(run):
        if match.start() > end:
            found.append(run[end : match.start()].casefold())
        part, end = match.group(), match.end()
        found.extend(part[i : i + 2] for i in range(max(1, len(part) - 1)))
    if end < len(run):
        found.append(run[end:].casefold())
    return found
