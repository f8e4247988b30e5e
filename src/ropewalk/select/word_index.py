"""The index of tools, as far as it needs no numpy: the slots of tools, the words of cards, and which tools have a word.

A *slot* is the number of a tool in the index. Each word has a number, too, and each field of a card one bit. The
strategies of `legacy.py` read no more than this. `PlainIndex` keeps it in dictionaries, `index.Index` in bytes, with
what the `hybrid` strategy reads.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from .text import Spelling, Word, informative_words, normalised, words
from .tool_card import Card
from .word_list import WordList, word_list

NAME: Final = 1  # the bits of fields
DESCRIPTION: Final = 2
NAME_OR_DESCRIPTION: Final = NAME | DESCRIPTION
_FIELD_LIMITS: Final = (60, 600, 600, 1200, 60)


def read_card(card: Card, known: WordList) -> tuple[list[Word], list[list[tuple[str, str]]]]:
    """Return the words of a tool's name, and the (stem, word) of each field."""
    name = words(normalised(card.texts[0]), _FIELD_LIMITS[0])
    fields = [[(word.stem, word.plain) for word in _with_split_words(name, known)]]
    fields += [
        informative_words(normalised(text), limit)
        for text, limit in zip(card.texts[1:], _FIELD_LIMITS[1:], strict=True)
    ]
    return name, fields


def _with_split_words(name: list[Word], known: WordList) -> list[Word]:
    """Return a name's words, with joined words such as `airquality` split."""
    all_words = list(name)
    for word in name if len(name) <= 3 else ():
        if not known.has(word.plain):
            for piece in known.split(word.plain):
                all_words.extend(w for w in words(piece) if all(w.stem != other.stem for other in all_words))
    return all_words


class WordIndex(ABC):
    """The tools by slot."""

    # `version` grows with every change.

    def __init__(self, known: WordList) -> None:
        self.words = known
        self.cards: list[Card | None] = []
        self.slots: dict[str, int] = {}
        self.term_numbers: dict[str, int] = {}
        self.by_category: dict[str, set[int]] = {}
        self.by_namespace: dict[str, set[int]] = {}
        self.by_name: dict[str, set[int]] = {}
        self.spelling = Spelling()
        self.version = 0
        # A cache of the documented SEMANTIC strategy: (version, rarities).
        self.text_rarities: tuple[int, Any] | None = None
        self._free: list[int] = []
        self._words: list[str] = []
        self._free_terms: list[int] = []

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def size(self) -> int:
        """Return the number of slots, including those of removed tools."""
        return len(self.cards)

    @abstractmethod
    def having(self, term: int) -> dict[int, int]:
        """Return the slots that have a word, and the fields that contain it."""

    @abstractmethod
    def fields(self, slot: int) -> dict[int, int]:
        """Return, by word of a tool, the fields that contain it."""

    @abstractmethod
    def frequency(self, term: int) -> int:
        """Return the number of tools that have a word."""

    def rarity(self, frequency: int) -> float:
        """Return the inverse document frequency of a word that `frequency` tools have."""
        count = len(self.slots)
        return math.log(1.0 + (count - frequency + 0.5) / (frequency + 0.5))

    # --- changes ------------------------------------------------------------------------------

    def add(self, cards: list[Card]) -> list[int]:
        """Add tools, or replace those with the same key; return their slots."""

        # The keys must differ.
        for card in cards:
            if card.key in self.slots:
                self.remove(card.key)
        if not cards:
            return []
        appends = not self._free
        slots = [self._assign_slot(card) for card in cards]
        self._store_words(slots, cards, appends)
        self._note_change()
        return slots

    def _assign_slot(self, card: Card) -> int:
        if self._free:
            slot = self._free.pop()
        else:
            slot = len(self.cards)
            self._append_slot()
            self.cards.append(None)
        self.cards[slot] = card
        self.slots[card.key] = slot
        for group, name in self._groups_of(card):
            group.setdefault(name, set()).add(slot)
        return slot

    def remove(self, key: str) -> bool:
        """Remove a tool; return False if it is not in the index."""
        slot = self.slots.pop(key, None)
        if slot is None:
            return False
        card = self.cards[slot]
        assert card is not None
        self.cards[slot] = None
        for group, name in self._groups_of(card):
            group[name].discard(slot)
            if not group[name]:
                del group[name]
        self._drop_words(slot)
        self.spelling.drop({plain for _, plain in chain.from_iterable(read_card(card, self.words)[1])})
        self._free.append(slot)
        self._note_change()
        return True

    def _note_change(self) -> None:
        self.version += 1

    def _groups_of(self, card: Card) -> list[tuple[dict[str, set[int]], str]]:
        """Return the tables and keys under which a tool is found together with others."""
        groups = ((self.by_name, card.name), (self.by_category, card.category), (self.by_namespace, card.namespace))
        return [(group, name) for group, name in groups if name is not None]

    def _number_terms(self, stems: Iterable[str]) -> None:
        """Give each of these words a number that has none."""
        for stem in dict.fromkeys(stems):
            if stem in self.term_numbers:
                continue
            if self._free_terms:
                number = self._free_terms.pop()
                self._words[number] = stem
            else:
                number = len(self._words)
                self._words.append(stem)
                self._append_term()
            self.term_numbers[stem] = number

    def _free_term(self, term: int) -> None:
        del self.term_numbers[self._words[term]]
        self._free_terms.append(term)

    @abstractmethod
    def _append_slot(self) -> None:
        """Make room for one more tool."""

    @abstractmethod
    def _append_term(self) -> None:
        """Make room for one more word."""

    @abstractmethod
    def _store_words(self, slots: list[int], cards: list[Card], appends: bool) -> None:
        """Store the words of tools; with `appends`, no tool has a slot after theirs."""

    @abstractmethod
    def _drop_words(self, slot: int) -> None:
        """Forget the words of a tool, and free those that no other has."""


class PlainIndex(WordIndex):
    """The words of tools in dictionaries."""

    def __init__(self) -> None:
        super().__init__(word_list())
        self._having: list[dict[int, int]] = []
        self._fields: list[dict[int, int]] = []

    def having(self, term: int) -> dict[int, int]:
        return self._having[term]

    def fields(self, slot: int) -> dict[int, int]:
        return self._fields[slot]

    def frequency(self, term: int) -> int:
        return len(self._having[term])

    def _append_slot(self) -> None:
        self._fields.append({})

    def _append_term(self) -> None:
        self._having.append({})

    def _store_words(self, slots: list[int], cards: list[Card], appends: bool) -> None:
        for slot, card in zip(slots, cards, strict=True):
            fields = read_card(card, self.words)[1]
            both = [*chain.from_iterable(fields)]
            self.spelling.put([both])
            self._number_terms(stem for stem, _ in both)
            bits = self._fields[slot]
            for place, field in enumerate(fields):
                for term in {self.term_numbers[stem] for stem, _ in field}:
                    bits[term] = bits.get(term, 0) | 1 << place
            for term, fields_of_term in bits.items():
                self._having[term][slot] = fields_of_term

    def _drop_words(self, slot: int) -> None:
        for term in self._fields[slot]:
            del self._having[term][slot]
            if not self._having[term]:
                self._free_term(term)
        self._fields[slot] = {}
