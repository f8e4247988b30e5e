"""YAML text by the core schema of YAML 1.2, read from the event stream with its limits.

Nothing is built before depth and aliases have been checked, and an alias is a copy that counts
against the size. Refused: tags, merge keys, repeated keys, keys that are no text, several
documents. Every fault that does not make the rest unreadable is reported in one go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
from ..frozen import dataclass
from ..values import Json, closest
from .fault import MOST_FAULTS, Fault, Refused
from .limits import Limits
from .spot import Spot
from .yaml_said import said

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
    """What an unquoted scalar means: null, a boolean, a number, or the text itself."""
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
    """The value of a YAML text; raises Refused with every fault and its offset."""
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
        for event in events(text):
            kind = type(event)
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
        made = plain(value) if bare else value
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(made, _NODE_COST + len(value), 0)
        if top is None:
            self.root = made
        else:
            self._put(top, made)

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
        done = self.stack.pop()
        if done.anchor is not None:
            self.anchors[done.anchor] = _Anchored(done.value, self.cost - done.before, done.height)
        if not self.stack:
            self.root = done.value
            return
        top = self.stack[-1]
        top.height = max(top.height, done.height + 1)
        self._put(top, done.value)

    def _alias(self, event: Any) -> None:
        self.aliases += 1
        limits, top = self.limits, self.stack[-1] if self.stack else None
        if self.aliases > limits.aliases:
            self._stop(event, f"more than {limits.aliases:,} aliases")
        if top is None or (type(top.value) is dict and top.key is None):
            self._stop(event, f"an alias (*{event.anchor}) cannot be a key")
        known = self.anchors.get(event.anchor)
        if known is None:
            if any(o.anchor == event.anchor for o in self.stack):
                self._stop(event, f"*{event.anchor} stands inside what it names")
            self._fault(event, f"no anchor &{event.anchor} before this", closest(event.anchor, self.anchors))
            known = _Anchored(None, 0, 0)
        self.cost += known.cost
        if self.cost > limits.size:
            self._stop(event, f"aliases make the document larger than {limits.size:,} bytes")
        if len(self.stack) + known.height > limits.nesting:
            self._stop(event, f"nested deeper than {limits.nesting} through *{event.anchor}")
        assert top is not None
        top.height = max(top.height, known.height + 1)
        self._put(top, _copy(known.value))

    def _put(self, top: _Open, made: Json) -> None:
        if type(top.value) is dict:
            assert top.key is not None
            top.value.setdefault(top.key, made)
            top.key = None
        else:
            top.value.append(made)  # type: ignore[union-attr]

    def _tagged(self, event: Any) -> None:
        self._fault(
            event, f"tags ({_short_tag(event.tag)}) are not read; for text that looks like something else use quotes"
        )

    def _fault(self, event: Any, message: str, suggestion: str | None = None) -> None:
        self.faults.append(Fault(event.start_mark.index, message, suggestion=suggestion))
        if len(self.faults) > MOST_FAULTS:
            raise Refused(self.faults)

    def _stop(self, event: Any, message: str) -> None:
        """Report and give up: what follows cannot be read safely."""
        raise Refused([*self.faults, Fault(event.start_mark.index, message)])


def events(text: str) -> Iterator[Any]:
    """The event stream; syntax that cannot be read is Refused in plain words."""
    bad = _UNWRITABLE.search(text)
    if bad:
        raise Refused(
            [
                Fault(
                    bad.start(),
                    f"character U+{ord(bad[0]):04X} cannot stand in YAML; write it as an escape in double quotes",
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
        raise Refused([said(error, text)]) from None


def _hide_breaks(text: str) -> tuple[str, dict[int, str]]:
    """YAML 1.1 breaks lines at NEL, LS and PS, and folds them away; in 1.2 they are characters
    like any other. They pass through the reader as private characters the text does not use."""
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
    """Where everything in a valid YAML text stands; an alias leads into what it names."""
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


_ANCHOR = re.compile(r"&\S+(?:\s|#[^\r\n]*)*")
_NODES = frozenset({ScalarEvent, AliasEvent, MappingStartEvent, SequenceStartEvent})


def _spot(event: Any, anchors: dict[str, Spot], text: str) -> Spot:
    start, end = event.start_mark.index, event.end_mark.index
    if type(event) is AliasEvent:
        return Spot(start, end, names=anchors[event.anchor or ""])  # what was read has it
    named_here = _ANCHOR.match(text, start, end) if type(event) is ScalarEvent else None
    if named_here is not None:
        start = named_here.end()  # the text itself, which columns are counted in
    spot = Spot(start, end, (event.style or "") if type(event) is ScalarEvent else None)
    if event.anchor:
        anchors[event.anchor] = spot
    return spot
