"""Text of values: f-strings, `format`, `str.format`, `repr`; widths are limited."""

from __future__ import annotations

import datetime
import re
import string
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, Final

from .evaluation import Evaluation
from .operations import MAX_WIDTH, member, subscript, text_size
from .values import Refused, in_stable_order

_DIGITS: Final = re.compile(r"\d+")


def format_value(evaluation: Evaluation, value: Any, spec: str) -> str:
    """Return `format(value, spec)`."""
    if any(len(digits) > 5 or int(digits) > MAX_WIDTH for digits in _DIGITS.findall(spec)):
        raise Refused(f"a format wider than {MAX_WIDTH:,} characters; write a smaller width")
    if not spec:
        return text(evaluation, value)
    evaluation.step(1 + len(spec) // 64)
    if isinstance(value, datetime.date | datetime.time):
        check_date_form(spec)
    return format(value, spec)


_LOCAL_SECONDS: Final = re.compile(r"%[-_0^#]*\d*[EO]?s")


def check_date_form(form: str) -> None:
    """Raise Refused if a date in this form depends on the time zone of the machine."""
    if _LOCAL_SECONDS.search(form.replace("%%", "")):
        raise Refused("%s depends on the time zone of the machine; write int(moment.timestamp())")


def text(evaluation: Evaluation, value: Any) -> str:
    """Return `str(value)`."""
    if type(value) is str:
        return value
    if isinstance(value, (int, float)):
        return str(value)
    evaluation.reserve(text_size(value))
    evaluation.walk(value)
    if isinstance(value, (list, tuple, dict, set, frozenset, deque)) and type(value).__str__ is object.__str__:
        return representation(evaluation, value)
    shown = str(value)
    return shown if isinstance(value, _PLAIN) else _ADDRESS.sub("", shown)


def representation(evaluation: Evaluation, value: Any) -> str:
    """Return `repr(value)`; sets have their elements in the order in which they are iterated."""
    if type(value) is str:
        evaluation.reserve(len(value))
        return repr(value)
    evaluation.step()
    if type(value) is list:
        return f"[{', '.join([representation(evaluation, item) for item in value])}]"
    if type(value) is tuple:
        comma = "," if len(value) == 1 else ""
        return f"({', '.join([representation(evaluation, item) for item in value])}{comma})"
    if type(value) is dict:
        return _pairs(evaluation, value)
    if isinstance(value, (set, frozenset)) and value:
        items = f"{{{', '.join([representation(evaluation, item) for item in in_stable_order(value)])}}}"
        return items if isinstance(value, set) else f"frozenset({items})"
    if type(value) in _COLLECTIONS:
        return _collection(evaluation, value)
    shown = repr(value)
    return shown if isinstance(value, _PLAIN) else _ADDRESS.sub("", shown)


_COLLECTIONS: Final = (Counter, OrderedDict, defaultdict, deque)
_PLAIN: Final = (int, float, type(None), range, datetime.date, datetime.time, datetime.timedelta)
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
"""Where an object is in memory differs between processes."""


def _collection(evaluation: Evaluation, value: Any) -> str:
    """Return `repr` of a value of `collections`."""
    name = type(value).__name__
    if type(value) is deque:
        limit = f", maxlen={value.maxlen}" if value.maxlen is not None else ""
        return f"deque({representation(evaluation, list(value))}{limit})"
    if type(value) is defaultdict:
        return f"defaultdict({representation(evaluation, value.default_factory)}, {_pairs(evaluation, value)})"
    if not value:
        return f"{name}()"
    if type(value) is Counter:
        return f"Counter({_pairs(evaluation, dict(value.most_common()))})"
    if sys.version_info < (3, 12):
        return f"OrderedDict({representation(evaluation, list(value.items()))})"
    return f"OrderedDict({_pairs(evaluation, value)})"


def _pairs(evaluation: Evaluation, value: dict[Any, Any]) -> str:
    pairs = [f"{representation(evaluation, key)}: {representation(evaluation, item)}" for key, item in value.items()]
    return f"{{{', '.join(pairs)}}}"


class _Formatter(string.Formatter):
    """`str.format` whose fields read entries of data only."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        first, rest = string._string.formatter_field_name_split(field_name)  # type: ignore[attr-defined]
        value = self.get_value(first, args, kwargs)
        for is_member, key in rest:
            if is_member:
                value = member(self.evaluation, value, key)
            else:
                value = subscript(self.evaluation, value, key)
        return value, first

    def format_field(self, value: Any, format_spec: str) -> str:
        return format_value(self.evaluation, value, format_spec)

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return converted(self.evaluation, value, conversion)


def converted(evaluation: Evaluation, value: Any, conversion: str | None) -> Any:
    """Return a value after the conversion `s`, `r` or `a` of a format field."""
    if conversion is None:
        return value
    if conversion == "s":
        return text(evaluation, value)
    if conversion == "r":
        return representation(evaluation, value)
    if conversion == "a":
        return ascii(value)
    raise ValueError(f"Unknown conversion specifier {conversion!s}")


def format_template(evaluation: Evaluation, template: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return `template.format(*args, **kwargs)`."""
    evaluation.step(1 + len(template) // 16)
    result = _Formatter(evaluation).vformat(template, args, kwargs)
    evaluation.reserve(len(result))
    return result
