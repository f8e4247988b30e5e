"""The index of tools: which tools have a word, how much the word counts there, and what re-ranking reads.

`selector.py` adds and removes tools, and holds its lock meanwhile; `candidates.py` looks words up. `word_index.py` is
the part that needs no numpy.

A *slot* is the number of a tool in the index. A *posting* says that a tool has a word: the slot, the fields that have
it (one bit each), and its BM25 impact over all fields. Postings are records of eight bytes in one byte array for each
word, sorted by slot: slot << FIELD_BITS | fields (int32), impact (float32). The words of a tool are kept the other way
round: number of the word << FIELD_BITS | fields (int32), impact (float32). So there is one object for each word and
each tool, and none for a posting. Tools come and go one by one, in place: no rebuild, no segments.

The index is computed from the tools' cards alone: their words with a weight each, and the data for comparisons by
spelling and by meaning. Many tools are indexed at once, because a numpy operation costs much the same for one tool as
for a hundred.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import chain, islice, pairwise
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from .action_sense import Sense, Senses, tool_senses
from .lexicon import Lexicon, lexicon
from .phrase_index import PhraseIndex
from .text import Word
from .tool_card import FIELDS, Card
from .word_index import NAME_OR_DESCRIPTION, WordIndex, read_card
from .word_list import WordList

Array: TypeAlias = np.ndarray[Any, Any]

# Of each of `tool_card.FIELDS`: weight, length normalisation and usual length of BM25. The lengths are fixed, not
# measured, so that impacts stay right when tools come and go.
FIELD_IMPACT_WEIGHTS: Final[Array] = np.array((3.0, 1.6, 1.0, 0.5, 0.8))
LENGTH_NORMALISATION: Final[Array] = np.array((0.3, 0.6, 0.6, 0.7, 0.3))
USUAL_LENGTHS: Final[Array] = np.array((4.0, 14.0, 6.0, 35.0, 4.0))
SATURATION: Final = 1.2  # of BM25
MAX_COUNTED: Final = 4  # a word counts at most this often in a field

BITS: Final = 1024  # of a signature: each trigram, or pair of words, of a tool sets one bit
# Of each field: the weight of its words for the meaning of the tool, and how many of its words count.
_FIELD_WEIGHTS: Final[Array] = np.array((1.0, 0.7, 0.25, 0.0, 0.4), np.float32)
_MAX_MEANING_WORDS: Final[Array] = np.array((60, 80, 40, 0, 20))


class CardWords(NamedTuple):
    """The words of one tool: the (stem, word) of each field, the bits of trigrams and word pairs, and the senses."""

    fields: list[list[tuple[str, str]]]
    bits: list[int]
    senses: Senses


class WordImpacts(NamedTuple):
    """The different words of some tools, tool after tool."""

    numbers: Array
    fields: Array
    impacts: Array
    words: Array
    described: Array


def words_of_card(card: Card, known: WordList) -> CardWords:
    """Return the words of a tool that the index keeps."""
    name, fields = read_card(card, known)
    name_words = [word.plain for word in _without_compounds(name)]
    bits = trigrams("".join(name_words))
    for field in fields[:3]:
        bits += [BITS + bit for bit in pairs_of([stem for stem, _ in field])]
    return CardWords(fields, bits, tool_senses(name_words, card.description, card.hints))


def lengths_of(contents: list[CardWords]) -> Array:
    """Return the number of words of each field, a row for each tool."""
    lengths: Array = np.array([[*map(len, content.fields)] for content in contents], np.int64)
    return lengths


def word_impacts(numbers: Array, lengths: Array) -> WordImpacts:
    """Compute the BM25 impacts of the words of some tools."""
    tools, width = lengths.shape
    field_share = FIELD_IMPACT_WEIGHTS / (1 - LENGTH_NORMALISATION + LENGTH_NORMALISATION * lengths / USUAL_LENGTHS)
    group = np.arange(tools * width).repeat(lengths.ravel())
    tool, field = np.divmod(group, width)
    # Sort by tool, word and field, and count how often each word is in a field.
    keys = (tool << 32 | numbers) * width + field
    keys.sort()
    starts = _group_starts(keys)
    counts = np.diff(starts, append=len(keys))
    words, field = np.divmod(keys[starts], width)
    tool = words >> 32
    amounts = field_share[tool, field] * np.minimum(counts, MAX_COUNTED)
    # Add up the fields of each word.
    described = np.bincount(tool[field == 1], minlength=tools)
    starts = _group_starts(words)
    amounts = np.add.reduceat(amounts, starts) if len(starts) else amounts
    fields = np.bitwise_or.reduceat(1 << field, starts) if len(starts) else field
    words = words[starts]
    impacts = (amounts / (SATURATION + amounts)).astype(np.float32)
    numbers = (words & 0xFFFFFFFF).astype(np.int32)
    return WordImpacts(numbers, fields.astype(np.int32), impacts, np.bincount(words >> 32, minlength=tools), described)


def meaning_vectors(contents: list[CardWords], lengths: Array) -> Array:
    """Return the direction in meaning of each of some tools."""
    counted = np.minimum(lengths, _MAX_MEANING_WORDS)
    fields = chain.from_iterable([content.fields for content in contents])
    cut_fields = [islice(field, limit) for field, limit in zip(fields, counted.ravel().tolist(), strict=True)]
    rows, counts = lexicon().pieces([plain for _, plain in chain.from_iterable(cut_fields)])
    weights = np.tile(_FIELD_WEIGHTS, len(contents)).repeat(counted.ravel()) / np.maximum(counts, 1)
    tool = np.arange(len(contents)).repeat(counted.sum(1)).repeat(counts)
    return lexicon().each_direction(
        rows, weights.repeat(counts).astype(np.float32), np.bincount(tool, minlength=len(contents))
    )


def _group_starts(keys: Array) -> Array:
    """Return the positions where a new key begins."""
    differs = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=differs[1:])
    starts: Array = differs.nonzero()[0]
    return starts


def _without_compounds(name: list[Word]) -> list[Word]:
    """Return the words of a name without a compound whose pieces are listed too."""
    if len(name) < 3:
        return name
    lengths: dict[int, int] = {}
    for _, plain, start in name:
        lengths[start] = lengths.get(start, 0) + len(plain)

    def is_compound(word: Word) -> bool:
        pieces = [piece.plain for piece in name if piece is not word and piece.start == word.start]
        return word.plain == "".join(pieces)

    return [word for word in name if 2 * len(word.plain) != lengths[word.start] or not is_compound(word)]


def trigrams(text: str) -> list[int]:
    """Return the bits of the trigrams of a text."""
    if text.isascii():  # a letter is a byte
        coded = text.encode()
        return [crc32(coded[start : start + 3]) % BITS for start in range(len(coded) - 2)]
    return [crc32(text[start : start + 3].encode()) % BITS for start in range(len(text) - 2)]


def pairs_of(stems: list[str]) -> list[int]:
    """Return the bits of the pairs of neighbouring stems."""
    return [crc32(f"{first} {second}".encode()) % BITS for first, second in pairwise(stems)]


def signatures(texts: list[list[int]], width: int) -> Array:
    """Return rows of `width` bits, 64 per number, with these bits set."""
    flags: Array = np.zeros((len(texts), width), np.uint8)
    flags[np.arange(len(texts)).repeat([len(bits) for bits in texts]), [bit for bits in texts for bit in bits]] = 1
    rows: Array = np.packbits(flags, axis=1).view(np.uint64)
    return rows


def signature(bits: list[int]) -> int:
    """Return one row of BITS as a number, with the bytes in the order of `signatures`."""
    row = 0
    for bit in bits:
        row |= 1 << BITS - 1 - bit
    return row


FIELD_BITS: Final = len(FIELDS)
FIELD_MASK: Final = (1 << FIELD_BITS) - 1
_RECORD: Final = 8  # bytes of a posting


def unpack_postings(*records: bytes | bytearray) -> tuple[Array, Array]:
    """Return the numbers (with the fields in the lowest FIELD_BITS) and the impacts of records, concatenated."""
    joined: Array = np.frombuffer(b"".join(records), np.int32)  # a copy: nothing is held of a list that may change
    return joined[::2], joined[1::2].view(np.float32)


def _pack_postings(numbers: Array, impacts: Array) -> bytes:
    return np.stack((numbers, impacts.view(np.int32)), axis=1).tobytes()


def _record_position(posting: bytearray, key: int) -> int:
    """Return the position of a slot's record, present or not."""
    with memoryview(posting) as records, records.cast("i") as numbers:
        return bisect_left(numbers[::2], key & ~FIELD_MASK) * _RECORD


class Index(WordIndex):
    """The tools by slot, with the impacts, signatures and vectors that the `hybrid` strategy reads."""

    def __init__(self) -> None:
        self.lexicon: Lexicon = lexicon()
        super().__init__(self.lexicon)
        self.postings: list[bytearray] = []  # by the number of a word; empty where none has that number
        self.words_of_slot: list[bytes] = []  # by slot: the words of a tool
        self.counts = array("i")  # tools that have a word, by its number
        self.phrases = PhraseIndex()
        self.word_readings: dict[str, Any] = {}  # what a word of a request is here; emptied by every change
        self._resize(256)

    def _resize(self, slots: int) -> None:
        old = self._columns() if self.cards else {}
        size = self.lexicon.size
        self.vectors = np.zeros((slots, size), np.float32)
        self.senses = np.zeros((slots, len(Sense)), np.float32)
        self._informativeness = np.ones(slots, np.float32)
        self._informativeness_version = np.full(slots, -1)  # the version for which that was worked out
        self.description_lengths = np.ones(slots, np.float32)
        self.word_counts = np.zeros(slots, np.int32)
        self.signatures = np.zeros(
            (slots, 2 * BITS // 64), np.uint64
        )  # a signature of trigrams, and one of pairs of words
        self.trigram_counts = np.ones(slots, np.float32)
        self.is_alive = np.zeros(slots, np.bool_)
        for name, column in old.items():
            getattr(self, name)[: len(column)] = column

    def _columns(self) -> dict[str, Any]:
        return {name: column for name, column in vars(self).items() if isinstance(column, np.ndarray)}

    def frequency(self, term: int) -> int:
        return self.counts[term]

    def frequencies(self, terms: Array) -> Array:
        """Return the number of tools that have each of these words."""
        counts: Array = np.frombuffer(self.counts, np.int32)[terms] if len(terms) else np.zeros(0, np.int32)
        return counts

    def rarities(self, terms: Array) -> Array:
        """Return the inverse document frequency of each of these words."""
        counts = self.frequencies(terms)
        rare: Array = np.log1p((len(self.slots) - counts + 0.5) / (counts + 0.5))
        return rare

    def informativeness(self, slots: Array) -> Array:
        """Return how much the names and descriptions of these tools say: the rarity of their words, plus three
        average words, so that short texts are not covered too easily."""

        # Recomputed after a change.
        stale = slots[self._informativeness_version[slots] != self.version]
        if len(stale):
            numbers, _ = unpack_postings(*[self.words_of_slot[slot] for slot in stale.tolist()])
            owner: Array = np.arange(len(stale)).repeat(self.word_counts[stale])
            in_name_or_description = (numbers & NAME_OR_DESCRIPTION) > 0
            amount = np.bincount(owner, self.rarities(numbers >> FIELD_BITS) * in_name_or_description, len(stale))
            self._informativeness[stale] = (
                amount * (1 + 3 / np.maximum(np.bincount(owner, in_name_or_description, len(stale)), 1)) + 1e-6
            )
            self._informativeness_version[stale] = self.version
        return self._informativeness[slots]

    def fields(self, slot: int) -> dict[int, int]:
        return self._numbers(self.words_of_slot[slot])

    def having(self, term: int) -> dict[int, int]:
        return self._numbers(self.postings[term])

    @staticmethod
    def _numbers(records: bytes | bytearray) -> dict[int, int]:
        """Return the numbers of records and their fields."""
        return {number >> FIELD_BITS: number & FIELD_MASK for number in unpack_postings(records)[0].tolist()}

    # --- changes ------------------------------------------------------------------------------

    def _note_change(self) -> None:
        super()._note_change()
        self.word_readings.clear()

    def _append_slot(self) -> None:
        if len(self.cards) == len(self.is_alive):
            self._resize(2 * len(self.cards))
        self.words_of_slot.append(b"")

    def _append_term(self) -> None:
        self.postings.append(bytearray())
        self.counts.append(0)

    def _drop_words(self, slot: int) -> None:
        for number in unpack_postings(self.words_of_slot[slot])[0].tolist():
            term = number >> FIELD_BITS
            posting = self.postings[term]
            position = _record_position(posting, slot << FIELD_BITS)
            del posting[position : position + _RECORD]
            self.counts[term] -= 1
            if not posting:
                self._free_term(term)
        self.words_of_slot[slot] = b""
        self.is_alive[slot] = False
        self.vectors[slot] = 0
        self.phrases.drop(slot)

    def _store_words(self, slots: list[int], cards: list[Card], appends: bool) -> None:
        # All at once, because a numpy step costs about the same for one tool as for a hundred.
        contents = [words_of_card(card, self.words) for card in cards]
        positions = np.array(slots, np.int32)
        words_of_tools = [[*chain.from_iterable(content.fields)] for content in contents]
        self.spelling.put(words_of_tools)
        lengths = lengths_of(contents)
        worth = word_impacts(
            self._term_numbers_of([stem for content in words_of_tools for stem, _ in content]), lengths
        )
        self.word_counts[positions] = worth.words
        rows, start = _pack_postings(worth.numbers << FIELD_BITS | worth.fields, worth.impacts), 0
        for slot, end in zip(slots, (worth.words.cumsum() * _RECORD).tolist(), strict=True):
            self.words_of_slot[slot] = rows[start:end]
            start = end
        order = worth.numbers.argsort(kind="stable")
        keys = positions.repeat(worth.words) << FIELD_BITS | worth.fields
        self._insert_postings(worth.numbers[order], keys[order], worth.impacts[order], appends)
        self.description_lengths[positions] = np.maximum(1, worth.described)
        self.vectors[positions] = meaning_vectors(contents, lengths)
        self.senses[positions] = [content.senses for content in contents]
        self.signatures[positions] = marks = signatures([content.bits for content in contents], 2 * BITS)
        self.trigram_counts[positions] = np.maximum(1, np.bitwise_count(marks[:, : BITS // 64]).sum(1))
        self.is_alive[positions] = True
        for slot, card in zip(slots, cards, strict=True):
            if card.phrases:
                self.phrases.put(slot, card.phrases)

    def _term_numbers_of(self, stems: list[str]) -> Array:
        """Return the number of each of these words; new words get one."""
        self._number_terms(stems)
        numbers: Array = np.array([*map(self.term_numbers.__getitem__, stems)], np.int64)
        return numbers

    def _insert_postings(self, numbers: Array, keys: Array, impacts: Array, appends: bool) -> None:
        """Insert postings in the order of their slots."""
        records, postings = _pack_postings(keys, impacts), self.postings
        ends = np.append((numbers[1:] != numbers[:-1]).nonzero()[0] + 1, len(numbers)) if len(numbers) else numbers
        different = numbers[ends - 1]
        np.frombuffer(self.counts, np.int32)[different] += np.diff(ends, prepend=0).astype(np.int32)
        start = 0
        for number, end in zip(different.tolist(), ends.tolist(), strict=True):
            posting = postings[number]
            if appends:
                posting += records[start * _RECORD : end * _RECORD]
            else:
                for n in range(start, end):
                    position = _record_position(posting, keys.item(n))
                    posting[position:position] = records[n * _RECORD : (n + 1) * _RECORD]
            start = end
