"""The arguments of calls: those of tools by the names of their parameters, and those that a local function can take."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ...expr.python.scope import parameter_names
from ...values import did_you_mean
from ..read.problems import Problem, problem_at
from ..read.tools import PlanTool

Named = list[tuple[str | None, ast.expr]]
"""The arguments of a call by the name of the parameter; None stands for `**fields`."""


def named_arguments(name: str, tool: PlanTool, call: ast.Call) -> tuple[Named, list[Problem]]:
    """Return the arguments of the call of a tool, and what is wrong with their names and their number."""
    problems = []
    has_star = any(isinstance(part, ast.Starred) for part in call.args)
    count, most = len(call.args), len(tool.parameters)
    if count > most and not has_star:
        problems.append(
            problem_at(call, f"{name} takes at most {most} argument{'s' * (most != 1)}, {count} were given")
        )
    positional = [] if has_star else call.args
    named: Named = list(zip(tool.parameters, positional, strict=False))
    for keyword in _split_literal_dicts(call.keywords):
        if keyword.arg is not None and any(keyword.arg == known for known, _ in named):
            problems.append(problem_at(keyword.value, f"{name} gets the argument '{keyword.arg}' twice"))
            continue
        # A schema without properties that is not closed accepts any field.
        if keyword.arg not in (None, *tool.parameters) and (tool.parameters or tool.closed):
            near = did_you_mean(str(keyword.arg), tool.parameters)
            problems.append(problem_at(keyword, f"{name} has no parameter '{keyword.arg}'", near))
            continue
        named.append((keyword.arg, keyword.value))
    names = [parameter for parameter, _ in named]
    # `*values` and `**fields` may contain the missing arguments, which only the call can check.
    missing = [required for required in tool.required if required not in names]
    if missing and not problems and not has_star and None not in names:
        problems.append(problem_at(call, f"{name} needs {_listed(missing)}"))
    return named, problems


def _split_literal_dicts(keywords: Iterable[ast.keyword]) -> Iterator[ast.keyword]:
    """Yield keyword arguments with the entries of `**{"from": x}` one by one, so that the check sees each of them."""
    for keyword in keywords:
        fields = keyword.value
        if keyword.arg is None and isinstance(fields, ast.Dict) and all(map(_is_text, fields.keys)):
            for key, value in zip(fields.keys, fields.values, strict=True):
                yield ast.copy_location(ast.keyword(ast.literal_eval(key), value), value)  # type: ignore[arg-type]
        else:
            yield keyword


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def problems_of_local_call(name: str, takes: ast.arguments, call: ast.Call) -> Iterator[Problem]:
    """Yield what is wrong with the arguments of the call of a local function."""
    positional = [part.arg for part in (*takes.posonlyargs, *takes.args)]
    has_star = any(isinstance(part, ast.Starred) for part in call.args)
    if len(call.args) > len(positional) and takes.vararg is None and not has_star:
        many = "s" * (len(positional) != 1)
        yield problem_at(call, f"{name} takes {len(positional)} positional argument{many}, {len(call.args)} were given")
    got = set() if has_star else set(positional[: len(call.args)])
    by_name = parameter_names(takes)[len(takes.posonlyargs) :]
    for keyword in call.keywords:
        if keyword.arg in got:
            yield problem_at(keyword, f"{name} gets the argument '{keyword.arg}' twice")
        elif keyword.arg not in (None, *by_name) and takes.kwarg is None:
            near = did_you_mean(str(keyword.arg), by_name)
            yield problem_at(keyword, f"{name} has no parameter '{keyword.arg}'", near)
            return
        got.add(str(keyword.arg))
    if has_star or any(keyword.arg is None for keyword in call.keywords):
        return
    required = positional[: len(positional) - len(takes.defaults)]
    required += [part.arg for part, default in zip(takes.kwonlyargs, takes.kw_defaults, strict=True) if default is None]
    missing = [parameter for parameter in required if parameter not in got]
    if missing:
        yield problem_at(call, f"{name} needs {_listed(missing)}")


def _listed(missing: list[str]) -> str:
    return f"the argument{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}"
