"""The requests that tools answered before, ready to be compared with another.

Each way to read a request (see features) asks the requests most like it, which vote for their tools by how like they
are; and it sees how much of it is words that a tool was asked with before. Requests that nothing remembered is like
move nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ..frozen import dataclass
from ..journal.use import ToolUse
from .lexicon import lexicon, products
from .request import Term, read_request

if TYPE_CHECKING:
    from .features import Reading

Array: TypeAlias = np.ndarray[Any, Any]

MOST: Final = 50_000  # requests of all tools that are compared with
ALL_WAYS: Final = 5_000  # up to so many each way to read a request is compared, above only the whole
NEIGHBOURS: Final = 10  # that vote
ALIKE: Final = 0.6  # as much that a vote counts in full
VOTED, COVERED, BEST_COVERED = 6.0, 3.0, 2.0  # what each is worth beside the weights of the features


@dataclass(frozen=True, slots=True)
class Recalled:
    """Of each tool that was asked before: what that adds to its value, by way, and how like its likest request is. The
    last value is that of every tool that was not."""

    tools: list[str]
    value: Array
    alike: Array


class Memory:
    """The requests remembered, ready to be compared with another."""

    def __init__(self, uses: list[ToolUse]) -> None:
        good = sorted((use for use in uses if use.successes), key=lambda use: -use.at)[:MOST]
        self.tools = list(dict.fromkeys(use.tool for use in good))
        place = {tool: n for n, tool in enumerate(self.tools)}
        self.owner: Array = np.array([place[use.tool] for use in good], np.int32)
        asked = [read_request(use.request).terms for use in good]
        vectors = [lexicon().vector([(term.plain, term.weight) for term in terms]) for terms in asked]
        self.vectors: Array = np.stack(vectors) if vectors else np.zeros((0, lexicon().size), np.float32)
        having: dict[str, list[tuple[int, float]]] = {}
        for row, terms in enumerate(asked):
            for term in terms:
                having.setdefault(term.stem, []).append((row, term.weight))
        self._unknown = _rarity(len(good), 1)
        self._new = _rarity(2 * len(self.tools), 1)
        self._rows: dict[str, tuple[Array, Array, float]] = {}  # of a word: the requests, its share in each, its rarity
        self._tools: dict[str, tuple[Array, float]] = {}  # of a word: the tools, its rarity among them
        length: Array = np.zeros(len(good), np.float32)
        for stem, both in having.items():
            rows, weights = np.array([row for row, _ in both]), np.array([weight for _, weight in both], np.float32)
            rarity = _rarity(len(good), len(rows))
            length[rows] += (rarity * weights) ** 2
            self._rows[stem] = rows, rarity * weights, rarity
            tools = np.unique(self.owner[rows])
            self._tools[stem] = tools, _rarity(len(self.tools), len(tools))
        length = np.sqrt(length) + 1e-6
        for rows, shares, _ in self._rows.values():
            shares /= length[rows]

    def recall(self, reading: Reading) -> Recalled | None:
        """What the requests remembered say of another; None when they say nothing."""
        if not self.tools:
            return None
        ways = len(reading.ways) if len(self.owner) <= ALL_WAYS else 1
        inside = reading.inside[:ways].astype(np.float32)
        both = self._alike(reading, inside)
        alike: Array = np.zeros((ways, len(self.tools)), np.float32)
        for way, like in zip(alike, both, strict=True):
            np.maximum.at(way, self.owner, like)
        covered = self._covered(reading.request.terms, inside)
        value = VOTED * self._votes(both) + COVERED * covered
        value += BEST_COVERED * (covered - covered.max(1, keepdims=True))
        return Recalled(self.tools, np.broadcast_to(value, (len(reading.ways), value.shape[1])), alike.max(0))

    def _alike(self, reading: Reading, inside: Array) -> Array:
        """How like each request remembered is, by way: in words, the rarer counting more, and in meaning."""
        shared: Array = np.zeros((len(inside), len(self.owner)), np.float32)
        length: Array = np.zeros(len(inside), np.float32)
        for term, here in zip(reading.request.terms, inside.T, strict=True):
            known = self._rows.get(term.stem)
            worth = term.weight * (known[2] if known is not None else self._unknown)
            length += here * worth**2
            if known is not None:
                shared[:, known[0]] += here[:, None] * (worth * known[1])
        shared /= np.sqrt(length)[:, None] + 1e-6
        meaning = np.stack([products(self.vectors, way) for way in reading.way_vectors[: len(inside)]])
        both: Array = np.clip(0.5 * shared + 0.5 * meaning, 0.0, 1.0)
        return both

    def _votes(self, both: Array) -> Array:
        """The share of the votes of the likest requests that each tool gets, by way: of less than all where even these
        are little alike."""
        votes: Array = np.zeros((len(both), len(self.tools) + 1), np.float32)
        most = min(NEIGHBOURS, both.shape[1])
        for way, like in zip(votes, both, strict=True):
            nearest = np.argpartition(-like, most - 1)[:most]
            power = like[nearest] ** 2
            np.add.at(way, self.owner[nearest], power)
            way *= min(1.0, float(like[nearest].max()) / ALIKE) ** 2 / (float(power.sum()) or 1.0)
        return votes

    def _covered(self, terms: tuple[Term, ...], inside: Array) -> Array:
        """How much of each way is words that a tool was asked with before."""
        covered: Array = np.zeros((len(inside), len(self.tools) + 1), np.float32)
        total: Array = np.zeros(len(inside), np.float32)
        for term, here in zip(terms, inside.T, strict=True):
            tools, rarity = self._tools.get(term.stem, (None, self._new))
            total += here * (rarity * term.weight)
            if tools is not None:
                covered[:, tools] += here[:, None] * (rarity * term.weight)
        covered /= total[:, None] + 1e-6
        return covered


def _rarity(count: int, having: int) -> float:
    return float(np.log(1 + count / having))
