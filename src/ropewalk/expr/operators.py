"""The operators on values, the budget of an evaluation, and keys for equal values.

**Operators.** They are strict about JSON types. Mixed types in arithmetic and order, integers past 64 bits and
infinite numbers are errors. To add an operator, add its function here, its binding power in `ast.py`, its closure in
`closures.py`.

**Budget.** An evaluation has a limited number of steps, and of bytes of texts and lists that it builds. Past the
budget it raises OverBudget. `||` and macros absorb other errors, as in CEL, but never this one.

**Keys.** `identity_key` gives equal values the same key for a dict or set. Python hashes numbers without a secret,
so prepared numbers can make a set take quadratic time. The hashes of `str` and `bytes` are randomised per process,
so keys are always of these types.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import orjson

from ..errors import ExpressionError
from ..values import MAX_BYTES, MAX_DEPTH, Json
from .ast import Expr, brief

MAX_STEPS: Final = 1_000_000

MAX_SECONDS: Final = 10.0
"""The most seconds that one evaluation may take, in case its steps are slow."""

SLICE_SECONDS: Final = 0.05
"""The most seconds that an evaluation may block an event loop; then it moves to a thread."""

_STEPS_PER_CLOCK_LOOK: Final = 1 << 14  # a few milliseconds

ERROR: Final = 8
"""The steps that an absorbed error costs; building its message takes that long."""
LONG_TEXT: Final = 12
"""2 ** LONG_TEXT characters of a compared text cost one step."""

LIST_ELEMENT: Final = 16
"""The size of one list element, in bytes."""

OBJECT_FIELD: Final = 64
"""The size of one object field, in bytes; the table of a dict is at least a third empty."""


class OverBudget(ExpressionError):
    """Raised when an evaluation exceeds its budget."""


class Slow(OverBudget):
    """Raised when an evaluation blocks the event loop for too long and must be repeated in a thread."""


_thread = threading.local()


@contextlib.contextmanager
def in_slices() -> Iterator[None]:
    """Make evaluations of this thread raise Slow inside the block if they take longer than a slice."""
    _thread.sliced = True
    try:
        yield
    finally:
        _thread.sliced = False


class Budget:
    """The remaining steps and bytes of one evaluation; never shared between evaluations."""

    __slots__ = ("_began", "_next", "patterns", "room", "steps")

    def __init__(self) -> None:
        self.steps, self.room = MAX_STEPS, MAX_BYTES
        self.patterns: set[str] | None = None
        self._next, self._began = MAX_STEPS - _STEPS_PER_CLOCK_LOOK, 0.0

    def spend(self, steps: int) -> None:
        """Charge steps; raise OverBudget if none are left, or no time."""
        self.steps -= steps
        if self.steps < self._next:
            self._check_limits()

    def check_clock(self) -> None:
        """Look at the clock after an operation that one step does not cover."""

        # Raises OverBudget when time is up.
        self._check_limits()

    def _check_limits(self) -> None:
        if self.steps < 0:
            raise OverBudget(f"the expression takes more than {MAX_STEPS:,} steps")
        self._next = self.steps - _STEPS_PER_CLOCK_LOOK
        now = time.monotonic()
        if not self._began:  # start the clock late: few evaluations come this far
            self._began = now
        elif now - self._began > MAX_SECONDS:
            raise OverBudget(f"the expression takes longer than {MAX_SECONDS:g} seconds")
        elif now - self._began > SLICE_SECONDS and getattr(_thread, "sliced", False):
            raise Slow("the expression takes too long for the event loop")


def charge(budget: Budget | None, steps: int) -> None:
    """Charge for work that is larger than its arguments; without a budget the limits of one evaluation apply."""
    (budget or Budget()).spend(steps)


def grow(budget: Budget | None, size: int) -> None:
    """Reserve room for `size` bytes before building them; raise OverBudget past the limit (100 MB in total)."""
    if budget is None:
        if size > MAX_BYTES:
            raise OverBudget(f"the expression builds more than {MAX_BYTES:,} bytes")
        return
    budget.room -= size
    if budget.room < 0:
        raise OverBudget(f"the expression builds more than {MAX_BYTES:,} bytes")


def weigh(value: Json, budget: Budget | None = None) -> int:
    """Return the approximate size of a value as JSON, in bytes."""

    # A value built by reference may contain one list many times: a few objects in memory and terabytes when written.
    # The walk takes linear time in the distinct containers, which cost steps.
    return _weigh(value, MAX_DEPTH, {}, budget) if type(value) is list or type(value) is dict else _leaf(value)


def _leaf(value: Json) -> int:
    return len(value) + 3 if type(value) is str else 8


def _weigh(value: Json, depth: int, weights: dict[int, int], budget: Budget | None) -> int:
    weight = weights.get(id(value))
    if weight is not None:
        return weight
    if not depth:
        raise OverBudget(f"the expression builds a value nested deeper than {MAX_DEPTH}")
    if budget is not None:
        budget.spend(len(value) >> 2)
    # A container counts its own cells, its keys and texts, and its inner containers.
    total = 2 + 8 * len(value)
    inside = value
    if type(value) is dict:
        total += sum(map(len, value))
        inside = value.values()
    for item in inside:
        kind = type(item)
        if kind is str:
            total += len(item)
        elif kind is list or kind is dict:
            total += _weigh(item, depth - 1, weights, budget)
    if total > MAX_BYTES:
        raise OverBudget(f"the expression builds more than {MAX_BYTES:,} bytes")
    weights[id(value)] = total
    return total


class _Missing:
    """The value of a path that does not exist; it is never seen outside an expression."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_KINDS: Final[dict[type[Any], str]] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "list",
    dict: "object",
    _Missing: "nothing",
}


def kind_of(value: Json) -> str:
    """Return the JSON type of a value in the user's words."""
    return _KINDS.get(type(value), type(value).__name__)


def evaluation_error(message: str, at: Expr | None = None) -> ExpressionError:
    """Return an error that names the part of the expression that failed."""
    if at is None:
        return ExpressionError(message)
    return ExpressionError(f"{message}, in `{brief(at)}`", column=getattr(at, "column", 1))


def check_integer(value: int) -> int:
    """Return an integer if it fits in 64 bits; raise ExpressionError otherwise."""
    if _INT_MIN <= value <= _INT_MAX:
        return value
    raise ExpressionError("integer past 64 bits")


def check_finite(value: float) -> float:
    """Return a float if it is finite; raise ExpressionError otherwise."""
    if math.isfinite(value):
        return value
    raise ExpressionError("the result is not a finite number")


def check_number(value: int | float) -> int | float:
    """Return a number if JSON can hold it; raise ExpressionError otherwise."""
    return check_integer(value) if type(value) is int else check_finite(value)


def is_number(value: Json) -> bool:
    """Return True for an int or a float, False for a boolean."""
    return type(value) is int or type(value) is float


def is_equal(a: Json, b: Json, budget: Budget | None = None, depth: int = MAX_DEPTH) -> bool:
    """Return True if two values are equal by JSON type at every depth: 1 == 1.0, true != 1."""

    # MISSING equals nothing, not even itself.
    a_type, b_type = type(a), type(b)
    if a_type is not b_type:
        return bool(a == b) if is_number(a) and is_number(b) else False
    if a_type is str:
        if budget is not None and len(a) == len(b):
            budget.spend(len(a) >> LONG_TEXT)
        return bool(a == b)
    if a_type is not list and a_type is not dict:
        return bool(a == b) and a is not MISSING
    if len(a) != len(b):
        return False
    if budget is not None:
        budget.spend(1 + (len(a) >> 2))
    if not depth:
        raise OverBudget(f"values nested deeper than {MAX_DEPTH} cannot be compared")
    if a_type is list:
        return all(is_equal(x, y, budget, depth - 1) for x, y in zip(a, b, strict=True))
    return all(key in b and is_equal(item, b[key], budget, depth - 1) for key, item in a.items())


def is_ordered(a: Json, b: Json, op: str, at: Expr, budget: Budget | None = None) -> bool:
    """Return the result of `a op b` for an order operator: False with missing or null, an error across types."""
    if a is MISSING or b is MISSING or a is None or b is None:
        return False
    a_type, b_type = type(a), type(b)
    if not (is_number(a) and is_number(b)) and (a_type is not b_type or (a_type is not str and a_type is not bool)):
        raise evaluation_error(f"`{op}` cannot order {kind_of(a)} and {kind_of(b)}", at)
    if budget is not None and a_type is str:
        budget.spend(min(len(a), len(b)) >> LONG_TEXT)
    if op == "<":
        return bool(a < b)
    if op == "<=":
        return bool(a <= b)
    if op == ">":
        return bool(a > b)
    return bool(a >= b)


def is_in(item: Json, holder: Json, at: Expr, budget: Budget | None = None) -> bool:
    """Return True if `item` is an element of a list or a key of an object."""
    kind = type(holder)
    if kind is dict:
        return type(item) is str and item in holder
    if kind is list:
        if budget is not None:
            budget.spend(len(holder) >> 3)
        if type(item) is str:
            if budget is not None:
                budget.spend(len(holder) * (len(item) >> LONG_TEXT))
            return item in holder  # strings equal only strings, so the C loop is exact
        return any(is_equal(item, element, budget) for element in holder)
    if holder is None or holder is MISSING:
        return False
    hint = "; for text write contains(text, part)" if kind is str else ""
    raise evaluation_error(f"`in` needs a list or an object on its right, not {kind_of(holder)}{hint}", at)


def get_element(holder: Json, key: Json) -> Json:
    """Return `holder[key]`, or MISSING."""
    kind = type(holder)
    if kind is dict:
        return holder.get(key, MISSING) if type(key) is str else MISSING
    if kind is list:
        if type(key) is float and key.is_integer():
            key = int(key)
        if type(key) is int and 0 <= key < len(holder):
            return holder[key]
    return MISSING


def add(a: Json, b: Json, at: Expr, budget: Budget | None) -> Json:
    """Return the sum of two numbers, or the concatenation of two strings or lists."""
    if is_number(a) and is_number(b):
        return _check_result(a + b, at)
    kind = type(a)
    if kind is type(b) and (kind is str or kind is list):
        grow(budget, (len(a) + len(b)) * (1 if kind is str else LIST_ELEMENT))
        return a + b
    raise evaluation_error(f"`+` needs two numbers, two strings or two lists, not {kind_of(a)} and {kind_of(b)}", at)


def subtract(a: Json, b: Json, at: Expr) -> Json:
    """Return the difference of two numbers."""
    return _check_result(a - b, at) if is_number(a) and is_number(b) else _refuse("-", a, b, at)


def multiply(a: Json, b: Json, at: Expr) -> Json:
    """Return the product of two numbers."""
    return _check_result(a * b, at) if is_number(a) and is_number(b) else _refuse("*", a, b, at)


def divide(a: Json, b: Json, at: Expr) -> Json:
    """Return the quotient as a JSON number: 7 / 2 is 3.5, 6 / 2 is 3."""
    if not (is_number(a) and is_number(b)):
        return _refuse("/", a, b, at)
    if b == 0:
        raise evaluation_error("division by zero", at)
    if type(a) is int and type(b) is int and a % b == 0:
        return _check_result(a // b, at)
    try:
        return _check_result(a / b, at)
    except OverflowError:
        raise evaluation_error("the result is not a finite number", at) from None


def remainder(a: Json, b: Json, at: Expr) -> Json:
    """Return the remainder with the sign of `a`, as in CEL, C and JavaScript."""
    if not (is_number(a) and is_number(b)):
        return _refuse("%", a, b, at)
    if b == 0:
        raise evaluation_error("remainder by zero", at)
    if type(a) is int and type(b) is int:
        rest = abs(a) % abs(b)
        return -rest if a < 0 else rest
    return math.fmod(a, b)


def negate(a: Json, at: Expr) -> Json:
    """Return the negative of a number."""
    if not is_number(a):
        raise evaluation_error(f"`-` needs a number, not {kind_of(a)}", at)
    return _check_result(-a, at)


def _refuse(op: str, a: Json, b: Json, at: Expr) -> Json:
    raise evaluation_error(f"`{op}` needs two numbers, not {kind_of(a)} and {kind_of(b)}", at)


def _check_result(value: int | float, at: Expr) -> int | float:
    try:
        return check_number(value)
    except ExpressionError as error:
        raise evaluation_error(error.message, at) from None


def text_of(value: Json, budget: Budget | None) -> str:
    """Return a value as part of a longer text: strings unchanged, null as nothing, the rest as JSON."""
    if value is None or value is MISSING:
        return ""
    return json_text(value, budget) if type(value) is not str else _charged_text(value, budget)


def json_text(value: Json, budget: Budget | None) -> str:
    """Return the compact JSON of a value; its size is charged before it is written."""
    if type(value) is list or type(value) is dict:
        grow(budget, weigh(value, budget))
    try:
        return _charged_text(orjson.dumps(value).decode(), budget)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise ExpressionError(f"cannot be written as JSON: {error}") from error


def _charged_text(text: str, budget: Budget | None) -> str:
    grow(budget, len(text))
    return text


_LONG_JSON: Final = LONG_TEXT - 2  # 2 ** _LONG_JSON bytes of written JSON cost one step
_MIN_INT_FLOAT, _MAX_INT_FLOAT = float(-(2**63)), float(2**63)


def identity_key(value: Json, budget: Budget | None) -> str | bytes:
    """Return a key that two values share exactly if they are equal in the language."""

    # `budget`: Pays one step for each element inside `value`, and for the bytes of its JSON.
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is list or kind is dict:
        json_bytes = orjson.dumps(_comparable(value, budget, MAX_DEPTH), option=orjson.OPT_SORT_KEYS)
        if budget is not None:
            budget.spend(len(json_bytes) >> _LONG_JSON)
        return hashlib.blake2b(json_bytes, digest_size=32).digest()
    # At most 24 bytes, so never a digest. (What orjson writes keeps a kilobyte, however short it is.)
    if kind is int:
        return b"%d" % value
    return repr(_integral(value) if kind is float else value).encode()


def _comparable(value: Json, budget: Budget | None, depth: int) -> Json:
    """Return `value` with 1.0 written as 1, since both are the same number."""
    if not depth:
        raise OverBudget(f"values nested deeper than {MAX_DEPTH} cannot be compared")
    if budget is not None:
        budget.spend(len(value) + 1)
    if type(value) is dict:
        return {key: _element(item, budget, depth) for key, item in value.items()}
    return [_element(item, budget, depth) for item in value]


def _element(item: Json, budget: Budget | None, depth: int) -> Json:
    kind = type(item)
    if kind is list or kind is dict:
        return _comparable(item, budget, depth - 1)
    return _integral(item) if kind is float else item


def _integral(check_number: float) -> int | float:
    # Beyond 64 bits no JSON integer can be equal to it.
    return (
        int(check_number)
        if _MIN_INT_FLOAT <= check_number < _MAX_INT_FLOAT and check_number.is_integer()
        else check_number
    )
