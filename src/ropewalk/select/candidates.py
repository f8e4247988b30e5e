"""Find the tools in the index that may answer a request: quickly, from words and meaning alone.

`rank` in `hybrid.py` begins with it, and measures only the candidates more closely. An array "by slot" has an element
for each slot of the index. A *variant* is a word of the index that stands for a word of the request (`Reading`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .index import FIELD_BITS, FIELD_MASK, Index, unpack_postings
from .lexicon import products
from .reading import Reading

Array: TypeAlias = np.ndarray[Any, Any]

MAX_POSTINGS: Final = 40_000  # postings that are added up; of more, those of the words worth most
MAX_POSTINGS_KEPT: Final = 15_000  # postings that are kept for `matches`; for more, it reads the words of the tools
# With more than twice as many tools, only the best ones are rated further:
MAX_RATED_BY_CLAUSE: Final = 1_000  # clause by clause, those with most words of the request
MAX_RATED_BY_MEANING: Final = 250  # by meaning, the best of those
MAX_TOOLS_BY_MEANING: Final = 20_000  # all tools are compared by meaning if few have a word, but not more than these
MAX_BY_PHRASES: Final = 16  # tools whose phrases are most like the request join the candidates
RESERVED_BY_MODEL: Final = 4  # one place in so many is reserved for the tools that a model finds most similar
RESERVED_BONUS: Final = 10.0  # is added to the rating of a tool with a reserved place; no rating is as high


class Matches(NamedTuple):
    """Matches of words of tools with words of a request: arrays of equal length, one element for each match."""

    variants: Array
    columns: Array
    impacts: Array
    fields: Array


class Postings(NamedTuple):
    """Postings of words of a request: arrays of equal length, one element for each posting."""

    variants: Array
    slots: Array
    impacts: Array
    numbers: Array


class Candidates:
    """Finds the candidates for a request in the index, and the words that they share with it."""

    # `hybrid.py` measures the features of the candidates and ranks them.

    def __init__(self, index: Index, reading: Reading) -> None:
        self.index, self.reading = index, reading
        self._postings_kept: Postings | None = None  # all postings of the request's words, unless they are too many
        self.last_matches = Matches(*[np.zeros(0, np.intp)] * 4)
        """The last result of `matches`."""

    def find(self, allowed: Array | None, limit: int, similarity_by_model: Array | None = None) -> Array:
        """Return the slots of the candidates, in order."""
        slots = self._find_by_words(allowed, limit, similarity_by_model)
        if not len(self.index.phrases):
            return slots
        likest = self.index.phrases.likest(self.reading, MAX_BY_PHRASES)
        found: Array = np.union1d(slots, likest if allowed is None else likest[allowed[likest]])
        return found

    def _find_by_words(self, allowed: Array | None, limit: int, similarity_by_model: Array | None) -> Array:
        """Return the slots of the tools that fit by words, by meaning and by a model, in order."""

        # Tools are rated by the words that they share with the request and with its best clause, and by meaning. Some
        # places are reserved for the best tools of each clause. With many tools only those with the most words are
        # rated further.
        if allowed is not None and int(allowed.sum()) <= limit:
            return np.flatnonzero(allowed)
        index, direction = self.index, self.reading.way_vectors[0]
        pool, rated, words = self._rate_by_words(allowed, similarity_by_model)
        meanings = max(MAX_RATED_BY_MEANING, limit)
        if len(rated) > 2 * meanings:
            best = _positions_of_highest(rated, meanings)
            pool, rated, words = best if pool is None else pool[best], rated[best], words[:, best]
        # Reserve places for the best tools of each clause.
        per_clause = limit // (len(words) + 1)
        if len(words) > 1 and len(rated) > per_clause > 0:
            reserved = words.argpartition(-per_clause, axis=1)[:, -per_clause:]
            rated[reserved[words[np.arange(len(words))[:, None], reserved] > 0]] += RESERVED_BONUS
        # Reserve places for the tools that a model finds most similar.
        if similarity_by_model is not None:
            by_model = _zero_unless_allowed(similarity_by_model, allowed)
            near = _positions_of_highest(by_model if pool is None else by_model[pool], limit // RESERVED_BY_MODEL)
            rated[near] += RESERVED_BONUS
        if pool is not None and len(pool) < meanings and index.size <= MAX_TOOLS_BY_MEANING:
            all_rated: Array = np.zeros(index.size)
            all_rated[pool] = rated
            pool, rated = None, all_rated
        # Meaning is compared for the pool, or for all tools if words found too few.
        if pool is None:
            similarity = _zero_unless_allowed(products(index.vectors[: index.size], direction), allowed)
        else:
            similarity = index.vectors[pool] @ direction
        best = _positions_of_highest(rated + 2 * _relative_to_best(similarity), limit)
        return best if pool is None else pool[best]

    def _rate_by_words(
        self, allowed: Array | None, similarity_by_model: Array | None
    ) -> tuple[Array | None, Array, Array]:
        """Return slots in order (None: all), their ratings by words and model, and their words of each clause."""
        index, reading = self.index, self.reading
        slots, worth, home = self._looked_up_postings()
        some: Array | None = None
        size = index.size
        if size > 2 * MAX_RATED_BY_CLAUSE:
            # Many tools: keep those with most words of the request, and number them anew as columns.
            rough = _zero_unless_allowed(np.bincount(slots, worth, size), allowed)
            if similarity_by_model is not None:
                by_model = _zero_unless_allowed(similarity_by_model, allowed)
                rough = _relative_to_best(rough) + _relative_to_best(by_model)
            some = _positions_of_highest(rough, MAX_RATED_BY_CLAUSE)
            columns: Array = np.full(size, -1, np.int32)
            size = len(some)
            columns[some] = np.arange(size)
            slots = columns[slots]
            hit = (slots >= 0).nonzero()[0]
            slots, worth, home = slots[hit], worth[hit], home[hit]
            allowed, similarity_by_model = None, None if similarity_by_model is None else similarity_by_model[some]
        if len(reading.way_weights) == 1:
            words = _zero_unless_allowed(np.bincount(slots, worth, size), allowed)[None]
            rated = 2 * _relative_to_best(words[0])
        else:
            rows = np.bincount(home * size + slots, worth, len(reading.way_weights) * size).reshape(-1, size)
            rows[1:] += rows[0]  # what several clauses have counts for all: some candidates more
            words = _zero_unless_allowed(rows[1:], allowed)
            # A tool counts by its best clause, and by all clauses in their shares.
            scale = 1 / np.maximum(words.max(1, initial=0.0), 1e-9)
            rated = (words * scale[:, None]).max(0) + (reading.shares[1:] * scale) @ words
        if similarity_by_model is not None:
            rated += 2 * _relative_to_best(_zero_unless_allowed(similarity_by_model, allowed))
        return some, rated, words

    def _looked_up_postings(self) -> tuple[Array, Array, Array]:
        """Return, for every posting of the request's words, its slot, its worth, and its clause (0: several)."""

        # With many postings only the words worth most are looked up.
        index, reading = self.index, self.reading
        lengths = index.frequencies(reading.term_numbers)
        variants: Array = np.arange(len(lengths), dtype=np.int16)
        value = reading.word_weights[reading.positions] * reading.likeness
        are_many = int(lengths.sum()) > MAX_POSTINGS
        if are_many:
            remaining, looked_up = MAX_POSTINGS, list[int]()
            for n in np.argsort(-value, kind="stable").tolist():
                if lengths[n] <= remaining or not looked_up:
                    looked_up.append(n)
                    remaining -= int(lengths[n])
            variants, lengths, value = variants[looked_up], lengths[looked_up], value[looked_up]
        postings = index.postings
        numbers, impacts = unpack_postings(*[postings[term] for term in reading.term_numbers[variants].tolist()])
        slots = (numbers >> FIELD_BITS).astype(np.intp)
        if not are_many and len(slots) <= MAX_POSTINGS_KEPT:
            self._postings_kept = Postings(variants.repeat(lengths), slots, impacts, numbers)
        home = reading.only_way[reading.positions[variants]]
        return slots, impacts * value.repeat(lengths), home.repeat(lengths)

    def matches(self, slots: Array) -> Matches:
        """Return every match of a word of these slots with a word of the request, the most similar last."""
        self.last_matches = (
            self._matches_from_postings(slots) if self._postings_kept else self._matches_from_tools(slots)
        )
        return self.last_matches

    def _matches_from_postings(self, slots: Array) -> Matches:
        """Return the matches of these slots from the postings that were looked up."""
        assert self._postings_kept is not None
        postings = self._postings_kept
        column_of_slot: Array = np.full(self.index.size, -1, np.intp)
        column_of_slot[slots] = np.arange(len(slots))
        columns = column_of_slot[postings.slots]
        hit = (columns >= 0).nonzero()[0]
        fields = postings.numbers[hit] & FIELD_MASK
        return Matches(postings.variants[hit], columns[hit], postings.impacts[hit], fields)

    def _matches_from_tools(self, slots: Array) -> Matches:
        """Return the matches of these slots from the words of the tools."""
        index, reading = self.index, self.reading
        # Keep the words of the tools that the request has, too.
        word_of_term: Array = np.full(len(index.postings) + 1, -1, np.int16)  # the last one stands for "no word"
        word_of_term[reading.term_numbers] = reading.last_variant
        keys, impacts = unpack_postings(*[index.words_of_slot[slot] for slot in slots.tolist()])
        word = word_of_term[keys >> FIELD_BITS]
        hit = (word >= 0).nonzero()[0]
        variant: Array = word[hit]
        # A word of the index may stand for several words of the request: then repeat its match for each.
        order = reading.last_variant.argsort(kind="stable")
        ordered = reading.last_variant[order]
        if len(order) and (ordered[1:] == ordered[:-1]).any():
            starts = ordered.searchsorted(variant)
            times = ordered.searchsorted(variant, side="right") - starts
            hit = hit.repeat(times)
            ends = times.cumsum()
            variant = order[np.arange(len(hit)) - (ends - times - starts).repeat(times)]
        # Variants are sorted by likeness, so this puts the most similar last.
        column = np.arange(len(slots)).repeat(index.word_counts[slots])[hit]
        later = variant.argsort(kind="stable")
        hit = hit[later]
        return Matches(variant[later], column[later], impacts[hit], keys[hit] & FIELD_MASK)


def _zero_unless_allowed(values: Array, allowed: Array | None) -> Array:
    """Return the values, with 0 for slots that are not allowed."""
    return values if allowed is None else np.where(allowed, values, 0)


def _relative_to_best(values: Array) -> Array:
    """Return the values divided by the highest one."""
    return values * (1 / max(float(values.max(initial=0.0)), 1e-9))


def _positions_of_highest(values: Array, limit: int) -> Array:
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
