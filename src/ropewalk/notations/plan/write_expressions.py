"""Expressions of the expression language as expressions of Python that have the same value.

Python and the expression language differ where a member is missing, where types mix and where a value is null. The
certain facts about the types decide: Python's own operator where it means the same, otherwise a local function that
does (`write_functions`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...errors import ExpressionError
from ...expr.ast import Arr, Each, Expr, Fn, Lit, Obj, Ref, Var, brief, subexpressions
from ...fast_dataclass import dataclass
from ...values import Json
from .write_types import BOOL, INT, LIST, NONE, NUMBER, TEXT, UNKNOWN, Certain, either, of_kind, of_value

_NOT_NONE: Final = ("bool", "int", "float", "str", "list", "dict")
_COMPARISONS: Final[Mapping[str, tuple[type[ast.cmpop], str]]] = {
    "<": (ast.Lt, "lt"),
    "<=": (ast.LtE, "le"),
    ">": (ast.Gt, "gt"),
    ">=": (ast.GtE, "ge"),
}
_ARITHMETIC: Final = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "remainder",
}
_FUNCTIONS: Final[Mapping[str, tuple[str, Certain]]] = {
    "length": ("length", INT),
    "size": ("length", INT),
    "contains": ("contains", BOOL),
    "startsWith": ("starts_with", BOOL),
    "endsWith": ("ends_with", BOOL),
    "lower": ("lower", of_kind("str", "NoneType")),
    "upper": ("upper", of_kind("str", "NoneType")),
    "trim": ("trim", of_kind("str", "NoneType")),
    "replace": ("replace", of_kind("str", "NoneType")),
    "split": ("split", LIST),
    "join": ("join", TEXT),
    "avg": ("average", of_kind("int", "float", "NoneType")),
    "min": ("smallest", UNKNOWN),
    "max": ("largest", UNKNOWN),
    "keys": ("keys", LIST),
    "values": ("values_of", LIST),
    "any": ("is_any", BOOL),
    "all": ("is_every", BOOL),
    "coalesce": ("first_of", UNKNOWN),
    "concat": ("concat", LIST),
    "flatten": ("flatten", LIST),
    "unique": ("distinct", LIST),
    "merge": ("merge", of_kind("dict")),
}
"""The local function of each function of the language, and what is certain about its value."""
_METHODS: Final = {
    "lower": "lower",
    "upper": "upper",
    "trim": "strip",
    "startsWith": "startswith",
    "endsWith": "endswith",
}
_OPTIONAL: Final = {"split": 2, "join": 2}
_BOOLEAN: Final = frozenset(("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in", "has", "exists"))


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression of Python, and what is certain about its value."""

    # One that `may_be_absent` is None also where the flow has no value at all, such as an input that is not given.

    node: ast.expr
    certain: Certain = UNKNOWN
    may_be_absent: bool = False


Resolve = Callable[[Ref], tuple[Typed, tuple[str | int, ...]]]
"""Returns the expression that a reference starts from, and the rest of its path."""


class ExpressionWriter:
    """Writes expressions at one position."""

    def __init__(
        self,
        resolve: Resolve,
        needed: set[str],
        fresh: Callable[[str], str],
        names: Mapping[str, Typed] | None = None,
    ) -> None:
        self.resolve, self.needed, self.fresh, self.names = resolve, needed, fresh, dict(names or {})

    def value(self, expr: Expr) -> Typed:
        """Return the value of an expression; a missing one is None."""
        match expr:
            case Lit():
                return Typed(literal(expr.value), of_value(expr.value))
            case Ref():
                base, path = self.resolve(expr)
                # The local function skips `output` if the value has no such key.
                if expr.elide and path[:1] == ("output",):
                    base, path = self._call("output", base), path[1:]
                return self._member(base, path)
            case Var():
                if expr.name not in self.names:
                    raise ExpressionError(f"{expr.name!r} is not bound here")
                return self._member(self.names[expr.name], expr.path)
            case Obj():
                parts = {key: self.value(inner) for key, inner in expr.fields}
                keys: list[ast.expr | None] = [ast.Constant(key) for key in parts]
                node = ast.Dict(keys, [part.node for part in parts.values()])
                return Typed(node, Certain(frozenset(("dict",)), {key: part.certain for key, part in parts.items()}))
            case Arr():
                items = [self.value(inner) for inner in expr.items]
                certain = Certain(frozenset(("list",)), items=either(item.certain for item in items))
                return Typed(ast.List([item.node for item in items], ast.Load()), certain)
            case Each():
                return self._macro(expr)
        return self._function(expr)

    def test(self, expr: Expr) -> ast.expr:
        """Return a condition: an expression that is true in Python where `expr` is true, else false or None."""
        value = self.value(expr)
        if value.certain.is_a("bool", "NoneType"):
            return value.node
        return self._call("holds", value).node

    def _call(self, name: str, *args: Typed, certain: Certain = UNKNOWN) -> Typed:
        self.needed.add(name)
        return Typed(called(name, *(arg.node for arg in args)), certain)

    def _member(self, base: Typed, path: tuple[str | int, ...]) -> Typed:
        # Members that exist for certain are subscripts; from the first doubtful one on the path is followed with care.
        while path and path[0] in base.certain.fields:
            certain = base.certain.fields[str(path[0])]
            base = Typed(ast.Subscript(base.node, ast.Constant(path[0]), ast.Load()), certain)
            path = path[1:]
        if not path:
            return base
        return self._call("at", base, *(Typed(ast.Constant(step)) for step in path))

    # --- operators ------------------------------------------------------------------------------

    def _function(self, expr: Fn) -> Typed:
        name, args = expr.name, expr.args
        if name in ("==", "!="):
            equal = self._equal(args[0], args[1])
            return Typed(equal if name == "==" else negated(equal), BOOL)
        if name in _COMPARISONS:
            return Typed(self._ordered(name, args[0], args[1]), BOOL)
        if name in ("&&", "||"):
            return Typed(self._logical(name, args), BOOL)
        # These write their own arguments, so they come before the general case, which writes every argument.
        special = _SPECIAL.get(name)
        if special is not None:
            written: Typed = special(self, expr)
            return written
        if name in _ARITHMETIC:
            return self._arithmetic(name, [self.value(arg) for arg in args])
        if name not in _FUNCTIONS:
            shown = f"the function {name}" if name.isidentifier() else f"the operator {name}"
            raise ExpressionError(f"{shown} has no equal in a plan, in `{brief(expr)}`")
        function, certain = _FUNCTIONS[name]
        values = [self.value(arg) for arg in args]
        if function == "distinct" and not values[0].certain.is_a("list"):
            values = [self._call("items_of", values[0])]
        # Where the types are certain, Python's own method or `len` replaces the local function.
        if name in _METHODS and all(value.certain.is_a("str") for value in values):
            method = ast.Attribute(values[0].node, _METHODS[name], ast.Load())
            return Typed(ast.Call(method, [value.node for value in values[1:]], []), BOOL if certain is BOOL else TEXT)
        if function == "length" and values[0].certain.is_a("str", "list", "dict"):
            return Typed(called("len", values[0].node), INT)
        values += [Typed(ast.Constant(None))] * (_OPTIONAL.get(name, 0) - len(values))
        return self._call(function, *values, certain=certain)

    def _equal(self, left: Expr, right: Expr) -> ast.expr:
        if isinstance(left, Lit) and not isinstance(right, Lit):
            left, right = right, left
        a, b = self.value(left), self.value(right)
        # A missing member is not equal to null, and not to another missing member.
        guards: list[ast.expr] = []
        if a.certain.may_be("NoneType") and b.certain.may_be("NoneType"):
            existing = [self._exists(part) for part in (left, right) if may_miss(part)]
            guards = [guard for guard in existing if guard is not None]
        constant = right.value if isinstance(right, Lit) else ...
        if constant is None or isinstance(constant, bool):
            test: ast.expr = ast.Compare(a.node, [ast.Is()], [b.node])
        elif self._same_in_python(a.certain, b.certain) or (type(constant) in (int, float) and constant not in (0, 1)):
            test = ast.Compare(a.node, [ast.Eq()], [b.node])
        else:
            test = self._call("same", a, b).node
        return ast.BoolOp(ast.And(), [*guards, test]) if guards else test

    @staticmethod
    def _same_in_python(a: Certain, b: Certain) -> bool:
        """Return True if Python's `==` means the same: no boolean can meet a number, alone or inside."""
        return b.is_a("str", "NoneType") or a.is_a("str", "NoneType") or (a.is_number and b.is_number)

    def _exists(self, expr: Expr) -> ast.expr | None:
        """Return the test that a member exists; None if it exists for certain."""
        if isinstance(expr, (Ref, Var)):
            path: tuple[str | int, ...]
            if isinstance(expr, Ref):
                base, path = self.resolve(expr)
                if not path and base.may_be_absent:
                    raise ExpressionError(f"a plan cannot tell null from a missing value, in `{brief(expr)}`")
                if expr.elide and path[:1] == ("output",):
                    base, path = self._call("output", base), path[1:]
            else:
                base, path = self.names[expr.name], expr.path
            while path and path[0] in base.certain.fields:
                base, path = self._member(base, path[:1]), path[1:]
            if not path:
                return None
            return self._call("has", base, *(Typed(ast.Constant(step)) for step in path)).node
        if isinstance(expr, Fn) and expr.name == "[]" and isinstance(expr.args[1], Lit):
            return self._call("has", self.value(expr.args[0]), self.value(expr.args[1])).node
        raise ExpressionError(f"a plan cannot tell null from a missing value, in `{brief(expr)}`")

    def _ordered(self, name: str, left: Expr, right: Expr) -> ast.expr:
        operator, function = _COMPARISONS[name]
        a, b = self.value(left), self.value(right)
        if (a.certain.is_number and b.certain.is_number) or (a.certain.is_a("str") and b.certain.is_a("str")):
            return ast.Compare(a.node, [operator()], [b.node])
        return self._call(function, a, b).node

    def _logical(self, name: str, args: tuple[Expr, ...]) -> ast.expr:
        """Write `&&` and `||`, where a failing side does not matter if another one decides."""
        # One side that may fail comes last: then it is evaluated only where the others do not decide.
        ordered = sorted(args, key=self.may_fail)
        tests = [self.test(arg) for arg in ordered]
        if sum(map(self.may_fail, args)) < 2:
            return ast.BoolOp(ast.And() if name == "&&" else ast.Or(), [as_bool(test) for test in tests])
        function = "both" if name == "&&" else "either"
        return self._call(function, *(Typed(lambda_of([], test)) for test in tests)).node

    def may_fail(self, expr: Expr) -> bool:
        """Return False if evaluating an expression cannot fail."""
        return any(self._may_fail(part) for part in subexpressions(expr))

    def _may_fail(self, expr: Expr) -> bool:
        if isinstance(expr, Each):
            return True
        if not isinstance(expr, Fn):
            return False
        if expr.name in ("==", "!=", "has", "exists", "coalesce", "[]", "concat"):
            return False
        if expr.name in ("&&", "||", "!", "?:"):
            tests = expr.args[:1] if expr.name == "?:" else expr.args
            return not all(self.is_test(part) for part in tests)
        if expr.name in _COMPARISONS:
            a, b = (self._certain(part) for part in expr.args)
            return not ((a.is_number and b.is_number) or (a.is_a("str") and b.is_a("str")))
        return True

    def is_test(self, expr: Expr) -> bool:
        if isinstance(expr, Fn) and expr.name in _BOOLEAN:
            return True
        return self._certain(expr).is_a("bool", "NoneType")

    def _certain(self, expr: Expr) -> Certain:
        """Return what is certain about a value, without using its text."""
        writer = ExpressionWriter(self.resolve, set(), str, self.names)
        try:
            return writer.value(expr).certain
        except ExpressionError:
            return UNKNOWN

    def _arithmetic(self, name: str, values: list[Typed]) -> Typed:
        result = values[0]
        for value in values[1:]:
            texts = name == "+" and (result.certain.is_a("str") and value.certain.is_a("str"))
            if texts:
                result = Typed(ast.BinOp(result.node, ast.Add(), value.node), TEXT)
                continue
            certain = NUMBER
            if name == "+" and not (result.certain.is_number or value.certain.is_number):
                is_list = result.certain.is_a("list") or value.certain.is_a("list")
                certain = LIST if is_list else of_kind("int", "float", "str", "list")
            result = self._call(_ARITHMETIC[name], result, value, certain=certain)
        return result

    def negation(self, expr: Fn) -> Typed:
        return Typed(negated(self.test(expr.args[0])), BOOL)

    def choice(self, expr: Fn) -> Typed:
        yes, no = self.value(expr.args[1]), self.value(expr.args[2])
        return Typed(ast.IfExp(self.test(expr.args[0]), yes.node, no.node), either([yes.certain, no.certain]))

    def membership(self, expr: Fn) -> Typed:
        item, holder = self.value(expr.args[0]), self.value(expr.args[1])
        constant = expr.args[1].value if isinstance(expr.args[1], Lit) else None
        if isinstance(constant, list) and constant and all(isinstance(word, str) for word in constant):
            return Typed(ast.Compare(item.node, [ast.In()], [holder.node]), BOOL)
        test = self._call("is_in", item, holder, certain=BOOL)
        has_null = constant is None or None in constant
        exists = self._exists(expr.args[0]) if has_null and may_miss(expr.args[0]) else None
        return test if exists is None else Typed(ast.BoolOp(ast.And(), [exists, test.node]), BOOL)

    def element(self, expr: Fn) -> Typed:
        holder, key = expr.args
        base = self.value(holder)
        if isinstance(key, Lit) and (isinstance(key.value, str) or (type(key.value) is int and key.value >= 0)):
            return self._member(base, (key.value,))
        self.needed.add("at")
        return self._call("element", base, self.value(key))

    def minus(self, expr: Fn) -> Typed:
        return self._call("subtract", Typed(ast.Constant(0)), self.value(expr.args[0]), certain=NUMBER)

    def required(self, expr: Fn) -> Typed:
        """Write a value that fails where it is missing, as a subscript does."""
        [part] = expr.args
        if isinstance(part, (Ref, Var)):
            base, path = self.resolve(part) if isinstance(part, Ref) else (self.names[part.name], part.path)
            keys: list[Any] = [*path]
        elif isinstance(part, Fn) and part.name == "[]" and isinstance(part.args[1], Lit):
            base, keys = self.value(part.args[0]), [part.args[1].value]
        else:
            return self.value(part)
        # A text has elements in Python only, a negative position too, and `output` may be left out of a path.
        is_list = base.certain.is_a("list") and keys[:1] >= [0] if keys and type(keys[0]) is int else False
        is_odd = any(type(key) is not str for key in keys[is_list:])
        if is_odd or (not keys and base.may_be_absent) or (getattr(part, "elide", False) and keys[:1] == ["output"]):
            raise ExpressionError(f"a plan cannot require this value, in `{brief(expr)}`")
        node = base.node
        for key in keys:
            node = ast.Subscript(node, ast.Constant(key), ast.Load())
        return Typed(node)

    def existence(self, expr: Fn) -> Typed:
        [part] = expr.args
        if expr.name == "has":
            exists = self._exists(part) if may_miss(part) else None
            return Typed(ast.Constant(True) if exists is None else exists, BOOL)
        return Typed(ast.Compare(self.value(part).node, [ast.IsNot()], [ast.Constant(None)]), BOOL)

    def texts(self, expr: Fn) -> Typed:
        """Write a text with values in it as an f-string."""
        parts: list[ast.expr] = []
        for part in expr.args:
            value = self.value(part)
            if isinstance(part, Lit) and isinstance(part.value, str):
                parts.append(ast.Constant(part.value))
                continue
            if not value.certain.is_a("str"):
                value = self._call("text", value)
            parts.append(ast.FormattedValue(value.node, -1, None))
        node = ast.JoinedStr(parts)
        try:
            ast.unparse(node)
        except ValueError:  # quotes or backslashes inside the braces
            pieces = [part.value if isinstance(part, ast.FormattedValue) else part for part in parts]
            return Typed(
                ast.Call(ast.Attribute(ast.Constant(""), "join", ast.Load()), [ast.List(pieces, ast.Load())], []), TEXT
            )
        return Typed(node, TEXT)

    def text(self, expr: Fn) -> Typed:
        value = self.value(expr.args[0])
        if value.certain.is_a("str"):
            return value
        written = self._call("text", value, certain=TEXT)
        if not value.certain.may_be("NoneType"):
            return written
        null = ast.Compare(value.node, [ast.Is()], [ast.Constant(None)])
        return Typed(ast.IfExp(null, ast.Constant("null"), written.node), TEXT)

    def total(self, expr: Fn) -> Typed:
        self.needed.add("number")
        return Typed(called("number", called("sum", self._call("numbers_of", self.value(expr.args[0])).node)), NUMBER)

    def absolute(self, expr: Fn) -> Typed:
        self.needed.add("number")
        return Typed(called("number", called("abs", self._call("number", self.value(expr.args[0])).node)), NUMBER)

    # --- macros ---------------------------------------------------------------------------------

    def _macro(self, expr: Each) -> Typed:
        source = self.value(expr.source)
        # A macro also accepts objects and null, for which Python's loops differ.
        if not source.certain.is_a("list"):
            source = self._call("elements_of", source)
        if expr.kind == "reduce":
            return self._fold(expr, source)
        item, index = self.fresh("item"), self.fresh("index")
        typed = Typed(_name(item), source.certain.items or UNKNOWN), Typed(_name(index), INT)
        bound = dict(zip(expr.names, typed, strict=False))
        # Inside the body, the names of the macro hide equal names outside.
        inside = ExpressionWriter(self.resolve, self.needed, self.fresh, {**self.names, **bound})
        if expr.kind in ("all", "exists"):
            function = "every" if expr.kind == "all" else "some"
            test = as_bool(inside.test(expr.body))
            # all() and any() raise at the first error; the local functions let another element decide.
            if not inside.may_fail(expr.body) and not _reads(expr.body, expr.names[1:]):
                generator = ast.GeneratorExp(test, [_clause(_name(item, ast.Store()), source.node)])
                return Typed(called("all" if expr.kind == "all" else "any", generator), BOOL)
            return self._call(function, source, Typed(lambda_of([item, index], test)), certain=BOOL)
        if expr.kind == "group_by":
            key = Typed(lambda_of([item, index], inside.value(expr.body).node))
            return self._call("group", source, key, certain=of_kind("dict"))
        clause = _clause(_name(item, ast.Store()), source.node)
        if _reads(expr.body, expr.names[1:]):
            target = ast.Tuple([_name(index, ast.Store()), _name(item, ast.Store())], ast.Store())
            clause = _clause(target, called("enumerate", source.node))
        if expr.kind == "map":
            body = inside.value(expr.body)
            certain = Certain(frozenset(("list",)), items=body.certain)
            return Typed(ast.ListComp(body.node, [clause]), certain)
        if expr.kind == "filter":
            clause.ifs = [inside.test(expr.body)]
            return Typed(ast.ListComp(_name(item), [clause]), Certain(frozenset(("list",)), items=source.certain.items))
        if expr.kind == "flat_map":
            listed = Typed(ast.ListComp(inside.value(expr.body).node, [clause]))
            self.needed.add("concat")
            return Typed(ast.Call(_name("concat"), [ast.Starred(listed.node, ast.Load())], []), LIST)
        if expr.kind == "exists_one":
            count = ast.ListComp(_name(item), [clause])
            clause.ifs = [inside.test(expr.body)]
            return Typed(ast.Compare(called("len", count), [ast.Eq()], [ast.Constant(1)]), BOOL)
        return self._sorted(expr, source, inside, item)

    def _sorted(self, expr: Each, source: Typed, inside: ExpressionWriter, item: str) -> Typed:
        order = expr.extra[0] if expr.extra else Lit("asc")
        word = str(order.value).lower() if isinstance(order, Lit) else ""
        if expr.kind != "sort" or word not in ("asc", "desc") or _reads(expr.body, expr.names[1:]):
            raise ExpressionError(f"this form of {expr.kind} has no equal in a plan, in `{brief(expr)}`")
        keys = expr.body.items if isinstance(expr.body, Arr) else (expr.body,)
        ranks: list[ast.expr] = [self._call("rank", inside.value(key)).node for key in keys]
        key = ast.keyword("key", lambda_of([item], ranks[0] if len(ranks) == 1 else ast.List(ranks, ast.Load())))
        reverse = [ast.keyword("reverse", ast.Constant(True))] if word == "desc" else []
        return Typed(ast.Call(_name("sorted"), [source.node], [key, *reverse]), source.certain)

    def _fold(self, expr: Each, source: Typed) -> Typed:
        names = [self.fresh(hint) for hint in ("item", "total", "index")]
        facts = (source.certain.items or UNKNOWN, UNKNOWN, INT)
        typed = [Typed(_name(name), certain) for name, certain in zip(names, facts, strict=True)]
        bound = dict(zip(expr.names, typed, strict=False))
        inside = ExpressionWriter(self.resolve, self.needed, self.fresh, {**self.names, **bound})
        step = Typed(lambda_of([names[1], names[0], names[2]], inside.value(expr.body).node))
        initial = self.value(expr.extra[0]) if expr.extra else Typed(ast.Constant(None), NONE)
        return self._call("fold", source, step, initial)


_SPECIAL: Final[dict[str, Any]] = {
    "!": ExpressionWriter.negation,
    "?:": ExpressionWriter.choice,
    "in": ExpressionWriter.membership,
    "[]": ExpressionWriter.element,
    "neg": ExpressionWriter.minus,
    "has": ExpressionWriter.existence,
    "required": ExpressionWriter.required,
    "exists": ExpressionWriter.existence,
    "${}": ExpressionWriter.texts,
    "string": ExpressionWriter.text,
    "sum": ExpressionWriter.total,
    "abs": ExpressionWriter.absolute,
}
"""The operators and functions that need more than a call of a local function."""


def literal(value: Json) -> ast.expr:
    """Return a JSON value as a display of Python."""
    if isinstance(value, dict):
        keys: list[ast.expr | None] = [ast.Constant(key) for key in value]
        return ast.Dict(keys, [literal(inner) for inner in value.values()])
    if isinstance(value, list):
        return ast.List([literal(inner) for inner in value], ast.Load())
    if type(value) is int and value == -(2**63):
        return ast.BinOp(ast.Constant(value + 1), ast.Sub(), ast.Constant(1))
    return ast.Constant(value)


def called(name: str, *args: ast.expr) -> ast.Call:
    """Return the call of a function by its name."""
    return ast.Call(_name(name), list(args), [])


def negated(test: ast.expr) -> ast.expr:
    """Return the opposite of a condition."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        opposite = _OPPOSITES.get(type(test.ops[0]))
        if opposite is not None:
            return ast.Compare(test.left, [opposite()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


_OPPOSITES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
}


def as_bool(test: ast.expr) -> ast.expr:
    """Return a condition as True or False where its value is used; a name may also be None."""
    if isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp)) or (
        isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id not in ("at", "first_of")
    ):
        return test
    return called("bool", test)


def lambda_of(names: list[str], body: ast.expr) -> ast.Lambda:
    """Return a lambda with these parameters."""
    args = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    return ast.Lambda(args, body)


def may_miss(expr: Expr) -> bool:
    """Return True if an expression may have no value at all, which is not null."""
    if isinstance(expr, Ref):
        return bool(expr.path)
    if isinstance(expr, Var):
        return bool(expr.path)
    if isinstance(expr, Fn):
        if expr.name == "?:":
            return any(map(may_miss, expr.args[1:]))
        return expr.name == "[]"
    return False


def _reads(expr: Expr, names: tuple[str, ...]) -> bool:
    return any(isinstance(part, Var) and part.name in names for part in subexpressions(expr))


def _name(name: str, context: ast.expr_context | None = None) -> ast.Name:
    return ast.Name(name, context or ast.Load())


def _clause(target: ast.expr, source: ast.expr) -> ast.comprehension:
    return ast.comprehension(target, source, [], 0)
