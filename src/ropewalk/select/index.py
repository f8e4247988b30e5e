"""The index of tools: postings by word, with their impact worked out beforehand, and what re-ranking reads.

A posting is (slot, impact, fields): the slot of a tool, its BM25 impact over all fields, and one bit for each field
the word stands in. Tools come and go one by one, in place: no rebuild, no segments. Whoever calls holds the
selector's lock.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

import numpy as np

from .card import Card
from .lexicon import Lexicon, lexicon
from .spelling import Spelling
from .text import STOP, Word, normalised, words

# Weight and length normalisation of the fields of card.FIELDS, and their usual lengths. The lengths are fixed, not
# measured: so an impact stays right whatever comes and goes.
WEIGHTS: Final = (3.0, 1.6, 1.0, 0.5, 0.8)
LEVELLING: Final = (0.3, 0.6, 0.6, 0.7, 0.3)
USUAL: Final = (4.0, 14.0, 6.0, 35.0, 4.0)
SATURATION: Final = 1.2

BITS: Final = 1024  # of a signature: which of its bits are set tells the trigrams, or pairs of words, of a tool
NAME_WORDS: Final = 8
_FIELD_LIMITS: Final = (60, 600, 600, 1200, 60)


class Postings:
    """The tools that have a word, by slot."""

    __slots__ = ("fields", "impacts", "slots")

    def __init__(self) -> None:
        self.slots, self.impacts, self.fields = array("i"), array("f"), array("B")

    def put(self, slot: int, impact: float, fields: int) -> None:
        at = len(self.slots)
        if at and self.slots[-1] > slot:
            at = bisect_left(self.slots, slot)
        self.slots.insert(at, slot)
        self.impacts.insert(at, impact)
        self.fields.insert(at, fields)

    def drop(self, slot: int) -> None:
        at = bisect_left(self.slots, slot)
        del self.slots[at], self.impacts[at], self.fields[at]


class Index:
    """Tools by slot. `version` grows with every change."""

    def __init__(self) -> None:
        self.lexicon: Lexicon = lexicon()
        self.cards: list[Card | None] = []
        self.slots: dict[str, int] = {}
        self.terms: dict[str, int] = {}
        self.postings: list[Postings | None] = []
        self.counts = array("i")  # tools that have a word, by its number
        self.by_category: dict[str, set[int]] = {}
        self.by_namespace: dict[str, set[int]] = {}
        self.by_name: dict[str, set[int]] = {}
        self.version = 0
        self.told: tuple[int, Any] | None = None  # kept here by the documented SEMANTIC strategy
        self._free: list[int] = []
        self._term_ids: list[array[int]] = []
        self._words: list[str] = []
        self._free_terms: list[int] = []
        self.spelling = Spelling()
        self._room(256)

    def _room(self, room: int) -> None:
        old = self._columns() if self.cards else {}
        size = self.lexicon.size
        self.vectors = np.zeros((room, size), np.float32)
        self.name_vectors = np.zeros((room, size), np.float32)
        self.name_terms = np.full((room, NAME_WORDS), -1, np.int32)
        self.described = np.ones(room, np.float32)
        self.trigrams = np.zeros((room, BITS // 8), np.uint8)
        self.trigram_counts = np.ones(room, np.float32)
        self.pairs = np.zeros((room, BITS // 8), np.uint8)
        self.alive = np.zeros(room, np.bool_)
        for name, column in old.items():
            getattr(self, name)[: len(column)] = column

    def _columns(self) -> dict[str, Any]:
        names = ("vectors", "name_vectors", "name_terms", "described", "trigrams", "trigram_counts", "pairs", "alive")
        return {name: getattr(self, name) for name in names}

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
            self._term_ids.append(array("i"))
        self.slots[card.key] = slot
        for place, name in self._places(card):
            place.setdefault(name, set()).add(slot)
        self._fill(slot, card)
        self.alive[slot] = True
        self.version += 1
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
        for term in self._term_ids[slot]:
            found = self.postings[term]
            assert found is not None
            found.drop(slot)
            self.counts[term] -= 1
            if not found.slots:
                self._forget(term)
        self._term_ids[slot] = array("i")
        self.alive[slot] = False
        self.vectors[slot] = self.name_vectors[slot] = 0
        self.name_terms[slot] = -1
        self._free.append(slot)
        self.version += 1
        return True

    def _places(self, card: Card) -> list[tuple[dict[str, set[int]], str]]:
        """Where a tool is found by something of it that others may share."""
        places = ((self.by_name, card.name), (self.by_category, card.category), (self.by_namespace, card.namespace))
        return [(place, name) for place, name in places if name is not None]

    def _forget(self, term: int) -> None:
        word = self._words[term]
        del self.terms[word]
        self.postings[term] = None
        self._free_terms.append(term)
        self.spelling.drop(word)

    def term(self, word: str) -> int:
        """The number of a word, given to it when it is new."""
        known = self.terms.get(word)
        if known is not None:
            return known
        if self._free_terms:
            made = self._free_terms.pop()
            self._words[made], self.postings[made], self.counts[made] = word, Postings(), 0
        else:
            made = len(self.postings)
            self._words.append(word)
            self.postings.append(Postings())
            self.counts.append(0)
        self.terms[word] = made
        return made

    def _fill(self, slot: int, card: Card) -> None:
        fields = [words(normalised(text), limit) for text, limit in zip(card.texts, _FIELD_LIMITS, strict=True)]
        plain_name = fields[0]
        fields[0] = self._opened(fields[0])
        kept = [fields[0], *([word for word in field if word.plain not in STOP] for field in fields[1:])]
        tf: dict[str, float] = {}
        where: dict[str, int] = {}
        for number, field in enumerate(kept):
            levelled = 1 - LEVELLING[number] + LEVELLING[number] * max(len(field), 1) / USUAL[number]
            share, bit = WEIGHTS[number] / levelled, 1 << number
            for stem, count in Counter(word.stem for word in field).items():
                tf[stem] = tf.get(stem, 0.0) + share * min(count, 4)
                where[stem] = where.get(stem, 0) | bit
        for field in kept:
            for word in field:
                self.spelling.put(word.plain, word.stem)
        ids = []
        for stem, amount in tf.items():
            number = self.term(stem)
            ids.append(number)
            posting = self.postings[number]
            assert posting is not None
            posting.put(slot, amount / (SATURATION + amount), where[stem])
            self.counts[number] += 1
        self._term_ids[slot] = array("i", ids)
        self._columns_of(slot, kept, plain_name)

    def _columns_of(self, slot: int, kept: list[list[Word]], name: list[Word]) -> None:
        own = list(dict.fromkeys(self.terms[word.stem] for word in kept[0] if word.plain not in STOP))[:NAME_WORDS]
        self.name_terms[slot] = -1
        self.name_terms[slot, : len(own)] = own
        self.described[slot] = max(1, len({word.stem for word in kept[1]}))
        marks = trigrams("".join(word.plain for word in name if _is_piece(word, name)))
        self.trigrams[slot] = signature(marks)
        self.trigram_counts[slot] = max(1, len(marks))
        couples = [pair for field in (kept[0], kept[1], kept[2]) for pair in pairs_of([word.stem for word in field])]
        self.pairs[slot] = signature(set(couples))
        heard = [(word.plain, 1.0) for word in kept[0]]
        told = [(word.plain, 0.7) for word in kept[1][:80]] + [(word.plain, 0.25) for word in kept[2][:40]]
        told += [(word.plain, 0.4) for word in kept[4][:20]]
        self.name_vectors[slot] = self.lexicon.vector(heard)
        self.vectors[slot] = self.lexicon.vector(heard + told)

    def _opened(self, name: list[Word]) -> list[Word]:
        """A name's words with those that were run together in one of them (`airquality`)."""
        found = list(name)
        for word in name:
            if len(name) <= 3 and self.lexicon.weight(word.plain) is None:
                for piece in self.lexicon.split(word.plain):
                    found.extend(w for w in words(piece) if all(w.stem != known.stem for known in found))
        return found


def _is_piece(word: Word, name: list[Word]) -> bool:
    """Whether a word is one of the pieces of a name, not the whole that stands beside them."""
    others = "".join(one.plain for one in name if one is not word and one.start == word.start)
    return len(name) < 3 or word.plain != others


def trigrams(text: str) -> set[int]:
    """The bits of the trigrams of a text."""
    return {crc32(text[i : i + 3].encode()) % BITS for i in range(len(text) - 2)}


def pairs_of(stems: list[str]) -> list[int]:
    """The bits of the pairs of neighbouring stems."""
    return [crc32(f"{a} {b}".encode()) % BITS for a, b in pairwise(stems)]


def signature(bits: set[int]) -> Any:
    """A row of bits, eight to a byte."""
    row = np.zeros(BITS, np.bool_)
    if bits:
        row[list(bits)] = True
    return np.packbits(row)
