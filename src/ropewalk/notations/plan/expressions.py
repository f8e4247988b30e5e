"""Python of a program as expressions of the expression language that have the same value, or fail where Python fails.

Types decide: those of the input schema, of the tools' output schemas, and of constants. Where they do not, a value is
guarded (`required(x.name)`, `rows + []`), so that it fails rather than differ, or the expression is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from ...errors import InvalidValue
from ...expr.ast import Arr, Each, Expr, Fn, Lit, Obj, Var, binary, select, subexpressions
from ...fast_dataclass import dataclass
from ...values import check_json
from .write_types import BOOL, INT, LIST, NUMBER, TEXT, UNKNOWN, Certain, either, of_value

APPROVAL: Final = "Approval"
"""The type of an answer to `approve`, which is true only when approved."""
_ORDER: Final[Mapping[type[ast.cmpop], str]] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_OPERATORS: Final[Mapping[type[ast.operator], str]] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_FUNCTIONS: Final[Mapping[tuple[str, int, bool], tuple[str, tuple[str, ...], Certain]]] = {
    ("len", 1, False): ("length", ("str", "list", "dict"), INT),
    ("sum", 1, False): ("sum", ("list",), NUMBER),
    ("lower", 1, True): ("lower", ("str",), TEXT),
    ("upper", 1, True): ("upper", ("str",), TEXT),
    ("strip", 1, True): ("trim", ("str",), TEXT),
    ("startswith", 2, True): ("startsWith", ("str",), BOOL),
    ("endswith", 2, True): ("endsWith", ("str",), BOOL),
}
"""By name, number of values and whether it is a method: the function, the types of its values, and its own type."""
BUILTINS: Final = frozenset(("bool", "len", "sum"))
_FAILING: Final = frozenset(("required", "+", "-", "*", "neg", "sum"))


class NoEqual(Exception):
    """A part of a program has no equal in the expression language, or among the nodes of a flow."""

    def __init__(self, node: ast.AST, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason


@dataclass(frozen=True, slots=True)
class Value:
    """An expression, and what is certain about its value."""

    expr: Expr
    certain: Certain = UNKNOWN


Names = Mapping[str, Value]
Awaited = Callable[[ast.Await], Value]


def refuse(node: ast.AST, reason: str) -> NoReturn:
    """Raise NoEqual."""
    raise NoEqual(node, reason)


def may_fail(expr: Expr) -> bool:
    """Return True if an expression that was translated may fail."""
    return any(isinstance(part, Fn) and part.name in _FAILING for part in subexpressions(expr))


def _refuse_await(node: ast.Await) -> Value:
    refuse(node, "an await inside an expression; assign its result to a name first")


class Translation:
    """Translates expressions at one place of a program."""

    # names: The values of names.
    # awaited: Makes the node of an await, and returns its value.

    def __init__(self, names: Names, awaited: Awaited = _refuse_await) -> None:
        self.names, self.awaited = names, awaited

    def value(self, node: ast.expr, *, is_answer: bool = False) -> Value:
        """Return the value of an expression; `is_answer` if it may be the answer to an approval."""
        translate = _TRANSLATORS.get(type(node))
        if translate is None:
            refuse(node, f"`{_shown(node)}`")
        known: Value = translate(self, node)
        if known.certain.is_a(APPROVAL) and not is_answer:
            refuse(node, "the answer of approve as a value; test it with `if`")
        return known

    def condition(self, node: ast.expr) -> Expr:
        """Return the truth of a value as a boolean."""
        return self._truth(node, self.value(node, is_answer=True))

    @staticmethod
    def _truth(node: ast.expr, known: Value) -> Expr:
        expr, certain = known.expr, known.certain
        if certain.is_a(APPROVAL):
            return Fn("==", (select(expr, "approved"), Lit(True)))
        if certain.is_a("bool"):
            return expr
        # Each type has its own empty value; None is never true.
        if certain.is_a("str", "NoneType"):
            test: Expr = Fn("!=", (expr, Lit("")))
        elif certain.is_a("int", "float", "NoneType"):
            test = Fn("!=", (expr, Lit(0)))
        elif certain.is_a("list", "dict", "NoneType"):
            test = Fn(">", (Fn("length", (expr,)), Lit(0)))
        else:
            refuse(node, f"the truth of `{_shown(node)}`, whose type is not certain; compare it with a value")
        return Fn("?:", (Fn("exists", (expr,)), test, Lit(False))) if certain.may_be("NoneType") else test

    def items(self, node: ast.expr) -> Value:
        """Return a value as a list; any other value fails."""
        return self._listed(node, self.value(node))

    def _listed(self, node: ast.expr, known: Value) -> Value:
        if known.certain.is_a("list"):
            return known
        if known.certain.kinds is not None:
            refuse(node, f"`{_shown(node)}` as a list, which it is not for certain")
        return Value(Fn("+", (known.expr, Lit([]))), LIST)

    def result(self, node: ast.Await) -> Value:
        return self.awaited(node)

    def name(self, node: ast.Name) -> Value:
        if node.id not in self.names:
            refuse(node, f"the value of `{node.id}`, which a loop, one branch of an `if` or Python alone decides")
        return self.names[node.id]

    def constant(self, node: ast.Constant) -> Value:
        try:
            constant = check_json(node.value, "")
        except InvalidValue:
            refuse(node, "a constant that is not JSON")
        return Value(Lit(constant), of_value(constant))

    def object(self, node: ast.Dict) -> Value:
        fields: dict[str, Value] = {}
        for key, part in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                refuse(node, "a dict with other keys than constant texts")
            fields.pop(key.value, None)
            fields[key.value] = self.value(part)
        certain = Certain(frozenset(("dict",)), {key: known.certain for key, known in fields.items()})
        return Value(Obj(tuple((key, known.expr) for key, known in fields.items())), certain)

    def array(self, node: ast.List) -> Value:
        items = [self.value(part) for part in node.elts]
        certain = Certain(frozenset(("list",)), items=either(item.certain for item in items))
        constants = [item.expr.value for item in items if isinstance(item.expr, Lit)]
        expr = Lit(constants) if len(constants) == len(items) else Arr(tuple(item.expr for item in items))
        return Value(expr, certain)

    def comparison(self, node: ast.Compare) -> Value:
        parts = [node.left, *node.comparators]
        tests = [self._compare(op, parts[i], parts[i + 1]) for i, op in enumerate(node.ops)]
        return Value(_chained("&&", tests), BOOL)

    def _compare(self, operator: ast.cmpop, left: ast.expr, right: ast.expr) -> Expr:
        a = self.value(left)
        test: Expr
        if isinstance(operator, (ast.In, ast.NotIn)):
            texts = [part.value for part in getattr(right, "elts", ()) if isinstance(part, ast.Constant)]
            if not texts or len(texts) < len(right.elts) or any(type(text) is not str for text in texts):  # type: ignore[attr-defined]
                refuse(right, "`in` with another value than a display of constant texts")
            test = Fn("in", (a.expr, Lit(texts)))
            return test if isinstance(operator, ast.In) else Fn("!", (test,))
        b = self.value(right)
        if type(operator) in _ORDER:
            certain = _common(a, b, NUMBER, TEXT)
            if certain is None:
                refuse(left, "an order of values whose types are not certain")
            # A value of unknown type is added to nothing, which fails for another type.
            nothing = Lit(0 if certain is NUMBER else "")
            sides = [v.expr if v.certain.kinds else Fn("+", (v.expr, nothing)) for v in (a, b)]
            return Fn(_ORDER[type(operator)], tuple(sides))
        if isinstance(a.expr, Lit):
            a, b, left, right = b, a, right, left
        is_identity = isinstance(operator, (ast.Is, ast.IsNot))
        test = _equality(a, b, left, is_identity)
        return test if isinstance(operator, (ast.Eq, ast.Is)) else Fn("!", (test,))

    def logical(self, node: ast.BoolOp) -> Value:
        values = [self.value(part, is_answer=True) for part in node.values]
        if not all(known.certain.is_a("bool", APPROVAL) for known in values):
            refuse(node, "`and` and `or` of other values than booleans; write `x if test else y`")
        tests = [self._truth(part, known) for part, known in zip(node.values, values, strict=True)]
        return Value(_chained("&&" if isinstance(node.op, ast.And) else "||", tests), BOOL)

    def unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(Fn("!", (self.condition(node.operand),)), BOOL)
        known = self.value(node.operand)
        if not isinstance(node.op, ast.USub) or not known.certain.is_number:
            refuse(node, f"`{_shown(node)}`, whose type is not certain")
        if isinstance(known.expr, Lit):
            return Value(Lit(-known.expr.value), known.certain)
        return Value(Fn("neg", (known.expr,)), NUMBER)

    def choice(self, node: ast.IfExp) -> Value:
        test, yes, no = self.condition(node.test), self.value(node.body), self.value(node.orelse)
        return Value(Fn("?:", (test, yes.expr, no.expr)), either([yes.certain, no.certain]))

    def operation(self, node: ast.BinOp) -> Value:
        a, b, operator = self.value(node.left), self.value(node.right), _OPERATORS.get(type(node.op))
        certain = _common(a, b, NUMBER, *((TEXT, LIST) if operator == "+" else ()))
        # A text or a list times a number has no equal, so both sides of `*` must be numbers for certain.
        is_unknown = operator == "*" and not (a.certain.is_number and b.certain.is_number)
        if operator is None or certain is None or is_unknown:
            refuse(node, f"`{_shown(node)}`, an operator with another meaning, or of types that are not certain")
        items = either([a.certain.items or UNKNOWN, b.certain.items or UNKNOWN]) if certain is LIST else None
        return Value(binary(operator, a.expr, b.expr), Certain(certain.kinds, items=items))

    def member(self, node: ast.Subscript | ast.Attribute) -> Value:
        holder = self.value(node.value)
        key: Any = node.attr if isinstance(node, ast.Attribute) else getattr(node.slice, "value", None)
        if isinstance(node, ast.Attribute) and any(hasattr(kind, key) for kind in (dict, list, str)):
            refuse(node, f"the method `{key}` as a value")
        if isinstance(key, str):
            if not holder.certain.may_be("dict"):
                refuse(node, f"a member of `{_shown(node.value)}`, which has none")
            if key in holder.certain.fields:
                known = dict(holder.expr.fields)[key] if isinstance(holder.expr, Obj) else select(holder.expr, key)
                return Value(known, holder.certain.fields[key])
            # What is missing inside of something that is missing is missing too.
            base = holder.expr
            if isinstance(base, Fn) and base.name == "required":
                base = base.args[0]
            return Value(Fn("required", (select(base, key),)))
        if type(key) is not int or key < 0:
            refuse(node, "a slice, a computed key or a negative index")
        items = self._listed(node.value, holder)
        return Value(Fn("required", (select(items.expr, key),)), items.certain.items or UNKNOWN)

    def text(self, node: ast.JoinedStr) -> Value:
        parts: list[Expr] = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(Lit(part.value))
                continue
            assert isinstance(part, ast.FormattedValue)
            known = self.value(part.value)
            if part.format_spec is not None or part.conversion != -1 or not known.certain.is_a("str", "int"):
                refuse(part.value, f"the text of `{_shown(part.value)}`, which is not a text or an integer for certain")
            parts.append(known.expr)
        return Value(Fn("${}", tuple(parts)), TEXT)

    def call(self, node: ast.Call) -> Value:
        method = isinstance(node.func, ast.Attribute)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        parts = [*([node.func.value] if isinstance(node.func, ast.Attribute) else []), *node.args]
        if not node.keywords and not method and name == "bool" and len(parts) == 1:
            return Value(self.condition(parts[0]), BOOL)
        function, types, certain = _FUNCTIONS.get((name, len(parts), method), ("", (), UNKNOWN))
        if function and not node.keywords:
            values = [self.value(part) for part in parts]
            is_sum = function != "sum" or (values[0].certain.items or UNKNOWN).is_number
            if is_sum and all(known.certain.is_a(*types) for known in values):
                return Value(Fn(function, tuple(known.expr for known in values)), certain)
        refuse(node, f"`{_shown(node)}`, a function without an equal, or of types that are not certain")

    def comprehension(self, node: ast.ListComp) -> Value:
        clause = self.only_clause(node)
        source = self.filtered(clause)
        name = clause.target.id  # type: ignore[attr-defined]
        body = self.inside(clause, Value(Var(name), source.certain.items or UNKNOWN)).value(node.elt)
        expr = source.expr if body.expr == Var(name) else Each("map", source.expr, (name,), body.expr)
        return Value(expr, Certain(LIST.kinds, items=body.certain))

    @staticmethod
    def only_clause(node: ast.ListComp | ast.GeneratorExp) -> ast.comprehension:
        """Return the loop of a comprehension that has one, over one name."""
        clause = node.generators[0]
        if len(node.generators) > 1 or not isinstance(clause.target, ast.Name) or clause.is_async:
            refuse(node, "a comprehension with several loops or names")
        return clause

    def filtered(self, clause: ast.comprehension) -> Value:
        """Return the items of a clause that pass its tests."""
        source = self.items(clause.iter)
        name, expr = clause.target.id, source.expr  # type: ignore[attr-defined]
        for test in clause.ifs:
            passes = self.inside(clause, Value(Var(name), source.certain.items or UNKNOWN)).condition(test)
            expr = Each("filter", expr, (name,), passes)
        return Value(expr, source.certain)

    def inside(self, clause: ast.comprehension, item: Value) -> Translation:
        """Return the translation inside of a comprehension, where nothing awaits."""
        return Translation({**self.names, clause.target.id: item})  # type: ignore[attr-defined]


def _chained(operator: str, tests: Any) -> Expr:
    """Return tests of which each is evaluated only where those before it do not decide."""
    first, *rest = tests
    if not rest:
        return first  # type: ignore[no-any-return]
    after = _chained(operator, rest)
    if not may_fail(first) and not may_fail(after):
        return binary(operator, first, after)
    # `&&` and `||` ignore a failure where the other side decides, and Python does not.
    return Fn("?:", (first, after, Lit(False)) if operator == "&&" else (first, Lit(True), after))


def _common(a: Value, b: Value, *types: Certain) -> Certain | None:
    """Return the type that one of two values has, and the other one has or may have; None if there is none."""
    known = [value.certain for value in (a, b) if value.certain.kinds is not None]
    return next((each for each in types if known and all(one.is_a(*(each.kinds or ())) for one in known)), None)


def _equality(a: Value, b: Value, node: ast.expr, is_identity: bool) -> Expr:
    constant = b.expr.value if isinstance(b.expr, Lit) else ...
    if constant is None:  # true also of an input that is not given
        return Fn("!", (Fn("exists", (a.expr,)),))
    is_odd_number = type(constant) in (int, float) and constant not in (0, 1)
    both_texts = a.certain.is_a("str") and b.certain.is_a("str")
    both_numbers = a.certain.is_number and b.certain.is_number
    if is_identity and not isinstance(constant, bool):
        refuse(node, "`is` with another value than None, True and False")
    if isinstance(constant, bool) and not is_identity and not a.certain.is_a("bool", "str", "NoneType", "list", "dict"):
        refuse(node, f"1 equals True in Python only; write `is {constant}`")
    if not isinstance(constant, (bool, str)) and not (is_odd_number or both_texts or both_numbers):
        refuse(node, "`==` of values whose types are not certain: 1 equals True in Python only")
    return Fn("==", (a.expr, b.expr))


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node).split("\n")[0]
    return text if len(text) <= 60 else f"{text[:59]}…"


_TRANSLATORS: Final[Mapping[type[ast.AST], Any]] = {
    ast.Name: Translation.name,
    ast.Constant: Translation.constant,
    ast.Await: Translation.result,
    ast.Dict: Translation.object,
    ast.List: Translation.array,
    ast.Compare: Translation.comparison,
    ast.BoolOp: Translation.logical,
    ast.UnaryOp: Translation.unary,
    ast.IfExp: Translation.choice,
    ast.BinOp: Translation.operation,
    ast.Subscript: Translation.member,
    ast.Attribute: Translation.member,
    ast.JoinedStr: Translation.text,
    ast.Call: Translation.call,
    ast.ListComp: Translation.comprehension,
}
