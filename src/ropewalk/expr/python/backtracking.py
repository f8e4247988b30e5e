"""How many steps Python's own engine may need for a pattern, from the syntax tree of the pattern.

That engine tries one way after the other. A repetition whose characters cannot begin what follows has one way to end;
any other one has as many as the text is long, and a repetition of a part with several ways is refused as endless.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

Items = Sequence[tuple[Any, Any]]
MOST: Final = 100_000_000
"""The most steps of one search."""
_ENDLESS: Final = MOST**2
_CATEGORIES: Final = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
# Every character of Latin scripts, and one of each other category: a space, a digit, a letter, signs.
_SAMPLE: Final = frozenset((*range(0x250), 0x2003, 0x0663, 0x4E2D, 0x20AC, 0x1F600))


@lru_cache(maxsize=512)
def parsed_pattern(pattern: str, flags: int) -> Any:
    """Return the syntax tree of a pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re._parser.parse(pattern, flags)  # type: ignore[attr-defined]


@lru_cache(maxsize=4096)
def steps_of(pattern: str, flags: int, length: int, anchored: bool) -> int:
    """Return a bound of the steps of a search, or of a match at one place, in a text of a length."""
    parsed = parsed_pattern(pattern, flags)
    flags = parsed.state.flags
    bound = _Bound(list(parsed), length, flags)
    _, steps = bound.cost(list(parsed), frozenset(), flags)
    starts_once = parsed and str(parsed[0]) == "(AT, AT_BEGINNING)" and not flags & re.MULTILINE
    alone = len(parsed) == 1 and str(parsed[0][0]) == "MAX_REPEAT" and parsed[0][1][0] <= 1
    if anchored or starts_once or (alone and bound.is_single(parsed[0][1][2])):
        return min(steps, _ENDLESS) + 2 * length
    return min(steps, _ENDLESS) * (length + 1)


class _Bound:
    """The bound for one pattern and one length."""

    def __init__(self, items: Items, length: int, flags: int) -> None:
        self.length = length
        self.alphabet = _SAMPLE | frozenset(_literals(items))
        if flags & re.IGNORECASE:
            self.alphabet |= {ord(other) for code in self.alphabet for other in _cases(code)}

    def is_single(self, items: Items) -> bool:
        """Return True if a part is one character."""
        return len(items) == 1 and str(items[0][0]) in ("LITERAL", "NOT_LITERAL", "ANY", "IN")

    def cost(self, items: Items, follow: frozenset[int], flags: int) -> tuple[int, int]:
        """Return in how many ways items can match at one place, and the steps to try them all."""
        ways, steps = 1, 0
        for index, (kind, value) in enumerate(items):
            begins, is_empty = self.first(items[index + 1 :], flags)
            more, cost = self._item(str(kind), value, begins | follow if is_empty else begins, flags)
            steps, ways = min(steps + ways * cost, _ENDLESS), min(ways * more, _ENDLESS)
        return ways, steps

    def _item(self, kind: str, value: Any, after: frozenset[int], flags: int) -> tuple[int, int]:
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            ways, steps = self._repeat(value, after, flags)
            return (1 if kind.startswith("P") else ways), steps
        if kind == "SUBPATTERN":
            return self.cost(value[3], after, (flags | value[1]) & ~value[2])
        if kind == "BRANCH":
            firsts = [self.first(part, flags) for part in value[1]]
            begins = [found | after if is_empty else found for found, is_empty in firsts]
            costs = [self.cost(part, after, flags) for part in value[1]]
            is_clear = sum(map(len, begins)) == len(frozenset().union(*begins))
            each = [part[0] for part in costs]
            return max(each) if is_clear else sum(each), 1 + sum(part[1] for part in costs)
        if kind in ("ATOMIC_GROUP", "ASSERT", "ASSERT_NOT"):
            return 1, 1 + self.cost(value if kind[1] == "T" else value[1], frozenset(), flags)[1]
        if kind == "GROUPREF_EXISTS":
            costs = [self.cost(part, after, flags) for part in value[1:] if part is not None]
            return sum(part[0] for part in costs), 1 + sum(part[1] for part in costs)
        return 1, self.length if kind == "GROUPREF" else 1

    def _repeat(self, value: Any, after: frozenset[int], flags: int) -> tuple[int, int]:
        least, most, body = value
        times = min(int(most), self.length // max(1, body.getwidth()[0]))
        begins, _ = self.first(body, flags)
        clear = not begins & after
        if self.is_single(body):
            return 1 if clear else max(1, times - least + 1), 2 * times + 2
        ways, steps = self.cost(body, after | begins if times > 1 else after, flags)
        if ways > 1:
            total = min(ways ** min(times, 64), _ENDLESS) if times < 64 else _ENDLESS
            return total + 1, min(total * (steps + 1), _ENDLESS)
        return 1 if clear else max(1, times - least + 1), (times + 1) * (steps + 1)

    def first(self, items: Items, flags: int) -> tuple[frozenset[int], bool]:
        """Return the characters that items may begin with, and whether they match the empty text."""
        begins: frozenset[int] = frozenset()
        for kind, value in items:
            found, is_empty = self._first(str(kind), value, flags)
            begins |= found
            if not is_empty:
                return begins, False
        return begins, True

    def _first(self, kind: str, value: Any, flags: int) -> tuple[frozenset[int], bool]:
        if kind.endswith("_REPEAT"):
            found, is_empty = self.first(value[2], flags)
            return found, is_empty or not value[0]
        if kind in ("SUBPATTERN", "ATOMIC_GROUP"):
            inner = value[3] if kind == "SUBPATTERN" else value
            return self.first(inner, (flags | value[1]) & ~value[2] if kind == "SUBPATTERN" else flags)
        if kind == "BRANCH":
            parts = [self.first(part, flags) for part in value[1]]
            return frozenset().union(*(found for found, _ in parts)), any(is_empty for _, is_empty in parts)
        if kind == "AT":
            return frozenset(), True
        if kind in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return self._characters(kind, value, flags), False
        return self.alphabet, True  # what looks ahead or back may hold at each of several ends

    def _characters(self, kind: str, value: Any, flags: int) -> frozenset[int]:
        if kind == "ANY":
            return self.alphabet if flags & re.DOTALL else self.alphabet - {10}
        parts = [(kind, value)] if kind != "IN" else [(str(part), item) for part, item in value]
        found: set[int] = set()
        for part, item in parts:
            if part.endswith("LITERAL"):
                found.add(item)
            elif part == "RANGE":
                found.update(code for code in self.alphabet if item[0] <= code <= item[1])
            elif part == "CATEGORY":
                found.update(self._category(str(item), flags))
        if flags & re.IGNORECASE:
            found.update(ord(other) for code in list(found) for other in _cases(code))
        is_negated = parts[0][0] in ("NEGATE", "NOT_LITERAL")
        return (
            self.alphabet - found
            if is_negated and not flags & re.IGNORECASE
            else (self.alphabet if is_negated else frozenset(found))
        )

    def _category(self, name: str, flags: int) -> set[int]:
        plain = re.compile(_CATEGORIES[name.rpartition("_")[2]], flags & re.ASCII)
        wanted = "_NOT_" not in name
        return {code for code in self.alphabet if (plain.match(chr(code)) is not None) is wanted}


def _cases(code: int) -> list[str]:
    return [other for other in (chr(code).lower(), chr(code).upper()) if len(other) == 1]


def _literals(items: Iterable[Any]) -> Iterable[int]:
    """Yield the codes in a pattern and those next to them, so that sets which overlap do so among them."""
    todo: list[Any] = list(items)
    while todo:
        part = todo.pop()
        if isinstance(part, (list, tuple, re._parser.SubPattern)):  # type: ignore[attr-defined]
            todo.extend(part)
        elif type(part) is int and part <= 0x10FFFF:
            yield from (code for code in (part - 1, part, part + 1) if 0 <= code <= 0x10FFFF)
