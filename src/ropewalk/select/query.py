"""Read a request: its words with their weights, and its clauses.

Quotations, addresses, numbers and small talk say little about the tool, so they weigh less. A long request is read as
a whole and clause by clause, since each clause may need a tool of its own. `reading.py` reads it as an index does.
"""

from __future__ import annotations

import re
from itertools import islice, pairwise
from operator import itemgetter
from typing import Any, Final

from ..fast_dataclass import dataclass
from .text import STOP, informative_words, normalised, stemmed_words, stemmer

MAX_CHARACTERS: Final = 6_000  # characters of a request that are read; of a longer one the beginning and the end
MAX_WORDS: Final = 60  # different words that are looked up, the ones worth most first
MAX_CLAUSES: Final = 8

_QUOTED: Final = re.compile(
    r"\"[^\"\n]{1,400}\"|“[^”\n]{1,400}”|«[^»\n]{1,400}»|(?<![\w'])'[^'\n]{1,200}'(?!\w)|`[^`\n]{1,200}`"
)
_ADDRESS: Final = re.compile(
    r"(?<![\w.+-])[.+-]*\w[\w.+-]*@[\w-]+\.[\w.-]+|\b(?:https?://|www\.)\S+|(?<!\w)[/~][\w.-]+/[\w./-]+", re.I
)
_CODE: Final = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{5,}\b|\b\d[\d.,:/-]*\b")
# These are for texts in lower case: with re.I they would take twice the time. They begin with a character, not with a
# place between two or a repeat: what cannot be the beginning is then stepped over at once. A run of signs or of spaces
# is looked at from its first: from each of thousands, it would be looked at thousands of times.
_FIRST_MARK: Final = r"(?<![.!?;\n][.!?;\n])[.!?;\n]*(?=\s|$)"
_MARKS: Final = "|".join([mark + _FIRST_MARK for mark in (r"\.", "!", r"\?", ";", r"\n")])
_CUT: Final = re.compile(rf"{_MARKS}|,\s+(?:and|then|also|but)\b|。|！|？|；")
_SOFT_CUT: Final = re.compile(r"[,\s](?:(?<=,)\s+|(?<=\s)(?<!\s\s)\s*(?:and|then)\s+)")
_TRANSITIONS: Final = (
    "and then",
    "and also",
    "after that",
    "afterwards",
    "additionally",
    "furthermore",
    "moreover",
    "finally",
    "lastly",
    "secondly",
    "thirdly",
    "in addition",
    "as well as",
    "along with",
    "next,",
    "then,",
    "also,",
)
_CUT_OR_TRANSITION: Final = re.compile(rf"{_CUT.pattern}|\b(?:{'|'.join(_TRANSITIONS)})\b")
_QUOTE: Final = re.compile("[\"“«'`]")  # without one of these, or without a digit, a text need not be searched for more
_DIGIT: Final = re.compile(r"\d")
_START_OF_SPAN: Final = itemgetter(0)
CLAUSES_OF: Final = tuple(
    [tuple([clause for clause in range(MAX_CLAUSES) if bits >> clause & 1]) for bits in range(1 << MAX_CLAUSES)]
)
"""The numbers of the clauses whose bits are set, by the number that the bits form."""

_QUOTED_WEIGHT, _ADDRESS_WEIGHT, _CODE_WEIGHT, _TALK_WEIGHT = 0.35, 0.2, 0.1, 0.3
_SMALL_TALK: Final = """
want need help please find give tell show know provide information info looking look wondering wonder interested
assist assistance kindly thanks thank hello hi hey currently able possible share detail details specific various
question questions tool tools way ways best good great really something different recently ensure require requires
required thing things right understand explain regarding related based trying try get make take come see think feel
hope love like able sure work going go planning plan currently important additional new user users i'm im
suggest recommend"""


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a request: its weight (0 to 1), and its clauses, one bit for each."""

    stem: str
    plain: str
    weight: float
    clauses: int


@dataclass(frozen=True, slots=True)
class Request:
    """A request as read."""

    # `stems` are those of all its words, `pairs` the places of neighbouring terms; `joined` may be words written apart.
    # `clause_texts` has the text of each clause.

    text: str
    terms: tuple[Term, ...]
    pairs: tuple[tuple[int, int], ...]
    joined: tuple[tuple[str, int, int], ...]
    clauses: int
    stems: frozenset[str] = frozenset()
    clause_texts: tuple[str, ...] = ()


_small_talk: frozenset[str] | None = None


def read_request(text: str) -> Request:
    """Return the words of a request with their weights; stop words count only if there are no others."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[: MAX_CHARACTERS * 2 // 3]} {text[-MAX_CHARACTERS // 3 :]}"
    text = normalised(text)
    spans = _low_weight_spans(text)
    cuts = _clause_starts(text, spans)
    words: dict[str, list[Any]] = {}
    neighbours: list[tuple[int, int, str]] = []
    small_talk = _small_talk_stems()
    all_words = stemmed_words(text, 2000)
    counted_words = [word for word in all_words if word[1] not in STOP] or all_words
    clause, last_clause = 0, len(cuts)
    previous: tuple[int, int, str] | None = None  # the clause, the place and the word that came before
    for stem, plain, start in counted_words:
        while clause < last_clause and cuts[clause] <= start:
            clause += 1
        weight = 1.0 if len(plain) > 1 or not plain.isascii() else 0.3
        for begin, end, factor in spans:
            if begin <= start < end and factor < weight:
                weight = factor
        if weight <= _CODE_WEIGHT and len(plain) < 3:
            continue  # a piece of a number or of a name that nobody could pronounce
        if stem in small_talk:
            weight *= _TALK_WEIGHT
        known = words.get(stem)
        if known is None:
            known = words[stem] = [len(words), plain, weight, 1 << clause]
        else:
            known[2] = max(known[2], weight)
            known[3] |= 1 << clause
        if previous is not None and previous[0] == clause:
            neighbours.append((previous[1], known[0], previous[2] + plain))
        previous = (clause, known[0], plain)
    terms = [Term(stem, plain, weight, inside) for stem, (_, plain, weight, inside) in words.items()]
    if len(terms) > MAX_WORDS:
        kept_positions = sorted(range(len(terms)), key=lambda place: -terms[place].weight)[:MAX_WORDS]
        terms, new_position = (
            [terms[place] for place in kept_positions],
            {place: n for n, place in enumerate(kept_positions)},
        )
        neighbours = [
            (new_position[a], new_position[b], both)
            for a, b, both in neighbours
            if a in new_position and b in new_position
        ]
    pairs = tuple(dict.fromkeys([(a, b) for a, b, _ in neighbours]))[:120]
    joined = {both: (a, b) for a, b, both in neighbours if both.isascii()}
    stems_of = stemmer().stem
    joined_stems = [(stems_of[word], *both) for word, both in islice(joined.items(), 60)]
    # Not where the second would only be an ending of the first: `email late` is no form of `email`.
    joined_stems = [
        entry for entry in joined_stems if entry[0] != terms[entry[1]].stem and entry[0] != terms[entry[2]].stem
    ]
    stems = frozenset([word[0] for word in all_words[:400]])
    if len(all_words) > 400:
        stems |= {term.stem for term in terms}
    clause_texts = tuple([text[start:end] for start, end in pairwise((0, *cuts, len(text)))]) if terms else (text,)
    return Request(text, tuple(terms), pairs, tuple(joined_stems), len(clause_texts), stems, clause_texts)


def _small_talk_stems() -> frozenset[str]:
    global _small_talk
    if _small_talk is None:
        stem = stemmer()
        _small_talk = frozenset(stem(word) for word in _SMALL_TALK.split())
    return _small_talk


def _low_weight_spans(text: str) -> list[tuple[int, int, float]]:
    """Return the stretches of a text that are values rather than words about the tool, with their weights."""
    spans: list[tuple[int, int, float]] = []
    if "/" in text or "@" in text or "www." in text.lower():
        spans += [(*match.span(), _ADDRESS_WEIGHT) for match in _ADDRESS.finditer(text)]
    if _DIGIT.search(text):
        spans += [(*match.span(), _CODE_WEIGHT) for match in _CODE.finditer(text)]
    quoted = [match.span() for match in _QUOTED.finditer(text)] if _QUOTE.search(text) else []
    if quoted and informative_words(_QUOTED.sub(" ", text), 200):
        spans += [(start, end, _QUOTED_WEIGHT) for start, end in quoted]  # else the request itself is in quotes
    return spans


def _clause_starts(text: str, spans: list[tuple[int, int, float]]) -> list[int]:
    """Return where new clauses begin."""

    # Cuts inside a quotation or after two words do not count.
    if len(text) < 40:
        return []
    cuts: list[int] = []
    previous = 0
    lower, length = text.lower(), len(text)
    if len(lower) != length:  # a letter of some script that is two in lower case: places would not be the same
        lower = text
    cutting = _CUT_OR_TRANSITION if any(map(lower.__contains__, _TRANSITIONS)) else _CUT
    spans_found = [match.span() for pattern in (cutting, _SOFT_CUT) for match in pattern.finditer(lower)]
    for begin, after in sorted(spans_found, key=_START_OF_SPAN):
        if after - previous < 20 or length - after < 12:
            continue
        if spans and any(start < begin < end for start, end, _ in spans):
            continue
        cuts.append(after)
        previous = after
    while len(cuts) >= MAX_CLAUSES:  # join the shortest with its neighbour
        edges = [0, *cuts, len(text)]
        shortest = min(range(1, len(edges) - 1), key=lambda n: edges[n + 1] - edges[n - 1])
        del cuts[shortest - 1]
    return cuts
