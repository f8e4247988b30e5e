"""JSON values: the values of a flow, how they are checked, written and named.

A value is null, a bool, an int (64 bits), a finite float, a string (without lone surrogates and NUL), a list, or an
object with string keys. Anything else is refused at the boundary with its place.

Work that makes very many objects that all stay runs without the garbage collector, which would look through them again
and again for a third of the time. It is off for the whole process, but only while one definition is read: well under a
second. A worker process, which does almost nothing else, runs it less often.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeAlias, TypeVar

import orjson

from .errors import InvalidValue

if TYPE_CHECKING:
    import asyncio

Json: TypeAlias = Any
"""None | bool | int | float | str | list[Json] | dict[str, Json]; the boundary checks it."""

MAX_DEPTH: Final = 200
MAX_BYTES: Final = 100_000_000
_MOST_COMPLAINTS: Final = 50
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_INFINITY = float("inf")
_PLACE_LENGTH: Final = 60  # characters of a place that is too deep
_LONGEST_NAME: Final = 120  # characters of a name that is compared with others
_MOST_NAMES: Final = 100  # that one misspelt name is compared with


_MINUS, _DIGIT, _SPACE = b"-0 "
_DIGITS: Final = bytes(_DIGIT if 48 <= code <= 57 else _MINUS if code == _MINUS else _SPACE for code in range(256))
_MANY_DIGITS: Final = (b"0" * 20, b"-" + b"0" * 19)
"""What every integer over 64 bits contains, in a text whose digits are all 0."""


class StandIn(str):
    """A text in place of a JSON value that is outside the limits; `why` says what it replaces."""

    # It is a subclass of str, so every check of JSON refuses it until somebody decides: the results of tools keep the
    # text and a warning (`tools/answers.py`).

    __slots__ = ("why",)

    why: str

    def __new__(cls, text: str, why: str) -> StandIn:
        made = super().__new__(cls, text)
        made.why = why
        return made


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text from outside; the value still needs a check."""

    # orjson turns an integer over 64 bits into a float, which nobody would notice. So text with that many digits in a
    # row is parsed again, with stand-ins for these numbers. If a key occurs twice, the last one counts, as in every
    # JSON parser; `source` reads what people write, and refuses such a key.
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if "limit" in error.msg:
            raise InvalidValue("", f"nested deeper than {MAX_DEPTH}") from error
        raise
    digits = data.translate(_DIGITS)
    if not any(many in digits for many in _MANY_DIGITS):
        return value
    try:
        return _parse_exactly(data)
    except RecursionError:
        return value  # it is nested too deep, which the check reports


def parse_answer(text: str | bytes) -> Any:
    """Parse the JSON of an answer to a call, which must not be lost: also with NaN, huge numbers or lone surrogates."""
    try:
        return parse_json(text)
    except orjson.JSONDecodeError as error:
        try:
            return _parse_exactly(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
        except (ValueError, RecursionError):
            raise error from None


def _parse_exactly(data: bytes) -> Any:
    """Parse JSON with a stand-in for each number that is outside the limits."""
    import json

    text = data.decode("utf-8-sig", "surrogatepass")
    return json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=_not_a_number)


def _integer(digits: str) -> int | StandIn:
    # Python would need quadratic time to convert very many digits.
    if len(digits) <= 20 and _INT_MIN <= (number := int(digits)) <= _INT_MAX:
        return number
    return StandIn(digits, BIG_INTEGER)


def _float(digits: str) -> float | StandIn:
    number = float(digits)
    return number if -_INFINITY < number < _INFINITY else StandIn(digits, "number over 1.8e308")


def _not_a_number(name: str) -> float:
    return float(name)


BIG_INTEGER: Final = "integer past 64 bits"


def integer(digits: str) -> int:
    """Convert decimal digits to an integer."""

    # Python would need quadratic time to convert very many digits.
    return int(digits) if len(digits) <= 20 else _INT_MAX + 1


def check_json(value: Any, place: str = "value") -> Any:
    """Check that a value is JSON within the limits, and copy it."""

    # Tuples, subclasses of the JSON types, NaN, infinities, integers over 64 bits, NUL, lone surrogates and keys that
    # are not strings are refused, so that a value is equal in every store.
    try:
        copy = copy_json(value)
    except RecursionError:
        copy = NOT_JSON
    if copy is NOT_JSON:
        raise json_problems(value, place)[0]
    return copy


_good_keys: set[str] = set()
"""Object keys that passed the check, a bounded number: keys repeat, and a look-up takes a third of the check."""


class _NotJson:
    """The type of NOT_JSON."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOT_JSON"


NOT_JSON: Final = _NotJson()
"""The result of `copy_json` for a value that is not JSON."""


def copy_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Copy a value if it is JSON within the limits."""

    # It checks and copies in one walk, so that a tool cannot change its result afterwards. Every result of every tool
    # passes through here. So the common cases come first, and leaves are checked inline: a call per leaf would be half
    # the cost.
    kind = type(value)
    if kind is dict:
        if not depth:
            return NOT_JSON
        copy = value.copy()
        for key, item in value.items():
            if type(key) is not str or (key not in _good_keys and not _is_key(key)):
                return NOT_JSON
            kind = type(item)
            if kind is int:
                if not _INT_MIN <= item <= _INT_MAX:
                    return NOT_JSON
            elif kind is str:
                if (not item.isascii() or "\0" in item) and not _is_text(item):
                    return NOT_JSON
            elif item is not None and kind is not bool:
                item = copy_json(item, depth - 1)
                if item is NOT_JSON:
                    return NOT_JSON
                copy[key] = item
        return copy
    if kind is list:
        if not depth:
            return NOT_JSON
        copy = value.copy()
        for index, item in enumerate(value):
            kind = type(item)
            if kind is int:
                if not _INT_MIN <= item <= _INT_MAX:
                    return NOT_JSON
            elif kind is str:
                if (not item.isascii() or "\0" in item) and not _is_text(item):
                    return NOT_JSON
            elif item is not None and kind is not bool:
                item = copy_json(item, depth - 1)
                if item is NOT_JSON:
                    return NOT_JSON
                copy[index] = item
        return copy
    if kind is str:
        return value if _is_text(value) else NOT_JSON
    if kind is int:
        return value if _INT_MIN <= value <= _INT_MAX else NOT_JSON
    if kind is float:
        return value if -_INFINITY < value < _INFINITY else NOT_JSON  # NaN fails both comparisons
    return value if value is None or kind is bool else NOT_JSON


def is_64_bit(number: int) -> bool:
    """Return True if a signed integer of 64 bits can hold a number."""
    return _INT_MIN <= number <= _INT_MAX


def fresh(value: Json) -> Json:
    """Copy a JSON value."""
    kind = type(value)
    if kind is dict:
        return {k: fresh(v) if type(v) is dict or type(v) is list else v for k, v in value.items()}
    if kind is list:
        return [fresh(v) if type(v) is dict or type(v) is list else v for v in value]
    return value


def is_json(value: Any) -> bool:
    """Return True if `value` is JSON within the limits."""
    try:
        return copy_json(value) is not NOT_JSON
    except RecursionError:
        return False


def _is_key(key: str) -> bool:
    if not _is_text(key):
        return False
    if len(_good_keys) >= 4096:
        _good_keys.clear()
    if len(key) <= 64:
        _good_keys.add(key)
    return True


def _is_text(text: str) -> bool:
    return "\0" not in text and (text.isascii() or kept_text(text) is text)


def kept_text(text: str) -> str:
    """Return a text with U+FFFD in place of what stores cannot keep: NUL and lone surrogates."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def json_problems(value: Any, place: str = "value") -> list[InvalidValue]:
    """Find out why a value is not JSON within the limits."""
    problems: list[InvalidValue] = []
    # An explicit stack, so that deep values cannot exhaust Python's.
    stack: list[tuple[Any, str, int, Any]] = [(value, place, MAX_DEPTH, None)]
    while stack and len(problems) < _MOST_COMPLAINTS:
        item, where, depth, above = stack.pop()
        kind = type(item)
        if item is None or kind is bool:
            continue
        if kind is str:
            if not _is_text(item):
                character = "NUL character" if "\0" in item else "lone surrogate"
                problems.append(InvalidValue(where, f"string with a {character}"))
        elif kind is StandIn or (kind is int and not _INT_MIN <= item <= _INT_MAX):
            what = item.why if kind is StandIn else BIG_INTEGER
            problems.append(InvalidValue(where, f"{what}; send it as a string"))
        elif kind is int:
            continue
        elif kind is float:
            if not -_INFINITY < item < _INFINITY:
                limit = "" if item != item else " (its numbers end at 1.8e308)"
                problems.append(InvalidValue(where, f"{item} is not JSON{limit}; use null"))
        elif not depth:
            problems.append(_too_deep(item, where, above))
            break  # a value that contains itself would be reported again and again
        elif kind is dict:
            above = (item, where, above)
            for key in item:
                if type(key) is not str:
                    problems.append(InvalidValue(where, f"object key {key!r} is {_name(key)}, not a string"))
                elif not _is_text(key):
                    problems.append(InvalidValue(where, "object key with a NUL character or a lone surrogate"))
            stack += [(item[key], f"{where}.{key}", depth - 1, above) for key in reversed(item)]
        elif kind is list:
            above = (item, where, above)
            stack += [(item[i], f"{where}[{i}]", depth - 1, above) for i in range(len(item) - 1, -1, -1)]
        else:
            problems.append(InvalidValue(where, f"{_name(item)} is not JSON{_instead(item)}"))
    return problems


def _instead(item: Any) -> str:
    """Return a hint what to use instead of a value that is not JSON; "" for no hint."""
    kind = type(item)
    if hasattr(kind, "__dataclass_fields__"):
        return "; use dataclasses.asdict, or annotate the tool's return type"
    if hasattr(kind, "model_dump"):
        return "; use its model_dump(mode='json'), or annotate the tool's return type"
    if hasattr(kind, "isoformat"):
        return "; use its isoformat()"
    return "; use a list" if kind in (tuple, set, frozenset) else ""


def _too_deep(item: Any, where: str, above: Any) -> InvalidValue:
    """Return the problem of a value that is nested too deep or contains itself."""

    # `above` is the container of the item with its place, and the container of that in turn.
    path = [(item, where)]
    while above is not None:
        path.append(above[:2])
        above = above[2]
    first: dict[int, str] = {}
    for container, at in reversed(path):
        if id(container) in first:
            return InvalidValue(at, f"contains itself (through {first[id(container)]}), which JSON cannot express")
        first[id(container)] = at
    return InvalidValue(
        where if len(where) <= _PLACE_LENGTH else f"{where[:_PLACE_LENGTH]}…",
        f"nested deeper than {MAX_DEPTH}",
    )


def _name(value: Any) -> str:
    return type(value).__qualname__


def canonical(value: Json) -> bytes:
    """Write a checked value as canonical JSON."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as exc:
        # A value whose parts were checked one by one can still be too deep together.
        raise InvalidValue("value", f"cannot be written as JSON: {exc}") from exc


def digest(value: Json) -> str:
    """Name a JSON value by its content."""
    return hashlib.blake2b(canonical(value), digest_size=16).hexdigest()


def distinct_names(names: Sequence[object], limit: int = 128) -> dict[str, str]:
    """Return a name of letters, digits, `_`, `.` and `-` for each text; no two are equal, whatever their order."""

    # A text that can be a name is kept. Another one is cleaned, and gets a digest if letters are lost (`時間`) or the
    # cleaned name belongs to another text.
    texts = sorted({name for name in names if isinstance(name, str) and name})
    if all(_NAME.fullmatch(text) and len(text) <= limit for text in texts):
        return {text: text for text in texts}
    from collections import Counter

    cleaned = {text: _UNSAFE.sub("_", text) for text in texts}
    uses = Counter(short[:limit] for short in cleaned.values())
    result = {}
    for text, short in cleaned.items():
        loses_letters = len(short) > limit or any(c.isalnum() and not c.isascii() for c in text)
        if (short != text and (loses_letters or uses[short[:limit]] > 1)) or len(text) > limit:
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            short = f"{short[: limit - 9].strip('_') or 'tool'}_{digest}"
        result[text] = short
    return result


_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")


KEY_SPELLINGS: Final[dict[str, set[str]]] = {}
"""By key that paths contain, other names that documents may have for it; a reader of documents adds its own."""


@functools.lru_cache(maxsize=1024)
def camel(key: str) -> str:
    """Convert `error_strategy` to `errorStrategy`; leave anything else unchanged."""
    head, *rest = key.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest) if head and rest else key


@functools.lru_cache(maxsize=1024)
def snake(key: str) -> str:
    """Convert `errorStrategy` to `error_strategy`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in key)


def did_you_mean(word: object, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Find the known name that is closest to a misspelt one, and at least as similar as `cutoff` (from 0 to 1)."""

    # Of very many names only some are compared, those with an equal first or last letter first. Names of hundreds of
    # characters are not compared, because the time grows with the product of both lengths.
    if not isinstance(word, str) or not word or len(word) > _LONGEST_NAME:
        return None
    import difflib  # imported only for error messages

    names = [name for name in known if name and len(name) <= _LONGEST_NAME]
    if len(names) > _MOST_NAMES:
        first, last = word[0], word[-1]
        names.sort(key=lambda name: (name[0] != first) + (name[-1] != last) + abs(len(name) - len(word)))
        del names[_MOST_NAMES:]
    matches = difflib.get_close_matches(word, names, n=1, cutoff=cutoff)
    return matches[0] if matches else None


P = ParamSpec("P")
R = TypeVar("R")
_GC_THRESHOLD: Final = 20_000  # new objects before the youngest are collected; the default is 700 or more


def gc_disabled(work: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that the garbage collector is off while it runs."""

    # It is safe to nest and to use from several threads: the call that switched the collector off switches it on again.

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not gc.isenabled():
            return work(*args, **kwargs)
        gc.disable()
        try:
            return work(*args, **kwargs)
        finally:
            gc.enable()

    return run


def gc_disabled_until_next_tick(loop: asyncio.AbstractEventLoop) -> None:
    """Switch the garbage collector off until this loop, which must be the running one, has control again."""
    if gc.isenabled():
        loop.call_soon(gc.enable)
        gc.disable()


@contextlib.contextmanager
def gc_relaxed() -> Iterator[None]:
    """Run the garbage collector less often, for a process that belongs to Ropewalk, such as a worker."""

    # Thousands of steps are in progress at once and none of them is garbage, so the collector would take a third of the
    # time.
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _GC_THRESHOLD) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
