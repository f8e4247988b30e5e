"""Action senses: what a request wants done and what a tool does, as shares of nine senses.

The verb decides. `get issues` is a list and `get issue` is one thing. A question does not write. A text without a verb
of the tables has no sense, and a tool without a sense is neither helped nor harmed.

To add a verb, write it into VERBS; a verb with another word, into PHRASES or PARTICLES.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final, TypeAlias

Senses: TypeAlias = tuple[float, ...]
"""The share of each sense; all are 0 where there is none."""


class Sense(IntEnum):
    """The kinds of actions."""

    CREATE = 0
    DELETE = 1
    CHANGE = 2
    LIST = 3
    ONE = 4
    FIND = 5
    SEND = 6
    RUN = 7
    COUNT = 8


READING: Final = frozenset((Sense.LIST, Sense.ONE, Sense.FIND, Sense.COUNT))
VERBS: Final = {
    Sense.CREATE: "create add insert make new generate build register compose draft upload append attach import book "
    "reserve",
    Sense.DELETE: "delete remove erase drop clear cancel destroy discard unsubscribe purge revoke uninstall del rm",
    Sense.CHANGE: "update edit modify change set rename move adjust alter replace revise configure enable disable "
    "patch assign mark toggle increase decrease put",
    Sense.LIST: "list enumerate browse ls",
    Sense.ONE: "get fetch retrieve obtain show view display read return give tell load describe see check",
    Sense.FIND: "find search lookup query discover locate filter explore look",
    Sense.SEND: "send deliver notify email message share forward reply publish transmit",
    Sense.RUN: "run execute start launch trigger play invoke exec restart stop",
    Sense.COUNT: "count tally",
}
PHRASES: Final = {
    Sense.DELETE: ("get rid",),
    Sense.LIST: ("list of",),
    Sense.FIND: ("search for",),
    Sense.COUNT: ("how many", "number of"),
}
"""Neighbouring words."""
PARTICLES: Final = {
    Sense.CREATE: ("set up", "sign up", "write down"),
    Sense.DELETE: ("take down", "take off", "take out", "throw out", "throw away", "clear out", "call off"),
    Sense.CHANGE: ("turn on", "turn off", "turn up", "turn down", "switch on", "switch off"),
    Sense.LIST: ("go through",),
    Sense.FIND: ("look up", "look for"),
    Sense.SEND: ("let know", "reach out"),
    Sense.RUN: ("kick off", "fire up"),
}
"""Verbs whose second word may be a few words later."""

_QUESTION: Final = re.compile(
    r"\W*(?:(?:and|so|but|also|hi|hey|hello)\W+)*"
    r"(?:what|whats|which|who|whos|whose|where|wheres|when|how|why|is|are|was|were|does|do|did|has|have|any)\b"
    # `How do I create it` and `is there a way to create it` ask for the action, not about it.
    r"(?!\W+(?:(?:can|do|could|should|would|might|may) (?:i|we|you|one)|to|there|you|i)\b)"
    r"(?!.{0,20}\b(?:way|tool|app|plugin|service|website)s?\b)"
)
_WORDS_BEFORE_VERBS: Final = """
to please you me and then can could would will should i we lets let us help also just now kindly want need must ll"""
_BEFORE_VERBS: Final = frozenset(_WORDS_BEFORE_VERBS.split())
_WORDS_AFTER_OBJECTS: Final = """
of for in from on with to by at about that which who whose between within into near as using via and or based is are
was"""
_AFTER_OBJECTS: Final = frozenset(_WORDS_AFTER_OBJECTS.split())
_WORD: Final = re.compile(r"[a-z]+")
_MAX_WORDS: Final = 40
_PARTICLE_DISTANCE: Final = 5  # words

_SENSES: Final = {
    form: sense for sense, verbs in VERBS.items() for verb in verbs.split() for form in (verb, f"{verb}s", f"{verb}es")
}
_PHRASES: Final = {tuple(phrase.split()): sense for sense, phrases in PHRASES.items() for phrase in phrases}
_PARTICLES: Final[dict[str, dict[str, Sense]]] = {}
for _sense, _verbs in PARTICLES.items():
    for _verb, _particle in map(str.split, _verbs):
        _PARTICLES.setdefault(_verb, {})[_particle] = _sense


def _shares(*senses: Sense, weight: float = 1.0) -> Senses:
    return tuple([weight / len(senses) if sense in senses else 0.0 for sense in Sense])


NO_SENSE: Final[Senses] = (0.0,) * len(Sense)
_SHARES: Final = {sense: _shares(sense) for sense in Sense}
_READS: Final = _shares(Sense.LIST, Sense.ONE, Sense.FIND)
_QUESTIONS: Final = _shares(Sense.LIST, Sense.ONE, Sense.FIND, weight=0.5)  # the form alone says less than a verb
_WRITES: Final = _shares(Sense.DELETE, Sense.CHANGE)


def request_senses(clause: str) -> Senses:
    """Return the senses of a clause of a request."""
    text = clause.lower()
    words = _WORD.findall(text)[:_MAX_WORDS]
    is_question = _QUESTION.match(text) is not None
    for sense in (_sense_of_phrases(words), _sense_of_verbs(words)):
        if sense is not None and (sense in READING or not is_question):
            return _SHARES[sense]
    return _QUESTIONS if is_question else NO_SENSE


def tool_senses(name: Sequence[str], description: str, hints: frozenset[str]) -> Senses:
    """Return the senses of a tool: of the verb in its name, else of the first word of its description."""
    sense = next((_sense_at(name, place) for place, word in enumerate(name) if word in _SENSES), None)
    if sense is None:
        words = _WORD.findall(description[:200].lower())
        sense = _sense_at(words, 0) if words and words[0] in _SENSES else None
    if "readOnlyHint" in hints and sense not in READING:
        return _READS
    if sense is None:
        return _WRITES if "destructiveHint" in hints else NO_SENSE
    return _SHARES[sense]


def _sense_of_phrases(words: Sequence[str]) -> Sense | None:
    for place, pair in enumerate(pairwise(words)):
        if pair in _PHRASES:
            return _PHRASES[pair]
        particles = _PARTICLES.get(pair[0], {})
        for word in words[place + 1 : place + 1 + _PARTICLE_DISTANCE] if particles else ():
            if word in particles:
                return particles[word]
    return None


def _sense_of_verbs(words: Sequence[str]) -> Sense | None:
    """Return the sense of the first verb where a verb may be: `show me the list`, but not `the list`."""
    for place, word in enumerate(words):
        if word in _SENSES and (not place or words[place - 1] in _BEFORE_VERBS):
            return _sense_at(words, place)
    return None


def _sense_at(words: Sequence[str], place: int) -> Sense:
    """Return the sense of the verb at a place; of one that gets something, by its object."""
    sense = _SENSES[words[place]]
    if sense is not Sense.ONE:
        return sense
    rest = words[place + 1 : place + 8]
    if "all" in rest[:2] or "list" in rest[:3]:
        return Sense.LIST
    end = next((n for n, word in enumerate(rest) if word in _AFTER_OBJECTS), len(rest))
    return Sense.LIST if end and _is_plural(rest[end - 1]) else Sense.ONE


def _is_plural(word: str) -> bool:
    return len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))


def _agreement(wanted: Sense, done: Sense) -> float:
    """Return how well a tool that does one thing fits a request that wants another, from -1 to 0.5."""
    if wanted is done:
        return 0.5
    if done in READING:
        return 0.0  # even `make a list of the files` may need a tool that only reads
    # Words for the other changes are used for one another, as in `set a reminder`.
    return -1.0 if wanted in READING or Sense.DELETE in (wanted, done) else -0.5


AGREEMENT: Final = tuple([tuple([_agreement(wanted, done) for done in Sense]) for wanted in Sense])
"""By the wanted sense and the sense of the tool."""
