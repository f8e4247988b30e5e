"""The documented strategies: a score between 0 and 1 for every slot.

EXACT looks for the request as a stretch of name and description, FUZZY for words within two slips, SEMANTIC compares
the weighted words of both, INTENT goes from keywords to an intent to the tools named for it; LEGACY_HYBRID adds the
four
up, 0.35, 0.25, 0.25 and 0.15. To add a strategy, add its function to STRATEGIES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from ..frozen import dataclass
from .index import FIELD_BITS, Index, unpacked
from .request import Request
from .text import normalised, stemmer, words

Array: TypeAlias = np.ndarray[Any, Any]

SHARES: Final = {"exact": 0.35, "fuzzy": 0.25, "semantic": 0.25, "intent": 0.15}
MOST_SLIPS: Final = 2
_NAME_AND_DESCRIPTION: Final = 3  # bits of the fields


@dataclass(frozen=True, slots=True)
class Intent:
    """What a request wants done: the words that tell it, and words of the names of tools that do it."""

    keywords: tuple[str, ...]
    tools: tuple[str, ...]


INTENTS: Final[Mapping[str, Intent]] = {
    "search": Intent(
        ("search", "find", "lookup", "query", "discover", "locate", "browse"),
        ("search", "find", "lookup", "query", "browse", "web_search"),
    ),
    "read": Intent(
        ("read", "get", "fetch", "view", "show", "list", "load", "open", "retrieve"),
        ("read", "get", "fetch", "view", "show", "list", "load", "retrieve"),
    ),
    "write": Intent(
        ("write", "create", "save", "store", "add", "insert", "make", "generate", "draft", "post"),
        ("write", "create", "save", "store", "add", "insert", "generate", "put"),
    ),
    "analyze": Intent(
        ("analyze", "analyse", "examine", "evaluate", "assess", "compare", "calculate", "summarize", "explain"),
        ("analyze", "analysis", "evaluate", "compare", "calculate", "summarize", "report"),
    ),
    "execute": Intent(
        ("execute", "run", "start", "launch", "invoke", "call", "trigger", "perform"),
        ("execute", "run", "start", "invoke", "call", "trigger", "command"),
    ),
    "manage": Intent(
        ("manage", "update", "delete", "remove", "edit", "modify", "configure", "organize", "move", "rename"),
        ("manage", "update", "delete", "remove", "edit", "set", "configure", "move", "rename"),
    ),
    "monitor": Intent(
        ("monitor", "watch", "track", "observe", "alert", "status", "check", "health"),
        ("monitor", "watch", "track", "status", "alert", "check", "health", "log"),
    ),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A request, what it wants done, and the index and table it is asked of."""

    index: Index
    request: Request
    intents: Mapping[str, Intent]
    intent: str | None
    near: Array | None = None


def detect(request: Request, intents: Mapping[str, Intent]) -> str | None:
    """The intent most of whose keywords a request has; the first of the table among equals, None without any."""
    said = request.stems
    hits = {name: len(_stems_of(intent.keywords) & said) for name, intent in intents.items()}
    best = max(hits, key=hits.__getitem__, default=None)
    return best if best is not None and hits[best] else None


@lru_cache(maxsize=256)
def _stems_of(keywords: tuple[str, ...]) -> frozenset[str]:
    stem = stemmer()
    return frozenset(stem(word.lower()) for word in keywords)


def exact(question: Question) -> Array:
    """1 for the name itself, 0.9 for a part of a name, 0.7 for a part of a description."""
    index = question.index
    wanted = " ".join(question.request.text.lower().split())
    scores = np.zeros(index.size, np.float32)
    if not wanted:
        return scores
    joined = wanted.replace(" ", "")
    for slot, card in enumerate(index.cards):
        if card is not None:
            name = normalised(card.name).lower()
            if wanted == name or wanted == card.key.lower():
                scores[slot] = 1.0
            elif wanted in name or (len(joined) > 2 and joined in name.replace("_", "").replace("-", "")):
                scores[slot] = 0.9
            elif wanted in normalised(card.description).lower():
                scores[slot] = 0.7
    return scores


def fuzzy(question: Question) -> Array:
    """The share of the request's words that name or description have, give or take two slips: 1 for the word itself,
    0.8 with one slip, 0.6 with two. A word of less than six letters may have one, of less than four none."""
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    index = question.index
    scores = np.zeros(index.size, np.float32)
    terms = question.request.terms
    if not terms or not index.terms:
        return scores
    known = list(index.terms)
    for term in terms:
        most = 0 if len(term.stem) < 4 else 1 if len(term.stem) < 6 else MOST_SLIPS
        slips = process.cdist([term.stem], known, scorer=Levenshtein.distance, score_cutoff=most, dtype=np.uint16)[0]
        best = np.zeros(index.size, np.float32)
        for place in np.flatnonzero(slips <= most).tolist():
            slots = _having(question, known[place])
            best[slots] = np.maximum(best[slots], 1.0 - 0.2 * float(slips[place]))
        scores += best
    return scores / len(terms)


def semantic(question: Question) -> Array:
    """The rarity of the words that both have over that of the words that either has (name and description); with a
    model, how like they are in meaning."""
    index = question.index
    if question.near is not None:
        return np.clip(question.near, 0.0, 1.0)
    both = np.zeros(index.size, np.float32)
    asked = 0.0
    for term in question.request.terms:
        number = index.terms.get(term.stem)
        rarity = index.rarity(index.frequency(number) if number is not None else 0)
        asked += rarity
        if number is not None:
            both[_having(question, term.stem)] += rarity
    either = asked + _told(index) - both
    return np.where(either > 0, both / np.maximum(either, 1e-6), 0.0).astype(np.float32)


def intent(question: Question) -> Array:
    """1 where the name has a word for the request's intent, 0.5 where the description does."""
    index = question.index
    scores = np.zeros(index.size, np.float32)
    meant = question.intents.get(question.intent) if question.intent is not None else None
    if meant is None:
        return scores
    for text in meant.tools:
        whole = words(normalised(text))[-1:]  # of a name of several words the whole, which comes last
        for stem in [word.stem for word in whole]:
            number = index.terms.get(stem)
            if number is not None:
                having, _ = unpacked(index.postings[number])
                slots, value = having >> FIELD_BITS, np.where(having & 1, 1.0, np.where(having & 2, 0.5, 0.0))
                scores[slots] = np.maximum(scores[slots], value)
    return scores


def legacy_hybrid(question: Question) -> Array:
    """The four together, as documented."""
    index = question.index
    total = np.zeros(index.size, np.float32)
    for name, share in SHARES.items():
        total += share * STRATEGIES[name](question)
    return total


STRATEGIES: Final[dict[str, Callable[[Question], Array]]] = {
    "exact": exact,
    "fuzzy": fuzzy,
    "semantic": semantic,
    "intent": intent,
    "legacy_hybrid": legacy_hybrid,
}


def _having(question: Question, stem: str) -> Array:
    """The slots whose name or description has a word."""
    index = question.index
    having, _ = unpacked(index.postings[index.terms[stem]])
    return having[(having & _NAME_AND_DESCRIPTION) > 0] >> FIELD_BITS


def _told(index: Index) -> Array:
    """By slot, the rarity of all words of name and description together; worked out anew when the index changed."""
    known = index.told
    if known is None or known[0] != index.version:
        total = np.zeros(index.size, np.float64)
        for posting in index.postings:
            having, _ = unpacked(posting)
            total[having[(having & _NAME_AND_DESCRIPTION) > 0] >> FIELD_BITS] += index.rarity(len(having))
        index.told = known = (index.version, total)
    return known[1]
