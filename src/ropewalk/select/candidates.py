"""The tools worth a closer look for a request, found in the index."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from .index import FIELD_BITS, FIELD_MASK, Index, unpacked
from .lexicon import products
from .reading import Reading

Array: TypeAlias = np.ndarray[Any, Any]

LOOKED_UP: Final = 40_000  # postings that are added up,
SEEN: Final = 15_000  # and that are kept for a closer look; of more, the words of the few tools are sooner looked at
# Of more than twice as many tools only so many are
CLAUSES: Final = 1_000  # rated clause by clause: those with most of the words;
MEANINGS: Final = 250  # rated by what they mean: the best of those. All are where few have a word,
FEW: Final = 20_000  # of up to so many tools.
ABOVE_ALL: Final = 10.0  # no rating is as high


class Candidates:
    """The candidates for a request, and the words by which they are."""

    def __init__(self, index: Index, reading: Reading) -> None:
        self.index, self.reading = index, reading
        # Of every posting of the reading, where they are not too many: which of its words it is of, its slot, its
        # impact, and its number.
        self._seen: tuple[Array, Array, Array, Array] | None = None
        self.hits: tuple[Array, Array, Array, Array] = (np.zeros(0, np.intp),) * 4  # what `matches` gave last

    def find(self, allowed: Array | None, most: int, near: Array | None = None) -> Array:
        """The slots of the tools worth a look, at most `most`, in order; `allowed` says of each slot whether it may,
        `near` what a model thinks of it.

        They are rated by the words they have, of the clause that speaks most for them and of all, and by what they
        mean; some places are for those with most of the words of each clause. To look at all of many tools takes too
        long: those with most of the words are rated clause by clause, and of these the best by what they mean."""
        if allowed is not None and int(allowed.sum()) <= most:
            return np.flatnonzero(allowed)
        index, meant = self.index, self.reading.way_vectors[0]
        some, rated, words = self._by_words(allowed, near)
        meanings = max(MEANINGS, most)
        if len(rated) > 2 * meanings:
            best = _highest(rated, meanings)
            some, rated, words = best if some is None else some[best], rated[best], words[:, best]
        each = most // (len(words) + 1)
        if len(words) > 1 and len(rated) > each > 0:
            seats = words.argpartition(-each, axis=1)[:, -each:]
            rated[seats[words[np.arange(len(words))[:, None], seats] > 0]] += ABOVE_ALL
        if some is not None and len(some) < meanings and index.size <= FEW:
            every: Array = np.zeros(index.size)
            every[some] = rated
            some, rated = None, every
        if some is None:
            alike = _allowed(products(index.vectors[: index.size], meant), allowed)
        else:
            alike = index.vectors[some] @ meant
        best = _highest(rated + 2 * _of_best(alike), most)
        return best if some is None else some[best]

    def _by_words(self, allowed: Array | None, near: Array | None) -> tuple[Array | None, Array, Array]:
        """Some slots in order (all, when None), how each is rated by the words it has, and by a model, and what it has
        of each clause."""
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
        """Of every posting of the reading its slot, what it is worth, and the clause it is of: from 1 on, 0 when it is
        of several. Where words are many and in many tools, of the words worth most: the rest only counts among the
        candidates."""
        index, reading = self.index, self.reading
        lengths = index.frequencies(reading.terms)
        variants: Array = np.arange(len(lengths), dtype=np.int16)
        value = reading.worth[reading.places] * reading.likeness
        many = int(lengths.sum()) > LOOKED_UP
        if many:
            room, kept = LOOKED_UP, list[int]()
            for n in np.argsort(-value, kind="stable").tolist():
                if lengths[n] <= room or not kept:
                    kept.append(n)
                    room -= int(lengths[n])
            variants, lengths, value = variants[kept], lengths[kept], value[kept]
        postings = index.postings
        numbers, impacts = unpacked(*[postings[term] for term in reading.terms[variants].tolist()])
        slots = (numbers >> FIELD_BITS).astype(np.intp)
        if not many and len(slots) <= SEEN:
            self._seen = variants.repeat(lengths), slots, impacts, numbers
        home = reading.homes[reading.places[variants]]
        return slots, impacts * value.repeat(lengths), home.repeat(lengths)

    def matches(self, slots: Array) -> tuple[Array, Array, Array, Array]:
        """Of every word of these slots that stands for a word of the request, those that are more alike later: which of
        the reading's it is, which of the slots, its impact, and the fields it stands in."""
        self.hits = self._seen_of(slots) if self._seen else self._had_by(slots)
        return self.hits

    def _seen_of(self, slots: Array) -> tuple[Array, Array, Array, Array]:
        """What was seen of these slots when all postings of the request were looked up."""
        assert self._seen is not None
        variant, owner, impacts, numbers = self._seen
        columns: Array = np.full(self.index.size, -1, np.intp)
        columns[slots] = np.arange(len(slots))
        column = columns[owner]
        hit = (column >= 0).nonzero()[0]
        return variant[hit], column[hit], impacts[hit], numbers[hit] & FIELD_MASK

    def _had_by(self, slots: Array) -> tuple[Array, Array, Array, Array]:
        """The same from the words of these slots."""
        index, reading = self.index, self.reading
        said: Array = np.full(len(index.postings) + 1, -1, np.int16)  # the last one stands for "no word"
        said[reading.terms] = reading.words
        keys, impacts = unpacked(*[index.rows[slot] for slot in slots.tolist()])
        found = said[keys >> FIELD_BITS]
        hit = (found >= 0).nonzero()[0]
        variant: Array = found[hit]
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


def _highest(values: Array, most: int) -> Array:
    """The places of the highest `most` in order, none of 0 or less."""
    least = 0.0
    if len(values) > 4096:  # what a sample says of it is very likely enough, and leaves little to look at
        sample = values[:: len(values) // 1024]
        wanted = most * len(sample) / len(values)
        enough = min(len(sample), int(wanted + 3 * wanted**0.5) + 8)
        least = float(np.partition(sample, -enough)[-enough])
    picked: Array = (values > least).nonzero()[0]
    if len(picked) < most and least > 0.0:
        picked = (values > 0).nonzero()[0]
    if len(picked) > most:
        picked = picked[values[picked].argpartition(len(picked) - most)[len(picked) - most :]]
        picked.sort()
    return picked


__all__ = ["Candidates"]
