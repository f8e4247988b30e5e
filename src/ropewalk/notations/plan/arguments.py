"""The arguments of a call of a tool, by the names of its parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ...values import did_you_mean
from .program import PlanError, PlanTool
from .syntax import at


def named_arguments(name: str, tool: PlanTool, call: ast.Call) -> list[tuple[str | None, ast.expr]]:
    """Return the arguments of a call by the name of the parameter; None stands for `**fields`."""

    for part in call.args:
        if isinstance(part, ast.Starred):
            raise PlanError(part, f"a call of a tool takes no *arguments; write {name}(name=value)")
    if len(call.args) > len(tool.parameters):
        most = len(tool.parameters)
        raise PlanError(call, f"{name} takes at most {most} argument{'s' * (most != 1)}, {len(call.args)} were given")
    named: list[tuple[str | None, ast.expr]] = list(zip(tool.parameters, call.args, strict=False))
    for keyword in _split_literal_dicts(call.keywords):
        if keyword.arg is not None and any(keyword.arg == known for known, _ in named):
            raise PlanError(keyword.value, f"{name} gets the argument '{keyword.arg}' twice")
        # A schema without properties that is not closed accepts any field.
        if keyword.arg not in (None, *tool.parameters) and (tool.parameters or tool.closed):
            near = did_you_mean(str(keyword.arg), tool.parameters)
            raise PlanError(keyword, f"{name} has no parameter '{keyword.arg}'", near)
        named.append((keyword.arg, keyword.value))
    names = [parameter for parameter, _ in named]
    # `**fields` may contain the missing arguments, which only the call can check.
    if None not in names:
        missing = [required for required in tool.required if required not in names]
        if missing:
            listed = ", ".join(repr(required) for required in missing)
            raise PlanError(call, f"{name} needs the argument{'s' * (len(missing) > 1)} {listed}")
    return named


def _split_literal_dicts(keywords: Iterable[ast.keyword]) -> Iterator[ast.keyword]:
    """Yield keyword arguments with the entries of `**{"from": x}` one by one, so that the check sees each of them."""
    for keyword in keywords:
        fields = keyword.value
        if keyword.arg is None and isinstance(fields, ast.Dict) and all(map(is_text_literal, fields.keys)):
            for key, value in zip(fields.keys, fields.values, strict=True):
                yield at(ast.keyword(ast.literal_eval(key), value), value)  # type: ignore[arg-type]
        else:
            yield keyword


def is_text_literal(node: ast.expr | None) -> bool:
    """Return True for a literal text."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
