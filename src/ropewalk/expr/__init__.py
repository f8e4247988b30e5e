"""The expression language: text and documents to trees, trees to closures.

One parser, one evaluator, one table of functions for every notation. No side effects, no clock, no
randomness, no attribute access, no calls into Python: expressions read JSON and give JSON.
`functions.py` is the place to add a function or a macro, `closures.py` to add an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .ast import NULL, Arr, Each, Expr, Fn, Lit, Obj, Ref, Var, children, rebind, refs, show
from .compile import compile_condition, compile_expr
from .lift import lift
from .operators import MISSING
from .reference_paths import ROOTS

if TYPE_CHECKING:
    from .function_registry import FUNCTIONS, Function, function
    from .functions import MACROS, Macro
    from .parser import parse
    from .reshape import TRANSFORMS, transform
    from .transforms import TRANSFORM_TYPES, configure_transform, transform_expr

__all__ = [
    "Arr", "Each", "Expr", "FUNCTIONS", "Fn", "Function", "Lit", "MACROS", "MISSING", "Macro", "NULL", "Obj",
    "ROOTS", "Ref", "TRANSFORMS", "TRANSFORM_TYPES", "Var", "children", "compile_condition", "compile_expr",
    "configure_transform", "function", "lift", "parse", "rebind", "refs", "show", "transform", "transform_expr",
]  # fmt: skip

_HOME = {
    "FUNCTIONS": "calls", "Function": "function_registry", "MACROS": "functions", "Macro": "functions",
    "TRANSFORMS": "reshape", "TRANSFORM_TYPES": "transforms", "configure_transform": "transforms",
    "function": "function_registry", "parse": "parser", "transform": "reshape", "transform_expr": "transforms",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import the parser and the functions when they are first used; a flow that only passes values on needs neither."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
