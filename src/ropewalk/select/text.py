"""Words of a text: normalised, split where names are joined, stemmed.

Every script is a word here; Chinese, Japanese and Thai, which put no spaces, become pairs of characters.

Which known word a misspelt one was meant to be.

Each known word is found by itself with any one letter left out, so a look-up costs as many steps as the misspelt
word has letters, whatever the number of known words. Refused: short words, where anything is near anything.

Groups of words that mean much the same where tools are concerned. General English; no set's own words.

To add a group, write a line. A word may be in several groups; forms of a word need no entry of their own. An
abbreviation counts nearly as much as the full word.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

_V = TypeVar("_V")
_Pieces: TypeAlias = tuple[tuple[str, str], ...]

LONGEST_WORD: Final = 64
_MOST_MET: Final = 50_000

_SURFACE: Final = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_PIECE: Final = re.compile(
    r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z](?:[^\W\d_A-Z])*|[^\W_]"
)
_APOSTROPHE: Final = re.compile(r"(?<=\w)['’`´](?=\w)")
_ACCENT: Final = re.compile("[\u0300-\u036f]")
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)

_STOP: Final = """
    a about above after again all also although am an and any anyone anything are as at be because been before
    being below between both but by can could did do does doing done during each either else ever every everyone
    few for from further had has have having he her here hers herself him himself his how however i id ids if im
    in into is isnt it its itself ive just let lets like may me might mine more most much must my myself no nor
    not of off ok on once one ones only onto or other others our ours ourselves out over own per please s same
    shall she should so some someone something such t than that thats the their theirs them themselves then there
    theres these they theyre this those though through thus to too under until up upon us use used uses using very
    via was we were what whats whatever when where whether which while who whom whose why will with within without
    would yes you youd your youre yours yourself yourselves dont doesnt cant couldnt wouldnt id ill youll weve"""
STOP: Final = frozenset(_STOP.split())
"""Words that say nothing about what a tool does; left out of texts, and of requests that have others."""


class Word(NamedTuple):
    """A word of a text: its stem, the word in lower case, and its position."""

    stem: str
    plain: str
    start: int


def normalised(text: str) -> str:
    """Return a text in one spelling: NFKC, without accents and apostrophes inside words."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", text)))
    elif "'" not in text and "`" not in text:
        return text
    return _APOSTROPHE.sub("", text)


class _Met(dict[str, _V]):
    """A bounded cache of words; it is emptied when it is full."""

    # A look-up is one step of C, even with `map`.

    def __init__(self, make: Callable[[str], _V]) -> None:
        self._make = make

    def __missing__(self, word: str) -> _V:
        if len(self) > _MOST_MET:
            self.clear()
        value = self[word] = self._make(word)
        return value


class _Stems(threading.local):
    """Stemmers are not to be shared by threads; each has its own, with what it has met: the `stem` of a lower-case
    word, the (stem, word) of each of the `pieces` of a stretch of letters, and of the whole when there are several,
    and those of them that are `telling`, no stop words."""

    def __init__(self) -> None:
        native: Any = _native_stemmer()
        self.stem: _Met[str] = _Met(native.stemWord)
        self.pieces: _Met[_Pieces] = _Met(lambda surface: tuple(_split(surface, self.stem)))
        self.telling: _Met[_Pieces] = _Met(self._telling)

    def __call__(self, word: str) -> str:
        return self.stem[word]

    def _telling(self, surface: str) -> _Pieces:
        pieces = self.pieces[surface]
        informative = tuple([piece for piece in pieces if piece[1] not in STOP])
        return pieces if len(informative) == len(pieces) else informative


def _native_stemmer() -> Any:
    """Return the stemmer in C of the extra `select`, or the one in Python, which gives the same stems."""
    try:
        return import_module("Stemmer").Stemmer("english", 0)
    except ModuleNotFoundError:
        return import_module("snowballstemmer").stemmer("english")


_stems: _Stems | None = None
_making: Final = threading.Lock()


def stemmer() -> _Stems:
    """Return the function that stems a lower-case word, one per thread."""
    global _stems
    if _stems is None:
        with _making:
            _stems = _stems or _Stems()
    return _stems


def stemmed_words(text: str, limit: int = 100_000) -> list[tuple[str, str, int]]:
    """Return (stem, word, position) of the words of a normalised text; compound names also give their pieces."""
    pieces = stemmer().pieces
    surfaces = islice(_SURFACE.finditer(text), limit)
    placed_words = [(stem, plain, match.start()) for match in surfaces for stem, plain in pieces[match[0]]]
    del placed_words[limit:]
    return placed_words


def words(text: str, limit: int = 100_000) -> list[Word]:
    """Return the words of a normalised text, in order."""
    return [Word(*placed_word) for placed_word in stemmed_words(text, limit)]


def informative_words(text: str, limit: int) -> list[tuple[str, str]]:
    """Return the (stem, word) of the words of a normalised text, without stop words."""
    stems, surfaces = stemmer(), _SURFACE.findall(text)
    if len(text) >= limit:  # a shorter text cannot have that many words
        pieces, remaining = stems.pieces, limit
        for place, surface in enumerate(surfaces):
            remaining -= len(pieces[surface])
            if remaining <= 0:
                del surfaces[place + 1 :]
                break
    return list(chain.from_iterable(map(stems.telling.__getitem__, surfaces)))


def _split(surface: str, stems: _Met[str]) -> list[tuple[str, str]]:
    if surface.islower() and surface.isascii() and surface.isalpha():  # most words: nothing to split
        plain = surface[:LONGEST_WORD]
        return [(stems[plain], plain)]
    words: list[tuple[str, str]] = []
    pieces = _PIECE.findall(surface)
    for piece in pieces:
        if not piece.isascii() and _UNSPACED.search(piece):
            words.extend((stems[pair], pair) for pair in _pairs(piece))
        else:
            plain = piece.casefold()[:LONGEST_WORD]
            words.append((stems[plain], plain))
    if len(pieces) > 1 and len(surface) <= LONGEST_WORD and surface.isascii():
        joined_words = surface.replace("_", "").lower()
        words.append((stems[joined_words], joined_words))
    return words


def _pairs(run: str) -> list[str]:
    """Split characters of an unspaced script into pairs; keep other text whole."""
    parts, end = [], 0
    for match in _UNSPACED.finditer(run):
        if match.start() > end:
            parts.append(run[end : match.start()].casefold())
        part, end = match.group(), match.end()
        parts.extend(part[i : i + 2] for i in range(max(1, len(part) - 1)))
    if end < len(run):
        parts.append(run[end:].casefold())
    return parts


SHORTEST: Final = 5
LONGEST: Final = 24


class Spelling:
    """The words of the tools, indexed by their spellings with one letter left out."""

    def __init__(self) -> None:
        self.stems: dict[str, str] = {}
        self._counts: dict[str, int] = {}  # tools that have a word
        self._near: dict[str, str | tuple[str, ...]] = {}  # mostly one word: no tuple is made for that

    def put(self, tools: Iterable[Iterable[tuple[str, str]]]) -> None:
        """Add the words of tools, given as the (stem, word) of each."""
        counts = self._counts
        having = Counter(chain.from_iterable(map(dict.fromkeys, tools)))
        for (stem, plain), more in having.items():
            count = counts[plain] = counts.get(plain, 0) + more
            if count == more:
                self._know(plain, stem)

    def _know(self, plain: str, stem: str) -> None:
        self.stems[plain] = stem
        near = self._near
        for key in _without_a_letter(plain):
            known = near.setdefault(key, plain)
            if known is not plain:
                near[key] = (*known, plain) if isinstance(known, tuple) else (known, plain)

    def drop(self, words: Iterable[str]) -> None:
        """Forget the words of a tool that no other has."""
        for plain in words:
            self._counts[plain] -= 1
            if not self._counts[plain]:
                del self._counts[plain], self.stems[plain]
                self._forget(plain)

    def _forget(self, plain: str) -> None:
        for key in _without_a_letter(plain):
            words = self._near[key]
            others = () if isinstance(words, str) else tuple(word for word in words if word != plain)
            if not others:
                del self._near[key]
            else:
                self._near[key] = others if len(others) > 1 else others[0]

    def nearest(self, word: str) -> str | None:
        """Return the known word with the fewest slips (letters omitted, added, changed or swapped): at most one, or
        two from eight letters on."""

        # None if there is none.
        from rapidfuzz.distance import OSA

        candidates: set[str] = set()
        for key in _without_a_letter(word):
            known = self._near.get(key, ())
            candidates.update((known,) if isinstance(known, str) else known)
        max_slips = 1 if len(word) < 8 else 2
        best: tuple[int, int, str] | None = None
        for candidate in candidates:
            slips = OSA.distance(word, candidate, score_cutoff=max_slips)
            rank = (slips, int(candidate[0] != word[0]), candidate)
            if 0 < slips <= max_slips and (best is None or rank < best):
                best = rank
        return best[2] if best else None


def _without_a_letter(word: str) -> set[str]:
    if not SHORTEST <= len(word) <= LONGEST:
        return set()
    return {word, *[word[:n] + word[n + 1 :] for n in range(len(word))]}


GROUPS: Final = """
get fetch retrieve obtain read load pull
find search lookup query discover locate
show display view present
list enumerate browse all
create make generate build produce new
add insert append attach include
update edit modify change alter revise adjust
delete remove erase drop clear destroy discard
cancel abort revoke undo
send deliver dispatch transmit post
notify alert remind reminder notification
save store persist keep record
compute calculate calculator calculation determine
convert conversion converter transform exchange translate
compare comparison versus difference
analyze analysis evaluate assess examine inspect
check verify validate test confirm
estimate predict prediction forecast projection
recommend recommendation suggest suggestion advise advice tip
book reserve reservation booking schedule
schedule appointment calendar agenda event meeting
buy purchase order shop shopping
sell sale
pay payment transaction charge
price cost fee rate
cheap affordable discount deal bargain coupon voucher
money cash fund currency finance
invest investment portfolio stock share trading
start launch begin run execute
stop halt terminate end kill
open access
enable activate
disable deactivate
join merge combine concatenate
split divide separate
sort order arrange rank
count number total amount sum quantity
mean average
maximum highest largest top
minimum lowest smallest
film movie cinema
song music track audio tune
picture image photo photograph illustration
drawing diagram chart graph plot visualization
video clip footage youtube
news article headline
paper publication research study journal
document file pdf
website site page web url link
email mail inbox message
text sms message
chat conversation talk
phone telephone mobile call
user account profile customer client member
person people human
employee staff worker personnel
job career employment vacancy position occupation
resume cv
company business firm organization corporation enterprise
product item goods merchandise
shop store retailer market
weather temperature climate rain meteorological
trip travel journey tour itinerary vacation holiday
hotel accommodation lodging stay
flight plane airline airfare
car vehicle automobile auto
taxi cab ride uber
route direction navigation path
map location place address geographic
city town municipality
country nation
house home property apartment estate
food meal dish cuisine
recipe cooking cook ingredient
restaurant dining eatery cafe
drink beverage
doctor physician medical health
medicine drug medication pharmaceutical
disease illness condition symptom
exercise workout fitness training
game play player gaming
child kid children
pet animal dog cat
book novel literature
learn teach education study course lesson tutor
school university college
student pupil
exam test quiz
translate language
write compose draft author
summarize summary abstract
rewrite paraphrase rephrase
spell grammar proofread
code program programming software script
bug error defect fault issue
repository repo git github
database table sql
server host machine
password credential login authentication
delete cancel unsubscribe
law legal lawyer attorney
tax taxation
gift present
job task todo
picture logo design
domain website dns
horoscope zodiac astrology
tarot fortune divination
wallet crypto cryptocurrency bitcoin blockchain
token nft
time clock hour
date day
distance length
weight mass
speed velocity
size dimension
area surface
review rating feedback opinion
ticket event concert
story tale narrative fiction
""".strip()

SHORT: Final = """
addr address
admin administrator administration
app application
arg argument
attr attribute
auth authentication authorization authenticate authorize
avg average
calc calculate calculator calculation
cert certificate
cfg configuration configure
cmd command
config configuration configure
conn connection
coord coordinate
cp copy duplicate
db database
del delete
dept department
desc description
dest destination
dev development developer
dir directory folder
doc document documentation
docs documentation document
env environment
eval evaluate evaluation
exec execute execution
expr expression
fmt format
freq frequency
func function
gen generate generation
geo geographic
hist history
id identifier
img image
info information
init initialize
intl international
lang language
lib library
loc location
ls list
max maximum
mgmt management
mgr manager
min minimum
mk make create
msg message
mv move rename
num number
obj object
org organization
param parameter
perf performance
perm permission
pr pull
pic picture
pkg package
pref preference
prev previous
proc process
pwd password
qty quantity
ref reference
repo repository
req request
rm remove
sched schedule
spec specification
src source
stat statistic
str string
svc service
sync synchronize
sys system
tel telephone
temp temperature temporary
txn transaction
txt text
usr user
util utility
val value
ver version
vol volume
""".strip()
"""Short forms as names of tools and parameters have them, each before the words that it is short for."""


@cache
def shortened() -> dict[str, tuple[str, ...]]:
    """Return, by stem, the stems of its long or short forms."""
    stem = stemmer()
    forms_of: dict[str, dict[str, None]] = {}
    for line in SHORT.splitlines():
        first, *rest = line.split()
        forms = [stem(first), stem(f"{first}s")]  # without a vowel a plural is no form of its word to a stemmer
        long_forms = [stem(word) for word in rest]
        for stem_of_form, forms_of_word in (
            *((form, forms + long_forms) for form in forms),
            *((long_form, forms) for long_form in long_forms),
        ):
            forms_of.setdefault(stem_of_form, {}).update(
                dict.fromkeys(other for other in forms_of_word if other != stem_of_form)
            )
    return {stem_of_form: tuple(forms_of_word) for stem_of_form, forms_of_word in forms_of.items()}


@cache
def groups() -> dict[str, tuple[str, ...]]:
    """Return, by stem, the stems that share a group with it."""
    stem = stemmer()
    members_of: dict[str, dict[str, None]] = {}
    for line in GROUPS.splitlines():
        stems = [stem(word) for word in line.split()]
        for member in stems:
            members_of.setdefault(member, {}).update(
                dict.fromkeys(companion for companion in stems if companion != member)
            )
    return {member: tuple(companions) for member, companions in members_of.items()}
