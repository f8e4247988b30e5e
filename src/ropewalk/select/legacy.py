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
from ..fast_dataclass import dataclass
from ..values import Json
from .hybrid import allowed_tools, fields_of, keep_best, shape_results
from .index import FIELD_BITS, FIELD_MASK, Index, unpack_postings
from .options import Options
from .query import Request
from .text import normalised, stemmer, words
from .tool_card import Card
from .usage import Rate

Array: TypeAlias = np.ndarray[Any, Any]

SHARES: Final = {"exact": 0.35, "fuzzy": 0.25, "semantic": 0.25, "intent": 0.15}
MOST_SLIPS: Final = 2
_NAME, _DESCRIPTION = 1, 2  # bits of the fields
_NAME_AND_DESCRIPTION: Final = _NAME | _DESCRIPTION


@dataclass(frozen=True, slots=True)
class Intent:
    """An intent: the words of requests that have it, and the words of names of tools that serve it."""

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
    """A request with its action, its index and its table."""

    # It caches the scores by strategy (`scored`) and similar words (`within_two_slips`).

    index: Index
    request: Request
    intents: Mapping[str, Intent]
    intent: str | None
    near: Array | None = None
    scores: dict[str, Array] = field(default_factory=dict)
    alike: dict[str, dict[int, float]] = field(default_factory=dict)


def table_of(intents: object) -> Mapping[str, Intent]:
    """Read a table of intents from a user."""
    if not isinstance(intents, Mapping):
        message = f"must be a table {{name: Intent(keywords, tools)}}, not {type(intents).__name__}"
        raise InvalidInput([Problem(path="intents", message=message)])
    problems: list[Problem] = []
    for name, entry in intents.items():
        if not isinstance(name, str) or not isinstance(entry, Intent):
            message = f"must be an Intent(keywords, tools) by its name, not {entry!r}"
            problems.append(Problem(path=f"intents.{name}", message=message))
            continue
        for message, field_words in (("keywords", entry.keywords), ("tools", entry.tools)):
            if isinstance(field_words, str) or not all(isinstance(word, str) for word in field_words):
                problems.append(Problem(path=f"intents.{name}.{message}", message="must be a tuple of strings"))
    if problems:
        raise InvalidInput(problems)
    return dict(intents)


def detect(request: Request, intents: Mapping[str, Intent]) -> str | None:
    """Return the intent with the most keywords in a request, the first among equals; None without any."""
    stems = request.stems
    hits: dict[str, int] = {}
    for name, intent in intents.items():
        single, phrases = _stems_of(tuple(intent.keywords))
        hits[name] = len(single & stems) + (sum([phrase <= stems for phrase in phrases]) if phrases else 0)
    best = max(hits, key=hits.__getitem__, default=None)
    return best if best is not None and hits[best] else None


@lru_cache(maxsize=256)
def _stems_of(keywords: tuple[str, ...]) -> tuple[frozenset[str], tuple[frozenset[str], ...]]:
    """Return the stems of one-word keywords, and for each longer keyword its stems, all of which must occur."""
    stem = stemmer()
    phrases = {frozenset(stem(word) for word in keyword.lower().split()) for keyword in keywords}
    single = [phrase for phrase in phrases if len(phrase) == 1]
    return frozenset().union(*single), tuple(phrase for phrase in phrases if len(phrase) > 1)


def exact(question: Question) -> Array:
    """Score 1 for the name itself, 0.9 for a part of a name, 0.7 for a part of a description."""
    index = question.index
    scores = np.zeros(index.size, np.float32)
    text = _stretch(question)
    if text:
        for slot, card in enumerate(index.cards):
            if card is not None:
                scores[slot] = _exactly(text, card)[0]
    return scores


def _stretch(question: Question) -> str:
    return _flat(question.request.text)


def _flat(text: str) -> str:
    """Return a text as EXACT compares it, without the characters between its words."""
    return " ".join(text.lower().split())


def _exactly(text: str, card: Card) -> tuple[float, int]:
    """Return how well a tool matches a text, and the bit of the matching field."""
    name, joined = _flat(normalised(card.name)), text.replace(" ", "")
    if text == name or text == card.key.lower():
        return 1.0, _NAME
    if text in name or (len(joined) > 2 and joined in name.replace("_", "").replace("-", "")):
        return 0.9, _NAME
    return (0.7, _DESCRIPTION) if text in _flat(normalised(card.description)) else (0.0, 0)


def fuzzy(question: Question) -> Array:
    """Score the share of the request's words in name or description: 1 for an exact word, 0.8 with one slip, 0.6
    with two."""
    index = question.index
    scores = np.zeros(index.size, np.float32)
    for alternatives in within_two_slips(question).values():
        best = np.zeros(index.size, np.float32)
        for number, likeness in alternatives.items():
            slots = _having(question, number)
            best[slots] = np.maximum(best[slots], likeness)
        scores += best
    return scores / max(1, len(question.request.terms))


def within_two_slips(question: Question) -> dict[str, dict[int, float]]:
    """Return, by word of the request, the words of tools within Levenshtein distance 2, and their similarity."""

    # At least one letter of a word must stay. Character pairs of scripts without spaces are not compared.
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    index, alike = question.index, question.alike
    if not alike and question.request.terms:
        stems, numbers = index.spelling.stems, index.term_numbers
        known = list(stems)
        for term in question.request.terms:
            alternatives = alike.setdefault(term.plain, {})
            if term.stem in numbers:
                alternatives[numbers[term.stem]] = 1.0
            if not known or (len(term.plain) < 3 and not term.plain.isascii()):
                continue
            # One call compares a word with all known words.
            (slips,) = process.cdist(
                [term.plain], known, scorer=Levenshtein.distance, score_cutoff=MOST_SLIPS, dtype=np.uint16
            )
            for place in np.flatnonzero(slips <= MOST_SLIPS).tolist():
                word, count = known[place], int(slips[place])
                number = numbers[stems[word]]
                if count < max(len(word), len(term.plain)):
                    alternatives[number] = max(alternatives.get(number, 0.0), 1.0 - 0.2 * count)
    return alike


def semantic(question: Question) -> Array:
    """Score the rarity of shared words over that of all words in name and description, or a model's similarity."""
    index = question.index
    if question.near is not None:
        return np.clip(question.near, 0.0, 1.0)
    both = np.zeros(index.size, np.float32)
    request_rarity = 0.0
    for term in question.request.terms:
        number = index.term_numbers.get(term.stem)
        rarity = index.rarity(index.frequency(number) if number is not None else 0)
        request_rarity += rarity
        if number is not None:
            both[_having(question, number)] += rarity
    either = request_rarity + _text_rarities(index) - both
    return np.where(either > 0, both / np.maximum(either, 1e-6), 0.0).astype(np.float32)


def intent(question: Question) -> Array:
    """Score 1 if the name or id serves the request's intent, 0.5 if the description does."""
    index = question.index
    scores = np.zeros(index.size, np.float32)
    scores[[index.slots[text] for text in _tools_of_intent(question) if text in index.slots]] = 1.0
    for numbers in _doing(question):
        fields: Array = np.full(index.size, _NAME | _DESCRIPTION, np.int32)
        for number in numbers:
            having, _ = unpack_postings(index.postings[number])
            those: Array = np.zeros(index.size, np.int32)
            those[having >> FIELD_BITS] = having & FIELD_MASK
            fields &= those
        value = np.where(fields & _NAME, 1.0, np.where(fields & _DESCRIPTION, 0.5, 0.0))
        scores = np.maximum(scores, value.astype(np.float32))
    return scores


def _tools_of_intent(question: Question) -> tuple[str, ...]:
    """Return the words of names, or ids, that the table lists for the request's intent."""
    return question.intents[question.intent].tools if question.intent is not None else ()


def _doing(question: Question) -> list[list[int]]:
    """Return the words of each name that serves the request's intent; a tool must have all words of one name."""
    names: list[list[int]] = []
    for text in _tools_of_intent(question):
        wholes = {word.start: word.stem for word in words(normalised(text))}  # of several pieces the whole comes last
        numbers = [question.index.term_numbers.get(stem) for stem in wholes.values()]
        if numbers and None not in numbers:
            names.append([number for number in numbers if number is not None])
    return names


def legacy_hybrid(question: Question) -> Array:
    """Combine the four scores, as documented."""
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
    """Return the score of each slot under a strategy."""
    known = question.scores.get(strategy)
    if known is None:
        known = question.scores[strategy] = STRATEGIES[strategy](question)
    return known


def select_legacy(
    question: Question, options: Options, rates: Mapping[str, Rate], past: Mapping[str, Rate]
) -> tuple[list[dict[str, Json]], int]:
    """Return the results of one of the documented strategies, and the number of matching tools."""
    index = question.index
    scores = scored(question, options.strategy)
    allowed = allowed_tools(index, options)
    if allowed is not None:
        scores = np.where(allowed, scores, 0)
    slots = np.flatnonzero(scores > 0)
    slots = slots[(-scores[slots]).argsort(kind="stable")]
    ranked = scores[slots].astype(np.float64)
    best, total = keep_best(index, ranked, slots, rates, options, past)
    reasons = [why(question, options.strategy, slot) for _, slot, _ in best]
    return shape_results(index, best, ranked, reasons, options, rates), total


def why(question: Question, strategy: str, slot: int) -> dict[str, Json]:
    """Return the reasons for a tool: the matching words, their similarity and fields, and the part of each strategy."""
    shares = SHARES if strategy == "legacy_hybrid" else {strategy: 1.0}
    having = question.index.fields(slot)
    matches: dict[str, tuple[float, int]] = {}
    features: dict[str, Json] = {}
    for name, share in shares.items():
        value = float(scored(question, name)[slot])
        if value > 0:
            features[name] = round(share * value, 3)
            for word, likeness, bits in _speaking(question, name, slot, having):
                before = matches.get(word, (0.0, 0))
                matches[word] = (max(before[0], likeness), before[1] | bits)
    everywhere = 0
    terms: dict[str, Json] = {}
    for word, (likeness, bits) in matches.items():
        terms[word] = {"likeness": round(likeness, 2), "fields": fields_of(bits)}
        everywhere |= bits
    return {"strategy": strategy, "fields": fields_of(everywhere), "terms": terms, "features": features}


def _speaking(question: Question, strategy: str, slot: int, having: dict[int, int]) -> list[tuple[str, float, int]]:
    """Return what a strategy matched in a tool: words of the request, their similarity, and the bits of the fields."""
    index, terms = question.index, question.request.terms
    if strategy == "exact":
        card, text = index.cards[slot], _stretch(question)
        return [(text, 1.0, _exactly(text, card)[1])] if card is not None else []
    matches: list[tuple[str, float, int]] = []
    # Each strategy matches words in its own way.
    if strategy == "fuzzy":
        for word, alike in within_two_slips(question).items():
            similar = [(like, bits) for n, like in alike.items() if (bits := having.get(n, 0) & _NAME_AND_DESCRIPTION)]
            matches += [(word, like, bits) for like, bits in similar]
    elif strategy == "semantic" and question.near is None:
        for term in terms:
            number = index.term_numbers.get(term.stem)
            bits = having.get(number, 0) & _NAME_AND_DESCRIPTION if number is not None else 0
            matches += [(term.plain, 1.0, bits)] if bits else []
    elif strategy == "intent" and question.intent is not None:
        single, phrases = _stems_of(tuple(question.intents[question.intent].keywords))
        keywords = single.union(*(phrase for phrase in phrases if phrase <= question.request.stems))
        both = [reduce(and_, (having.get(n, 0) for n in name), _NAME_AND_DESCRIPTION) for name in _doing(question)]
        bits = reduce(or_, both, 0)
        matches += [(term.plain, 1.0, bits) for term in terms if term.stem in keywords]
    return matches


def _having(question: Question, number: int) -> Array:
    """Return the slots with a word in the name or description."""
    having, _ = unpack_postings(question.index.postings[number])
    return having[(having & _NAME_AND_DESCRIPTION) > 0] >> FIELD_BITS


def _text_rarities(index: Index) -> Array:
    """Return, by slot, the rarity of all words in name and description; recomputed when the index changes."""
    known = index.text_rarities
    if known is None or known[0] != index.version:
        total = np.zeros(index.size, np.float64)
        for posting in index.postings:
            having, _ = unpack_postings(posting)
            total[having[(having & _NAME_AND_DESCRIPTION) > 0] >> FIELD_BITS] += index.rarity(len(having))
        index.text_rarities = known = (index.version, total)
    return known[1]
