"""Read a request: its words with their weights, and its clauses.

Quotations, addresses, numbers and small talk say little about the tool, so they weigh less. A long request is read as
a whole and clause by clause, since each clause may need a tool of its own. For the index, a request is its words there,
the weight of each, and its meaning.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, Final, TypeAlias

import numpy as np

from ..fast_dataclass import dataclass
from .index import Index, signature, trigrams
from .text import STOP, groups, informative_words, lexicon, normalised, shortened, stemmed_words, stemmer

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
    """A word of a request: its weight (0 to 1), and its clauses, one bit for each."""

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
    """Return the words of a request with their weights; stop words count only if there are no others."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST * 2 // 3]} {text[-LONGEST // 3 :]}"
    text = normalised(text)
    spans = _light(text)
    cuts = _clauses(text, spans)
    words: dict[str, list[Any]] = {}
    near: list[tuple[int, int, str]] = []
    talk = _talk_stems()
    everything = stemmed_words(text, 2000)
    spoken = [word for word in everything if word[1] not in STOP] or everything
    clause, last = 0, len(cuts)
    before: tuple[int, int, str] | None = None  # the clause, the place and the word that came before
    for stem, plain, start in spoken:
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
        known = words.get(stem)
        if known is None:
            known = words[stem] = [len(words), plain, weight, 1 << clause]
        else:
            known[2] = max(known[2], weight)
            known[3] |= 1 << clause
        if before is not None and before[0] == clause:
            near.append((before[1], known[0], before[2] + plain))
        before = (clause, known[0], plain)
    terms = [Term(stem, plain, weight, inside) for stem, (_, plain, weight, inside) in words.items()]
    if len(terms) > MOST_WORDS:
        remaining = sorted(range(len(terms)), key=lambda place: -terms[place].weight)[:MOST_WORDS]
        terms, moved = [terms[place] for place in remaining], {place: n for n, place in enumerate(remaining)}
        near = [(moved[a], moved[b], both) for a, b, both in near if a in moved and b in moved]
    pairs = tuple(dict.fromkeys([(a, b) for a, b, _ in near]))[:120]
    joined = {both: (a, b) for a, b, both in near if both.isascii()}
    stems_of = stemmer().stem
    joined_stems = [(stems_of[word], *both) for word, both in islice(joined.items(), 60)]
    # Not where the second would only be an ending of the first: `email late` is no form of `email`.
    joined_stems = [
        entry for entry in joined_stems if entry[0] != terms[entry[1]].stem and entry[0] != terms[entry[2]].stem
    ]
    stems = frozenset([word[0] for word in everything[:400]])
    if len(everything) > 400:
        stems |= {term.stem for term in terms}
    return Request(text, tuple(terms), pairs, tuple(joined_stems), last + 1 if terms else 1, stems)


def _talk_stems() -> frozenset[str]:
    global _talk
    if _talk is None:
        stem = stemmer()
        _talk = frozenset(stem(word) for word in _TALK.split())
    return _talk


def _light(text: str) -> list[tuple[int, int, float]]:
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


def _clauses(text: str, spans: list[tuple[int, int, float]]) -> list[int]:
    """Return where new clauses begin. Cuts inside a quotation or after two words do not count."""
    if len(text) < 40:
        return []
    cuts: list[int] = []
    before = 0
    lower, length = text.lower(), len(text)
    if len(lower) != length:  # a letter of some script that is two in lower case: places would not be the same
        lower = text
    cutting = _CUT_OR_TURN if any(map(lower.__contains__, _TURNS)) else _CUT
    spans_found = [match.span() for pattern in (cutting, _SOFT_CUT) for match in pattern.finditer(lower)]
    for begin, at in sorted(spans_found, key=_BEGIN):
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


Array: TypeAlias = np.ndarray[Any, Any]

# Of a word: what stands for it here (number, how well, and how rare that is, one after the other) and how many do; how
# much it tells, by being rare here and in general; the rows of its vectors; the bits of its trigrams.
_Read: TypeAlias = tuple[list[float], int, float, tuple[int, ...], int]

_ENDINGS: Final = ("s", "es", "d", "ed", "ing")
SHARE_OF_WHOLE: Final = (
    0.4  # what a request of several clauses counts as a whole; the rest is the clauses', by what they say
)
SYNONYM: Final = 0.5
SHORTENED: Final = 0.9  # the one for the other
CORRECTED: Final = 0.9
RELATED: Final = 0.8  # of the likeness that the lexicon gives
LEAST_LIKE: Final = 0.55
UNKNOWN: Final = 0.35  # a word no tool has, against the rarest there can be
LEAST_WEIGHT_OF_LETTERS: Final = 0.2  # from what weight on a word's letters count
MOST_READ: Final = 50_000  # words of requests that are known in an index


class Reading:
    """A request against an index: what stands for its words there, what each is worth, and its vectors.

    `terms`, `places`, `likeness` and `rare` go together: a word of the index, the place of the request's word that it
    stands for, how well it does, and its rarity, those that do best last; `words` is of each the last one of the same
    word of the index. `letters` are of each word of the request the bits of its trigrams.
    """

    def __init__(self, index: Index, request: Request) -> None:
        self.request = request
        stand_ins, counts = list[float](), list[int]()
        worth, letters, rows, pieces = list[float](), list[int](), list[int](), list[int]()
        read = index.read
        for term in request.terms:
            reading_of_word = read.get(term.plain)
            if reading_of_word is None:
                if len(read) >= MOST_READ:  # whoever asks may have no end of words
                    read.clear()
                reading_of_word = read[term.plain] = self._read(index, term)
            variants, count, telling, rows_of_word, bits = reading_of_word
            stand_ins += variants
            counts.append(count)
            worth.append(term.weight * telling)
            letters.append(bits if term.weight > LEAST_WEIGHT_OF_LETTERS else 0)
            rows += rows_of_word
            pieces.append(len(rows_of_word))
        table: Array = np.array(stand_ins).reshape(-1, 3)
        places: Array = np.arange(len(counts)).repeat(np.array(counts, np.intp))
        if request.joined:
            table, places = _with_joined(index, request, table, places)
        order = table[:, 1].argsort(kind="stable")
        table = table[order]
        self.terms: Array = table[:, 0].astype(np.int32)
        self.places: Array = places[order]
        self.likeness: Array = table[:, 1].astype(np.float32)
        self.rare: Array = table[:, 2].astype(np.float32)
        numbers = self.terms.tolist()
        last = dict(zip(numbers, range(len(numbers)), strict=True))
        self.words: Array = np.array([*map(last.__getitem__, numbers)], np.intp)
        self.worth: Array = np.array(worth, np.float32)
        self.weights: Array = np.array([term.weight for term in request.terms], np.float32)
        self.letters = letters
        inside = [term.clauses for term in request.terms]
        self.inside: Array = _inside(inside, request.clauses)  # of each way to read the request, whether it has a word
        self.ways: Array = self.inside * self.worth
        # Of each word the way that is the one clause it stands in, 0 where it stands in several.
        self.homes: Array = np.array([*map(_HOME.__getitem__, inside)], np.intp)
        self.way_worth: Array = self.ways.sum(1)  # what the words of each way are worth
        if len(self.ways) > 1:
            self.shares: Array = self.way_worth * ((1 - SHARE_OF_WHOLE) / (sum(self.way_worth.tolist()[1:]) or 1.0))
            self.shares[0] = SHARE_OF_WHOLE
        else:
            self.shares = np.ones(1, np.float32)
        several: Array = np.array(pieces, np.intp)
        shares: Array = self.inside * (self.weights / np.maximum(several, 1, dtype=np.float32))
        self.way_vectors: Array = index.lexicon.directions(rows, shares.repeat(several, axis=1))

    @classmethod
    def _read(cls, index: Index, term: Term) -> _Read:
        """Return the data of a word that is the same for every request."""
        plain = cls._corrected(index, term)
        likeness_of: dict[int, float] = {}
        rare: dict[int, float] = {}
        rarest = 0.0
        for stem, likeness in cls._stand_ins(index, term.stem, plain):
            number = index.terms.get(stem)
            if number is not None:
                likeness_of[number] = max(likeness_of.get(number, 0.0), likeness)
                rare[number] = index.rarity(index.frequency(number))
                if likeness == 1.0 or rarest == 0.0:
                    rarest = max(rarest, rare[number] * likeness)
        general = index.lexicon.weight(plain)
        informativeness = (rarest or UNKNOWN * index.rarity(0)) * (0.75 if general is None else general)
        stand_ins = [
            number_or_value
            for number, likeness in likeness_of.items()
            for number_or_value in (number, likeness, rare[number])
        ]
        return stand_ins, len(likeness_of), informativeness, index.lexicon.rows(plain), signature(trigrams(term.plain))

    @staticmethod
    def _corrected(index: Index, term: Term) -> str:
        """Return the word itself, or the known word that an unknown one is a misspelling of."""
        if term.stem in index.terms or index.lexicon.weight(term.plain) is not None:
            return term.plain
        endings = [end for end in _ENDINGS if term.plain.endswith(end)]
        if any(index.lexicon.weight(term.plain[: -len(end)]) is not None for end in endings):
            return term.plain  # a form of a known word
        correction = index.spelling.nearest(term.plain)
        if correction is None and not index.lexicon.split(term.plain):
            correction = index.lexicon.nearest(term.plain)
        return correction or term.plain

    @staticmethod
    def _stand_ins(index: Index, stem: str, plain: str) -> list[tuple[str, float]]:
        """Return the stems that may stand for a word, each with its similarity."""
        stems = stemmer()
        stand_ins = [(stem, 1.0)]
        if stem not in index.terms:
            corrected = stems(plain)
            stand_ins.append((corrected, CORRECTED))
            stand_ins.extend((stems(piece), 0.8) for piece in index.lexicon.split(plain) if piece not in STOP)
            stem = corrected
        return [*stand_ins, *_alike(stem, plain)]


def _with_joined(index: Index, request: Request, table: Array, places: Array) -> tuple[Array, Array]:
    """Add stand-ins: words of the index that two neighbouring words of the request form; each stands for both."""
    for stem, first, second in request.joined:
        number = index.terms.get(stem, -1)
        for place in (first, second) if number >= 0 else ():
            is_present = (table[:, 0] == number) & (places == place)
            if is_present.any():
                table[is_present, 1] = 1.0
            else:
                stand_in = number, 1.0, index.rarity(index.frequency(number))
                table, places = np.append(table, [stand_in], axis=0), np.append(places, place)
    return table, places


_HOME: Final = [clauses[0] + 1 if len(clauses) == 1 else 0 for clauses in CLAUSES_OF]


def _inside(inside: list[int], clauses: int) -> Array:
    if clauses <= 1:
        return np.ones((1, len(inside)), np.bool_)
    ways = [-1, *[1 << clause for clause in range(clauses)]]  # the whole has every word
    had: Array = (np.array(inside) & np.array(ways)[:, None]) != 0
    return had


@lru_cache(maxsize=50_000)
def _alike(stem: str, plain: str) -> tuple[tuple[str, float], ...]:
    """Return the stems of words with a similar meaning, independent of the tools."""
    stems = stemmer()
    similar = [(synonym, SYNONYM) for synonym in groups().get(stem, ())]
    similar.extend((synonym, SHORTENED) for synonym in shortened().get(stem, ()))
    similar.extend((stems(word), RELATED * like) for word, like in lexicon().near(plain) if like >= LEAST_LIKE)
    return tuple(similar)
