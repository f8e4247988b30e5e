"""The features of a candidate: how well it fits each way to read a request, one function for each feature.

`Evidence` reads once what several features need. A feature returns an array by way and candidate; `measure_features`
puts the arrays together for `hybrid.py`.

To add a feature, write its function, add it to FEATURES, and fit the weights again with `bench/select_fit.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache, reduce
from operator import or_
from typing import Any, Final, TypeAlias

import numpy as np

from .action_sense import AGREEMENT, request_senses
from .candidates import Candidates
from .index import BITS, FIELD_BITS, pairs_of, signature
from .query import CLAUSES_OF
from .reading import Reading
from .word_index import DESCRIPTION, NAME_OR_DESCRIPTION

Array: TypeAlias = np.ndarray[Any, Any]

_AGREEMENT: Final[Array] = np.array(AGREEMENT, np.float32)
# Shares of a request that the best tool says in words, from which on a model counts once, and up to which twice.
WELL_SAID: Final = 0.7
HARDLY_SAID: Final = 0.1
MAX_PAIRS: Final = 8  # a clause with more pairs of words is measured as if it had these
# By the bits of the fields whether a word is in the name or the description, in the description, in parameters.
_FIELD_FLAGS: Final[Array] = np.array(
    [[bits & some > 0 for bits in range(1 << FIELD_BITS)] for some in (NAME_OR_DESCRIPTION, DESCRIPTION, 12)],
    np.float32,
)


class Word(IntEnum):
    """The rows of `Evidence.words`: what each word of the request is worth in each candidate."""

    LIKENESS = 0
    ONLY_IN_PARAMETERS = 1  # the likeness, where neither the name nor the description has the word
    EXACT = 2  # 1 where the candidate has the word itself
    IMPACT = 3  # the likeness times the impact of the word there
    DESCRIBED = 4  # the likeness, where the description has the word


class Shared(IntEnum):
    """The rows of `Evidence.shared`: how much of their spelling a way and a candidate share."""

    TRIGRAMS = 0
    PAIRS = 1  # of neighbouring words


class Evidence:
    """The words, spelling and meaning that a request shares with its candidates."""

    # `has_word`: By way and word of the request, 1 if the way has the word.
    # `word_shares`: By way and word of the request, the share of the word in the weight of the way.
    # `words`: By Word, word of the request and candidate.
    # `covered`: By way and candidate, the rarities of the words of a name and a description that the way has.
    # `shared`: By Shared, way and candidate, the number of shared bits.
    # `most_pairs`: By way, the number of pairs of words that would be all of it.
    # `meaning`: By way and candidate, the similarity in meaning.
    # `model`, `best_model`: By candidate, the similarity that a model gives, and the highest of any tool.

    def __init__(self, candidates: Candidates, slots: Array, similarity_by_model: Array | None) -> None:
        self.index, self.reading, self.slots = candidates.index, candidates.reading, slots
        self.has_word: Array = self.reading.has_word.astype(np.float32)
        self.word_shares: Array = self.reading.way_weights / np.maximum(self.reading.way_totals, 1e-30)[:, None]
        self._match_words(candidates)
        self._match_spelling()
        self.meaning: Array = self.reading.way_vectors @ self.index.vectors[slots].T
        self.model: Array = np.zeros(len(slots), np.float32)
        self.best_model = 0.0
        if similarity_by_model is not None:
            # The less of the request the best tool says in words, the more the model counts.
            said = float(self.share_of_words(Word.LIKENESS).max(initial=0.0))
            emphasis = 1 + min(1.0, max(0.0, (WELL_SAID - said) / (WELL_SAID - HARDLY_SAID)))
            self.model = similarity_by_model[slots] * np.float32(emphasis)
            self.best_model = float(similarity_by_model.max(initial=0.0)) * emphasis

    def _match_words(self, candidates: Candidates) -> None:
        """Find the words of the request in each candidate, and those of each candidate in the request."""
        reading, count = self.reading, len(self.slots)
        variant, column, impacts, fields = candidates.matches(self.slots)
        likeness = reading.likeness[variant]
        in_name_or_description, described, in_parameters = _FIELD_FLAGS.take(fields, axis=1)
        cell = reading.positions[variant] * count + column
        words: Array = np.zeros((len(Word), len(reading.word_weights) * count), np.float32)
        words[Word.LIKENESS][cell] = likeness
        words[Word.ONLY_IN_PARAMETERS][cell] = in_parameters * likeness
        # Not where the name or the description says it as well, be it written otherwise (`disk type`, `disk_type`).
        said_elsewhere = in_name_or_description * likeness == words[Word.LIKENESS][cell]
        words[Word.ONLY_IN_PARAMETERS][cell[said_elsewhere]] = 0
        words[Word.EXACT] = words[Word.LIKENESS] == 1.0
        words[Word.IMPACT][cell] = likeness * impacts
        words[Word.DESCRIBED][cell] = described * likeness
        self.words: Array = words.reshape(len(Word), len(reading.word_weights), count)
        # Of several variants of a word, the way has it as well as the most alike, which comes last.
        alike: Array = np.zeros((len(reading.has_word), len(reading.term_numbers)), np.float32)
        way, had = reading.has_word[:, reading.positions].nonzero()
        alike[way, reading.last_variant[had]] = reading.likeness[had]
        rarity: Array = np.zeros((len(reading.term_numbers), count), np.float32)
        rarity[reading.last_variant[variant], column] = reading.rarity[variant] * in_name_or_description
        self.covered: Array = alike @ rarity

    def _match_spelling(self) -> None:
        """Count the trigrams and the pairs of words that each way shares with each candidate."""
        trigrams, pairs = _request_bits(self.reading)
        rows = b"".join([bits.to_bytes(BITS // 8) for bits in (*trigrams, *pairs)])
        request_bits: Array = np.frombuffer(rows, np.uint64).reshape(len(Shared), len(pairs), -1)
        request_bits = request_bits.transpose(0, 2, 1).reshape(len(Shared) * BITS // 64, len(pairs))
        tool_bits = self.index.signatures.take(self.slots, axis=0).T.copy()
        shared = np.bitwise_count(tool_bits[:, None] & request_bits[:, :, None])
        self.shared: Array = shared.reshape(len(Shared), BITS // 64, len(pairs), len(self.slots)).sum(1, np.uint16)
        self.most_pairs: Array = np.array([[min(bits.bit_count() + 1, MAX_PAIRS)] for bits in pairs], np.float32)

    def share_of_words(self, row: Word) -> Array:
        """Return the share of each way, by the weights of its words, that a row of `words` says."""
        share: Array = self.word_shares @ self.words[row]
        return share


def _request_bits(reading: Reading) -> tuple[list[int], list[int]]:
    """Return the bits of the trigrams and of the word pairs of each way to read the request."""
    ways, terms = len(reading.has_word), reading.request.terms
    trigrams, pairs = [0] * ways, [0] * ways
    first = int(ways > 1)  # the way that is the first clause; before it the whole, where that is another one
    for term, bits in zip(terms, reading.trigram_bits, strict=True):
        for clause in CLAUSES_OF[term.clauses] if bits else ():
            trigrams[clause + first] |= bits
    for a, b in reading.request.pairs:
        bits = _pair_signature(terms[a].stem, terms[b].stem)
        for clause in CLAUSES_OF[terms[a].clauses & terms[b].clauses]:
            pairs[clause + first] |= bits
    if first:
        trigrams[0], pairs[0] = reduce(or_, trigrams), reduce(or_, pairs)
    return trigrams, pairs


@lru_cache(maxsize=50_000)
def _pair_signature(first: str, second: str) -> int:
    return signature(pairs_of([first, second]))


def _coverage(evidence: Evidence) -> Array:
    return evidence.share_of_words(Word.LIKENESS)


def _only_in_parameters(evidence: Evidence) -> Array:
    return evidence.share_of_words(Word.ONLY_IN_PARAMETERS)


def _exact_words(evidence: Evidence) -> Array:
    return evidence.share_of_words(Word.EXACT)


def _telling_words(evidence: Evidence) -> Array:
    """Return the impacts of words that few candidates have, as a share of the best candidate's."""

    # A word that few candidates have separates them, however many other tools have it.
    reading, likeness = evidence.reading, evidence.words[Word.LIKENESS]
    rarity = np.log((likeness.shape[1] + 1) / (likeness.sum(1) + 0.5)) * reading.weights
    impacts = (evidence.has_word * np.maximum(rarity, 0)) @ evidence.words[Word.IMPACT]
    share: Array = impacts / np.maximum(impacts.max(1, keepdims=True, initial=0.0), 1e-6)
    return share


def _tool_covered(evidence: Evidence) -> Array:
    """Return the share of a tool's name and description that a way has, rarer words counting more."""
    share: Array = evidence.covered / evidence.index.informativeness(evidence.slots)
    return share


def _description_covered(evidence: Evidence) -> Array:
    """Return the share of a tool's description that a way has; short descriptions are not covered too easily."""
    words = evidence.has_word @ evidence.words[Word.DESCRIBED]
    share: Array = words / (evidence.index.description_lengths[evidence.slots] + 3.0)
    return share


def _neighbours(evidence: Evidence) -> Array:
    """Return the share of the pairs of neighbouring words of a way that the tool has, too."""
    share: Array = evidence.shared[Shared.PAIRS] / evidence.most_pairs
    return share


def _letters_of_name(evidence: Evidence) -> Array:
    """Return the share of the trigrams of a tool's name that a way has."""
    share: Array = evidence.shared[Shared.TRIGRAMS] / evidence.index.trigram_counts[evidence.slots]
    return share


def _meaning(evidence: Evidence) -> Array:
    return evidence.meaning


def _best_meaning(evidence: Evidence) -> Array:
    """Return how far a tool is behind the candidate that is nearest in meaning."""
    distance: Array = evidence.meaning - evidence.meaning.max(1, keepdims=True, initial=0.0)
    return distance


def _model(evidence: Evidence) -> Array:
    return evidence.model


def _best_model(evidence: Evidence) -> Array:
    """Return how far a tool is behind the tool that the model finds most similar."""
    distance: Array = evidence.model - evidence.best_model
    return distance


def _action(evidence: Evidence) -> Array:
    """Return how well what a tool does fits what a way wants done; 0 where either has no sense."""
    senses: Array = np.array([*map(request_senses, evidence.reading.request.clause_texts)], np.float32)
    if len(senses) > 1:
        senses = np.concatenate((senses.mean(0, keepdims=True), senses))  # the whole comes first
    fit: Array = senses @ _AGREEMENT @ evidence.index.senses[evidence.slots].T
    return fit


def _phrases(evidence: Evidence) -> Array:
    """Return how like the usage phrases of a tool are; 0 where it has none."""
    return evidence.index.phrases.measure(evidence.reading, evidence.slots)


FEATURES: Final[tuple[tuple[str, Callable[[Evidence], Array]], ...]] = (
    ("coverage", _coverage),
    ("only in parameters", _only_in_parameters),
    ("exact words", _exact_words),
    ("telling words", _telling_words),
    ("tool covered", _tool_covered),
    ("description covered", _description_covered),
    ("neighbours", _neighbours),
    ("letters of name", _letters_of_name),
    ("meaning", _meaning),
    ("best meaning", _best_meaning),
    ("model", _model),
    ("best model", _best_model),
    ("action", _action),
    ("phrases", _phrases),
)
FEATURE_NAMES: Final = tuple(name for name, _ in FEATURES)


def measure_features(candidates: Candidates, slots: Array, similarity_by_model: Array | None = None) -> Array:
    """Return the features of each slot for each way to read the request."""
    evidence = Evidence(candidates, slots, similarity_by_model)
    table: Array = np.empty((len(FEATURES), *evidence.meaning.shape), np.float32)
    for row, (_, measure) in zip(table, FEATURES, strict=True):
        row[...] = measure(evidence)
    return table.transpose(1, 2, 0)
