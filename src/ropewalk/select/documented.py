"""The documented strategies: a score between 0 and 1 for every slot.

EXACT looks for the request as a stretch of name and description, FUZZY for words within two slips, SEMANTIC compares
the weighted words of both, INTENT goes from keywords to an intent to the tools named for it; LEGACY_HYBRID adds the
four up, 0.35, 0.25, 0.25 and 0.15. `why` says what speaks for a result. To add a strategy, add its function to
STRATEGIES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache, reduce
from operator import and_, or_
from typing import Any, Final, TypeAlias

import numpy as np

from ..errors import InvalidInput, Problem
from ..frozen import dataclass
from ..values import Json
from .card import Card
from .explanation import fields_of
from .index import FIELD_BITS, FIELD_MASK, Index, unpacked
from .request import Request
from .text import normalised, stemmer, words

Array: TypeAlias = np.ndarray[Any, Any]

SHARES: Final = {"exact": 0.35, "fuzzy": 0.25, "semantic": 0.25, "intent": 0.15}
MOST_SLIPS: Final = 2
_NAME, _DESCRIPTION = 1, 2  # bits of the fields
_NAME_AND_DESCRIPTION: Final = _NAME | _DESCRIPTION


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
    """A request, what it wants done, and the index and table it is asked of. What is worked out once stays here: the
    scores by strategy (`scored`) and like words (`within_two_slips`)."""

    index: Index
    request: Request
    intents: Mapping[str, Intent]
    intent: str | None
    near: Array | None = None
    scores: dict[str, Array] = field(default_factory=dict)
    alike: dict[str, dict[int, float]] = field(default_factory=dict)


def table_of(intents: object) -> Mapping[str, Intent]:
    """A table of intents as a user gave it; InvalidInput names everything that is wrong with it."""
    if not isinstance(intents, Mapping):
        what = f"must be a table {{name: Intent(keywords, tools)}}, not {type(intents).__name__}"
        raise InvalidInput([Problem(path="intents", message=what)])
    problems: list[Problem] = []
    for name, meant in intents.items():
        if not isinstance(name, str) or not isinstance(meant, Intent):
            what = f"must be an Intent(keywords, tools) by its name, not {meant!r}"
            problems.append(Problem(path=f"intents.{name}", message=what))
            continue
        for what, given in (("keywords", meant.keywords), ("tools", meant.tools)):
            if isinstance(given, str) or not all(isinstance(word, str) for word in given):
                problems.append(Problem(path=f"intents.{name}.{what}", message="must be a tuple of strings"))
    if problems:
        raise InvalidInput(problems)
    return dict(intents)


def detect(request: Request, intents: Mapping[str, Intent]) -> str | None:
    """The intent most of whose keywords a request has; the first of the table among equals, None without any."""
    said = request.stems
    hits: dict[str, int] = {}
    for name, intent in intents.items():
        single, phrases = _stems_of(tuple(intent.keywords))
        hits[name] = len(single & said) + (sum([phrase <= said for phrase in phrases]) if phrases else 0)
    best = max(hits, key=hits.__getitem__, default=None)
    return best if best is not None and hits[best] else None


@lru_cache(maxsize=256)
def _stems_of(keywords: tuple[str, ...]) -> tuple[frozenset[str], tuple[frozenset[str], ...]]:
    """The stems of those keywords that are one word; and of each that is several, all of which a request must have."""
    stem = stemmer()
    phrases = {frozenset(stem(word) for word in keyword.lower().split()) for keyword in keywords}
    single = [phrase for phrase in phrases if len(phrase) == 1]
    return frozenset().union(*single), tuple(phrase for phrase in phrases if len(phrase) > 1)


def exact(question: Question) -> Array:
    """1 for the name itself, 0.9 for a part of a name, 0.7 for a part of a description."""
    index = question.index
    scores = np.zeros(index.size, np.float32)
    wanted = _stretch(question)
    if wanted:
        for slot, card in enumerate(index.cards):
            if card is not None:
                scores[slot] = _exactly(wanted, card)[0]
    return scores


def _stretch(question: Question) -> str:
    return _flat(question.request.text)


def _flat(text: str) -> str:
    """A text as EXACT compares it: whatever stands between its words."""
    return " ".join(text.lower().split())


def _exactly(wanted: str, card: Card) -> tuple[float, int]:
    """How well a tool has a stretch of text, and the bit of the field that has it."""
    name, joined = _flat(normalised(card.name)), wanted.replace(" ", "")
    if wanted == name or wanted == card.key.lower():
        return 1.0, _NAME
    if wanted in name or (len(joined) > 2 and joined in name.replace("_", "").replace("-", "")):
        return 0.9, _NAME
    return (0.7, _DESCRIPTION) if wanted in _flat(normalised(card.description)) else (0.0, 0)


def fuzzy(question: Question) -> Array:
    """The share of the request's words that name or description have, give or take two slips: 1 for the word itself,
    0.8 with one slip, 0.6 with two."""
    index = question.index
    scores = np.zeros(index.size, np.float32)
    for found in within_two_slips(question).values():
        best = np.zeros(index.size, np.float32)
        for number, likeness in found.items():
            slots = _having(question, number)
            best[slots] = np.maximum(best[slots], likeness)
        scores += best
    return scores / max(1, len(question.request.terms))


def within_two_slips(question: Question) -> dict[str, dict[int, float]]:
    """By word of the request, the words of the tools within Levenshtein distance 2, with how alike they are. Of a word
    at least one letter stays; pairs of characters of scripts without spaces are no words."""
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    index, alike = question.index, question.alike
    if not alike and question.request.terms:
        stems, numbers = index.spelling.stems, index.terms
        known = list(stems)
        for term in question.request.terms:
            found = alike.setdefault(term.plain, {})
            if term.stem in numbers:
                found[numbers[term.stem]] = 1.0
            if not known or (len(term.plain) < 3 and not term.plain.isascii()):
                continue
            (slips,) = process.cdist(
                [term.plain], known, scorer=Levenshtein.distance, score_cutoff=MOST_SLIPS, dtype=np.uint16
            )
            for place in np.flatnonzero(slips <= MOST_SLIPS).tolist():
                word, count = known[place], int(slips[place])
                number = numbers[stems[word]]
                if count < max(len(word), len(term.plain)):
                    found[number] = max(found.get(number, 0.0), 1.0 - 0.2 * count)
    return alike


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
            both[_having(question, number)] += rarity
    either = asked + _told(index) - both
    return np.where(either > 0, both / np.maximum(either, 1e-6), 0.0).astype(np.float32)


def intent(question: Question) -> Array:
    """1 where the name has a word for the request's intent, or the id is one for it, 0.5 where the description has."""
    index = question.index
    scores = np.zeros(index.size, np.float32)
    scores[[index.slots[text] for text in _named(question) if text in index.slots]] = 1.0
    for numbers in _doing(question):
        fields: Array = np.full(index.size, _NAME | _DESCRIPTION, np.int32)
        for number in numbers:
            having, _ = unpacked(index.postings[number])
            those: Array = np.zeros(index.size, np.int32)
            those[having >> FIELD_BITS] = having & FIELD_MASK
            fields &= those
        value = np.where(fields & _NAME, 1.0, np.where(fields & _DESCRIPTION, 0.5, 0.0))
        scores = np.maximum(scores, value.astype(np.float32))
    return scores


def _named(question: Question) -> tuple[str, ...]:
    """What the table names for the request's intent: words of names, or ids."""
    return question.intents[question.intent].tools if question.intent is not None else ()


def _doing(question: Question) -> list[list[int]]:
    """What tools for the request's intent are called: the words of each name, all of which a tool must have."""
    found: list[list[int]] = []
    for text in _named(question):
        wholes = {word.start: word.stem for word in words(normalised(text))}  # of several pieces the whole comes last
        numbers = [question.index.terms.get(stem) for stem in wholes.values()]
        if numbers and None not in numbers:
            found.append([number for number in numbers if number is not None])
    return found


def legacy_hybrid(question: Question) -> Array:
    """The four together, as documented."""
    index = question.index
    total = np.zeros(index.size, np.float32)
    for name, share in SHARES.items():
        total += share * scored(question, name)
    return total


STRATEGIES: Final[dict[str, Callable[[Question], Array]]] = {
    "exact": exact,
    "fuzzy": fuzzy,
    "semantic": semantic,
    "intent": intent,
    "legacy_hybrid": legacy_hybrid,
}


def scored(question: Question, strategy: str) -> Array:
    """The score of each slot by a strategy."""
    known = question.scores.get(strategy)
    if known is None:
        known = question.scores[strategy] = STRATEGIES[strategy](question)
    return known


def why(question: Question, strategy: str, slot: int) -> dict[str, Json]:
    """What speaks for a tool: the request's words it has, how alike, in which fields, and what each strategy adds."""
    shares = SHARES if strategy == "legacy_hybrid" else {strategy: 1.0}
    having = question.index.fields(slot)
    found: dict[str, tuple[float, int]] = {}
    features: dict[str, Json] = {}
    for name, share in shares.items():
        value = float(scored(question, name)[slot])
        if value > 0:
            features[name] = round(share * value, 3)
            for word, likeness, bits in _speaking(question, name, slot, having):
                before = found.get(word, (0.0, 0))
                found[word] = (max(before[0], likeness), before[1] | bits)
    everywhere = 0
    terms: dict[str, Json] = {}
    for word, (likeness, bits) in found.items():
        terms[word] = {"likeness": round(likeness, 2), "fields": fields_of(bits)}
        everywhere |= bits
    return {"strategy": strategy, "fields": fields_of(everywhere), "terms": terms, "features": features}


def _speaking(question: Question, strategy: str, slot: int, having: dict[int, int]) -> list[tuple[str, float, int]]:
    """What a strategy goes by in a tool: words of the request, how alike, and the bits of the fields."""
    index, terms = question.index, question.request.terms
    if strategy == "exact":
        card, wanted = index.cards[slot], _stretch(question)
        return [(wanted, 1.0, _exactly(wanted, card)[1])] if card is not None else []
    found: list[tuple[str, float, int]] = []
    if strategy == "fuzzy":
        for word, alike in within_two_slips(question).items():
            said = [(like, bits) for n, like in alike.items() if (bits := having.get(n, 0) & _NAME_AND_DESCRIPTION)]
            found += [(word, like, bits) for like, bits in said]
    elif strategy == "semantic" and question.near is None:
        for term in terms:
            number = index.terms.get(term.stem)
            bits = having.get(number, 0) & _NAME_AND_DESCRIPTION if number is not None else 0
            found += [(term.plain, 1.0, bits)] if bits else []
    elif strategy == "intent" and question.intent is not None:
        single, phrases = _stems_of(tuple(question.intents[question.intent].keywords))
        keywords = single.union(*(phrase for phrase in phrases if phrase <= question.request.stems))
        both = [reduce(and_, (having.get(n, 0) for n in name), _NAME_AND_DESCRIPTION) for name in _doing(question)]
        bits = reduce(or_, both, 0)
        found += [(term.plain, 1.0, bits) for term in terms if term.stem in keywords]
    return found


def _having(question: Question, number: int) -> Array:
    """The slots whose name or description has a word."""
    having, _ = unpacked(question.index.postings[number])
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
