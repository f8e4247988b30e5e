"""The requests that tools answered before, ready to be compared with another."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from ..journal.use import ToolUse
from .lexicon import lexicon, products
from .request import Request, read_request

Array: TypeAlias = np.ndarray[Any, Any]

MOST: Final = 50_000  # requests of all tools that are compared with


class Memory:
    """The requests remembered, ready to be compared with another."""

    def __init__(self, uses: list[ToolUse]) -> None:
        good = sorted((use for use in uses if use.successes), key=lambda use: -use.at)[:MOST]
        self.tools = list(dict.fromkeys(use.tool for use in good))
        place = {tool: n for n, tool in enumerate(self.tools)}
        self.owner: Array = np.array([place[use.tool] for use in good], np.int32)
        vectors, having = [], dict[str, list[int]]()
        for row, use in enumerate(good):
            terms = read_request(use.request).terms
            vectors.append(lexicon().vector([(term.plain, term.weight) for term in terms]))
            for term in terms:
                if term.weight > 0.2:
                    having.setdefault(term.stem, []).append(row)
        self.vectors: Array = np.stack(vectors) if vectors else np.zeros((0, lexicon().size), np.float32)
        self.having = {stem: np.array(rows, np.int32) for stem, rows in having.items()}
        count = len(good)
        self.rarity = {stem: float(np.log(1 + count / len(rows))) for stem, rows in self.having.items()}
        self.length: Array = np.zeros(count, np.float32)
        for stem, rows in self.having.items():
            self.length[rows] += self.rarity[stem]

    def like(self, request: Request) -> dict[str, float]:
        if not self.tools:
            return {}
        terms = request.terms
        shared: Array = np.zeros(len(self.owner), np.float32)
        total = 0.0
        unknown = max(self.rarity.values(), default=1.0)
        for term in terms:
            rows, rarity = self.having.get(term.stem), self.rarity.get(term.stem, unknown) * term.weight
            total += rarity
            if rows is not None:
                shared[rows] += rarity
        words = shared / (total + self.length - shared + 1e-6)
        meaning = products(self.vectors, lexicon().vector([(term.plain, term.weight) for term in terms]))
        both = np.clip(0.5 * np.sqrt(words) + 0.5 * meaning, 0.0, 1.0)
        best: Array = np.zeros(len(self.tools), np.float32)
        np.maximum.at(best, self.owner, both)
        return {self.tools[n]: float(best[n]) for n in np.flatnonzero(best > 0)}
