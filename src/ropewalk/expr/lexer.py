"""Split text into tokens with positions, and read numbers and strings.

Refused: unknown characters, NUL and lone surrogates from escapes, integers past 64 bits. The parser refuses
texts longer than `MAX_TEXT` characters.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from ..errors import ExpressionError
from ..values import Json
from .faults import fault

_TOKEN: Final = re.compile(
    r"""
    (?P<space>   (?: \s+ | //[^\n]* )+ )
  | (?P<string>  [rR]? (?: \"\"\" (?: [^\\\"] | \\. | \"(?!\"\") )* \"\"\"
                         | ''' (?: [^\\'] | \\. | '(?!'') )* '''
                         | \" (?: [^\\\"\n] | \\. )* \"
                         | ' (?: [^\\'\n] | \\. )* ' ) )
  | (?P<number>  0[xX][0-9a-fA-F]+ | (?: [0-9]+ \.[0-9]+ | [0-9]+ | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
  | (?P<quoted>  `[^`\n]+` )
  | (?P<root>    \$ (?: [^\W\d]\w* )? )
  | (?P<name>    [^\W\d]\w* )
  | (?P<op>      && | \|\| | [=!<>]= | [-+*/%<>!?:.,()\[\]{}] )
    """,
    re.VERBOSE | re.DOTALL,
)
_SIMPLE: Final = {
    "n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "a": "\a", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?", "/": "/",
}  # fmt: skip
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_HINTS: Final = {"=": "==", "&": "&&", "|": "||", "^": None, "@": None, "`": '"', "“": '"', "”": '"'}


class Token(NamedTuple):
    """`kind` is string, number, quoted, root, name, op or end; `at` the 0-based position in the text."""

    kind: str
    text: str
    at: int


def next_token(text: str, at: int, *, lenient: bool = False) -> Token:
    """Return the token at or after a position, without white space and comments."""

    # With `lenient`, a character that only JSONPath uses becomes a token of kind `other`.
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            if at >= len(text):
                return Token("end", "", len(text))
            if lenient and text[at] not in "\"'":
                return Token("other", text[at], at)
            raise _unexpected(text, at)
        kind = match.lastgroup or ""
        if kind != "space":
            return Token(kind, match.group(), at)
        at = match.end()


def _unexpected(text: str, at: int) -> ExpressionError:
    char = text[at]
    if char in "\"'":
        return fault(text, at, "the string is not closed on its line")
    return fault(text, at, f"unexpected {char!r}", _HINTS.get(char))


def number_value(text: str, token: Token, sign: int = 1) -> Json:
    """Return the number of a token; the sign is applied before the check for 64 bits."""
    raw = token.text
    if raw[:2] in ("0x", "0X"):
        value: int | float = int(raw, 16) if len(raw) <= 18 else 2**64
    elif raw.isdigit():
        value = int(raw) if len(raw) <= 20 else 2**64
    else:
        value = float(raw)
        if not math.isfinite(value):
            raise fault(text, token.at, "the number is too large")
        return sign * value
    value *= sign
    if not -(2**63) <= value < 2**63:
        raise fault(text, token.at, "integer past 64 bits")
    return value


def string_value(text: str, token: Token) -> str:
    """Return the string of a token, with escapes replaced."""
    raw = token.text
    plain = raw[0] in "rR"
    body = raw[1:] if plain else raw
    quotes = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    inner = body[quotes:-quotes]
    start = token.at + plain + quotes
    if not plain and "\\" in inner:
        inner = _unescape(text, inner, start)
    if "\0" in inner:
        raise fault(text, token.at, "a string cannot hold a NUL character")
    if not inner.isascii():
        try:
            inner.encode("utf-8")
        except UnicodeEncodeError:
            raise fault(text, token.at, "a string cannot hold half of a surrogate pair") from None
    return inner


def _unescape(text: str, inner: str, start: int) -> str:
    def replace_escape(match: re.Match[str]) -> str:
        short = match.group(5)
        if short is not None:
            if short not in _SIMPLE:
                raise fault(text, start + match.start(), f"unknown escape \\{short}", "\\\\" + short)
            return _SIMPLE[short]
        octal = match.group(4)
        point = int(octal, 8) if octal else int(match.group(1) or match.group(2) or match.group(3), 16)
        if point > 0x10FFFF:
            raise fault(text, start + match.start(), "the escape is past the last code point, 10FFFF")
        return chr(point)

    out = _ESCAPE.sub(replace_escape, inner)
    # JSON writes characters above FFFF as two escapes; join the halves.
    return re.sub(
        "[\ud800-\udbff][\udc00-\udfff]",
        lambda m: m.group().encode("utf-16", "surrogatepass").decode("utf-16"),
        out,
    )
