"""Types of the results of functions, methods and operators of the language."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final

from ...check.type_parts import values_of
from ...check.types import (
    ALL,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Each,
    Missing,
    Opaque,
    Type,
    describe_kinds,
    element_type,
    items_of,
    kinds_of,
    union_type,
)
from ...expr.ast import Lit
from ...expr.python import methods as _methods
from ...expr.python.method_table import METHODS

_NUMBERS: Final = INTEGER | NUMBER | BOOLEAN
_LOADED: Final = _methods  # fills the tables

METHODS_OF_KINDS: Final[dict[int, frozenset[str]]] = {
    STRING: frozenset(METHODS.get(str, {})),
    ARRAY: frozenset(METHODS.get(list, {})) | frozenset(METHODS.get(tuple, {})),
    OBJECT: frozenset(METHODS.get(dict, {})),
    INTEGER: frozenset(METHODS.get(int, {})),
    NUMBER: frozenset(METHODS.get(float, {})),
}
"""The names of the methods that values of each kind have."""

_RESULTS: Final[dict[str, Type]] = {
    **dict.fromkeys(("len", "int", "ord", "math.floor", "math.ceil", "math.gcd"), INTEGER),
    **dict.fromkeys(("str", "repr", "chr", "format", "json.dumps"), STRING),
    **dict.fromkeys(("bool", "isinstance", "any", "all"), BOOLEAN),
    **dict.fromkeys(("float", "math.sqrt", "math.log", "math.log10", "math.exp"), NUMBER | INTEGER),
    "range": Each(INTEGER),
    "uuid.uuid4": None,
}
_TEXT_RESULTS: Final[dict[str, Type]] = {
    **dict.fromkeys("capitalize casefold format join lower lstrip removeprefix removesuffix replace".split(), STRING),  # noqa: SIM905
    **dict.fromkeys("rstrip strip swapcase title upper zfill center ljust rjust".split(), STRING),  # noqa: SIM905
    **dict.fromkeys(("split", "rsplit", "splitlines"), Each(STRING)),
    **dict.fromkeys("endswith startswith isdigit isalpha isalnum islower isupper isspace".split(), BOOLEAN),  # noqa: SIM905
    **dict.fromkeys(("count", "find", "index", "rfind"), INTEGER),
}
_SAME_ELEMENTS: Final = frozenset(("list", "sorted", "reversed", "tuple"))


def without_elements(known: Type) -> Type:
    """Return the type of a value whose elements may change: of a list or object only that it is one."""
    kinds = kinds_of(known)
    return known if isinstance(known, Opaque) or not kinds & (ARRAY | OBJECT) else None if kinds == ALL else kinds


def element_at(known: Type, index: int) -> Type:
    member = element_type(known, index)
    return None if type(member) is Missing else member


def function_result(path: str, args: Sequence[Type]) -> Type:
    """Return the type of what a function of the language gives; None if it is not known."""
    first = args[0] if args else None
    is_list = bool(args) and kinds_of(first) == ARRAY
    if path in _SAME_ELEMENTS:
        return Each(items_of(first)) if is_list else Each(None)
    if path == "enumerate":
        return Each([INTEGER, items_of(first) if is_list else None])
    if path == "zip":
        return Each([items_of(part) if kinds_of(part) == ARRAY else None for part in args])
    if path == "map":
        return Each(first if len(args) > 1 and type(first) is not Missing else None)
    if path == "filter" and len(args) == 2:
        return Each(items_of(args[1]) if kinds_of(args[1]) == ARRAY else None)
    if path in ("random.choice", "random.sample", "random.choices") and is_list:
        return items_of(first) if path.endswith("choice") else Each(items_of(first))
    if path == "next" and is_list:
        return union_type(items_of(first), *args[1:])
    if path in ("min", "max") and len(args) == 1:
        return items_of(first) if is_list else None
    if path == "sum" and is_list and len(args) == 1:
        kinds = kinds_of(items_of(first))
        return (kinds & ~BOOLEAN) | INTEGER if not kinds & ~_NUMBERS else None
    if path == "abs" and not kinds_of(first) & ~_NUMBERS:
        return kinds_of(first) & ~BOOLEAN | INTEGER
    if path == "round":
        return INTEGER if len(args) == 1 else None
    return _RESULTS.get(path)


def method_result(holder: Type, name: str, args: Sequence[Type]) -> Type:
    """Return the type of what a method gives; None if it is not known."""
    kinds = kinds_of(holder)
    # Only a single kind is certain: a value that may also be null has no known method.
    if kinds == STRING:
        return _TEXT_RESULTS.get(name)
    if kinds == ARRAY:
        if name in ("pop", "copy"):
            return items_of(holder) if name == "pop" else Each(items_of(holder))
        return INTEGER if name in ("count", "index") else None
    if kinds != OBJECT:
        return None
    if name == "keys":
        return Each(STRING)
    if name == "values":
        return Each(values_of(holder))
    if name == "items":
        return Each([STRING, values_of(holder)])
    key: Any = args[0].value if args and type(args[0]) is Lit else None
    if name == "get" and type(key) is str:
        member = element_type(holder, key)
        # Without a second argument, `get` returns None for a missing key.
        default = args[1] if len(args) > 1 else Lit(None)
        return None if type(member) is Missing or member is None else union_type(member, default)
    return None


ORDER_SIGNS: Final = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_ALIKE: Final = (_NUMBERS, STRING, ARRAY)
_OPERANDS: Final[dict[type[ast.AST], tuple[str, Sequence[tuple[int, int]]]]] = {
    ast.Add: ("+", [(kinds, kinds) for kinds in _ALIKE]),
    ast.Div: ("/", [(_NUMBERS, _NUMBERS)]),
    ast.FloorDiv: ("//", [(_NUMBERS, _NUMBERS)]),
    ast.Pow: ("**", [(_NUMBERS, _NUMBERS)]),
    ast.Mult: ("*", [(_NUMBERS, _NUMBERS), (STRING | ARRAY, _NUMBERS), (_NUMBERS, STRING | ARRAY)]),
    **{kind: (sign, [(kinds, kinds) for kinds in _ALIKE]) for kind, sign in ORDER_SIGNS.items()},
}
"""The sign of each operator, and the kinds that its operands may have together."""


def operation_problem(operator: ast.AST, left: int, right: int) -> str | None:
    """Return why two kinds of value can never be operands together; None if they may be."""
    sign, fitting = _OPERANDS.get(type(operator), ("", ()))
    # A value that may be null may have another kind at run time, so null alone proves nothing.
    left, right = left & ~NULL, right & ~NULL
    if not sign or not left or not right or any(left & one and right & other for one, other in fitting):
        return None
    return f"{describe_kinds(left)} {sign} {describe_kinds(right)} is not possible"


def operation_result(operator: ast.AST, left: Type, right: Type) -> Type:
    """Return the type of an operation; None if it is not known."""
    kinds = kinds_of(left), kinds_of(right)
    if not (kinds[0] | kinds[1]) & ~_NUMBERS:
        if isinstance(operator, (ast.Div, ast.Pow)):
            return NUMBER | INTEGER
        return INTEGER | (kinds[0] | kinds[1]) & NUMBER
    if kinds[0] == STRING and (kinds[1] == STRING or isinstance(operator, ast.Mod)):
        return STRING
    if kinds == (ARRAY, ARRAY) and isinstance(operator, ast.Add):
        return Each(union_type(items_of(left), items_of(right)))
    return None
