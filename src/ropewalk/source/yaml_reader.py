"""YAML text by the core schema of YAML 1.2, read from the event stream with its limits.

Nothing is built before depth and aliases have been checked, and an alias is a copy that counts
against the size. Refused: tags, merge keys, repeated keys, keys that are not text, several
documents. Every fault that does not make the rest unreadable is reported in one go.

`explain` rewords the errors of the YAML reader and says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from ..deadline import look_at_clock
from ..fast_dataclass import dataclass
from ..values import Json, did_you_mean
from .locations import MOST_FAULTS, Fault, Limits, Refused, Spot

_REFERENCE: Final = re.compile(r"\$[\w.-]+\Z")
_REST: Final = re.compile(r"\$(?:[\w.-]|\[[^\]\n]*\])+")


def explain(error: yaml.YAMLError, text: str) -> Fault:
    """Return the fault of a YAML error, at the place of the mistake, not where the reader noticed it."""
    mark: Any = getattr(error, "problem_mark", None)
    context_mark: Any = getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or error)
    context = str(getattr(error, "context", None) or "")
    at = mark.index if mark is not None else 0
    start = context_mark.index if context_mark is not None else at
    opened = f"that begins on line {context_mark.line + 1}" if context_mark is not None else "before it"
    char = text[at : at + 1]
    # The order matters: an earlier case is more specific than a later one.
    if "end of stream" in problem and "quoted" in context:
        return Fault(start, "quoted text that begins here is never closed")
    if char == "\t" or "tab" in problem:
        return Fault(at, "a tab cannot indent YAML; use spaces")
    if "cannot start any token" in problem:
        return Fault(at, f"text cannot begin with {char!r}; put it in quotes")
    if "alphabetic or numeric" in problem:
        sign = text[start : start + 1]
        return Fault(
            start,
            f"{sign!r} begins {'an alias' if sign == '*' else 'an anchor'}; put text that starts with it in quotes",
        )
    if "mapping values are not allowed" in problem:
        return Fault(at, "unexpected ': '; put text that holds a colon in quotes, or check the indentation")
    if "expected ':'" in problem:
        return Fault(start, "expected ': ' after this key")
    if char == ":" and "block mapping" in context:
        return Fault(at, "a key is missing before ':'")
    if "block mapping" in context:
        return Fault(
            at, f"this does not continue the object {opened}; check the indentation, or put the text in quotes"
        )
    if "block collection" in context:
        return Fault(at, f"this does not continue the list {opened}; check the indentation and the '-'")
    if "flow " in context and char == "{" and text[at - 1 : at] == "$":
        return Fault(at - 1, "text with ${...} inside { } or [ ] must be quoted, because { } starts an object there")
    if "flow " in context and char == "[" and (begin := _REFERENCE.search(text, 0, at)) is not None:
        reference = _REST.match(text, begin.start())
        what = "a reference with [ ] inside { } or [ ] must be quoted, because [ ] starts a list there"
        suggestion = f'"{reference[0]}"' if reference and '"' not in reference[0] else None
        return Fault(begin.start(), what, suggestion=suggestion)
    if "flow mapping" in context:
        return Fault(at, f"expected ',' or '}}' to continue the object {opened}")
    if "flow sequence" in context:
        return Fault(at, f"expected ',' or ']' to continue the list {opened}")
    return Fault(at, f"{problem} {context}".strip())


_LOADER: Any = getattr(yaml, "CLoader", yaml.SafeLoader)  # only its event stream is used, never a constructor
_UNWRITABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BREAKS_OF_1_1 = ("\x85", "\u2028", "\u2029")
_NODE_COST = 16
_LOOK = 255  # events from one look at the clock to the next, less one

_CONSTANTS: Final[dict[str, Json]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),  # the boundary check refuses these
    **dict.fromkeys((s + w for s in ("", "+") for w in (".inf", ".Inf", ".INF")), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_NUMBER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAY_BE_NUMBER = frozenset("0123456789+-.")


def plain(text: str) -> Json:
    """Return the value of an unquoted scalar: null, a boolean, a number, or the text itself."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _MAY_BE_NUMBER or not _NUMBER.fullmatch(text):
        return text
    if text.startswith(("0o", "0x")):
        return int(text, 0) if len(text) <= 26 else 2**64
    if text.lstrip("+-").isdecimal():
        return int(text) if len(text) <= 20 else int(text.lstrip("+-0")[:21] or "0")
    return float(text)


def read(text: str, limits: Limits) -> Json:
    """Read a YAML text with one document."""
    return _Reader(limits).read(text)


@dataclass(slots=True)
class _Open:
    """A collection being built."""

    value: dict[str, Json] | list[Json]
    anchor: str | None
    before: int
    height: int = 1
    key: str | None = None
    keys: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Json
    cost: int
    height: int


class _Reader:
    """One pass over the events with an explicit stack: depth in the text is never depth in us."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.stack: list[_Open] = []
        self.anchors: dict[str, _Anchored] = {}
        self.faults: list[Fault] = []
        self.cost = 0
        self.aliases = 0
        self.documents = 0
        self.root: Json = None

    def read(self, text: str) -> Json:
        # Frequent kinds of events come first.
        for event in events(text):
            kind = type(event)
            # Scalars are by far the most frequent events, so they are tested first.
            if kind is ScalarEvent:
                self._scalar(event)
            elif kind is MappingStartEvent:
                self._open(event, {})
            elif kind is SequenceStartEvent:
                self._open(event, [])
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                self._close()
            elif kind is AliasEvent:
                self._alias(event)
            elif kind is DocumentStartEvent:
                self.documents += 1
                if self.documents > 1:
                    self._stop(event, "a second document in one file; keep one document per file")
        if not self.documents:
            raise Refused([Fault(0, "the document is empty")])
        if self.faults:
            raise Refused(self.faults)
        return self.root

    def _scalar(self, event: Any) -> None:
        value, top = event.value, self.stack[-1] if self.stack else None
        self.cost += _NODE_COST + len(value)
        if event.tag is not None:
            self._tagged(event)
        bare = event.implicit[0]
        if top is not None and type(top.value) is dict and top.key is None:
            self._key(event, top, value, bare)
            return
        scalar = plain(value) if bare else value
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(scalar, _NODE_COST + len(value), 0)
        if top is None:
            self.root = scalar
        else:
            self._put(top, scalar)

    def _key(self, event: Any, top: _Open, text: str, bare: bool) -> None:
        at = event.start_mark.index
        if bare and text == "":
            self._fault(event, "a key is missing before ':'")
        elif bare and text == "<<":
            self._fault(event, "merge keys (<<) are not part of YAML 1.2; write the keys out")
        elif text in top.keys:
            self.faults.append(Fault(at, f"repeated key {text!r}", first=top.keys[text]))
        top.keys.setdefault(text, at)
        top.key = text
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(text, _NODE_COST + len(text), 0)
        if len(self.faults) > MOST_FAULTS:
            raise Refused(self.faults)

    def _open(self, event: Any, value: dict[str, Json] | list[Json]) -> None:
        top = self.stack[-1] if self.stack else None
        if len(self.stack) >= self.limits.nesting:
            self._stop(event, f"nested deeper than {self.limits.nesting}")
        if top is not None and type(top.value) is dict and top.key is None:
            self._stop(event, "a key must be text, not an object or a list; put text that holds {} or [] in quotes")
        if event.tag is not None:
            self._tagged(event)
        if event.anchor is not None:
            self.anchors.pop(event.anchor, None)  # the old value of a reused name must not be seen inside
        self.stack.append(_Open(value, event.anchor, self.cost))
        self.cost += _NODE_COST

    def _close(self) -> None:
        closed = self.stack.pop()
        if closed.anchor is not None:
            self.anchors[closed.anchor] = _Anchored(closed.value, self.cost - closed.before, closed.height)
        if not self.stack:
            self.root = closed.value
            return
        top = self.stack[-1]
        top.height = max(top.height, closed.height + 1)
        self._put(top, closed.value)

    def _alias(self, event: Any) -> None:
        self.aliases += 1
        limits, top = self.limits, self.stack[-1] if self.stack else None
        if self.aliases > limits.aliases:
            self._stop(event, f"more than {limits.aliases:,} aliases")
        if top is None or (type(top.value) is dict and top.key is None):
            self._stop(event, f"an alias (*{event.anchor}) cannot be a key")
        anchor = self.anchors.get(event.anchor)
        if anchor is None:
            if any(o.anchor == event.anchor for o in self.stack):
                self._stop(event, f"*{event.anchor} is inside the value that it names")
            self._fault(event, f"no anchor &{event.anchor} before this", did_you_mean(event.anchor, self.anchors))
            anchor = _Anchored(None, 0, 0)
        self.cost += anchor.cost
        if self.cost > limits.size:
            self._stop(event, f"aliases make the document larger than {limits.size:,} bytes")
        if len(self.stack) + anchor.height > limits.nesting:
            self._stop(event, f"nested deeper than {limits.nesting} through *{event.anchor}")
        assert top is not None
        top.height = max(top.height, anchor.height + 1)
        self._put(top, _copy(anchor.value))

    def _put(self, top: _Open, value: Json) -> None:
        if type(top.value) is dict:
            assert top.key is not None
            top.value.setdefault(top.key, value)
            top.key = None
        else:
            top.value.append(value)  # type: ignore[union-attr]

    def _tagged(self, event: Any) -> None:
        self._fault(
            event, f"tags ({_short_tag(event.tag)}) are not supported; put text that looks like another type in quotes"
        )

    def _fault(self, event: Any, message: str, suggestion: str | None = None) -> None:
        self.faults.append(Fault(event.start_mark.index, message, suggestion=suggestion))
        if len(self.faults) > MOST_FAULTS:
            raise Refused(self.faults)

    def _stop(self, event: Any, message: str) -> None:
        """Report a fault and stop, because the rest cannot be read safely."""
        raise Refused([*self.faults, Fault(event.start_mark.index, message)])


def events(text: str) -> Iterator[Any]:
    """Iterate over the events of a YAML text."""
    bad = _UNWRITABLE.search(text)
    if bad:
        raise Refused(
            [
                Fault(
                    bad.start(),
                    f"character U+{ord(bad[0]):04X} is not allowed in YAML; write it as an escape in double quotes",
                )
            ]
        )
    text, restore = _hide_breaks(text)
    try:
        for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
            if not count & _LOOK:
                look_at_clock()
            if restore and type(event) is ScalarEvent:
                event.value = event.value.translate(restore)
            yield event
    except yaml.YAMLError as error:
        raise Refused([explain(error, text)]) from None


def _hide_breaks(text: str) -> tuple[str, dict[int, str]]:
    """Replace NEL, LS and PS by private characters that the text does not use."""

    # YAML 1.1 folds these as line breaks; in YAML 1.2 they are characters like any other.
    used = [c for c in _BREAKS_OF_1_1 if c in text]
    if not used:
        return text, {}
    free = (chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in text)
    masks = dict(zip(used, free, strict=False))
    hidden = text.translate({ord(c): mask for c, mask in masks.items()})
    return hidden, {ord(mask): c for c, mask in masks.items()}


def _copy(value: Json) -> Json:
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    if type(value) is list:
        return [_copy(item) for item in value]
    return value


def _short_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def spots(text: str) -> Spot:
    """Return the positions of all values in a valid YAML text."""

    # An alias leads to the positions of its value.
    root = Spot(0, len(text), "")
    stack: list[tuple[Spot, bool]] = []
    key: list[tuple[str, int] | None] = []
    anchors: dict[str, Spot] = {}
    for event in events(text):
        kind = type(event)
        if kind is MappingEndEvent or kind is SequenceEndEvent:
            stack.pop()[0].end = event.end_mark.index
            key.pop()
            continue
        if kind not in _NODES:
            continue
        if stack and stack[-1][1] and key[-1] is None:
            key[-1] = (event.value, event.start_mark.index)
            _spot(event, anchors, text)  # a key may have an anchor, too
            continue
        spot = _spot(event, anchors, text)
        if not stack:
            root = spot
        elif stack[-1][1]:
            name, spot.key = key[-1] or ("", -1)
            stack[-1][0].fields[name] = spot
            key[-1] = None
        else:
            stack[-1][0].items.append(spot)
        if kind is MappingStartEvent or kind is SequenceStartEvent:
            stack.append((spot, kind is MappingStartEvent))
            key.append(None)
    return root


_LEADING_ZERO = re.compile(r"(?<![\w.])0\d+(?![\w.:])")


def leading_zeros(text: str, root: Callable[[], Spot]) -> Iterator[tuple[str, int, str]]:
    """Yield the path and the offset of each unquoted number that begins with a zero, such as 0777, and a warning."""

    # `root`: Returns the positions of the values, which few texts need.
    stack = [("", root())] if _LEADING_ZERO.search(text) else []
    while stack:
        path, spot = stack.pop()
        number = text[spot.start : spot.end]
        if spot.style == "" and re.fullmatch(r"[-+]?0\d+", number):
            octal = "" if "8" in number or "9" in number else f"{number.replace('0', '0o', 1)} for an octal number, or "
            yield path, spot.start, f'{number} is read as {plain(number)}; write {octal}"{number}" for text'
        children = [(f"{path}.{key}" if path else key, child) for key, child in spot.fields.items()]
        children += [(f"{path}[{i}]", item) for i, item in enumerate(spot.items)]
        stack += reversed(children)


_ANCHOR = re.compile(r"&\S+(?:\s|#[^\r\n]*)*")
_NODES = frozenset({ScalarEvent, AliasEvent, MappingStartEvent, SequenceStartEvent})


def _spot(event: Any, anchors: dict[str, Spot], text: str) -> Spot:
    start, end = event.start_mark.index, event.end_mark.index
    if type(event) is AliasEvent:
        return Spot(start, end, names=anchors[event.anchor or ""])  # the reader has checked that the anchor exists
    named_here = _ANCHOR.match(text, start, end) if type(event) is ScalarEvent else None
    if named_here is not None:
        start = named_here.end()  # columns are counted in the text without the anchor
    spot = Spot(start, end, (event.style or "") if type(event) is ScalarEvent else None)
    if event.anchor:
        anchors[event.anchor] = spot
    return spot
