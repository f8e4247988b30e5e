"""The module `re` of programs, with two engines.

RE2 takes a time that is linear in the text. Patterns and texts on which it could differ from Python are for Python's
own engine: lookaround and backreferences, `\\b` in text that is not ASCII, empty matches. They are refused where that
engine may take long (`backtracking.py`).
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from .backtracking import MOST, parsed_pattern, steps_of
from .evaluation import Evaluation
from .method_table import METHODS
from .operations import FIELDS
from .values import Refused

_FLAGS: Final = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_KNOWN_FLAGS: Final = int(re.IGNORECASE | re.MULTILINE | re.DOTALL | re.UNICODE)
_ALL_FLAGS: Final = _KNOWN_FLAGS | int(re.ASCII | re.VERBOSE)
_SHORT: Final = 100
"""How long a text is on which every pattern works."""
_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$|.", re.DOTALL)
_CLASSES: Final = re.compile(r"\\[dDwWsSbB]")
_ODD: Final = re.compile(r"^\[.*(?:\[|&&|\|\||~~|--)", re.DOTALL)
_SPACES: Final = r"\t-\r\x1c-\x20"
_WIDE_SPACES: Final = _SPACES + r"\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_NARROW: Final = {r"\s": _SPACES}
_WIDE: Final = {r"\w": r"\pL\pN_", r"\d": r"\p{Nd}", r"\s": _WIDE_SPACES}
"""What is in a class of characters, in ASCII and in every text."""
_TEMPLATE: Final = re.compile(r"\\(?:([1-9][0-9]?)|g<(\w+)>|(.))", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_MAX_PATTERN: Final = 10_000


class Pattern:
    """A compiled pattern: `pattern`, `flags` and `groups`."""

    __slots__ = ("flags", "known", "native", "needs_ascii", "needs_no_newline", "pattern")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern, self.flags = pattern, flags
        self.known, self.native, self.needs_ascii, self.needs_no_newline = _compiled(pattern, flags)

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return int(self.known.groups)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and (self.pattern, self.flags) == (other.pattern, other.flags)

    def __hash__(self) -> int:
        return hash((self.pattern, self.flags))

    def __repr__(self) -> str:
        return f"re.compile({self.pattern!r})"


class Match:
    """A match: the text, the span of each group, and the numbers of the named groups."""

    __slots__ = ("names", "spans", "string", "text")

    def __init__(self, text: str, spans: list[list[int]], names: dict[str, int]) -> None:
        self.text, self.spans, self.names = text, spans, names
        self.string = text

    def number(self, group: Any) -> int:
        """Return the number of a group."""

        # Raises IndexError as Python does.
        number = self.names.get(group) if isinstance(group, str) else group
        if type(number) is not int or not 0 <= number < len(self.spans):
            raise IndexError("no such group")
        return number

    def __getitem__(self, group: Any) -> str | None:
        start, end = self.spans[self.number(group)]
        return None if start < 0 else self.text[start:end]

    def __iter__(self) -> Iterator[str | None]:
        # Without this, Python would call `__getitem__` with 0, 1, 2 and so on.
        raise TypeError("'re.Match' object is not iterable")

    def __repr__(self) -> str:
        start, end = self.spans[0]
        return f"<re.Match object; span=({start}, {end}), match={self.text[start:end]!r}>"


@lru_cache(maxsize=512)
def _compiled(pattern: str, flags: int) -> tuple[Any, Any, bool, bool]:
    """Return the pattern for Python and for RE2, and whether RE2 needs ASCII, and no line feed at the end of a text."""
    if len(pattern) > _MAX_PATTERN:
        raise Refused(f"a pattern of more than {_MAX_PATTERN:,} characters")
    if flags & ~_ALL_FLAGS:
        raise Refused("re supports the flags ASCII, IGNORECASE, MULTILINE, DOTALL and VERBOSE")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = re.compile(pattern, flags)
    tokens = _TOKEN.findall(pattern)
    native = _linear(pattern, known.flags, False)
    if native is None and steps_of(pattern, flags, _SHORT, False) > MOST:
        raise Refused(f"the pattern {pattern!r} may take too long; write it without repetitions inside of repetitions")
    # Beyond ASCII, and for `$` before a final line feed, the engines differ.
    ignores_case = bool(known.flags & re.IGNORECASE)
    ends = "$" in tokens and not known.flags & re.MULTILINE
    return known, native, bool(_CLASSES.search(pattern)) or ignores_case, ends


@lru_cache(maxsize=512)
def _linear(pattern: str, flags: int, is_wide: bool) -> Any:
    """Return the pattern compiled for RE2, or None if it lacks a part or means something else there."""
    import re2  # type: ignore[import-untyped, unused-ignore]

    tokens = _TOKEN.findall(pattern)
    is_odd = "{," in pattern or any(_ODD.search(token) or (r"\S" in token and len(token) > 2) for token in tokens)
    if is_wide:
        is_odd = is_odd or any(token in (r"\b", r"\B") or (r"\W" in token and len(token) > 2) for token in tokens)
    if flags & ~_KNOWN_FLAGS or is_odd or _repeats_nothing(parsed_pattern(pattern, flags)):
        return None
    options = re2.Options()
    options.log_errors = False
    letters = "".join(letter for flag, letter in _FLAGS.items() if flags & flag)
    text = "".join(_translated(token, _WIDE if is_wide else _NARROW) for token in tokens)
    try:
        return re2.compile(f"(?{letters}){text}" if letters else text, options)
    except re2.error:
        return None


def _translated(token: str, classes: dict[str, str]) -> str:
    """Return a token of a pattern as RE2 writes it."""
    if token == r"\Z":
        return r"\z"
    for name, characters in classes.items():
        if token.startswith("[") and len(token) > 1:
            token = token.replace(r"\D", r"\P{Nd}") if name == r"\d" else token
            token = token.replace(name, characters)
        elif token.lower() == name:
            return f"[{'^' * token[1].isupper()}{characters}]"
    return token


def _repeats_nothing(parsed: Any) -> bool:
    """Return True if a pattern repeats a part that may match the empty text, which the engines do differently."""
    for name, value in parsed:
        kind = str(name)
        parts: list[Any] = []
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            _, most, part = value
            if int(most) > 1 and part.getwidth()[0] == 0:
                return True
            parts = [part]
        elif kind == "SUBPATTERN":
            parts = [value[3]]
        elif kind == "BRANCH":
            parts = value[1]
        if any(map(_repeats_nothing, parts)):
            return True
    return False


# --- functions -------------------------------------------------------------------------------------


def _pattern(pattern: Any, flags: Any = 0) -> Pattern:
    if isinstance(pattern, Pattern):
        if flags:
            raise Refused("flags and positions next to a compiled pattern are not supported; give them to re.compile")
        return pattern
    if not isinstance(pattern, str):
        raise TypeError("first argument must be string or compiled pattern")
    return Pattern(pattern, int(flags))


def _engine(evaluation: Evaluation, pattern: Pattern, text: Any, anchored: bool = False) -> Any:
    """Spend the steps of a search through a text, and return the compiled pattern for it."""
    if not isinstance(text, str):
        raise TypeError(f"expected string or bytes-like object, got '{type(text).__name__}'")
    engine = pattern.native
    if pattern.needs_no_newline and text.endswith("\n"):
        engine = None
    elif engine is not None and pattern.needs_ascii and not text.isascii():
        engine = None if _is_special(text) else _linear(pattern.pattern, pattern.known.flags, True)
    if engine is None:
        return _backtracking(evaluation, pattern, len(text), anchored)
    evaluation.step(1 + (engine.programsize * len(text) >> 10))
    return engine


def _is_special(text: str) -> bool:
    """Return True for letters of which RE2 has other cases, or that Python does not know yet."""
    return any(letter in "\u0130\u0131" or unicodedata.category(letter) == "Cn" for letter in set(text))


def _backtracking(evaluation: Evaluation, pattern: Pattern, length: int, anchored: bool) -> Any:
    """Spend the steps that Python's engine may need, and return the pattern compiled for it."""
    steps = steps_of(pattern.pattern, pattern.flags, length, anchored)
    if steps > MOST:
        raise Refused(
            f"the pattern {pattern.pattern!r} may take too long on {length:,} characters; search line by line"
        )
    evaluation.step(1 + (steps >> 11))
    return pattern.known


def _match_of(pattern: Pattern, text: str, found: Any) -> Match | None:
    if found is None:
        return None
    spans = [list(found.span(number)) for number in range(pattern.known.groups + 1)]
    return Match(text, spans, dict(pattern.known.groupindex))


def _finder(method: str) -> Callable[..., Any]:
    def run(evaluation: Evaluation, pattern: Any, string: Any, flags: Any = 0) -> Match | None:
        compiled = _pattern(pattern, flags)
        engine = _engine(evaluation, compiled, string, method != "search")
        return _match_of(compiled, string, getattr(engine, method)(string))

    return run


def _matches(evaluation: Evaluation, pattern: Pattern, string: Any) -> Iterator[Match]:
    engine = _engine(evaluation, pattern, string)
    if engine is not pattern.known and engine.search("") is not None:  # empty matches in a row differ
        engine = _backtracking(evaluation, pattern, len(string), False)
    for found in engine.finditer(string):
        match = _match_of(pattern, string, found)
        assert match is not None
        if engine is not pattern.known and match.spans[0][0] == match.spans[0][1]:
            raise Refused(f"the pattern {pattern.pattern!r} matches the empty text; write + in place of *")
        evaluation.step()
        yield match


def _finditer(evaluation: Evaluation, pattern: Any, string: Any, flags: Any = 0) -> Iterator[Match]:
    return iter(list(_matches(evaluation, _pattern(pattern, flags), string)))


def _findall(evaluation: Evaluation, pattern: Any, string: Any, flags: Any = 0) -> list[Any]:
    rows: list[Any] = []
    for match in _matches(evaluation, _pattern(pattern, flags), string):
        groups = tuple(match[number] or "" for number in range(1, len(match.spans)))
        rows.append(evaluation.stored(match[0] if not groups else groups[0] if len(groups) == 1 else groups))
    return rows


def _split(evaluation: Evaluation, pattern: Any, string: Any, maxsplit: int = 0, flags: Any = 0) -> list[Any]:
    parts: list[Any] = []
    position = 0
    for count, match in enumerate(_matches(evaluation, _pattern(pattern, flags), string)):
        if maxsplit and count >= maxsplit:
            break
        parts.append(evaluation.stored(string[position : match.spans[0][0]]))
        parts += [match[number] for number in range(1, len(match.spans))]
        position = match.spans[0][1]
    return [*parts, string[position:]]


def _subn(
    evaluation: Evaluation, pattern: Any, repl: Any, string: Any, count: int = 0, flags: Any = 0
) -> tuple[str, int]:
    replace = None if isinstance(repl, str) else evaluation.callable(repl)
    parts: list[str] = []
    position = made = 0
    for match in _matches(evaluation, _pattern(pattern, flags), string):
        if count and made >= count:
            break
        new = _expanded(repl, match) if replace is None else replace(match)
        evaluation.reserve(len(new))
        parts += [string[position : match.spans[0][0]], new]
        position, made = match.spans[0][1], made + 1
    return "".join([*parts, string[position:]]), made


def _sub(evaluation: Evaluation, pattern: Any, repl: Any, string: Any, count: int = 0, flags: Any = 0) -> str:
    return _subn(evaluation, pattern, repl, string, count, flags)[0]


def _expanded(template: str, match: Match) -> str:
    """Return the text of a replacement with its groups."""

    def part(found: re.Match[str]) -> str:
        number, name, escape = found.groups()
        if escape is not None:
            if escape not in _ESCAPES:
                raise Refused(f"the replacement {template!r} has an escape that is not supported")
            return _ESCAPES[escape]
        group = number or name
        return match[int(group) if group.isdigit() else group] or ""

    return _TEMPLATE.sub(part, template) if "\\" in template else template


def _group(evaluation: Evaluation, match: Match, *groups: Any) -> Any:
    values = tuple(match[group] for group in groups or (0,))
    return values[0] if len(values) == 1 else values


def _groups(evaluation: Evaluation, match: Match, default: Any = None) -> tuple[Any, ...]:
    values = (match[number] for number in range(1, len(match.spans)))
    return tuple(default if value is None else value for value in values)


def _groupdict(evaluation: Evaluation, match: Match, default: Any = None) -> dict[str, Any]:
    return {name: default if match[name] is None else match[name] for name in match.names}


RE: Final[dict[str, Any]] = {
    "compile": lambda evaluation, pattern, flags=0: _pattern(pattern, flags),
    "escape": lambda evaluation, pattern: re.escape(pattern),
    "findall": _findall,
    "finditer": _finditer,
    "fullmatch": _finder("fullmatch"),
    "match": _finder("match"),
    "search": _finder("search"),
    "split": _split,
    "sub": _sub,
    "subn": _subn,
}
"""The functions of the module."""
_NAMES: Final = "A ASCII I IGNORECASE M MULTILINE S DOTALL U UNICODE X VERBOSE"
FLAGS: Final[dict[str, Any]] = {name: int(getattr(re, name)) for name in _NAMES.split()}
FLAGS["error"] = re.error
"""The constants of the module."""

FIELDS[Pattern] = frozenset(("pattern", "groups"))
FIELDS[Match] = frozenset(("string",))
METHODS[Pattern] = {name: run for name, run in RE.items() if name not in ("compile", "escape")}
METHODS[Match] = {
    "group": _group,
    "groups": _groups,
    "groupdict": _groupdict,
    "start": lambda evaluation, match, group=0: match.spans[match.number(group)][0],
    "end": lambda evaluation, match, group=0: match.spans[match.number(group)][1],
    "span": lambda evaluation, match, group=0: tuple(match.spans[match.number(group)]),
}
