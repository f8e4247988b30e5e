"""The usage phrases of tools in an index, and how like a request they are.

A usage phrase says how people ask for a tool. Three signs count: the words that the request shares with all phrases of
a tool, those that it shares with the best of them, and the meaning of all. Only what exceeds USUAL counts, which is
what phrases have in common with any request.

Phrases are kept apart from the words of tools: how rare a word is in tools does not depend on them, so they change no
feature of a tool that has none. `bench/select_phrases.py` measures what they change.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from .lexicon import lexicon, products
from .phrases import MAX_PHRASES
from .query import Term, read_request

if TYPE_CHECKING:
    from .reading import Reading

Array: TypeAlias = np.ndarray[Any, Any]

# What each sign counts, and what is usual. Chosen on requests for the tools of the servers in `known_phrases.json`, by
# somebody who did not know their phrases.
MEANING: Final = 0.3
WORDS: Final = 0.3
BEST_PHRASE: Final = 0.6
USUAL: Final = 0.14
HALF: Final = 0.6  # phrases of a tool that have a word, for half of what it counts when all have it


class Posting(NamedTuple):
    """The phrases and the tools that have a word."""

    rows: Array
    weights: Array  # by row: the share of the word in the phrase
    blocks: Array
    shares: Array  # by block: what the word counts for the tool, from 0 to 1


class PhraseIndex:
    """The phrases of the tools of an index, by slot."""

    # A tool with phrases has a *block* of MAX_PHRASES rows, one for each phrase; some may be empty.

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}  # by slot
        self._free: list[int] = []
        self._slots: Array = np.zeros(0, np.intp)  # by block; -1 for none
        self._meanings: Array = np.zeros((0, lexicon().size), np.float32)  # by block: the direction of all phrases
        self._stems: dict[int, set[str]] = {}  # by block
        self._words: dict[str, dict[int, float]] = {}  # of a stem: by row, the share of the word in the phrase
        self._postings: dict[str, Posting] = {}  # the same as arrays; without what changed

    def __len__(self) -> int:
        return len(self._blocks)

    def put(self, slot: int, phrases: Sequence[str]) -> None:
        """Give a tool these phrases in place of its earlier ones."""
        self.drop(slot)
        if not phrases:
            return
        block = self._blocks[slot] = self._free.pop() if self._free else self._new_block()
        self._slots[block] = slot
        stems = self._stems[block] = set()
        total: Array = np.zeros(lexicon().size, np.float32)
        for row, phrase in enumerate(phrases[:MAX_PHRASES], block * MAX_PHRASES):
            terms = read_request(phrase).terms
            shares = _weights(terms)
            shares /= shares.sum() + 1e-6
            total += lexicon().vector([(term.plain, term.weight) for term in terms])
            for term, share in zip(terms, shares.tolist(), strict=True):
                self._words.setdefault(term.stem, {})[row] = share
                stems.add(term.stem)
        for stem in stems:
            self._postings.pop(stem, None)
        self._meanings[block] = total / (np.linalg.norm(total) + 1e-9)

    def _new_block(self) -> int:
        """Return a block that was never used, and make room for as many more as there are."""
        block = len(self._blocks)
        if block >= len(self._slots):
            more = max(16, len(self._slots))
            self._slots = np.concatenate((self._slots, np.full(more, -1)))
            self._meanings = np.concatenate((self._meanings, np.zeros((more, lexicon().size), np.float32)))
        return block

    def drop(self, slot: int) -> None:
        """Forget the phrases of a tool."""
        block = self._blocks.pop(slot, None)
        if block is None:
            return
        rows = range(block * MAX_PHRASES, (block + 1) * MAX_PHRASES)
        for stem in self._stems.pop(block):
            shares = self._words[stem]
            for row in rows:
                shares.pop(row, None)
            self._postings.pop(stem, None)
            if not shares:
                del self._words[stem]
        self._slots[block], self._meanings[block] = -1, 0
        self._free.append(block)

    def likest(self, reading: Reading, limit: int) -> Array:
        """Return the slots of the tools whose phrases are most like the whole request, at most `limit`."""
        size = len(self._blocks) + len(self._free)
        postings = self._postings_of(reading.request.terms)
        likeness = MEANING * products(self._meanings[:size], reading.way_vectors[0])
        weights = self._rarities(postings) * _weights(reading.request.terms)
        weights *= WORDS / (weights.sum() + 1e-6)
        for posting, weight in zip(postings, weights, strict=True):
            if posting is not None:
                likeness[posting.blocks] += posting.shares * weight
        best = likeness.argpartition(-limit)[-limit:] if size > limit else np.arange(size)
        found: Array = self._slots[best[likeness[best] > 0]]
        return found[found >= 0]

    def measure(self, reading: Reading, slots: Array) -> Array:
        """Return how like the phrases of these tools are to each way to read a request, from 0 to 1."""
        likeness: Array = np.zeros((len(reading.has_word), len(slots)), np.float32)
        blocks: Array = np.array([self._blocks.get(slot, -1) for slot in slots.tolist()], np.intp)
        columns = (blocks >= 0).nonzero()[0]
        if not len(columns):
            return likeness
        postings = self._postings_of(reading.request.terms)
        place: Array = np.full(len(self._slots), -1, np.intp)
        place[blocks[columns]] = np.arange(len(columns))
        in_tool: Array = np.zeros((len(postings), len(columns)), np.float32)
        in_phrase: Array = np.zeros((len(postings), len(columns), MAX_PHRASES), np.float32)
        for n, posting in enumerate(postings):
            if posting is None:
                continue
            at = place[posting.blocks]
            in_tool[n, at[at >= 0]] = posting.shares[at >= 0]
            block, phrase = np.divmod(posting.rows, MAX_PHRASES)
            at = place[block]
            in_phrase[n, at[at >= 0], phrase[at >= 0]] = posting.weights[at >= 0]
        ways = reading.has_word * (self._rarities(postings) * _weights(reading.request.terms))
        ways /= ways.sum(1, keepdims=True) + 1e-6
        flat = in_phrase.reshape(len(postings), -1)
        # Of the best phrase, the share of the request that it has, and the share of the phrase that the request has.
        both = np.sqrt((ways @ (flat > 0)) * (reading.has_word @ flat))
        signs = WORDS * (ways @ in_tool) + MEANING * (reading.way_vectors @ self._meanings[blocks[columns]].T)
        signs += BEST_PHRASE * both.reshape(len(ways), len(columns), MAX_PHRASES).max(2)
        likeness[:, columns] = np.maximum(signs - USUAL, 0)
        return likeness

    def _rarities(self, postings: Sequence[Posting | None]) -> Array:
        """Return how rare each word is in the phrases of tools, from 0 to 1."""
        count = len(self._blocks)
        counts: Array = np.array([0 if posting is None else len(posting.blocks) for posting in postings], np.float32)
        rarities: Array = np.log1p((count - counts + 0.5) / (counts + 0.5)) / math.log1p((count + 0.5) / 0.5)
        return rarities

    def _postings_of(self, terms: Sequence[Term]) -> list[Posting | None]:
        """Return, by word of a request, the phrases and tools that have it."""
        return [self._posting(term.stem) if term.stem in self._words else None for term in terms]

    def _posting(self, stem: str) -> Posting:
        posting = self._postings.get(stem)
        if posting is None:
            shares = self._words[stem]
            counts = Counter(row // MAX_PHRASES for row in shares)
            rows, weights = np.array([*shares], np.intp), np.array([*shares.values()], np.float32)
            times: Array = np.array([*counts.values()], np.float32)
            posting = Posting(rows, weights, np.array([*counts], np.intp), times / (times + HALF))
            self._postings[stem] = posting
        return posting


def _weights(terms: Sequence[Term]) -> Array:
    """Return what each word counts: less for common words and for those that say little in a request."""
    known = lexicon()
    return np.array([term.weight * (known.weight(term.plain) or 1.0) for term in terms], np.float32)
