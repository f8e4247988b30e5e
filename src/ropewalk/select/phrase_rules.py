"""Write usage phrases for a tool by rules: from its name, its description and a table of idioms.

`idioms.txt` is the table. `CREATE issue|pull+request: file a bug; ...` says how people ask for one of the senses of
`action_sense.py`, for tools whose name or description has `issue`, or both `pull` and `request`. `VERB archive: put
away; ...` says the verb of a name in other words. A tool for which there is no line gets no phrases: general ones, such
as "get rid of the file" for every tool that deletes, made selection worse.

To add an idiom, add a line. Forms of a word need no entry of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Final, NamedTuple

from .action_sense import Sense, tool_senses
from .phrases import MAX_PHRASES
from .text import STOP, groups, normalised, shortened, stemmer, words
from .tool_card import Card

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s|\n")
_MAX_LINES: Final = 3  # lines of the table for one tool
_MAX_IDIOMS: Final = 8  # phrases of these lines
_MIN_FIT: Final = 2  # of a line: one word in the name, or two in the description


class Idiom(NamedTuple):
    """A line of the table: for which tools it is, and how people ask for them."""

    sense: Sense
    objects: tuple[frozenset[str], ...]  # a tool has all stems of one of these sets
    phrases: tuple[str, ...]


class Idioms(NamedTuple):
    """The table of idioms."""

    by_object: tuple[Idiom, ...]
    by_verb: dict[str, tuple[str, ...]]  # the key is a stem


def phrases_by_rules(card: Card) -> tuple[str, ...]:
    """Return phrases for a tool, the most telling first; none where no line of the table is for it."""
    name = _words_of(card.name)
    senses = tool_senses(name, card.description, card.hints)
    sense = Sense(max(range(len(senses)), key=senses.__getitem__)) if any(senses) else None
    sentence = _words_of(_SENTENCE.split(card.description.strip(), maxsplit=1)[0])
    stem = stemmer()
    in_name, in_sentence = ({stem(word) for word in some} for some in (name, sentence))
    for word in in_name:  # another word for one in the name counts as one in the description
        in_sentence.update(groups().get(word, ()), shortened().get(word, ()))
    by_verb = chain.from_iterable(idioms().by_verb.get(stem(word), ()) for word in name)
    return _distinct(chain(_by_object(in_name, in_sentence, sense)[:_MAX_IDIOMS], by_verb))


def _words_of(text: str) -> list[str]:
    """Return the words of a text; of a joined word such as `listFiles` only its pieces."""
    found = words(normalised(text))
    pieces: dict[int, list[str]] = {}
    for word in found:
        pieces.setdefault(word.start, []).append(word.plain)

    def is_joined(word: str, others: Sequence[str]) -> bool:
        return len(others) > 2 and sum(map(len, others)) == 2 * len(word)

    return [word.plain for word in found if not is_joined(word.plain, pieces[word.start])]


def _by_object(in_name: set[str], in_sentence: set[str], sense: Sense | None) -> list[str]:
    """Return the phrases of the lines that fit best; a word in the name counts twice."""
    rated: list[tuple[int, tuple[str, ...]]] = []
    for idiom in idioms().by_object:
        if sense is None or sense is idiom.sense:
            had = [stems for stems in idiom.objects if stems <= in_name | in_sentence]
            fit = max((len(stems) + len(stems & in_name) for stems in had), default=0)
            if fit >= _MIN_FIT:
                rated.append((-fit, idiom.phrases))
    rated.sort(key=lambda pair: pair[0])
    return [phrase for _, phrases in rated[:_MAX_LINES] for phrase in phrases]


def _distinct(phrases: Iterable[str]) -> tuple[str, ...]:
    """Return the phrases that differ in more than their stop words, at most MAX_PHRASES."""
    stem = stemmer()
    kept: dict[frozenset[str], str] = {}
    for phrase in phrases:
        told = frozenset(stem(word) for word in phrase.split() if word not in STOP)
        if told:
            kept.setdefault(told, phrase)
        if len(kept) == MAX_PHRASES:
            break
    return tuple(kept.values())


@cache
def idioms() -> Idioms:
    """Return the table, read at the first call."""
    stem = stemmer()
    by_object: list[Idiom] = []
    by_verb: dict[str, tuple[str, ...]] = {}
    for line in (files(__package__) / "idioms.txt").read_text("utf-8").splitlines():
        head, _, rest = line.partition(": ")
        kind, _, about = head.partition(" ")
        phrases = tuple(phrase.strip() for phrase in rest.split(";"))
        if kind == "VERB":
            by_verb[stem(about)] = phrases
        else:
            objects = tuple(frozenset(map(stem, group.split("+"))) for group in about.split("|"))
            by_object.append(Idiom(Sense[kind], objects, phrases))
    return Idioms(tuple(by_object), by_verb)
