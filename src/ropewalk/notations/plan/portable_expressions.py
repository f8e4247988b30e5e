"""Python of a plan as expressions of the expression language, where both mean the same in every run.

Python fails where a member is missing, counts true as 1, and asks for the truth of any value. The expression language
does not. So most of this depends on what is certain about the types; where it is not, the translation is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn

from ...expr.ast import NULL, Arr, Each, Expr, Fn, Lit, Obj, Var, binary, select
from ...fast_dataclass import dataclass
from .write_functions import FUNCTIONS
from .write_types import BOOL, INT, LIST, NUMBER, TEXT, UNKNOWN, Certain, either, of_value

APPROVAL: Final = "Approval"
"""The type of the answer to an approval, which is true only where it is approved."""
_ORDER: Final[Mapping[type[ast.cmpop], str]] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_OPERATORS: Final[Mapping[type[ast.operator], str]] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_METHODS: Final = {
    "lower": ("lower", 0, TEXT),
    "upper": ("upper", 0, TEXT),
    "strip": ("trim", 0, TEXT),
    "startswith": ("startsWith", 1, BOOL),
    "endswith": ("endsWith", 1, BOOL),
}
"""The function of each method of texts, the number of its arguments, and its value."""


_WRITTEN: Final = {
    "same": ("==", BOOL),
    "lt": ("<", BOOL),
    "le": ("<=", BOOL),
    "gt": (">", BOOL),
    "ge": (">=", BOOL),
    "add": ("+", UNKNOWN),
    "subtract": ("-", NUMBER),
    "multiply": ("*", NUMBER),
    "divide": ("/", NUMBER),
    "remainder": ("%", NUMBER),
    "length": ("length", INT),
    "lower": ("lower", UNKNOWN),
    "upper": ("upper", UNKNOWN),
    "trim": ("trim", UNKNOWN),
    "first_of": ("coalesce", UNKNOWN),
    "concat": ("concat", LIST),
    "flatten": ("flatten", LIST),
    "join": ("join", TEXT),
    "contains": ("contains", BOOL),
    "keys": ("keys", LIST),
    "smallest": ("min", UNKNOWN),
    "largest": ("max", UNKNOWN),
    "average": ("avg", UNKNOWN),
}
"""What the functions of written plans stand for: `write_functions` has their meaning in Python."""


class NotPortable(Exception):
    """The expression language has no equal."""

    # `line` is the line of the program; 0 if it is not known.

    def __init__(self, node: ast.AST, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason, self.line = node, reason, 0


@dataclass(frozen=True, slots=True)
class Portable:
    """An expression of the language, and what is certain about its value."""

    expr: Expr
    certain: Certain = UNKNOWN


Names = dict[str, Portable]
WRITTEN: Final = Portable(Lit("function of a written plan"), Certain(frozenset(("function",))))
"""The value of the name of a function of written plans (`is_written`)."""


def translate(node: ast.expr, names: Mapping[str, Portable]) -> Portable:
    """Return an expression of Python in the expression language."""
    function = _TRANSLATORS.get(type(node))
    if function is None:
        _refuse(node, "it has no equal in the expression language")
    result: Portable = function(node, names)
    return result


def condition(node: ast.expr, names: Mapping[str, Portable]) -> Expr:
    """Return the truth of a value as a boolean."""
    value = translate(node, names)
    expr, certain = value.expr, value.certain
    if certain.is_a("bool"):
        return expr
    if certain.is_a(APPROVAL):
        return Fn("==", (select(expr, "approved") if not isinstance(expr, Obj) else expr.fields[0][1], Lit(True)))
    if certain.is_a("NoneType", "bool"):
        return Fn("==", (expr, Lit(True)))
    # Each type has its own empty value; None is never true.
    exists = Fn("exists", (expr,))
    empty: Fn | None = None
    if certain.is_a("str", "NoneType"):
        empty = Fn("!=", (expr, Lit("")))
    elif certain.is_a("int", "float", "NoneType"):
        empty = Fn("!=", (expr, Lit(0)))
    elif certain.is_a("list", "dict", "NoneType"):
        empty = Fn(">", (Fn("length", (expr,)), Lit(0)))
    if empty is None:
        _refuse(node, "only true and false are conditions; the type of this value is not certain")
    return binary("&&", exists, empty) if certain.may_be("NoneType") else empty


def _refuse(node: ast.AST, reason: str) -> NoReturn:
    raise NotPortable(node, reason)


def _name(node: ast.Name, names: Mapping[str, Portable]) -> Portable:
    if node.id not in names:
        _refuse(node, f"the value of {node.id} is known to Python only")
    return names[node.id]


def _constant(node: ast.Constant, names: Mapping[str, Portable]) -> Portable:
    if node.value is not None and not isinstance(node.value, (bool, int, float, str)):
        _refuse(node, "it is not JSON")
    return Portable(Lit(node.value), of_value(node.value))


def _dict(node: ast.Dict, names: Mapping[str, Portable]) -> Portable:
    fields: dict[str, Portable] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            _refuse(node, "its keys are not all constant texts")
        fields[key.value] = translate(value, names)
    certain = Certain(frozenset(("dict",)), {key: value.certain for key, value in fields.items()})
    return Portable(Obj(tuple((key, value.expr) for key, value in fields.items())), certain)


def _list(node: ast.List | ast.Tuple, names: Mapping[str, Portable]) -> Portable:
    if any(isinstance(part, ast.Starred) for part in node.elts):
        _refuse(node, "* has no equal in the expression language")
    items = [translate(part, names) for part in node.elts]
    certain = Certain(frozenset(("list",)), items=either(item.certain for item in items))
    constants = [item.expr.value for item in items if isinstance(item.expr, Lit)]
    expr = Lit(constants) if len(constants) == len(items) else Arr(tuple(item.expr for item in items))
    return Portable(expr, certain)


def _compare(node: ast.Compare, names: Mapping[str, Portable]) -> Portable:
    parts = [node.left, *node.comparators]
    tests = [_comparison(op, parts[i], parts[i + 1], names) for i, op in enumerate(node.ops)]
    expr = tests[0]
    for test in tests[1:]:
        expr = binary("&&", expr, test)
    return Portable(expr, BOOL)


def _comparison(operator: ast.cmpop, left: ast.expr, right: ast.expr, names: Mapping[str, Portable]) -> Expr:
    a, b = translate(left, names), translate(right, names)
    if isinstance(operator, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
        if isinstance(a.expr, Lit):
            a, b, right = b, a, left
        test = _equality(a, b, right)
        return test if isinstance(operator, (ast.Eq, ast.Is)) else Fn("!", (test,))
    if type(operator) in _ORDER:
        if not ((a.certain.is_number and b.certain.is_number) or (a.certain.is_a("str") and b.certain.is_a("str"))):
            _refuse(left, "an order of values whose types are not certain fails in Python only")
        return Fn(_ORDER[type(operator)], (a.expr, b.expr))
    items = b.expr.value if isinstance(b.expr, Lit) and isinstance(b.expr.value, list) else ()
    if items and all(isinstance(item, str) for item in items):
        test = Fn("in", (a.expr, b.expr))
        return test if isinstance(operator, ast.In) else Fn("!", (test,))
    _refuse(right, "`in` means the same only for a list of constant texts")


def _equality(a: Portable, b: Portable, node: ast.expr) -> Expr:
    if b.expr == NULL:  # also true of a missing value, which is None in a plan
        return Fn("!", (Fn("exists", (a.expr,)),))
    constant = b.expr.value if isinstance(b.expr, Lit) else None
    is_odd_number = type(constant) in (int, float) and constant not in (0, 1)
    both_numbers = a.certain.is_number and b.certain.is_number
    if isinstance(constant, bool):
        if not a.certain.is_a("bool", "str", "NoneType", "list", "dict"):
            _refuse(node, "1 equals True in Python only")
    elif not (is_odd_number or both_numbers or isinstance(constant, str) or _both_texts(a, b)):
        _refuse(node, "values whose types are not certain can be equal in Python only, as 1 and True are")
    return Fn("==", (a.expr, b.expr))


def _both_texts(a: Portable, b: Portable) -> bool:
    return a.certain.is_a("str") and b.certain.is_a("str")


def _logical(node: ast.BoolOp, names: Mapping[str, Portable]) -> Portable:
    values = [translate(part, names) for part in node.values]
    if not all(value.certain.is_a("bool") for value in values):
        _refuse(node, "`and` and `or` give one of their values, && and || a boolean")
    if any(map(_may_fail, node.values)):
        _refuse(node, "a failing side does not matter to && and || where the other decides")
    name = "&&" if isinstance(node.op, ast.And) else "||"
    expr = values[0].expr
    for value in values[1:]:
        expr = binary(name, expr, value.expr)
    return Portable(expr, BOOL)


def _may_fail(node: ast.expr) -> bool:
    """Return True if a translated expression may fail: arithmetic, which can become too large."""
    return any(isinstance(part, ast.BinOp) for part in ast.walk(node))


def _unary(node: ast.UnaryOp, names: Mapping[str, Portable]) -> Portable:
    if isinstance(node.op, ast.Not):
        return Portable(Fn("!", (condition(node.operand, names),)), BOOL)
    value = translate(node.operand, names)
    if isinstance(node.op, ast.USub) and isinstance(value.expr, Lit) and value.certain.is_number:
        return Portable(Lit(-value.expr.value), value.certain)
    if not isinstance(node.op, ast.USub) or not value.certain.is_number:
        _refuse(node, "the type of this value is not certain")
    return Portable(Fn("neg", (value.expr,)), NUMBER)


def _choice(node: ast.IfExp, names: Mapping[str, Portable]) -> Portable:
    yes, no = translate(node.body, names), translate(node.orelse, names)
    return Portable(Fn("?:", (condition(node.test, names), yes.expr, no.expr)), either([yes.certain, no.certain]))


def _operation(node: ast.BinOp, names: Mapping[str, Portable]) -> Portable:
    a, b, operator = translate(node.left, names), translate(node.right, names), _OPERATORS.get(type(node.op))
    if operator is None:
        _refuse(node, "this operator has another meaning in the expression language, or none")
    certain = NUMBER
    if not (a.certain.is_number and b.certain.is_number):
        same = next((kind for kind in ("str", "list") if a.certain.is_a(kind) and b.certain.is_a(kind)), None)
        if operator != "+" or same is None:
            _refuse(node, "the types of these values are not certain")
        certain = TEXT if same == "str" else LIST
    return Portable(binary(operator, a.expr, b.expr), certain)


def _member(node: ast.Subscript | ast.Attribute, names: Mapping[str, Portable]) -> Portable:
    holder = translate(node.value, names)
    key = node.attr if isinstance(node, ast.Attribute) else getattr(node.slice, "value", None)
    if not isinstance(key, str) or key not in holder.certain.fields:
        _refuse(node, "a member that may be missing fails in Python, and is null in the expression language")
    if isinstance(holder.expr, Obj):
        return Portable(dict(holder.expr.fields)[key], holder.certain.fields[key])
    return Portable(select(holder.expr, key), holder.certain.fields[key])


def _text(node: ast.JoinedStr, names: Mapping[str, Portable]) -> Portable:
    parts: list[Expr] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(Lit(part.value))
            continue
        assert isinstance(part, ast.FormattedValue)
        value = translate(part.value, names)
        if part.format_spec is not None or part.conversion != -1 or not value.certain.is_a("str", "int"):
            _refuse(node, "only texts and integers have the same text in both languages")
        parts.append(value.expr)
    return Portable(Fn("${}", tuple(parts)), TEXT)


def _call(node: ast.Call, names: Mapping[str, Portable]) -> Portable:
    if isinstance(node.func, ast.Name) and names.get(node.func.id) == WRITTEN and not node.keywords:
        return _written(node.func.id, node, names)
    # Portable functions mean the same as Python's only for certain types, so each type must be known.
    if isinstance(node.func, ast.Attribute) and not node.keywords:
        known = _METHODS.get(node.func.attr)
        values = [translate(part, names) for part in (node.func.value, *node.args)]
        if known is not None and len(node.args) == known[1] and all(value.certain.is_a("str") for value in values):
            return Portable(Fn(known[0], tuple(value.expr for value in values)), known[2])
    name = node.func.id if isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords else ""
    if name == "bool":
        return Portable(condition(node.args[0], names), BOOL)
    # list() of a list is a copy, which portable expressions do not need: they change nothing.
    if name == "list":
        value = translate(node.args[0], names)
        if value.certain.is_a("list"):
            return value
    if name == "len":
        value = translate(node.args[0], names)
        if value.certain.is_a("str", "list", "dict"):
            return Portable(Fn("length", (value.expr,)), INT)
    if name == "sum":
        value = translate(node.args[0], names)
        if value.certain.is_a("list") and value.certain.items is not None and value.certain.items.is_number:
            return Portable(Fn("sum", (value.expr,)), NUMBER)
    _refuse(node, "this call has no equal, or the types of its arguments are not certain")


def _written(name: str, node: ast.Call, names: Mapping[str, Portable]) -> Portable:
    """Return the operation of the expression language that a function of a written plan stands for."""
    values = [translate(part, names) for part in node.args]
    args = tuple(value.expr for value in values)
    if name in ("at", "has"):
        path = [arg.value for arg in args[1:] if isinstance(arg, Lit)]
        if len(path) == len(args) - 1:
            member = args[0]
            for step in path:
                member = select(member, step)
            # A missing member is None in the program.
            return Portable(Fn("has", (member,)), BOOL) if name == "has" else Portable(Fn("coalesce", (member,)))
    if name in _WRITTEN:
        operator, certain = _WRITTEN[name]
        return Portable(Fn(operator, args), certain)
    if name == "text":
        return Portable(Fn("${}", args), TEXT)
    _refuse(node, f"{name} has no equal here")


def is_written(node: ast.stmt) -> bool:
    """Return True for a local function that has the text of a function of written plans."""
    return isinstance(node, ast.FunctionDef) and ast.dump(node) == _syntax_of(node.name)


@lru_cache(maxsize=128)
def _syntax_of(name: str) -> str:
    return ast.dump(ast.parse(FUNCTIONS[name]).body[0]) if name in FUNCTIONS else ""


def _comprehension(node: ast.ListComp, names: Mapping[str, Portable]) -> Portable:
    clause = node.generators[0]
    source = translate(clause.iter, names)
    if len(node.generators) > 1 or not isinstance(clause.target, ast.Name) or not source.certain.is_a("list"):
        _refuse(node, "this form of a comprehension has no equal")
    name = clause.target.id
    items = source.certain.items or UNKNOWN
    inside: Names = {**names, name: Portable(Var(name), items)}
    expr = source.expr
    for test in clause.ifs:
        expr = Each("filter", expr, (name,), condition(test, inside))
    body = translate(node.elt, inside)
    if body.expr != Var(name):
        expr = Each("map", expr, (name,), body.expr)
    return Portable(expr, Certain(frozenset(("list",)), items=body.certain))


_TRANSLATORS: Final[Mapping[type[ast.AST], Any]] = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.Dict: _dict,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Compare: _compare,
    ast.BoolOp: _logical,
    ast.UnaryOp: _unary,
    ast.IfExp: _choice,
    ast.BinOp: _operation,
    ast.Subscript: _member,
    ast.Attribute: _member,
    ast.JoinedStr: _text,
    ast.Call: _call,
    ast.ListComp: _comprehension,
}
