"""Redaction: remove known secrets from texts and JSON values before anything writes them down.

A secret is recognised in plain text, and in the spelling of JSON, Python, percent-encoding and base64. Overlapping
occurrences are removed together, the longest first, so no part of one remains. No mark contains a secret.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus

import orjson

from .values import Json

MARK: Final = "***"
_MAX_JSON_LEVELS: Final = 3
"""Levels of JSON text inside JSON text in which secrets are found."""
_MIN_BASE64_BYTES: Final = 6
"""Bytes of the shortest secret that is found in base64, where a few letters occur by chance."""
_MIN_CUT_OFF: Final = 8
"""Characters of a secret that suffice to find it at the end of a text that was cut off."""
_OMISSION_MARKS: Final = ("…", "...")


class _Needle(NamedTuple):
    """A text to look for."""

    # `before` and `after` count the letters around it that also contain a part of the secret.

    text: str
    name: str
    before: int = 0
    after: int = 0


class _Span(NamedTuple):
    """A part of a text that shows a secret: from `start` up to `stop`."""

    start: int
    stop: int
    secret: str


class Redaction:
    """The secrets that a run or a process knows, and the mark that replaces each."""

    __slots__ = ("_groups", "_marks", "_needles", "_safe")

    def __init__(self, marks: Mapping[str, str] | None = None) -> None:
        self._marks: dict[str, str] = {}
        self._needles: list[_Needle] = []
        self._groups: dict[str, list[_Needle]] = {}  # by their first characters, which most texts do not contain
        self._safe: dict[str, str] = {}
        for secret, mark in (marks or {}).items():
            self.add(secret, mark)

    def __bool__(self) -> bool:
        return bool(self._needles)

    def add(self, secret: str, mark: str) -> None:
        """Redact another secret from now on; an empty text is ignored."""
        if not secret or secret in self._marks:
            return
        self._marks[secret] = mark
        texts = {needle.text for needle in self._needles}
        self._needles += [needle for needle in _needles_of(secret) if needle.text not in texts]
        self._groups = {}
        for needle in self._needles:
            self._groups.setdefault(needle.text[:_MIN_CUT_OFF], []).append(needle)
        self._safe = {secret: self._without_secrets(mark) for secret, mark in self._marks.items()}

    def _without_secrets(self, mark: str) -> str:
        """Return the mark, else `***`, else "": the first that contains no secret."""
        return next((safe for safe in (mark, MARK) if not any(n.text in safe for n in self._needles)), "")

    def has_secret(self, text: str) -> bool:
        """Return True if the text contains a secret in any spelling."""
        return any(needle.text in text for needle in self._needles)

    def text(self, text: str) -> str:
        """Return the text with a mark in the place of every secret."""
        spans = self._spans(text)
        if not spans:
            return text
        redacted = self._marked(text, spans, self._safe)
        # A mark and the letters next to it can spell a secret. Without marks the text only gets shorter, so this ends.
        while self.has_secret(redacted):
            redacted = self._marked(redacted, self._spans(redacted), {})
        return redacted

    def value(self, value: Json) -> Json:
        """Return a JSON value without any secret in its texts and keys."""
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is list:
            return [self.value(item) for item in value]
        if kind is dict:
            return {self.text(key): self.value(item) for key, item in value.items()}
        return value

    def secret_in(self, value: Json) -> str | None:
        """Return the mark of a secret that a JSON value contains in its texts or keys, or None."""
        return self._first_in(value, self._needles)

    def escaped_in(self, value: Json) -> str | None:
        """Return the mark of a secret that a value contains in its deepest JSON spelling, or None."""

        # Written as JSON once more, nobody would recognise that secret.
        deepest = [needle for secret in self._marks for needle in _deepest_json_spellings(secret)]
        return self._first_in(value, deepest) if deepest else None

    def _first_in(self, value: Json, needles: list[_Needle]) -> str | None:
        stack = [value]
        while stack:
            item = stack.pop()
            kind = type(item)
            if kind is list:
                stack += item
            elif kind is dict:
                stack += item
                stack += item.values()
            elif kind is str:
                for needle in needles:
                    if needle.text in item:
                        return self._safe[needle.name] or MARK
        return None

    def _spans(self, text: str) -> list[_Span]:
        """Return where secrets are in the text, each with the secret; overlapping ones of one spelling are one span."""
        complete: list[_Span] = []
        cut_off: list[_Span] = []
        for beginning, needles in self._groups.items():
            if beginning in text:
                for needle in needles:
                    complete += _occurrences(needle, text)
                    cut_off += _cut_off_occurrences(needle, text)
        # Of two at one place the complete one comes first, because sorting keeps the order of equal spans.
        return sorted(complete + cut_off, key=lambda span: (span.start, -span.stop))

    def _marked(self, text: str, spans: list[_Span], marks: Mapping[str, str]) -> str:
        """Return the text with marks for the spans; a span inside another gets none."""
        parts: list[str] = []
        end = 0
        for start, stop, secret in spans:
            if stop <= end:
                continue
            if start > end or not parts:
                parts.append(text[end:start])
            parts.append(marks.get(secret, ""))
            end = stop
        parts.append(text[end:])
        return "".join(parts)


@lru_cache(256)
def _needles_of(secret: str) -> tuple[_Needle, ...]:
    return tuple({needle.text: needle for needle in reversed([*_spellings(secret)])}.values())


def _spellings(secret: str) -> Iterator[_Needle]:
    yield _Needle(secret, secret)
    for text in _json_spellings(secret):
        yield _Needle(text, secret)
    # As `repr` writes it, alone and in a text that has both kinds of quotes.
    yield _Needle(repr(secret)[1:-1], secret)
    yield _Needle(repr("'\"" + secret)[4:-1], secret)
    for quoted in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield _Needle(quoted, secret)
        yield _Needle(_with_lower_case_hex(quoted), secret)
    yield from _base64_spellings(secret)


def _json_spellings(secret: str) -> Iterator[str]:
    """Yield the secret as inside JSON text, inside JSON text in JSON text and so on, with and without ASCII escapes."""
    plain = ascii_only = secret
    for _ in range(_MAX_JSON_LEVELS):
        plain, ascii_only = orjson.dumps(plain)[1:-1].decode(), json.dumps(ascii_only)[1:-1]
        yield plain
        yield ascii_only


def _deepest_json_spellings(secret: str) -> Iterator[_Needle]:
    """Yield the deepest JSON spellings of a secret; none if JSON does not change it."""
    *_, plain, ascii_only = _json_spellings(secret)
    for text in dict.fromkeys((plain, ascii_only)):
        if text != secret and orjson.dumps(text)[1:-1].decode() != text:
            yield _Needle(text, secret)


def _with_lower_case_hex(quoted: str) -> str:
    head, *rest = quoted.split("%")
    return "".join([head, *(f"%{part[:2].lower()}{part[2:]}" for part in rest)])


def _base64_spellings(secret: str) -> Iterator[_Needle]:
    """Yield the base64 letters that encode only the secret, for each of the three positions in a group where it can
    begin.
    """
    data = secret.encode("utf-8", "surrogatepass")
    if len(data) < _MIN_BASE64_BYTES:
        return
    for offset, first in ((0, 0), (1, 2), (2, 3)):
        length = (offset + len(data)) * 8 // 6
        after = 1 if (offset + len(data)) % 3 else 0
        for encoded in (base64.b64encode, base64.urlsafe_b64encode):
            letters = encoded(b"\0" * offset + data).decode()[first:length]
            yield _Needle(letters, secret, min(offset, 1), after)


def _occurrences(needle: _Needle, text: str) -> list[_Span]:
    spans: list[_Span] = []
    at = text.find(needle.text)
    while at >= 0:
        start, stop = max(0, at - needle.before), min(len(text), at + len(needle.text) + needle.after)
        if spans and start < spans[-1].stop:  # they overlap: make one of both
            start = spans.pop().start
        spans.append(_Span(start, stop, needle.name))
        at = text.find(needle.text, at + 1)
    return spans


def _cut_off_occurrences(needle: _Needle, text: str) -> Iterator[_Span]:
    """Yield the beginnings of a secret at the end of the text, and before dots that mark an omission."""
    if len(needle.text) <= _MIN_CUT_OFF:
        return
    for end in _ends_of_text(text):
        at = text.find(needle.text[:_MIN_CUT_OFF], max(0, end - len(needle.text)), end)
        while at >= 0:
            if needle.text.startswith(text[at:end]):
                yield _Span(at, end, needle.name)
                break
            at = text.find(needle.text[:_MIN_CUT_OFF], at + 1, end)


def _ends_of_text(text: str) -> Iterator[int]:
    yield len(text)
    for cut in _OMISSION_MARKS:
        at = text.find(cut)
        while at >= 0:
            yield at
            at = text.find(cut, at + 1)
