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
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np

from .card import FIELDS, Card
from .contents import BITS, Contents, contents_of, lengths_of, meant_by, signatures, words_of, worth_of
from .lexicon import Lexicon, lexicon
from .spelling import Spelling

Array: TypeAlias = np.ndarray[Any, Any]

FIELD_BITS: Final = len(FIELDS)
FIELD_MASK: Final = (1 << FIELD_BITS) - 1
TELLING: Final = 3  # the bits of name and description
_RECORD: Final = 8  # bytes of a posting


def unpacked(*records: bytes | bytearray) -> tuple[Array, Array]:
    """The numbers (with the fields in the lowest FIELD_BITS) and the impacts of some records, one after the other."""
    joined: Array = np.frombuffer(b"".join(records), np.int32)  # a copy: nothing is held of a list that may change
    return joined[::2], joined[1::2].view(np.float32)


def _packed(numbers: Array, impacts: Array) -> bytes:
    return np.stack((numbers, impacts.view(np.int32)), axis=1).tobytes()


def _place(posting: bytearray, key: int) -> int:
    """Where the record of a slot (with any fields) is, or would be."""
    with memoryview(posting) as records, records.cast("i") as numbers:
        return bisect_left(numbers[::2], key & ~FIELD_MASK) * _RECORD


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
        self.read: dict[str, Any] = {}  # what a word of a request is here; emptied by every change
        self._words: list[str] = []
        self._free_terms: list[int] = []
        self.spelling = Spelling()
        self._room(256)

    def _room(self, room: int) -> None:
        old = self._columns() if self.cards else {}
        size = self.lexicon.size
        self.vectors = np.zeros((room, size), np.float32)
        self._telling = np.ones(room, np.float32)
        self._told_at = np.full(room, -1)  # the version for which that was worked out
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

    def frequencies(self, terms: Array) -> Array:
        """How many tools have each of these words."""
        counts: Array = np.frombuffer(self.counts, np.int32)[terms] if len(terms) else np.zeros(0, np.int32)
        return counts

    def rarity(self, frequency: int) -> float:
        """The inverse document frequency of a word that so many tools have."""
        count = len(self.slots)
        return math.log(1.0 + (count - frequency + 0.5) / (frequency + 0.5))

    def rarities(self, terms: Array) -> Array:
        """The same of each of these words."""
        counts = self.frequencies(terms)
        rare: Array = np.log1p((len(self.slots) - counts + 0.5) / (counts + 0.5))
        return rare

    def telling(self, slots: Array) -> Array:
        """How much the names and descriptions of these tools say: their words by rarity, and three more of their usual
        one, so that what is short is not soon covered. Worked out anew when something has changed."""
        stale = slots[self._told_at[slots] != self.version]
        if len(stale):
            numbers, _ = unpacked(*[self.rows[slot] for slot in stale.tolist()])
            owner: Array = np.arange(len(stale)).repeat(self.words[stale])
            told = (numbers & TELLING) > 0
            amount = np.bincount(owner, self.rarities(numbers >> FIELD_BITS) * told, len(stale))
            self._telling[stale] = amount * (1 + 3 / np.maximum(np.bincount(owner, told, len(stale)), 1)) + 1e-6
            self._told_at[stale] = self.version
        return self._telling[slots]

    def fields(self, slot: int) -> dict[int, int]:
        """The fields that each word of a tool stands in, by its number."""
        return {number >> FIELD_BITS: number & FIELD_MASK for number in unpacked(self.rows[slot])[0].tolist()}

    # --- changes ------------------------------------------------------------------------------

    def add(self, cards: list[Card]) -> list[int]:
        """Add tools, or replace those of the same key; gives their slots. No two are of one key."""
        for card in cards:
            if card.key in self.slots:
                self.remove(card.key)
        if not cards:
            return []
        last = not self._free
        slots = [self._slot(card) for card in cards]
        self._put(slots, [contents_of(card) for card in cards], last)
        self.alive[slots] = True
        self.version += 1
        self.read.clear()
        return slots

    def _slot(self, card: Card) -> int:
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
            at = _place(posting, slot << FIELD_BITS)
            del posting[at : at + _RECORD]
            self.counts[term] -= 1
            if not posting:
                self._forget(term)
        self.spelling.drop(words_of(card))
        self.rows[slot] = b""
        self.alive[slot] = False
        self.vectors[slot] = 0
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

    def _term(self, word: str) -> int:
        """A number for a new word."""
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

    def _put(self, slots: list[int], found: list[Contents], last: bool) -> None:
        """Keep what is in some tools, `last` when no tool has a slot behind theirs. All at once: a step of numpy costs
        much the same for one as for a hundred."""
        own = np.array(slots, np.int32)
        told = [[*chain.from_iterable(one.fields)] for one in found]
        self.spelling.put(told)
        lengths = lengths_of(found)
        worth = worth_of(self._numbers([stem for one in told for stem, _ in one]), lengths)
        self.words[own] = worth.words
        rows, start = _packed(worth.numbers << FIELD_BITS | worth.fields, worth.impacts), 0
        for slot, end in zip(slots, (worth.words.cumsum() * _RECORD).tolist(), strict=True):
            self.rows[slot] = rows[start:end]
            start = end
        order = worth.numbers.argsort(kind="stable")
        keys = own.repeat(worth.words) << FIELD_BITS | worth.fields
        self._post(worth.numbers[order], keys[order], worth.impacts[order], last)
        self.described[own] = np.maximum(1, worth.described)
        self.vectors[own] = meant_by(found, lengths)
        self.marks[own] = marks = signatures([one.bits for one in found], 2 * BITS)
        self.trigram_counts[own] = np.maximum(1, np.bitwise_count(marks[:, : BITS // 64]).sum(1))

    def _numbers(self, stems: list[str]) -> Array:
        """The number of each of these words, also of those that are new."""
        for stem in dict.fromkeys(stems):
            if stem not in self.terms:
                self._term(stem)
        numbers: Array = np.array([*map(self.terms.__getitem__, stems)], np.int64)
        return numbers

    def _post(self, numbers: Array, keys: Array, impacts: Array, last: bool) -> None:
        """Put postings where they belong: those of a word one after the other, by slot."""
        records, postings = _packed(keys, impacts), self.postings
        ends = np.append((numbers[1:] != numbers[:-1]).nonzero()[0] + 1, len(numbers)) if len(numbers) else numbers
        different = numbers[ends - 1]
        np.frombuffer(self.counts, np.int32)[different] += np.diff(ends, prepend=0).astype(np.int32)
        start = 0
        for number, end in zip(different.tolist(), ends.tolist(), strict=True):
            posting = postings[number]
            if last:
                posting += records[start * _RECORD : end * _RECORD]
            else:
                for n in range(start, end):
                    at = _place(posting, keys.item(n))
                    posting[at:at] = records[n * _RECORD : (n + 1) * _RECORD]
            start = end
