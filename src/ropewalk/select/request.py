"""What a request asks for: its words with what each is worth, and its clauses.

What is quoted, an address, a number or small talk says less about the tool than the rest. A long request is cut
into clauses, since each may need a tool of its own.
"""

from __future__ import annotations

import re
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from ..frozen import dataclass
from .text import STOP, normalised, placed, stemmer, told

LONGEST: Final = 6_000  # characters of a request that are read; of a longer one the beginning and the end
MOST_WORDS: Final = 60  # different words that are looked up, the ones worth most first
MOST_CLAUSES: Final = 8

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
_TURNS: Final = (
    "and then", "and also", "after that", "afterwards", "additionally", "furthermore", "moreover", "finally", "lastly",
    "secondly", "thirdly", "in addition", "as well as", "along with", "next,", "then,", "also,",
)  # fmt: skip
_CUT_OR_TURN: Final = re.compile(rf"{_CUT.pattern}|\b(?:{'|'.join(_TURNS)})\b")
_QUOTE: Final = re.compile("[\"“«'`]")  # without one of these, or without a digit, a text need not be searched for more
_DIGIT: Final = re.compile(r"\d")
_BEGIN: Final = itemgetter(0)
CLAUSES_OF: Final = tuple(
    [tuple([clause for clause in range(MOST_CLAUSES) if bits >> clause & 1]) for bits in range(1 << MOST_CLAUSES)]
)
"""Those of their bits."""

_QUOTED_WEIGHT, _ADDRESS_WEIGHT, _CODE_WEIGHT, _TALK_WEIGHT = 0.35, 0.2, 0.1, 0.3
_TALK: Final = """want need help please find give tell show know provide information info looking look wondering wonder
interested assist assistance kindly thanks thank hello hi hey currently able possible share detail details specific
various question questions tool tools way ways best good great really something different recently ensure require
requires required thing things right understand explain regarding related based trying try get make take come see
think feel hope love like able sure work going go planning plan currently important additional new user users i'm im
suggest recommend"""


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a request: what it is worth (0 to 1), and the clauses it stands in, one bit for each."""

    stem: str
    plain: str
    weight: float
    clauses: int


@dataclass(frozen=True, slots=True)
class Request:
    """A request as read. `stems` are those of all its words, `pairs` the places of neighbouring terms; `joined` may be
    words written apart."""

    text: str
    terms: tuple[Term, ...]
    pairs: tuple[tuple[int, int], ...]
    joined: tuple[tuple[str, int, int], ...]
    clauses: int
    stems: frozenset[str] = frozenset()


_talk: frozenset[str] | None = None


def read_request(text: str) -> Request:
    """The words of a request and their weights. Nothing but stop words gives those; nothing at all, none."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST * 2 // 3]} {text[-LONGEST // 3 :]}"
    text = normalised(text)
    spans = _light(text)
    cuts = _clauses(text, spans)
    found: dict[str, list[Any]] = {}
    near: list[tuple[int, int, str]] = []
    talk = _talk_stems()
    everything = placed(text, 2000)
    kept = [word for word in everything if word[1] not in STOP] or everything
    clause, last = 0, len(cuts)
    before: tuple[int, int, str] | None = None  # the clause, the place and the word that came before
    for stem, plain, start in kept:
        while clause < last and cuts[clause] <= start:
            clause += 1
        weight = 1.0 if len(plain) > 1 or not plain.isascii() else 0.3
        for begin, end, factor in spans:
            if begin <= start < end and factor < weight:
                weight = factor
        if weight <= _CODE_WEIGHT and len(plain) < 3:
            continue  # a piece of a number or of a name that nobody could pronounce
        if stem in talk:
            weight *= _TALK_WEIGHT
        known = found.get(stem)
        if known is None:
            known = found[stem] = [len(found), plain, weight, 1 << clause]
        else:
            known[2] = max(known[2], weight)
            known[3] |= 1 << clause
        if before is not None and before[0] == clause:
            near.append((before[1], known[0], before[2] + plain))
        before = (clause, known[0], plain)
    terms = [Term(stem, plain, weight, inside) for stem, (_, plain, weight, inside) in found.items()]
    if len(terms) > MOST_WORDS:
        left = sorted(range(len(terms)), key=lambda place: -terms[place].weight)[:MOST_WORDS]
        terms, moved = [terms[place] for place in left], {place: n for n, place in enumerate(left)}
        near = [(moved[a], moved[b], both) for a, b, both in near if a in moved and b in moved]
    pairs = tuple(dict.fromkeys([(a, b) for a, b, _ in near]))[:120]
    joined = {both: (a, b) for a, b, both in near if both.isascii()}
    stems_of = stemmer().stem
    whole = [(stems_of[word], *both) for word, both in islice(joined.items(), 60)]
    # Not where the second would only be an ending of the first: `email late` is no form of `email`.
    whole = [one for one in whole if one[0] != terms[one[1]].stem and one[0] != terms[one[2]].stem]
    stems = frozenset([word[0] for word in everything[:400]])
    if len(everything) > 400:
        stems |= {term.stem for term in terms}
    return Request(text, tuple(terms), pairs, tuple(whole), last + 1 if terms else 1, stems)


def _talk_stems() -> frozenset[str]:
    global _talk
    if _talk is None:
        stem = stemmer()
        _talk = frozenset(stem(word) for word in _TALK.split())
    return _talk


def _light(text: str) -> list[tuple[int, int, float]]:
    """Stretches of a text that are values rather than words about the tool, with what they are worth."""
    spans: list[tuple[int, int, float]] = []
    if "/" in text or "@" in text or "www." in text.lower():
        spans += [(*found.span(), _ADDRESS_WEIGHT) for found in _ADDRESS.finditer(text)]
    if _DIGIT.search(text):
        spans += [(*found.span(), _CODE_WEIGHT) for found in _CODE.finditer(text)]
    quoted = [found.span() for found in _QUOTED.finditer(text)] if _QUOTE.search(text) else []
    if quoted and told(_QUOTED.sub(" ", text), 200):
        spans += [(start, end, _QUOTED_WEIGHT) for start, end in quoted]  # else the request itself is in quotes
    return spans


def _clauses(text: str, spans: list[tuple[int, int, float]]) -> list[int]:
    """Where a new clause begins; a cut inside of a quotation or after two words is none."""
    if len(text) < 40:
        return []
    cuts: list[int] = []
    before = 0
    lower, length = text.lower(), len(text)
    if len(lower) != length:  # a letter of some script that is two in lower case: places would not be the same
        lower = text
    cutting = _CUT_OR_TURN if any(map(lower.__contains__, _TURNS)) else _CUT
    found = [one.span() for pattern in (cutting, _SOFT_CUT) for one in pattern.finditer(lower)]
    for begin, at in sorted(found, key=_BEGIN):
        if at - before < 20 or length - at < 12:
            continue
        if spans and any(start < begin < end for start, end, _ in spans):
            continue
        cuts.append(at)
        before = at
    while len(cuts) >= MOST_CLAUSES:  # join the shortest with its neighbour
        edges = [0, *cuts, len(text)]
        shortest = min(range(1, len(edges) - 1), key=lambda n: edges[n + 1] - edges[n - 1])
        del cuts[shortest - 1]
    return cuts
