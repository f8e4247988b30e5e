"""What an index keeps of a tool, worked out from its card alone: its words with what each is worth, and what is
compared letter by letter and meaning by meaning.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from .card import Card
from .lexicon import lexicon
from .text import Word, normalised, told, words

Array: TypeAlias = np.ndarray[Any, Any]

# Weight and length normalisation of the fields of card.FIELDS, and their usual lengths. The lengths are fixed, not
# measured: so what a word is worth stays right whatever comes and goes.
WEIGHTS: Final = (3.0, 1.6, 1.0, 0.5, 0.8)
LEVELLING: Final = (0.3, 0.6, 0.6, 0.7, 0.3)
USUAL: Final = (4.0, 14.0, 6.0, 35.0, 4.0)

BITS: Final = 1024  # of a signature: which of its bits are set tells the trigrams, or pairs of words, of a tool
_MEANT: Final = (1.0, 0.7, 0.25, 0.4)  # what words count for meaning: of name, description, parameters, category
_FIELD_LIMITS: Final = (60, 600, 600, 1200, 60)


class Contents(NamedTuple):
    """Of one tool: by stem how much it says in all fields together, and one bit for each field it stands in; all its
    (stem, word); how many its description has; its bits, those of pairs after those of
    trigrams; and the pieces it is made of in the lexicon, with what each counts."""

    amounts: dict[str, float]
    fields: dict[str, int]
    told: list[tuple[str, str]]
    described: int
    bits: list[int]
    pieces: list[int]
    weights: list[float]


def contents_of(card: Card) -> Contents:
    """What there is to keep of a tool."""
    name, kept = _read(card)
    amounts: dict[str, float] = {}
    where: dict[str, int] = {}
    different = []
    for number, field in enumerate(kept):
        counts: dict[str, int] = {}
        for stem, _ in field:
            counts[stem] = counts.get(stem, 0) + 1
        different.append(len(counts))
        share = WEIGHTS[number] / (1 - LEVELLING[number] + LEVELLING[number] * len(field) / USUAL[number])
        bit = 1 << number
        for stem, count in counts.items():
            amounts[stem] = amounts.get(stem, 0.0) + share * (count if count < 4 else 4)
            where[stem] = where.get(stem, 0) | bit
    bits = trigrams("".join([word.plain for word in _pieces(name)]))
    for field in kept[:3]:
        bits += [BITS + bit for bit in pairs_of([stem for stem, _ in field])]
    everything = [one for field in kept for one in field]
    return Contents(amounts, where, everything, max(1, different[1]), bits, *_meant(kept))


def words_of(card: Card) -> set[str]:
    """The words of a tool, those of all fields."""
    return {plain for field in _read(card)[1] for _, plain in field}


def _read(card: Card) -> tuple[list[Word], list[list[tuple[str, str]]]]:
    """The words of a tool's name, and (stem, word) of what each field says."""
    name = words(normalised(card.texts[0]), _FIELD_LIMITS[0])
    kept = [[(word.stem, word.plain) for word in _opened(name)]]
    kept += [told(normalised(text), most) for text, most in zip(card.texts[1:], _FIELD_LIMITS[1:], strict=True)]
    return name, kept


def _meant(kept: list[list[tuple[str, str]]]) -> tuple[list[int], list[float]]:
    fields = (kept[0], kept[1][:80], kept[2][:40], kept[4][:20])
    return lexicon().parts(
        [(plain, weight) for field, weight in zip(fields, _MEANT, strict=True) for _, plain in field]
    )


def _opened(name: list[Word]) -> list[Word]:
    """A name's words with those that were run together in one of them (`airquality`)."""
    found = list(name)
    for word in name if len(name) <= 3 else ():
        if lexicon().weight(word.plain) is None:
            for piece in lexicon().split(word.plain):
                found.extend(w for w in words(piece) if all(w.stem != known.stem for known in found))
    return found


def _pieces(name: list[Word]) -> list[Word]:
    """The words of a name without the whole that stands beside its pieces."""
    if len(name) < 3:
        return name
    lengths: dict[int, int] = {}
    for _, plain, start in name:
        lengths[start] = lengths.get(start, 0) + len(plain)

    def whole(word: Word) -> bool:
        others = [other.plain for other in name if other is not word and other.start == word.start]
        return word.plain == "".join(others)

    return [word for word in name if 2 * len(word.plain) != lengths[word.start] or not whole(word)]


def trigrams(text: str) -> list[int]:
    """The bits of the trigrams of a text."""
    if text.isascii():  # a letter is a byte
        coded = text.encode()
        return [crc32(coded[start : start + 3]) % BITS for start in range(len(coded) - 2)]
    return [crc32(text[start : start + 3].encode()) % BITS for start in range(len(text) - 2)]


def pairs_of(stems: list[str]) -> list[int]:
    """The bits of the pairs of neighbouring stems."""
    return [crc32(f"{first} {second}".encode()) % BITS for first, second in pairwise(stems)]


def signatures(texts: list[list[int]], width: int) -> Array:
    """Rows of so many bits, 64 in a number, each with these set."""
    flags: Array = np.zeros((len(texts), width), np.uint8)
    flags[np.arange(len(texts)).repeat([len(bits) for bits in texts]), [bit for bits in texts for bit in bits]] = 1
    rows: Array = np.packbits(flags, axis=1).view(np.uint64)
    return rows


def signature(bits: list[int]) -> int:
    """One row of BITS as `signatures` makes them, as a number: its bytes in their order, the highest first."""
    row = 0
    for bit in bits:
        row |= 1 << BITS - 1 - bit
    return row
