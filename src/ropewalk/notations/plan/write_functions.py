"""Local functions of written plans: operations of the expression language that Python does in another way.

A written plan begins with those that it uses. Each has the meaning of the expression language: null where a member is
missing, no order between values of two types, `true` is not 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_TEXTS: Final = '''
def at(value, *keys):
    """Return the member at a path, None where there is none."""
    for key in keys:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def has(value, *keys):
    """Return True if there is a member at a path."""
    for key in keys:
        if isinstance(value, dict) and isinstance(key, str) and key in value:
            value = value[key]
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return False
    return True


def output(value):
    """Return the member `output` of a value that has one, else the value."""
    return value["output"] if isinstance(value, dict) and "output" in value else value


def element(value, key):
    """Return an entry of a list or object, None where there is none."""
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if isinstance(key, bool) or (isinstance(key, int) and key < 0):
        return None
    return at(value, key)


def holds(value):
    """Return a condition, of which None is false."""
    if value is None or isinstance(value, bool):
        return value is True
    raise TypeError("a condition is true or false")


def both(*tests):
    """Return True if every test is true. One false test decides, even where another fails."""
    failure = None
    for test in tests:
        try:
            if not test():
                return False
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return True


def either(*tests):
    """Return True if a test is true. One true test decides, even where another fails."""
    failure = None
    for test in tests:
        try:
            if test():
                return True
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return False


def shape(value):
    """Return the JSON of a value with every number as 0."""
    return re.sub("-?[0-9][-0-9.e+]*", "0", json.dumps(value, sort_keys=True))


def same(left, right):
    """Return True if two values are equal as JSON: 1 is 1.0, but not True."""
    return left == right and shape(left) == shape(right)


def contains(holder, value):
    """Return True if a list has an equal element, an object a key, or a text a part."""
    if isinstance(holder, list):
        return any(same(entry, value) for entry in holder)
    if holder is None:
        return False
    if isinstance(holder, str) and not isinstance(value, str):
        raise TypeError("contains needs a string")
    if not isinstance(holder, str):
        raise TypeError("contains needs a list")
    return value in holder


def is_in(value, holder):
    """Return True if a value is an element of a list or a key of an object."""
    if isinstance(holder, dict):
        return isinstance(value, str) and value in holder
    if isinstance(holder, str):
        raise TypeError("in needs a list or an object")
    return contains(holder, value)


def comparable(left, right):
    """Return False with None; fail for values of two types."""
    if left is None or right is None:
        return False
    for kind in (bool, str):
        if isinstance(left, kind) and isinstance(right, kind):
            return True
    for value in (left, right):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError("only numbers or texts have an order")
    return True


def lt(left, right):
    return comparable(left, right) and left < right


def le(left, right):
    return comparable(left, right) and left <= right


def gt(left, right):
    return comparable(left, right) and left > right


def ge(left, right):
    return comparable(left, right) and left >= right


def number(value):
    """Return a number that JSON can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("needs a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError("not a finite number")
    if isinstance(value, int) and not -9223372036854775807 - 1 <= value <= 9223372036854775807:
        raise OverflowError("integer past 64 bits")
    return value


def add(left, right):
    if isinstance(left, str) and isinstance(right, str) or isinstance(left, list) and isinstance(right, list):
        return left + right
    return number(number(left) + number(right))


def subtract(left, right):
    return number(number(left) - number(right))


def multiply(left, right):
    return number(number(left) * number(right))


def divide(left, right):
    """Return the quotient: 6 / 2 is 3."""
    if isinstance(number(left), int) and isinstance(number(right), int) and left % right == 0:
        return number(left // right)
    return number(left / right)


def remainder(left, right):
    """Return the remainder with the sign of the first number."""
    if isinstance(number(left), int) and isinstance(number(right), int):
        return abs(left) % abs(right) if left >= 0 else -(abs(left) % abs(right))
    if right == 0:
        raise ZeroDivisionError("remainder by zero")
    return math.fmod(left, right)


def length(value):
    if value is None:
        return 0
    if not isinstance(value, (str, list, dict)):
        raise TypeError("length needs a string, a list or an object")
    return len(value)


def items_of(value):
    """Return a list; None has no elements."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError("needs a list")
    return value


def elements_of(value):
    """Return the elements of a list, or the keys of an object; None has none."""
    return list(value) if isinstance(value, dict) else items_of(value)


def string_of(value):
    if not isinstance(value, str):
        raise TypeError("needs a string")
    return value


def text(value):
    """Return a value as a part of a text: None as nothing, lists and objects as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if re.search(r"[0-9]e-", written):
        raise ValueError("a number this small has another text in Python")
    return written


def starts_with(value, part):
    return value is not None and string_of(value).startswith(string_of(part))


def ends_with(value, part):
    return value is not None and string_of(value).endswith(string_of(part))


def lower(value):
    return None if value is None else string_of(value).lower()


def upper(value):
    return None if value is None else string_of(value).upper()


def trim(value):
    return None if value is None else string_of(value).strip()


def replace(value, old, new):
    return None if value is None else string_of(value).replace(string_of(old), string_of(new))


def split(value, by):
    if value is None:
        return []
    if by == "":
        return list(string_of(value))
    return string_of(value).split() if by is None else string_of(value).split(string_of(by))


def join(values, by):
    """Return the texts of values with a text between them."""
    for value in items_of(values):
        if isinstance(value, (list, dict)):
            raise TypeError("join needs strings, numbers and booleans")
    return string_of("" if by is None else by).join([text(value) for value in items_of(values)])


def numbers_of(values):
    return [number(value) for value in items_of(values)]


def average(values):
    numbers = numbers_of(values)
    return divide(number(sum(numbers)), len(numbers)) if numbers else None


def extremes(values):
    """Return values that are all numbers or all texts."""
    for value in values:
        if not isinstance(values[0], str) or not isinstance(value, str):
            number(values[0])
            number(value)
    return values


def smallest(*values):
    listed = extremes(items_of(values[0]) if len(values) == 1 else list(values))
    return min(listed) if listed else None


def largest(*values):
    listed = extremes(items_of(values[0]) if len(values) == 1 else list(values))
    return max(listed) if listed else None


def keys(value):
    if value is not None and not isinstance(value, dict):
        raise TypeError("needs an object")
    return list(value or {})


def values_of(value):
    return [value[key] for key in keys(value)]


def fields_of(value):
    """Return an object as arguments; None has none."""
    if value is not None and not isinstance(value, dict):
        raise TypeError("arguments must be an object")
    return value or {}


def first_of(*values):
    """Return the first value that is not None."""
    for value in values:
        if value is not None:
            return value
    return None


def concat(*values):
    """Return a list of values and of the elements of lists, without None."""
    lists = [value if isinstance(value, list) else [] if value is None else [value] for value in values]
    return [value for values in lists for value in values]


def flatten(values):
    lists = [value if isinstance(value, list) else [value] for value in items_of(values)]
    return [value for values in lists for value in values]


def distinct(values):
    """Return the first of equal values."""
    return [value for i, value in enumerate(values) if not any(same(value, known) for known in values[:i])]


def merge(*values):
    """Return the members of objects; the later value of a name wins, None adds nothing."""
    return {key: member for value in values for key, member in fields_of(value).items()}


def is_any(values):
    return any([holds(value) for value in items_of(values)])


def is_every(values):
    return all([value is None or holds(value) for value in items_of(values)])


def every(values, test):
    """Return True if a test is true of all elements. One false test decides, even where another fails."""
    failure = None
    for index, item in enumerate(elements_of(values)):
        try:
            if not test(item, index):
                return False
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return True


def some(values, test):
    """Return True if a test is true of one element, even where it fails for another."""
    failure = None
    for index, item in enumerate(elements_of(values)):
        try:
            if test(item, index):
                return True
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return False


def fold(values, step, total):
    """Return the value that a step makes of the last one and an element, again and again."""
    for index, item in enumerate(elements_of(values)):
        total = step(total, item, index)
    return total


def key_of(value):
    """Return the key of a group as a text."""
    if isinstance(value, (list, dict)):
        raise TypeError("group_by needs a string, a number or a boolean")
    if isinstance(value, float) and value.is_integer() and abs(value) < 9e18:
        return str(int(value))
    return "null" if value is None else text(value)


def group(values, key):
    """Return an object of lists: the elements by their key."""
    keyed = [[key_of(key(item, index)), item] for index, item in enumerate(elements_of(values))]
    return {name: [item for other, item in keyed if other == name] for name, first in keyed}


def rank(value):
    """Return the place of a value in a sort: None, booleans, numbers, texts, then all others as they are."""
    if value is None:
        return [0, 0]
    if isinstance(value, bool):
        return [1, value]
    if isinstance(value, str):
        return [3, value]
    return [2, value] if isinstance(value, (int, float)) else [4, 0]


def retryable(error):
    """Return False for a failure that every further attempt repeats, or whose call has had its effects."""
    final = ("InvalidToolId", "ToolNotFound", "ToolNotApproved", "NoBackends", "ValidationFailed")
    return isinstance(error, TimeoutError) or error.kind not in (*final, "OutputValidationFailed", "ModelError")


def typed(value, *types):
    """Return a value of a declared type; None fits every type."""
    if isinstance(value, bool):
        names = ["boolean"]
    elif isinstance(value, int) or isinstance(value, float) and value.is_integer():
        names = ["integer", "number"]
    elif isinstance(value, float):
        names = ["number"]
    else:
        names = ["string"] if isinstance(value, str) else ["array"] if isinstance(value, list) else ["object"]
    if value is not None and not any(name in types for name in names):
        raise TypeError("the value does not have the declared type")
    return value


def append(values, more):
    """Return a list with the elements of another one added; None adds nothing."""
    return [*items_of(values), *items_of(more)]


def total(value, more):
    return value if more is None else number(number(value or 0) + number(more))


def greater(value, more):
    return value if more is None else number(more) if value is None else max(number(value), number(more))


def smaller(value, more):
    return value if more is None else number(more) if value is None else min(number(value), number(more))
'''

_CALL: Final = re.compile(r"(?<![.\w])(?<!def )(\w+)\(")
FUNCTIONS: Final[dict[str, str]] = {
    part.split("(", 1)[0].removeprefix("def "): part.strip() + "\n" for part in _TEXTS.strip().split("\n\n\n")
}
"""The text of each function by its name, in an order in which each comes after none that it uses."""


def with_needed(names: Iterable[str]) -> list[str]:
    """Return the texts of functions, and of those that they call, each once."""
    needed: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in needed:
            needed.add(name)
            called = set(_CALL.findall(FUNCTIONS[name])) & FUNCTIONS.keys()
            todo += called - {name}
    return [text for name, text in FUNCTIONS.items() if name in needed]
