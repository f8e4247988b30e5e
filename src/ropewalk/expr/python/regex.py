"""The module `re` of programs, with an engine whose time is linear in the text (RE2).

Patterns mean what they mean in Python. Patterns and texts on which the two engines could differ are refused:
lookaround and backreferences, classes such as `\\w` on text that is not ASCII, empty matches in a row.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from .evaluation import Evaluation
from .method_table import METHODS
from .values import Refused, register_kind

_FLAGS: Final = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_KNOWN_FLAGS: Final = int(re.IGNORECASE | re.MULTILINE | re.DOTALL | re.UNICODE)
_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$|.", re.DOTALL)
_CLASSES: Final = re.compile(r"\\[dDwWsSbB]")
_ODD: Final = re.compile(r"\{,|\[:|\[\[|&&|\|\||~~|--")
_SPACES: Final = r"\t-\r\x1c-\x20"
_TEMPLATE: Final = re.compile(r"\\(?:([1-9][0-9]?)|g<(\w+)>|(.))", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_MAX_PATTERN: Final = 10_000


class Pattern:
    """A compiled pattern: `pattern`, `flags` and `groups`."""

    __slots__ = ("flags", "native", "needs_ascii", "needs_no_newline", "pattern")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern, self.flags = pattern, flags
        self.native, self.needs_ascii, self.needs_no_newline = _compiled(pattern, flags)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and (self.pattern, self.flags) == (other.pattern, other.flags)

    def __hash__(self) -> int:
        return hash((self.pattern, self.flags))

    def __repr__(self) -> str:
        return f"re.compile({self.pattern!r})"


class Match:
    """A match: the text, the span of each group, and the numbers of the named groups."""

    __slots__ = ("names", "spans", "text")

    def __init__(self, text: str, spans: list[list[int]], names: dict[str, int]) -> None:
        self.text, self.spans, self.names = text, spans, names

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

    def __repr__(self) -> str:
        start, end = self.spans[0]
        return f"<re.Match object; span=({start}, {end}), match={self.text[start:end]!r}>"


@lru_cache(maxsize=512)
def _compiled(pattern: str, flags: int) -> tuple[Any, bool, bool]:
    """Return the pattern compiled for RE2, whether it needs ASCII texts, and texts without a line feed at the end."""
    import re2  # type: ignore[import-untyped, unused-ignore]

    if len(pattern) > _MAX_PATTERN:
        raise Refused(f"a pattern of more than {_MAX_PATTERN:,} characters")
    if flags & ~_KNOWN_FLAGS:
        raise Refused("re supports the flags IGNORECASE, MULTILINE and DOTALL")
    # Python parses the pattern first: its errors are the ones that authors know, and it finds inline flags.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            known = re.compile(pattern, flags)
        except re.error as error:
            raise Refused(f"the pattern {pattern!r} is not valid: {error}") from None
    # Refuse what both engines accept but match differently.
    if _ODD.search(pattern) or _repeats_nothing(re._parser.parse(pattern, flags)):  # type: ignore[attr-defined]
        raise Refused(f"the pattern {pattern!r} is not supported; write it with simpler classes and repetitions")
    options = re2.Options()
    options.log_errors = False
    letters = "".join(letter for flag, letter in _FLAGS.items() if known.flags & flag)
    text = "".join(map(_translated, _TOKEN.findall(pattern)))
    try:
        native = re2.compile(f"(?{letters}){text}" if letters else text, options)
    except re2.error:
        what = "lookaround, backreferences and possessive repetitions are not supported"
        raise Refused(f"the pattern {pattern!r} cannot be used: {what}") from None
    # Beyond ASCII, and for `$` before a final line feed, the engines differ: the caller checks the texts.
    ignores_case = bool(known.flags & re.IGNORECASE)
    ends = "$" in _TOKEN.findall(pattern) and not known.flags & re.MULTILINE
    return native, bool(_CLASSES.search(pattern)) or ignores_case, ends


def _translated(token: str) -> str:
    """Return a token of a pattern as RE2 writes it."""
    if token == r"\s":
        return f"[{_SPACES}]"
    if token == r"\S":
        return f"[^{_SPACES}]"
    if token == r"\Z":
        return r"\z"
    if token.startswith("[") and len(token) > 1:
        if r"\S" in token:
            raise Refused(r"\S inside [...] is not supported; write (?:\S|...) in place of [\S...]")
        return token.replace(r"\s", _SPACES)
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


def _checked(evaluation: Evaluation, pattern: Pattern, text: Any) -> str:
    """Spend the steps of a search through a text, and refuse a text on which the engines could differ."""
    if not isinstance(text, str):
        raise TypeError(f"expected string or bytes-like object, got '{type(text).__name__}'")
    if pattern.needs_ascii and not text.isascii():
        raise Refused(
            f"the pattern {pattern.pattern!r} needs ASCII text; for other text write classes such as [A-Za-z0-9_]"
        )
    if pattern.needs_no_newline and text.endswith("\n"):
        raise Refused(
            f"the pattern {pattern.pattern!r} is not supported on text that ends with a line feed; use .rstrip()"
        )
    evaluation.step(1 + (pattern.native.programsize * len(text) >> 10))
    return text


def _match_of(pattern: Pattern, text: str, found: Any) -> Match | None:
    if found is None:
        return None
    spans = [list(found.span(number)) for number in range(pattern.native.groups + 1)]
    return Match(text, spans, dict(pattern.native.groupindex))


def _finder(method: str) -> Callable[..., Any]:
    def run(evaluation: Evaluation, pattern: Any, string: Any, flags: Any = 0) -> Match | None:
        compiled = _pattern(pattern, flags)
        text = _checked(evaluation, compiled, string)
        return _match_of(compiled, text, getattr(compiled.native, method)(text))

    return run


def _matches(evaluation: Evaluation, pattern: Pattern, string: Any) -> Iterator[Match]:
    text = _checked(evaluation, pattern, string)
    for found in pattern.native.finditer(text):
        match = _match_of(pattern, text, found)
        assert match is not None
        if match.spans[0][0] == match.spans[0][1]:
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
FLAGS: Final = {name: int(getattr(re, name)) for name in ("I", "IGNORECASE", "M", "MULTILINE", "S", "DOTALL")}
"""The constants of the module."""

METHODS[Pattern] = {name: run for name, run in RE.items() if name not in ("compile", "escape")}
METHODS[Match] = {
    "group": _group,
    "groups": _groups,
    "groupdict": _groupdict,
    "start": lambda evaluation, match, group=0: match.spans[match.number(group)][0],
    "end": lambda evaluation, match, group=0: match.spans[match.number(group)][1],
    "span": lambda evaluation, match, group=0: tuple(match.spans[match.number(group)]),
}
register_kind(Pattern, "pattern", lambda value: [value.pattern, value.flags], lambda content: Pattern(*content))
register_kind(Match, "match", lambda value: [value.text, value.spans, value.names], lambda content: Match(*content))
