"""The index of tools: postings by word, with their impact worked out beforehand, and what re-ranking reads.

A posting says which tool has a word (by its slot), the fields it stands in, one bit for each, and its BM25 impact over
all fields. Those of a word are records of eight bytes, one after the other by slot, and so are, the other way round,
the words of a tool: number << FIELD_BITS | fields (int32), impact (float32). One object for each word and each tool,
none for a posting, and none that the garbage collector looks at. Tools come and go one by one, in place: no rebuild,
no segments. Whoever calls holds the selector's lock.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from itertools import pairwise
from struct import Struct
from typing import Any, Final, TypeAlias
from zlib import crc32

import numpy as np

from .card import FIELDS, Card
from .lexicon import Lexicon, lexicon
from .spelling import Spelling
from .text import STOP, Word, normalised, told, words

Array: TypeAlias = np.ndarray[Any, Any]

# Weight and length normalisation of the fields of card.FIELDS, and their usual lengths. The lengths are fixed, not
# measured: so an impact stays right whatever comes and goes.
WEIGHTS: Final = (3.0, 1.6, 1.0, 0.5, 0.8)
LEVELLING: Final = (0.3, 0.6, 0.6, 0.7, 0.3)
USUAL: Final = (4.0, 14.0, 6.0, 35.0, 4.0)
SATURATION: Final = 1.2

BITS: Final = 1024  # of a signature: which of its bits are set tells the trigrams, or pairs of words, of a tool
NAME_WORDS: Final = 8
FIELD_BITS: Final = len(FIELDS)
FIELD_MASK: Final = (1 << FIELD_BITS) - 1
_RECORD: Final = 8  # bytes of a posting
_MEANT: Final = (1.0, 0.7, 0.25, 0.4)  # what words count for meaning: of name, description, parameters, category
_BITS: Final = tuple([1 << n for n in range(BITS)])
_FIELD_LIMITS: Final = (60, 600, 600, 1200, 60)


_record: Final = Struct("=if").pack


def unpacked(*records: bytes | bytearray) -> tuple[Array, Array]:
    """The numbers (with the fields in the lowest FIELD_BITS) and the impacts of some records, one after the other."""
    joined: Array = np.frombuffer(b"".join(records), np.int32)  # a copy: nothing is held of a list that may change
    return joined[::2], joined[1::2].view(np.float32)


def _place(posting: bytearray, slot: int) -> int:
    """Where the record of a slot begins, or would."""
    with memoryview(posting) as records, records.cast("i") as numbers:
        return bisect_left(numbers[::2], slot << FIELD_BITS) * _RECORD


class Index:
    """Tools by slot. `version` grows with every change."""

    def __init__(self) -> None:
        self.lexicon: Lexicon = lexicon()
        self.cards: list[Card | None] = []
        self.slots: dict[str, int] = {}
        self.terms: dict[str, int] = {}
        self.postings: list[bytearray] = []  # by the number of a word; empty where none has that number
        self.counts = array("i")  # tools that have a word, by its number
        self.by_category: dict[str, set[int]] = {}
        self.by_namespace: dict[str, set[int]] = {}
        self.by_name: dict[str, set[int]] = {}
        self.version = 0
        self.told: tuple[int, Any] | None = None  # kept here by the documented SEMANTIC strategy
        self._free: list[int] = []
        self.rows: list[bytes] = []  # by slot: the words of a tool
        self.read: dict[tuple[str, str], Any] = {}  # what a word of a request is here; emptied by every change
        self._words: list[str] = []
        self._free_terms: list[int] = []
        self.spelling = Spelling()
        self._room(256)

    def _room(self, room: int) -> None:
        old = self._columns() if self.cards else {}
        size = self.lexicon.size
        self.vectors = np.zeros((room, size), np.float32)
        self.name_terms = np.full((room, NAME_WORDS), -1, np.int32)
        self.described = np.ones(room, np.float32)
        self.words = np.zeros(room, np.int32)
        self.marks = np.zeros((room, 2 * BITS // 64), np.uint64)  # a signature of trigrams, and one of pairs of words
        self.trigram_counts = np.ones(room, np.float32)
        self.alive = np.zeros(room, np.bool_)
        for name, column in old.items():
            getattr(self, name)[: len(column)] = column

    def _columns(self) -> dict[str, Any]:
        return {name: column for name, column in vars(self).items() if isinstance(column, np.ndarray)}

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def size(self) -> int:
        """The slots there are, those of tools that went included."""
        return len(self.cards)

    def frequency(self, term: int) -> int:
        return self.counts[term]

    def rarity(self, frequency: int) -> float:
        """The inverse document frequency of a word that so many tools have."""
        count = len(self.slots)
        return math.log(1.0 + (count - frequency + 0.5) / (frequency + 0.5))

    def fields(self, slot: int) -> dict[int, int]:
        """The fields that each word of a tool stands in, by its number."""
        return {number >> FIELD_BITS: number & FIELD_MASK for number in unpacked(self.rows[slot])[0].tolist()}

    # --- changes ------------------------------------------------------------------------------

    def add(self, card: Card) -> int:
        """Add a tool, or replace the one of the same key; gives its slot."""
        if card.key in self.slots:
            self.remove(card.key)
        if self._free:
            slot = self._free.pop()
            self.cards[slot] = card
        else:
            slot = len(self.cards)
            if slot == len(self.alive):
                self._room(2 * slot)
            self.cards.append(card)
            self.rows.append(b"")
        self.slots[card.key] = slot
        for place, name in self._places(card):
            place.setdefault(name, set()).add(slot)
        self._fill(slot, card)
        self.alive[slot] = True
        self.version += 1
        self.read.clear()
        return slot

    def remove(self, key: str) -> bool:
        """Take a tool out; False when it is not there."""
        slot = self.slots.pop(key, None)
        if slot is None:
            return False
        card = self.cards[slot]
        assert card is not None
        self.cards[slot] = None
        for place, name in self._places(card):
            place[name].discard(slot)
            if not place[name]:
                del place[name]
        for number in unpacked(self.rows[slot])[0].tolist():
            term = number >> FIELD_BITS
            posting = self.postings[term]
            at = _place(posting, slot)
            del posting[at : at + _RECORD]
            self.counts[term] -= 1
            if not posting:
                self._forget(term)
        self.rows[slot] = b""
        self.alive[slot] = False
        self.vectors[slot] = 0
        self.name_terms[slot] = -1
        self._free.append(slot)
        self.version += 1
        self.read.clear()
        return True

    def _places(self, card: Card) -> list[tuple[dict[str, set[int]], str]]:
        """Where a tool is found by something of it that others may share."""
        places = ((self.by_name, card.name), (self.by_category, card.category), (self.by_namespace, card.namespace))
        return [(place, name) for place, name in places if name is not None]

    def _forget(self, term: int) -> None:
        word = self._words[term]
        del self.terms[word]
        self._free_terms.append(term)
        self.spelling.drop(word)

    def term(self, word: str) -> int:
        """The number of a word, given to it when it is new."""
        known = self.terms.get(word)
        if known is not None:
            return known
        if self._free_terms:
            made = self._free_terms.pop()
            self._words[made] = word
        else:
            made = len(self.postings)
            self._words.append(word)
            self.postings.append(bytearray())
            self.counts.append(0)
        self.terms[word] = made
        return made

    def _fill(self, slot: int, card: Card) -> None:
        name = words(normalised(card.texts[0]), _FIELD_LIMITS[0])
        kept = [[(word.stem, word.plain) for word in self._opened(name)]]
        kept += [told(normalised(text), most) for text, most in zip(card.texts[1:], _FIELD_LIMITS[1:], strict=True)]
        tf: dict[str, float] = {}
        where: dict[str, int] = {}
        spelt = self.spelling.stems
        for number, field in enumerate(kept):
            if not field:
                continue
            levelled = 1 - LEVELLING[number] + LEVELLING[number] * len(field) / USUAL[number]
            share, bit = WEIGHTS[number] / levelled, 1 << number
            for stem, count in Counter([stem for stem, _ in field]).items():
                tf[stem] = tf.get(stem, 0.0) + share * (count if count < 4 else 4)
                where[stem] = where.get(stem, 0) | bit
        for stem, plain in [one for field in kept for one in field if one[1] not in spelt]:
            self.spelling.put(plain, stem)
        terms, postings, counts = self.terms, self.postings, self.counts
        row, last, own = list[bytes](), slot + 1 == len(self.cards), slot << FIELD_BITS
        for (stem, amount), fields in zip(tf.items(), where.values(), strict=True):
            known = terms.get(stem)
            number = self.term(stem) if known is None else known
            impact = amount / (SATURATION + amount)
            row.append(_record(number << FIELD_BITS | fields, impact))
            posting = postings[number]
            if last:
                posting += _record(own | fields, impact)
            else:
                at = _place(posting, slot)
                posting[at:at] = _record(own | fields, impact)
            counts[number] += 1
        self.rows[slot] = b"".join(row)
        self.words[slot] = len(row)
        self._columns_of(slot, kept, name)

    def _columns_of(self, slot: int, kept: list[list[tuple[str, str]]], name: list[Word]) -> None:
        own = list(dict.fromkeys(self.terms[stem] for stem, plain in kept[0] if plain not in STOP))[:NAME_WORDS]
        self.name_terms[slot] = -1
        self.name_terms[slot, : len(own)] = own
        self.described[slot] = max(1, len({stem for stem, _ in kept[1]}))
        marks = trigrams("".join([word.plain for word in _pieces(name)]))
        pairs = pairs_of([stem for stem, _ in kept[0]]) | pairs_of([stem for stem, _ in kept[1]])
        self.marks[slot] = signature(marks, pairs | pairs_of([stem for stem, _ in kept[2]]))
        self.trigram_counts[slot] = max(1, marks.bit_count())
        rows_of, rows, weights = self.lexicon.rows, list[int](), list[float]()
        for words_of, weight in zip((kept[0], kept[1][:80], kept[2][:40], kept[4][:20]), _MEANT, strict=True):
            for _, plain in words_of:
                pieces = rows_of(plain)
                if len(pieces) == 1:
                    rows.append(pieces[0])
                    weights.append(weight)
                elif pieces:
                    rows += pieces
                    weights += [weight / len(pieces)] * len(pieces)
        self.vectors[slot] = self.lexicon.directions(rows, np.array(weights, np.float32)[None])[0]

    def _opened(self, name: list[Word]) -> list[Word]:
        """A name's words with those that were run together in one of them (`airquality`)."""
        found = list(name)
        for word in name:
            if len(name) <= 3 and self.lexicon.weight(word.plain) is None:
                for piece in self.lexicon.split(word.plain):
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


def trigrams(text: str) -> int:
    """The bits of the trigrams of a text."""
    bits = 0
    if text.isascii():  # a letter is a byte
        coded = text.encode()
        for start in range(len(coded) - 2):
            bits |= _BITS[crc32(coded[start : start + 3]) % BITS]
        return bits
    for start in range(len(text) - 2):
        bits |= _BITS[crc32(text[start : start + 3].encode()) % BITS]
    return bits


def pairs_of(stems: list[str]) -> int:
    """The bits of the pairs of neighbouring stems."""
    bits = 0
    for first, second in pairwise(stems):
        bits |= _BITS[crc32(f"{first} {second}".encode()) % BITS]
    return bits


def signature(marks: int, pairs: int) -> Any:
    """The bits of trigrams and of pairs as a row of `Index.marks`."""
    return np.frombuffer((marks | pairs << BITS).to_bytes(BITS // 4, "little"), np.uint64)
