"""Find the tools in the index that may answer a request."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from .index import FIELD_BITS, FIELD_MASK, Index, unpacked
from .query import Reading
from .text import products

Array: TypeAlias = np.ndarray[Any, Any]

LOOKED_UP: Final = 40_000  # postings that are added up,
MAX_POSTINGS_KEPT: Final = (
    15_000  # and that are kept for a closer look; of more, the words of the few tools are sooner looked at
)
# With more than twice as many tools, only the best of these are
CLAUSES: Final = 1_000  # rated clause by clause: those with most of the words;
MEANINGS: Final = 250  # rated by what they mean: the best of those. All are where few have a word,
FEW: Final = 20_000  # the most tools for which that is done.
ABOVE_ALL: Final = 10.0  # no rating is as high


class Candidates:
    """The candidates for a request, and the words that they share with it."""

    def __init__(self, index: Index, reading: Reading) -> None:
        self.index, self.reading = index, reading
        # Of every posting of the reading, where they are not too many: which of its words it is of, its slot, its
        # impact, and its number.
        self._postings_kept: tuple[Array, Array, Array, Array] | None = None
        self.hits: tuple[Array, Array, Array, Array] = (np.zeros(0, np.intp),) * 4  # the last result of `matches`

    def find(self, allowed: Array | None, limit: int, near: Array | None = None) -> Array:
        """Return the slots of the candidates, in order.

        Tools are rated by the words that they share with the request and with its best clause, and by meaning. Some
        places are reserved for the best tools of each clause. With many tools only those with the most words are
        rated further.

        Args:
            allowed: By slot, True if the tool may be chosen; None for all.
            limit: The most candidates.
            near: By slot, the similarity under a model.
        """
        if allowed is not None and int(allowed.sum()) <= limit:
            return np.flatnonzero(allowed)
        index, direction = self.index, self.reading.way_vectors[0]
        pool, rated, words = self._by_words(allowed, near)
        meanings = max(MEANINGS, limit)
        if len(rated) > 2 * meanings:
            best = _highest(rated, meanings)
            pool, rated, words = best if pool is None else pool[best], rated[best], words[:, best]
        # Reserve places for the best tools of each clause.
        each = limit // (len(words) + 1)
        if len(words) > 1 and len(rated) > each > 0:
            seats = words.argpartition(-each, axis=1)[:, -each:]
            rated[seats[words[np.arange(len(words))[:, None], seats] > 0]] += ABOVE_ALL
        if pool is not None and len(pool) < meanings and index.size <= FEW:
            every: Array = np.zeros(index.size)
            every[pool] = rated
            pool, rated = None, every
        # Meaning is compared for the pool, or for all tools if words found too few.
        if pool is None:
            similarity = _allowed(products(index.vectors[: index.size], direction), allowed)
        else:
            similarity = index.vectors[pool] @ direction
        best = _highest(rated + 2 * _of_best(similarity), limit)
        return best if pool is None else pool[best]

    def _by_words(self, allowed: Array | None, near: Array | None) -> tuple[Array | None, Array, Array]:
        """Return slots in order (None: all), their ratings by words and model, and their words of each clause."""
        index, reading = self.index, self.reading
        slots, worth, home = self._postings()
        some: Array | None = None
        size = index.size
        if size > 2 * CLAUSES:
            rough = _allowed(np.bincount(slots, worth, size), allowed)
            some = _highest(rough if near is None else _of_best(rough) + _of_best(_allowed(near, allowed)), CLAUSES)
            columns: Array = np.full(size, -1, np.int32)
            size = len(some)
            columns[some] = np.arange(size)
            slots = columns[slots]
            hit = (slots >= 0).nonzero()[0]
            slots, worth, home = slots[hit], worth[hit], home[hit]
            allowed, near = None, None if near is None else near[some]
        if len(reading.ways) == 1:
            words = _allowed(np.bincount(slots, worth, size), allowed)[None]
            rated = 2 * _of_best(words[0])
        else:
            rows = np.bincount(home * size + slots, worth, len(reading.ways) * size).reshape(-1, size)
            rows[1:] += rows[0]  # what several clauses have counts for all: some candidates more
            words = _allowed(rows[1:], allowed)
            per = 1 / np.maximum(words.max(1, initial=0.0), 1e-9)
            rated = (words * per[:, None]).max(0) + (reading.shares[1:] * per) @ words
        if near is not None:
            rated += 2 * _of_best(_allowed(near, allowed))
        return some, rated, words

    def _postings(self) -> tuple[Array, Array, Array]:
        """Return, for every posting of the request's words, its slot, its worth, and its clause (0: several).

        With many postings only the words worth most are looked up.
        """
        index, reading = self.index, self.reading
        lengths = index.frequencies(reading.terms)
        variants: Array = np.arange(len(lengths), dtype=np.int16)
        value = reading.worth[reading.places] * reading.likeness
        are_many = int(lengths.sum()) > LOOKED_UP
        if are_many:
            room, looked_up = LOOKED_UP, list[int]()
            for n in np.argsort(-value, kind="stable").tolist():
                if lengths[n] <= room or not looked_up:
                    looked_up.append(n)
                    room -= int(lengths[n])
            variants, lengths, value = variants[looked_up], lengths[looked_up], value[looked_up]
        postings = index.postings
        numbers, impacts = unpacked(*[postings[term] for term in reading.terms[variants].tolist()])
        slots = (numbers >> FIELD_BITS).astype(np.intp)
        if not are_many and len(slots) <= MAX_POSTINGS_KEPT:
            self._postings_kept = variants.repeat(lengths), slots, impacts, numbers
        home = reading.homes[reading.places[variants]]
        return slots, impacts * value.repeat(lengths), home.repeat(lengths)

    def matches(self, slots: Array) -> tuple[Array, Array, Array, Array]:
        """Return every match of a word of these slots with a word of the request, the most similar last: the word of
        the request, the position of the slot, the impact, and the fields.
        """
        self.hits = self._hits_seen(slots) if self._postings_kept else self._hits_by_tool(slots)
        return self.hits

    def _hits_seen(self, slots: Array) -> tuple[Array, Array, Array, Array]:
        """Return the matches of these slots from the postings that were looked up."""
        assert self._postings_kept is not None
        variant, owner, impacts, numbers = self._postings_kept
        columns: Array = np.full(self.index.size, -1, np.intp)
        columns[slots] = np.arange(len(slots))
        column = columns[owner]
        hit = (column >= 0).nonzero()[0]
        return variant[hit], column[hit], impacts[hit], numbers[hit] & FIELD_MASK

    def _hits_by_tool(self, slots: Array) -> tuple[Array, Array, Array, Array]:
        """Return the matches of these slots from the words of the tools."""
        index, reading = self.index, self.reading
        word_of_term: Array = np.full(len(index.postings) + 1, -1, np.int16)  # the last one stands for "no word"
        word_of_term[reading.terms] = reading.words
        keys, impacts = unpacked(*[index.rows[slot] for slot in slots.tolist()])
        word = word_of_term[keys >> FIELD_BITS]
        hit = (word >= 0).nonzero()[0]
        variant: Array = word[hit]
        order = reading.words.argsort(kind="stable")
        if len(order) and (reading.words[order[1:]] == reading.words[order[:-1]]).any():  # one word for several
            starts = reading.words[order].searchsorted(variant)
            times = reading.words[order].searchsorted(variant, side="right") - starts
            hit = hit.repeat(times)
            ends = times.cumsum()
            variant = order[np.arange(len(hit)) - (ends - times - starts).repeat(times)]
        column = np.arange(len(slots)).repeat(index.words[slots])[hit]
        later = variant.argsort(kind="stable")
        hit = hit[later]
        return variant[later], column[later], impacts[hit], keys[hit] & FIELD_MASK


def _allowed(values: Array, allowed: Array | None) -> Array:
    """Values, 0 for what is not allowed."""
    return values if allowed is None else np.where(allowed, values, 0)


def _of_best(values: Array) -> Array:
    """Values against the highest one."""
    return values * (1 / max(float(values.max(initial=0.0)), 1e-9))


def _highest(values: Array, limit: int) -> Array:
    """Return the positions of the highest positive values, at most `limit`, in order."""
    threshold = 0.0
    if len(values) > 4096:  # estimate a threshold from a sample, so that little is left to sort
        sample = values[:: len(values) // 1024]
        expected = limit * len(sample) / len(values)
        enough = min(len(sample), int(expected + 3 * expected**0.5) + 8)
        threshold = float(np.partition(sample, -enough)[-enough])
    picked: Array = (values > threshold).nonzero()[0]
    if len(picked) < limit and threshold > 0.0:
        picked = (values > 0).nonzero()[0]
    if len(picked) > limit:
        picked = picked[values[picked].argpartition(len(picked) - limit)[len(picked) - limit :]]
        picked.sort()
    return picked


__all__ = ["Candidates"]
