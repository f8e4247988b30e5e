"""Parse the text of an expression to a tree: CEL's syntax, JSON's values, a position in every error.

Refused: text past 10,000 characters, nesting past 64, unknown names and functions, wrong numbers
of arguments, tokens left over. To add syntax, add it here and to `show`, which must agree.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from ..errors import ExpressionError
from ..values import did_you_mean
from .ast import POWERS, Arr, Expr, Fn, Lit, Obj, Ref, Var, binary, children, select
from .faults import MAX_TEXT, fault
from .function_registry import FUNCTIONS
from .functions import MACROS, Form, check_constants, find_form
from .lexer import Token, next_token, number_value, string_value
from .reference_paths import ROOTS, is_query, query_end, read_path

MAX_NESTING: Final = 64

_PLAIN: Final = re.compile(r"\$([^\W\d]\w*)((?:\.[^\W\d]\w*)*)")
_WORDS: Final = {"and": "&&", "or": "||", "not": "!"}
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_RESERVED: Final = frozenset((*_WORDS, *_CONSTANTS, "in"))
_MESSAGE_END: Final = "the expression ends too early"


@lru_cache(maxsize=8192)
def parse(text: str) -> Expr:
    """Parse an expression; references keep the roots as written."""
    plain = _PLAIN.fullmatch(text)
    if plain is not None and plain[1] in ROOTS and len(text) <= MAX_TEXT:
        return Ref(plain[1], tuple(plain[2].split(".")[1:]))
    if len(text) > MAX_TEXT:
        raise ExpressionError(
            f"the expression has {len(text):,} characters, more than {MAX_TEXT:,}", text=text, suggestion=None
        )
    parser = _Parser(text)
    tree = parser.expression()
    token = parser.token
    if token.kind != "end":
        raise _trailing_token(text, token)
    if _too_deep(tree):
        raise ExpressionError(f"the expression nests deeper than {MAX_NESTING}", text=text)
    return tree


def _trailing_token(text: str, token: Token) -> ExpressionError:
    if token.text in (")", "]", "}"):
        return fault(text, token.at, f"{token.text!r} closes nothing")
    if token.text == "{" and text[token.at - 1] == "$":
        stripped = text.strip()
        alone = stripped.startswith("${") and stripped.endswith("}") and stripped.count("${") == 1
        return fault(
            text,
            token.at - 1,
            "this text is already an expression; remove the ${ }",
            stripped[2:-1].strip() if alone else None,
        )
    return fault(text, token.at, f"unexpected {token.text!r} after the end of the expression")


def _too_deep(tree: Expr) -> bool:
    level: list[Expr] = [tree]
    for _ in range(MAX_NESTING + 1):
        level = [inner for expr in level for inner in children(expr)]
        if not level:
            return False
    return True


class _Parser:
    """A Pratt parser of one text: `token` is the next unused token."""

    __slots__ = ("bound", "depth", "text", "token")

    def __init__(self, text: str) -> None:
        self.text, self.depth = text, 0
        self.bound: dict[str, str] = {}  # name as written -> the Var it stands for
        self.token = next_token(text, 0)

    def step(self) -> Token:
        token = self.token
        self.token = next_token(self.text, token.at + len(token.text))
        return token

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind == "op":
            self.step()
            return True
        return False

    def expect(self, text: str, where: str) -> None:
        if not self.accept(text):
            actual = f"not {self.token.text!r}" if self.token.kind != "end" else _MESSAGE_END
            raise fault(self.text, self.token.at, f"expected {text!r} {where}, {actual}")

    def expression(self, power: int = 1) -> Expr:
        """Parse as long as the operators bind at least as tightly as `power`."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise fault(self.text, self.token.at, f"the expression nests deeper than {MAX_NESTING}")
        left = self.prefix(power)
        while True:
            token = self.token
            name = self._operator(token)
            operator_power = POWERS["?:"] if name == "?" else POWERS.get(name, 0)
            if operator_power < power or operator_power == 0 or name == "!":
                break
            self.step()
            column = token.at + 1
            if name == "?":
                if_true = self.expression()
                self.expect(":", "between the two values of `? :`")
                left = Fn("?:", (left, if_true, self.expression(POWERS["?:"])), column)
                continue
            left = binary(name, left, self.expression(operator_power + 1), column)
        self.depth -= 1
        return left

    @staticmethod
    def _operator(token: Token) -> str:
        if token.kind == "name":
            return "in" if token.text == "in" else _WORDS.get(token.text, "")
        return token.text if token.kind == "op" else ""

    def prefix(self, power: int) -> Expr:
        token = self.token
        name = self._operator(token)
        if name == "!":
            self.step()
            # At the start it binds loosely like Python's `not`, inside a comparison tightly like CEL's `!`.
            inner = self.expression(POWERS["!"] if power <= POWERS["!"] else POWERS["neg"])
            return Fn("!", (inner,), token.at + 1)
        if name == "-":
            self.step()
            if self.token.kind == "number":
                return self.postfix(Lit(number_value(self.text, self.step(), -1)))
            return Fn("neg", (self.expression(POWERS["neg"]),), token.at + 1)
        return self.postfix(self.primary())

    def primary(self) -> Expr:
        token = self.step()
        kind = token.kind
        if kind == "number":
            self._no_suffix(token)
            return Lit(number_value(self.text, token))
        if kind == "string":
            return Lit(string_value(self.text, token))
        if kind == "root":
            return self._root(token)
        if kind == "name":
            return self._name(token)
        if token.text == "(":
            inner = self.expression()
            self.expect(")", "to close the parenthesis")
            return inner
        if token.text == "[":
            items = self._arguments_until("]")
            if all(isinstance(item, Lit) for item in items):
                return Lit([item.value for item in items if isinstance(item, Lit)])
            return Arr(tuple(items))
        if token.text == "{":
            return self._object()
        # Nothing that begins a value.
        message = _MESSAGE_END if kind == "end" else f"unexpected {token.text!r}: a value belongs here"
        raise fault(self.text, token.at, message)

    def _no_suffix(self, number: Token) -> None:
        after = self.token
        if after.kind == "name" and after.at == number.at + len(number.text) and after.text not in _RESERVED:
            raise fault(self.text, after.at, f"unexpected {after.text!r} after a number", number.text)

    def _arguments_until(self, end: str) -> list[Expr]:
        items: list[Expr] = []
        while not self.accept(end):
            items.append(self.expression())
            if not self.accept(","):
                self.expect(end, "or ','")
                break
        return items

    def _object(self) -> Expr:
        fields: dict[str, Expr] = {}
        while not self.accept("}"):
            key = self.step()
            if key.kind != "string":
                hint = f'"{key.text}"' if key.kind == "name" else None
                raise fault(self.text, key.at, "a key of an object is a string in quotes", hint)
            name = string_value(self.text, key)
            if name in fields:
                raise fault(self.text, key.at, f"the key {name!r} is defined twice")
            self.expect(":", "after the key")
            fields[name] = self.expression()
            if not self.accept(","):
                self.expect("}", "or ','")
                break
        if all(isinstance(value, Lit) for value in fields.values()):
            return Lit({name: value.value for name, value in fields.items() if isinstance(value, Lit)})
        return Obj(tuple(fields.items()))

    def _root(self, token: Token) -> Expr:
        name = token.text[1:]
        if token.text in self.bound:
            return Var(self.bound[token.text])
        if not name:
            if self.text[token.at + 1 : token.at + 2].isdigit():
                raise fault(self.text, token.at, "`$` needs a name after it", "$input")
            name = "state"
        if name not in ROOTS:
            near = did_you_mean(name, ROOTS)
            raise fault(self.text, token.at, f"unknown reference ${name}", f"${near}" if near else None)
        tree, end = self._path(name, token.at + len(token.text), token.at + 1)
        self.token = next_token(self.text, end)
        return tree

    def _path(self, name: str, at: int, column: int) -> tuple[Expr, int]:
        state = name == "state"
        path, end = read_path(self.text, at, state=state)
        if not is_query(self.text, end):
            return Ref(name, path, column=column), end
        if not state:
            raise fault(self.text, end, f"JSONPath works on $state only; on ${name} use map, filter and the like")
        return query_tree(self.text, at, end, path, column)

    def _name(self, token: Token) -> Expr:
        name = token.text
        if name in _CONSTANTS:
            return Lit(_CONSTANTS[name])
        if self.token.text == "(" and self.token.kind == "op" and name not in _RESERVED:
            return self._call(token, None)
        if name in self.bound:
            return Var(self.bound[name])
        if name in ROOTS:
            return Ref(name, column=token.at + 1)
        if name in _RESERVED:
            raise fault(self.text, token.at, f"unexpected {name!r}: a value belongs here")
        near = did_you_mean(name, (*ROOTS, *self.bound, *_CONSTANTS))
        raise fault(self.text, token.at, f"unknown name {name!r}", near)

    def postfix(self, left: Expr) -> Expr:
        while True:
            token = self.token
            # The lexer reads `.0` after a list as a number.
            if token.kind == "number" and re.fullmatch(r"\.\d{1,15}", token.text):
                self.step()
                left = select(left, int(token.text[1:]), token.at + 1)
            elif token.text == "." and token.kind == "op":
                self.step()
                key = self.step()
                if key.kind == "quoted":
                    left = select(left, key.text[1:-1], token.at + 1)
                    continue
                if key.kind != "name":
                    raise fault(self.text, key.at, "a name belongs after '.'")
                if self.token.text == "(" and self.token.kind == "op":
                    left = self._call(key, left)
                else:
                    left = select(left, key.text, token.at + 1)
            elif token.text == "[" and token.kind == "op":
                self.step()
                index = self.expression()
                self.expect("]", "to close the index")
                left = self._index(left, index, token)
            else:
                return left

    def _index(self, left: Expr, index: Expr, token: Token) -> Expr:
        if not isinstance(index, Lit):
            return Fn("[]", (left, index), token.at + 1)
        key = index.value
        if type(key) is float and key.is_integer():
            if key >= 2**63:  # larger than any position and any integer of the language
                return Fn("[]", (left, index), token.at + 1)
            key = int(key)
        if type(key) is not str and type(key) is not int:
            raise fault(self.text, token.at + 1, "an index is a position or a key")
        if type(key) is int and key < 0:
            raise fault(self.text, token.at + 1, "a position in a list is 0 or more")
        return select(left, key, token.at + 1)

    def _call(self, token: Token, target: Expr | None) -> Expr:
        name = token.text
        self.expect("(", "after the function's name")
        known = FUNCTIONS.get(name)
        macro = MACROS.get(name)
        if name == "interpolate":
            return Fn("${}", tuple(self._arguments_until(")")), token.at + 1)
        if macro is not None:
            tree = self._macro(token, target)
            if tree is not None:
                return tree
            if known is None:  # report this first, or the macro's names would be unknown
                count = max(0, self._count_arguments() - (target is None))
                counted = f"{count} argument{'s' if count != 1 else ''}"
                after = "after the list" if target is None else "in brackets"
                raise fault(self.text, token.at, f"{name} is written {macro.example}, not with {counted} {after}")
        elif known is None:
            raise fault(self.text, token.at, f"unknown function {name!r}", did_you_mean(name, (*FUNCTIONS, *MACROS)))
        args = ([target] if target is not None else []) + self._arguments_until(")")
        if known is None or len(args) < known.least or (known.most is not None and len(args) > known.most):
            expected = known.counts if known is not None else f"as in {MACROS[name].example}"
            raise fault(self.text, token.at, f"{name} takes {expected}, not {len(args)}")
        self._check_constants(token, args)
        return Fn(name, tuple(args), token.at + 1)

    def _check_constants(self, token: Token, args: list[Expr]) -> None:
        try:
            check_constants(token.text, args)
        except ExpressionError as error:
            raise fault(self.text, token.at, error.message, error.suggestion) from error

    def _macro(self, token: Token, target: Expr | None) -> Expr | None:
        """Parse the call of a macro; return None without reading anything if it is a plain function."""
        before = self.token
        source = target
        count = self._count_arguments() - (target is None)
        has_name = self._name_follows() if target is not None else None
        shape = find_form(token.text, count, has_name)
        if shape is None:
            return None
        if source is None:
            source = self.expression()
            self.expect(",", f"after the list of {token.text}")
            shape = find_form(token.text, count, self._name_follows()) or shape
        names = [self._binding(token.text) for _ in range(shape.names)]
        if len(set(names)) < len(names):
            raise fault(self.text, before.at, f"{token.text} binds one name twice")
        return self._bodies(token, source, shape, names)

    def _name_follows(self) -> bool:
        token = self.token
        return token.kind == "name" and next_token(self.text, token.at + len(token.text)).text == ","

    def _bodies(self, token: Token, source: Expr, shape: Form, names: list[str]) -> Expr:
        outer = self.bound
        variables = names or list(shape.implicit)
        self.bound = {**outer, **{name: name for name in variables}}
        if not names:
            self.bound.update({name[1:]: name for name in variables})
        bodies = [self._separated(i > 0) for i in range(shape.bodies)]
        self.bound = outer
        extra = [self._separated(True) for _ in range(shape.extra)]
        self.accept(",")
        self.expect(")", f"to close {token.text}(")
        self._check_constants(token, [source, *bodies, *extra])
        return shape.build(source, tuple(variables), tuple(bodies), tuple(extra), token.at + 1)

    def _separated(self, comma: bool) -> Expr:
        if comma:
            self.expect(",", "between two arguments")
        return self.expression()

    def _binding(self, macro: str) -> str:
        name = self.step()
        if name.kind != "name" or name.text in _RESERVED:
            raise fault(self.text, name.at, f"{macro} needs a plain name here, as in {MACROS[macro].example}")
        self.expect(",", f"after the name that {macro} binds")
        return name.text

    def _count_arguments(self) -> int:
        """Return the number of arguments up to the closing parenthesis."""
        at, level, count, empty = self.token.at, 0, 1, True
        while True:
            token = next_token(self.text, at, lenient=True)
            if token.kind == "end":
                raise fault(self.text, len(self.text), f"expected ')', {_MESSAGE_END}")
            if token.kind == "op":
                if token.text in "([{":
                    level += 1
                elif token.text in ")]}":
                    if not level:
                        return 0 if empty else count
                    level -= 1
                elif token.text == "," and not level:
                    following = next_token(self.text, token.at + 1, lenient=True)
                    count += following.text != ")"
            empty = False
            at = token.at + len(token.text)


def query_tree(text: str, at: int, end: int, path: tuple[str | int, ...], column: int) -> tuple[Expr, int]:
    """Parse a query that begins with the constant `path` from `at` to `end`, as a call of `query`."""

    # The constant steps stay in the reference, so that it reads no more state than needed, unless a filter refers to
    # the root.
    stop = query_end(text, end)
    rest = text[end:stop]
    reads_root = "$" in re.sub(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", "", rest)
    query = "$" + (text[at:stop] if reads_root else rest)
    ref = Ref("state", () if reads_root else path, column=column)
    try:
        check_constants("query", [ref, Lit(query)])
    except ExpressionError as error:
        raise fault(text, end, error.message) from error
    return Fn("query", (ref, Lit(query)), column), stop
