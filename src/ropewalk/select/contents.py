"""What an index keeps of tools, worked out from their cards alone: their words with what each is worth, and what is
compared letter by letter and meaning by meaning.

All of many tools is worked out at once: a step of numpy costs much the same for one as for a hundred.
"""

from __future__ import annotations

from itertools import chain, islice, pairwise
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from .card import Card
from .lexicon import lexicon
from .text import Word, normalised, told, words

Array: TypeAlias = np.ndarray[Any, Any]

# Weight and length normalisation of the fields of card.FIELDS, and their usual lengths. The lengths are fixed, not
# measured: so what a word is worth stays right whatever comes and goes.
WEIGHTS: Final[Array] = np.array((3.0, 1.6, 1.0, 0.5, 0.8))
LEVELLING: Final[Array] = np.array((0.3, 0.6, 0.6, 0.7, 0.3))
USUAL: Final[Array] = np.array((4.0, 14.0, 6.0, 35.0, 4.0))
SATURATION: Final = 1.2
OFTEN: Final = 4  # a word that is there more often says no more

BITS: Final = 1024  # of a signature: which of its bits are set tells the trigrams, or pairs of words, of a tool
# What the words of a field count for meaning, and how many of them do.
_MEANT: Final[Array] = np.array((1.0, 0.7, 0.25, 0.0, 0.4), np.float32)
_MOST_MEANT: Final[Array] = np.array((60, 80, 40, 0, 20))
_FIELD_LIMITS: Final = (60, 600, 600, 1200, 60)


class Contents(NamedTuple):
    """Of one tool: the (stem, word) of each field; and its bits, those of pairs of words after those of trigrams."""

    fields: list[list[tuple[str, str]]]
    bits: list[int]


class Worth(NamedTuple):
    """What each different word of some tools is worth there, those of a tool one after the other: the word's number,
    the fields it stands in, one bit for each, and its impact. And of each tool how many words it has, and how many of
    them its description has."""

    numbers: Array
    fields: Array
    impacts: Array
    words: Array
    described: Array


def contents_of(card: Card) -> Contents:
    """What there is to keep of a tool."""
    name, kept = _read(card)
    bits = trigrams("".join([word.plain for word in _pieces(name)]))
    for field in kept[:3]:
        bits += [BITS + bit for bit in pairs_of([stem for stem, _ in field])]
    return Contents(kept, bits)


def lengths_of(found: list[Contents]) -> Array:
    """How many words each field has, a row for each tool."""
    lengths: Array = np.array([[*map(len, one.fields)] for one in found], np.int64)
    return lengths


def worth_of(numbers: Array, lengths: Array) -> Worth:
    """What the words of some tools are worth by BM25, given as their numbers tool by tool and field by field."""
    tools, width = lengths.shape
    share = WEIGHTS / (1 - LEVELLING + LEVELLING * lengths / USUAL)
    place = np.arange(tools * width).repeat(lengths.ravel())
    tool, field = np.divmod(place, width)
    keys = (tool << 32 | numbers) * width + field
    keys.sort()
    starts = _starts(keys)
    counts = np.diff(starts, append=len(keys))
    words, field = np.divmod(keys[starts], width)
    tool = words >> 32
    amounts = share[tool, field] * np.minimum(counts, OFTEN)
    described = np.bincount(tool[field == 1], minlength=tools)
    starts = _starts(words)
    amounts = np.add.reduceat(amounts, starts) if len(starts) else amounts
    fields = np.bitwise_or.reduceat(1 << field, starts) if len(starts) else field
    words = words[starts]
    impacts = (amounts / (SATURATION + amounts)).astype(np.float32)
    numbers = (words & 0xFFFFFFFF).astype(np.int32)
    return Worth(numbers, fields.astype(np.int32), impacts, np.bincount(words >> 32, minlength=tools), described)


def meant_by(found: list[Contents], lengths: Array) -> Array:
    """The direction in meaning of each of some tools."""
    taken = np.minimum(lengths, _MOST_MEANT)
    fields = chain.from_iterable([one.fields for one in found])
    some = [islice(field, most) for field, most in zip(fields, taken.ravel().tolist(), strict=True)]
    rows, counts = lexicon().pieces([plain for _, plain in chain.from_iterable(some)])
    weights = np.tile(_MEANT, len(found)).repeat(taken.ravel()) / np.maximum(counts, 1)
    tool = np.arange(len(found)).repeat(taken.sum(1)).repeat(counts)
    return lexicon().each_direction(
        rows, weights.repeat(counts).astype(np.float32), np.bincount(tool, minlength=len(found))
    )


def _starts(keys: Array) -> Array:
    """Where another one than before begins."""
    other = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=other[1:])
    starts: Array = other.nonzero()[0]
    return starts


def words_of(card: Card) -> set[str]:
    """The words of a tool, those of all fields."""
    return {plain for field in _read(card)[1] for _, plain in field}


def _read(card: Card) -> tuple[list[Word], list[list[tuple[str, str]]]]:
    """The words of a tool's name, and (stem, word) of what each field says."""
    name = words(normalised(card.texts[0]), _FIELD_LIMITS[0])
    kept = [[(word.stem, word.plain) for word in _opened(name)]]
    kept += [told(normalised(text), most) for text, most in zip(card.texts[1:], _FIELD_LIMITS[1:], strict=True)]
    return name, kept


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
