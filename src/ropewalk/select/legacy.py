"""The documented strategies: a score between 0 and 1 for every slot, in plain Python.

EXACT looks for the request as a stretch of name and description, FUZZY for words within two slips, SEMANTIC compares
the weighted words of both, INTENT goes from keywords to an intent to the tools named for it; LEGACY_HYBRID adds the
four up, 0.35, 0.25, 0.25 and 0.15. `why` says what speaks for a result. To add a strategy, add its function to
STRATEGIES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache, reduce
from operator import and_, or_
from typing import Final, TypeAlias

from ..errors import InvalidInput, Problem
from ..fast_dataclass import dataclass
from ..values import Json
from .options import Options
from .query import Request
from .results import allowed_tools, fields_of, keep_best, shape_results
from .text import normalised, stemmer, words
from .tool_card import Card
from .usage import Rate
from .word_index import DESCRIPTION, NAME, NAME_OR_DESCRIPTION, WordIndex

Scores: TypeAlias = dict[int, float]
"""Scores by slot; a slot that is not there has 0."""

SHARES: Final = {"exact": 0.35, "fuzzy": 0.25, "semantic": 0.25, "intent": 0.15}
MOST_SLIPS: Final = 2


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

    index: WordIndex
    request: Request
    intents: Mapping[str, Intent]
    intent: str | None
    near: Sequence[float] | None = None
    scores: dict[str, Scores] = field(default_factory=dict)
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


def exact(question: Question) -> Scores:
    """Score 1 for the name itself, 0.9 for a part of a name, 0.7 for a part of a description."""
    text = _stretch(question)
    if not text:
        return {}
    return {slot: _exactly(text, card)[0] for slot, card in enumerate(question.index.cards) if card is not None}


def _stretch(question: Question) -> str:
    return _flat(question.request.text)


def _flat(text: str) -> str:
    """Return a text as EXACT compares it, without the characters between its words."""
    return " ".join(text.lower().split())


def _exactly(text: str, card: Card) -> tuple[float, int]:
    """Return how well a tool matches a text, and the bit of the matching field."""
    name, joined = _flat(normalised(card.name)), text.replace(" ", "")
    if text == name or text == card.key.lower():
        return 1.0, NAME
    if text in name or (len(joined) > 2 and joined in name.replace("_", "").replace("-", "")):
        return 0.9, NAME
    return (0.7, DESCRIPTION) if text in _flat(normalised(card.description)) else (0.0, 0)


def fuzzy(question: Question) -> Scores:
    """Score the share of the request's words in name or description: 1 for an exact word, 0.8 with one slip, 0.6
    with two."""
    scores: Scores = {}
    count = max(1, len(question.request.terms))
    for alternatives in within_two_slips(question).values():
        best: Scores = {}
        for number, likeness in alternatives.items():
            for slot in _having(question, number):
                best[slot] = max(best.get(slot, 0.0), likeness)
        for slot, likeness in best.items():
            scores[slot] = scores.get(slot, 0.0) + likeness
    # Equal sums in another order differ in their last digits; such tools must stay equal.
    return {slot: round(score / count, 9) for slot, score in scores.items()}


def within_two_slips(question: Question) -> dict[str, dict[int, float]]:
    """Return, by word of the request, the words of tools within Levenshtein distance 2, and their similarity."""

    # At least one letter of a word must stay. Character pairs of scripts without spaces are not compared.
    index, alike = question.index, question.alike
    if not alike and question.request.terms:
        stems, numbers = index.spelling.stems, index.term_numbers
        for term in question.request.terms:
            alternatives = alike.setdefault(term.plain, {})
            if term.stem in numbers:
                alternatives[numbers[term.stem]] = 1.0
            if len(term.plain) < 3 and not term.plain.isascii():
                continue
            for word, count in similar_words(term.plain, stems):
                number = numbers[stems[word]]
                if count < max(len(word), len(term.plain)):
                    alternatives[number] = max(alternatives.get(number, 0.0), 1.0 - 0.2 * count)
    return alike


def similar_words(word: str, known: Iterable[str]) -> list[tuple[str, int]]:
    """Return the known words within MOST_SLIPS of a word, with the number of slips."""
    third = len(word) // 3
    shortest, longest, letters = len(word) - MOST_SLIPS, len(word) + MOST_SLIPS, frozenset(word)
    first, second, last = word[:third], word[third : 2 * third], word[2 * third :]
    # Two slips leave one of three parts as it is, and each changes at most two of the letters that a word has.
    near = [
        other
        for other in known
        if (first in other or second in other or last in other)
        and shortest <= len(other) <= longest
        and len(letters.symmetric_difference(other)) <= 2 * MOST_SLIPS
    ]
    counted = [(other, count_slips(word, other, MOST_SLIPS)) for other in near]
    return [(other, count) for other, count in counted if count <= MOST_SLIPS]


def count_slips(first: str, second: str, limit: int) -> int:
    """Return the Levenshtein distance of two words, or any number above `limit` if it is more."""
    start, end = 0, min(len(first), len(second))
    while start < end and first[start] == second[start]:
        start += 1
    first, second = first[start:], second[start:]
    while first and second and first[-1] == second[-1]:
        first, second = first[:-1], second[:-1]
    if not first or not second or abs(len(first) - len(second)) > limit:
        return max(len(first), len(second))
    if limit <= 0:
        return 1
    # The first letters differ: one is changed, left out or added.
    slips = count_slips(first[1:], second[1:], limit - 1)
    slips = min(slips, count_slips(first[1:], second, limit - 1), count_slips(first, second[1:], limit - 1))
    return slips + 1


def semantic(question: Question) -> Scores:
    """Score the rarity of shared words over that of all words in name and description, or a model's similarity."""
    index = question.index
    if question.near is not None:
        return {slot: min(likeness, 1.0) for slot, likeness in enumerate(question.near)}
    both: Scores = {}
    request_rarity = 0.0
    for term in question.request.terms:
        number = index.term_numbers.get(term.stem)
        rarity = index.rarity(index.frequency(number) if number is not None else 0)
        request_rarity += rarity
        for slot in _having(question, number) if number is not None else ():
            both[slot] = both.get(slot, 0.0) + rarity
    rarities = _text_rarities(index)
    return {slot: shared / max(request_rarity + rarities[slot] - shared, 1e-6) for slot, shared in both.items()}


def intent(question: Question) -> Scores:
    """Score 1 if the name or id serves the request's intent, 0.5 if the description does."""
    index = question.index
    scores = {index.slots[text]: 1.0 for text in _tools_of_intent(question) if text in index.slots}
    for numbers in _doing(question):
        tables = [index.having(number) for number in numbers]
        for slot in set(tables[0]).intersection(*tables[1:]):
            bits = reduce(and_, (table[slot] for table in tables))
            value = 1.0 if bits & NAME else 0.5 if bits & DESCRIPTION else 0.0
            scores[slot] = max(scores.get(slot, 0.0), value)
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


def legacy_hybrid(question: Question) -> Scores:
    """Combine the four scores, as documented."""
    total: Scores = {}
    for name, share in SHARES.items():
        for slot, score in scored(question, name).items():
            total[slot] = total.get(slot, 0.0) + share * score
    return total


STRATEGIES: Final[dict[str, Callable[[Question], Scores]]] = {
    "exact": exact,
    "fuzzy": fuzzy,
    "semantic": semantic,
    "intent": intent,
    "legacy_hybrid": legacy_hybrid,
}


def scored(question: Question, strategy: str) -> Scores:
    """Return the scores of slots under a strategy."""
    known = question.scores.get(strategy)
    if known is None:
        known = question.scores[strategy] = STRATEGIES[strategy](question)
    return known


def select_legacy(
    question: Question, options: Options, rates: Mapping[str, Rate], past: Mapping[str, Rate]
) -> tuple[list[dict[str, Json]], int]:
    """Return the results of one of the documented strategies, and the number of matching tools."""
    index, scores = question.index, scored(question, options.strategy)
    allowed = allowed_tools(index, options)
    slots = [slot for slot, score in scores.items() if score > 0 and (allowed is None or allowed.has(slot))]
    slots.sort(key=lambda slot: (-scores[slot], slot))
    ranked = [scores[slot] for slot in slots]
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
        value = scored(question, name).get(slot, 0.0)
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
            similar = [(like, bits) for n, like in alike.items() if (bits := having.get(n, 0) & NAME_OR_DESCRIPTION)]
            matches += [(word, like, bits) for like, bits in similar]
    elif strategy == "semantic" and question.near is None:
        for term in terms:
            number = index.term_numbers.get(term.stem)
            bits = having.get(number, 0) & NAME_OR_DESCRIPTION if number is not None else 0
            matches += [(term.plain, 1.0, bits)] if bits else []
    elif strategy == "intent" and question.intent is not None:
        single, phrases = _stems_of(tuple(question.intents[question.intent].keywords))
        keywords = single.union(*(phrase for phrase in phrases if phrase <= question.request.stems))
        both = [reduce(and_, (having.get(n, 0) for n in name), NAME_OR_DESCRIPTION) for name in _doing(question)]
        bits = reduce(or_, both, 0)
        matches += [(term.plain, 1.0, bits) for term in terms if term.stem in keywords]
    return matches


def _having(question: Question, number: int) -> list[int]:
    """Return the slots with a word in the name or description."""
    return [slot for slot, bits in question.index.having(number).items() if bits & NAME_OR_DESCRIPTION]


def _text_rarities(index: WordIndex) -> dict[int, float]:
    """Return, by slot, the rarity of all words in name and description; recomputed when the index changes."""
    known = index.text_rarities
    if known is None or known[0] != index.version:
        total = dict.fromkeys(index.slots.values(), 0.0)
        for number in index.term_numbers.values():
            rarity = index.rarity(index.frequency(number))
            for slot, bits in index.having(number).items():
                if bits & NAME_OR_DESCRIPTION:
                    total[slot] += rarity
        index.text_rarities = known = (index.version, total)
    return known[1]
