"""The expression language: text and documents to trees, trees to closures.

One parser, one evaluator, one table of functions for every notation. No side effects, no clock, no
randomness, no attribute access, no calls into Python: expressions read JSON and give JSON.
To add a function, see `functions`; a macro, `macros` and `runners`; an operator, `closures`.
"""

from __future__ import annotations

from .ast import NULL, Arr, Each, Expr, Fn, Lit, Obj, Ref, Var, children, rebind, refs
from .compile import MISSING, compile_condition, compile_expr
from .lift import lift
from .macros import MACROS, Macro
from .parse import parse
from .paths import ROOTS
from .reshape import TRANSFORMS, transform
from .show import show
from .table import FUNCTIONS, Function, function
from .transforms import TRANSFORM_TYPES, transform_expr

__all__ = [
    "Arr", "Each", "Expr", "FUNCTIONS", "Fn", "Function", "Lit", "MACROS", "MISSING", "Macro", "NULL", "Obj",
    "ROOTS", "Ref", "TRANSFORMS", "TRANSFORM_TYPES", "Var", "children", "compile_condition", "compile_expr",
    "function", "lift", "parse", "rebind", "refs", "show", "transform", "transform_expr",
]  # fmt: skip
