"""Arguments of tools against the schemas of their parameters, part by part."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from ...check.arguments import FitChecker
from ...check.types import Either, Sub, Type
from ...expr.ast import Arr, Expr, Fn, Lit, Obj

_OPAQUE: Final = Fn("value", ())


@lru_cache(maxsize=64)
def _format_validator(name: str) -> Any:
    import jsonschema_rs as native  # the import takes 5 ms, and most plans need no format

    return native.Draft202012Validator({"type": "string", "format": name}, validate_formats=True)


def fits_format(text: str, name: str) -> bool:
    """Return True if a text has a format of JSON Schema, such as `date`."""

    # Every text has an unknown format.
    return bool(_format_validator(name).is_valid(text))


class _Optional:
    """Inputs of plans are never null because they were left out."""

    def first_optional(self, path: object) -> None:
        return None


class ArgumentCheck:
    """Checks arguments, one after another."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._argument: ast.expr | None = None
        self._subject = ""
        self._fit = FitChecker(self._add_misfit, _Optional())  # type: ignore[arg-type]

    def check(self, name: str, parameter: str, node: ast.expr, known: Type, target: Sub) -> None:
        """Report where an argument of a tool can never fit."""
        self._argument, self._subject = node, f"argument '{parameter}'{{}} of {name}"
        variants = known.of if type(known) is Either else ()
        if variants and all(type(one) is Lit for one in variants):
            # One of several constants: an error only if none of them fits.
            if any(_fits(one, target) for one in variants):
                return
            known = variants[0]
        expr = _expression_of(node, known)
        self._fit.check_fit(expr, known, target, None, "property", "")
        self._check_format(node, known, target)

    def _check_format(self, node: ast.expr, known: Type, target: Sub) -> None:
        text = known.value if type(known) is Lit else None
        name = target.node.get("format") if isinstance(target.node, dict) else None
        if isinstance(text, str) and isinstance(name, str) and not fits_format(text, name):
            self._report(node, f"{self._subject.format('')}: {text!r} does not have the format {name}", warning=True)

    def _add_misfit(
        self,
        message: str,
        at: Any,
        *,
        suggestion: str | None = None,
        column: int | None = None,
        warning: bool = False,
    ) -> None:
        """Report what the check of a value against a schema found, at the part of the argument that it is about."""
        keys = []
        while at is not None:
            at, key = at
            keys.append(key)
        node: ast.expr | None = self._argument
        for key in reversed(keys):
            node = _part_of(node, key) or node
        inside = "".join(f"[{key!r}]" for key in reversed(keys))
        self._report(node or ast.Pass(), f"{self._subject.format(inside)}: {message}", suggestion, warning)


def _fits(known: Type, target: Sub) -> bool:
    """Return True if a constant fits a schema."""
    missed: list[str] = []
    checker = FitChecker(lambda message, at, **more: missed.append(message), _Optional())  # type: ignore[arg-type]
    checker.check_fit(known, known, target, None, "property", "")
    return not missed


def _part_of(node: ast.expr | None, key: str | int) -> ast.expr | None:
    """Return the part of a display at a key or position."""
    if isinstance(node, ast.Dict):
        for name, value in zip(node.keys, node.values, strict=True):
            if isinstance(name, ast.Constant) and name.value == key:
                return value
    elif isinstance(node, (ast.List, ast.Tuple)) and isinstance(key, int) and key < len(node.elts):
        return node.elts[key]
    return None


def _expression_of(node: ast.expr, known: Type) -> Expr:
    """Return an expression of the same shape as an argument, so that its parts are checked one by one."""
    if type(known) is Lit:
        return known
    if isinstance(node, ast.Dict) and type(known) is dict:
        values = {str(key.value): value for key, value in zip(node.keys, node.values, strict=True)}  # type: ignore[union-attr]
        return Obj(tuple((key, _expression_of(values[key], part)) for key, part in known.items()))
    if isinstance(node, (ast.List, ast.Tuple)) and type(known) is list:
        return Arr(tuple(map(_expression_of, node.elts, known)))
    return _OPAQUE
