"""What is measured of a candidate: numbers between 0 and 1 or so, which the weights add up to a score.

A request is read in several ways: as a whole, and clause by clause, since each may need a tool of its own. Each way
measures every candidate by the same features, so what holds of requests for one tool holds of those for several.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import or_
from typing import Any, Final, TypeAlias

import numpy as np

from .candidates import Candidates
from .contents import BITS, pairs_of, signature
from .index import FIELD_BITS, TELLING
from .reading import Reading
from .request import CLAUSES_OF

Array: TypeAlias = np.ndarray[Any, Any]

NAMES: Final = (
    "coverage", "only in parameters", "exact words", "telling words", "tool covered", "description covered",
    "neighbours", "letters of name", "meaning", "best meaning", "model", "best model",
)  # fmt: skip


def measure(found: Candidates, slots: Array, near: Array | None = None) -> Array:
    """For each way to read the request and each of these slots a row of features (see NAMES); `near` as in
    Candidates.find."""
    index, reading = found.index, found.reading
    ways, terms, count = reading.ways, len(reading.worth), len(slots)
    variant, column, impacts, fields = found.matches(slots)
    likeness = reading.likeness[variant]
    told, described, in_parameters = _OF_FIELDS.take(fields, axis=1)
    cell = reading.places[variant] * count + column
    heard: Array = np.zeros((5, terms * count), np.float32)
    heard[0, cell] = likeness
    heard[1, cell] = in_parameters * likeness
    # Not where the name or the description says it as well, be it written otherwise (`disk type`, `disk_type`).
    heard[1, cell[told * likeness == heard[0, cell]]] = 0
    heard[3, cell] = likeness * impacts
    heard[4, cell] = described * likeness
    heard[2] = heard[0] == 1.0
    heard = heard.reshape(5, terms, count)
    out: Array = np.zeros((len(NAMES), len(ways), count), np.float32)
    inside = reading.inside.astype(np.float32)
    out[:3] = (ways / np.maximum(reading.said, 1e-30)[:, None]) @ heard[:3]
    # What few of the candidates have tells between them, however many tools have it.
    rare = np.log((count + 1) / (heard[0].sum(1) + 0.5)) * reading.weights
    telling = (inside * np.maximum(rare, 0)) @ heard[3]
    out[3] = telling / np.maximum(telling.max(1, keepdims=True, initial=0.0), 1e-6)
    out[4] = _tool_covered(reading, reading.words[variant], column, reading.rare[variant] * told, count)
    out[4] /= index.telling(slots)
    out[5] = inside @ heard[4] / (index.described[slots] + 3.0)
    _letters(found, slots, out)
    out[8] = reading.way_vectors @ index.vectors[slots].T
    out[9] = out[8] - out[8].max(1, keepdims=True, initial=0.0)
    if near is not None:
        out[10] = near[slots]
        out[11] = out[10] - float(near.max(initial=0.0))
    return out.transpose(1, 2, 0)


def _tool_covered(reading: Reading, word: Array, column: Array, rare: Array, count: int) -> Array:
    """How much of what a tool's name and description say each way says, the rarer words counting more: of each match
    the word as in Reading.words, the tool, and what the word tells there."""
    alike: Array = np.zeros((len(reading.inside), len(reading.terms)), np.float32)
    way, variant = reading.inside[:, reading.places].nonzero()
    alike[way, reading.words[variant]] = reading.likeness[variant]  # of the same word the most alike comes last
    had: Array = np.zeros((len(reading.terms), count), np.float32)
    had[word, column] = rare
    covered: Array = alike @ had
    return covered


def _letters(found: Candidates, slots: Array, out: Array) -> None:
    """The pairs of neighbouring words that each way shares with a tool, and how much of its name's letters."""
    index = found.index
    marks, pairs = _asked(found.reading)
    rows = b"".join([bits.to_bytes(BITS // 8) for bits in (*marks, *pairs)])
    asked: Array = np.frombuffer(rows, np.uint64).reshape(2, len(marks), -1)
    asked = asked.transpose(0, 2, 1).reshape(2 * BITS // 64, len(marks))
    theirs = index.marks.take(slots, axis=0).T.copy()
    shared = np.bitwise_count(theirs[:, None] & asked[:, :, None])
    alike = shared.reshape(2, BITS // 64, len(marks), len(slots)).sum(1, np.uint16)
    most = [[min(bits.bit_count() + 1, 8)] for bits in pairs]
    out[6] = alike[1] / np.array(most, np.float32)
    out[7] = alike[0] / index.trigram_counts[slots]


def _asked(reading: Reading) -> tuple[list[int], list[int]]:
    """The bits of the trigrams, and those of the pairs of words, that each way to read the request has."""
    ways, terms = len(reading.inside), reading.request.terms
    marks, pairs = [0] * ways, [0] * ways
    first = int(ways > 1)  # the way that is the first clause; before it the whole, where that is another one
    for term, bits in zip(terms, reading.letters, strict=True):
        for clause in CLAUSES_OF[term.clauses] if bits else ():
            marks[clause + first] |= bits
    for a, b in reading.request.pairs:
        bits = _pair(terms[a].stem, terms[b].stem)
        for clause in CLAUSES_OF[terms[a].clauses & terms[b].clauses]:
            pairs[clause + first] |= bits
    if first:
        marks[0], pairs[0] = reduce(or_, marks), reduce(or_, pairs)
    return marks, pairs


@lru_cache(maxsize=50_000)
def _pair(first: str, second: str) -> int:
    return signature(pairs_of([first, second]))


# By the bits of the fields whether a word is in the name or the description, in the description, in parameters.
_OF_FIELDS: Final[Array] = np.array(
    [[bits & some > 0 for bits in range(1 << FIELD_BITS)] for some in (TELLING, 2, 12)], np.float32
)


__all__ = ["NAMES", "measure"]
