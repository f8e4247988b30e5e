"""Calls and local functions of Python as closures over a frame (`__init__.py` of this folder explains both).

A call of a built-in or imported function, or of a method, finds its function when the closure is made; only a call of a
value of the program looks at the value. Every function of the language takes the Evaluation first, to spend its budget.
`expressions.py` calls these functions through its table EXPRESSIONS, which the end of this file completes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from . import methods as methods  # fills the tables
from .builtins import FUNCTIONS, TYPE_NAMES, TYPES
from .evaluation import Evaluation, LocalFunction, Members
from .expressions import EXPRESSIONS, expression, module_entry, module_path
from .method_table import method_of
from .modules import Constant
from .operations import member
from .scope import Frame, Getter, Scope, parameter_names
from .values import UNBOUND

# --- calls ---------------------------------------------------------------------------------------

Arguments = Callable[[Frame], tuple[list[Any], dict[str, Any]]]
"""Evaluates the arguments of a call: the positional ones, and those with a keyword."""


def _arguments(node: ast.Call, scope: Scope) -> Arguments:
    """Return the closure that evaluates the arguments of a call, in Python's order."""
    # Compile once: whether an argument is starred is known before the first call.
    positional = [
        (isinstance(part, ast.Starred), expression(part.value if isinstance(part, ast.Starred) else part, scope))
        for part in node.args
    ]
    keywords = _keywords(node, scope)
    if len(positional) == 1 and positional[0][0]:
        only = positional[0][1]

        def evaluate_only(frame: Frame) -> tuple[list[Any], dict[str, Any]]:
            value = only(frame)  # spread in the call itself, after the keywords
            named = keywords(frame)
            return frame[0].spread(value, "argument"), named

        return evaluate_only

    def evaluate(frame: Frame) -> tuple[list[Any], dict[str, Any]]:
        values: list[Any] = []
        for is_starred, get in positional:
            if is_starred:
                values.extend(frame[0].spread(get(frame)))
            else:
                values.append(get(frame))
        return values, keywords(frame)

    return evaluate


def _keywords(node: ast.Call, scope: Scope) -> Callable[[Frame], dict[str, Any]]:
    """Return the closure that evaluates the arguments with a keyword."""
    named = [(keyword.arg, expression(keyword.value, scope)) for keyword in node.keywords]

    def evaluate(frame: Frame) -> dict[str, Any]:
        keywords: dict[str, Any] = {}
        for name, get in named:
            if name is not None:
                value = get(frame)
                if name in keywords:  # from an earlier `**`
                    raise TypeError(f"got multiple values for keyword argument '{name}'")
                keywords[name] = value
                continue
            extra = get(frame)
            # Python checks `**` only in a call of its own, so raise the same errors here.
            if not isinstance(extra, dict) or not all(isinstance(key, str) for key in extra):
                raise TypeError("argument after ** must be a mapping with string keys")
            for key, value in extra.items():
                if key in keywords:
                    raise TypeError(f"got multiple values for keyword argument '{key}'")
                keywords[key] = value
        return keywords

    return evaluate


def _call(node: ast.Call, scope: Scope) -> Getter:
    """Return the closure of a call: of a function known by its name, of a method, or of a value of the program."""
    function = _direct_function(node.func, scope)
    if function is not None:
        return _direct_call(node, function, scope)
    if isinstance(node.func, ast.Attribute) and module_path(node.func, scope) is None:
        return _method_call(node, node.func, scope)
    target, arguments = expression(node.func, scope), _arguments(node, scope)

    def run(frame: Frame) -> Any:
        called = target(frame)
        return frame[0].call(called, *arguments(frame))

    return run


def _direct_function(node: ast.expr, scope: Scope) -> Callable[..., Any] | None:
    """Return the built-in or imported function that a call names, if it is known before the run."""
    if isinstance(node, ast.Name) and scope.find(node.id) is None:
        path = scope.imports.get(node.id)
        if path is not None:
            return _module_function(path, scope)
        return FUNCTIONS.get(node.id) or (TYPES.get(TYPE_NAMES[node.id]) if node.id in TYPE_NAMES else None)
    path = module_path(node, scope)
    return _module_function(path, scope) if path is not None else None


def _module_function(path: str, scope: Scope) -> Callable[..., Any] | None:
    entry = module_entry(path, scope)
    if isinstance(entry, Constant):
        return TYPES.get(entry.value) if isinstance(entry.value, type) else None
    function: Callable[..., Any] | None = entry
    return function


def _direct_call(node: ast.Call, function: Callable[..., Any], scope: Scope) -> Getter:
    """Return the closure of a call of a function that is known when the closure is made."""
    if not node.keywords and not any(isinstance(part, ast.Starred) for part in node.args):
        parts = [expression(part, scope) for part in node.args]
        if len(parts) == 1:
            only = parts[0]
            return lambda frame: function(frame[0], only(frame))
        return lambda frame: function(frame[0], *[part(frame) for part in parts])
    arguments = _arguments(node, scope)

    def run(frame: Frame) -> Any:
        values, keywords = arguments(frame)
        return function(frame[0], *values, **keywords)

    return run


def _method_call(node: ast.Call, target: ast.Attribute, scope: Scope) -> Getter:
    """Return the closure of `holder.name(...)`: a method of the table, or a function that is a member of the holder."""
    scope.language.check_member(target)
    holder, name, arguments = expression(target.value, scope), target.attr, _arguments(node, scope)

    def run(frame: Frame) -> Any:
        value = holder(frame)
        method = None if isinstance(value, (type, Members)) else method_of(type(value), name)
        if method is not None:
            values, keywords = arguments(frame)
            frame[0].step()
            return method(frame[0], value, *values, **keywords)
        function = member(frame[0], value, name)
        return frame[0].call(function, *arguments(frame))

    return run


# --- functions -----------------------------------------------------------------------------------


def _lambda(node: ast.Lambda, scope: Scope) -> Getter:
    inner = Scope([*parameter_names(node.args), *_walrus_names(node.body)], scope)
    inner.prefix = f"{scope.prefix}<lambda>.<locals>."
    body = expression(node.body, inner)
    return function_maker("<lambda>", node.args, scope, inner, body)


def _walrus_names(node: ast.expr) -> list[str]:
    return [
        part.target.id
        for part in ast.walk(node)
        if isinstance(part, ast.NamedExpr) and isinstance(part.target, ast.Name)
    ]


def function_maker(name: str, parameters: ast.arguments, scope: Scope, inner: Scope, body: Getter) -> Getter:
    """Return the closure that makes a function value where the program defines it."""
    defaults = [expression(node, scope) for node in parameters.defaults]
    named_defaults = [None if node is None else expression(node, scope) for node in parameters.kw_defaults]
    bind = _Binder(scope.prefix + name, parameters)

    def make(frame: Frame) -> LocalFunction:
        evaluation: Evaluation = frame[0]
        values = [get(frame) for get in defaults]
        named = [UNBOUND if get is None else get(frame) for get in named_defaults]

        def invoke(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            own = inner.new_frame(evaluation, frame, UNBOUND)
            bind(own, arguments, keywords, values, named)
            line = evaluation.line
            result = body(own)
            evaluation.line = line
            return result

        return LocalFunction(name, invoke, evaluation)

    return make


class _Binder:
    """Puts the arguments of a call into the slots of the parameters, with Python's messages."""

    def __init__(self, name: str, parameters: ast.arguments) -> None:
        self.name = name
        self.positional = [part.arg for part in (*parameters.posonlyargs, *parameters.args)]
        self.only_positional = len(parameters.posonlyargs)
        self.named = [part.arg for part in parameters.kwonlyargs]
        self.has_rest, self.has_keywords = parameters.vararg is not None, parameters.kwarg is not None

    def __call__(
        self, frame: Frame, arguments: tuple[Any, ...], keywords: dict[str, Any], defaults: list[Any], named: list[Any]
    ) -> None:
        count, slot = len(self.positional), 2
        if len(arguments) > count and not self.has_rest:
            raise TypeError(
                f"{self.name}() takes {count} positional argument{'s' * (count != 1)} but {len(arguments)} "
                f"{'was' if len(arguments) == 1 else 'were'} given"
            )
        frame[slot : slot + min(count, len(arguments))] = arguments[:count]
        rest = dict(keywords)
        # Parameters that no positional argument reached take a keyword, else their default.
        for index, name in enumerate(self.positional):
            if name in rest and index >= self.only_positional:
                if index < len(arguments):
                    raise TypeError(f"{self.name}() got multiple values for argument '{name}'")
                frame[slot + index] = rest.pop(name)
            elif index >= len(arguments) and index >= count - len(defaults):
                frame[slot + index] = defaults[index - count + len(defaults)]
        for index, name in enumerate(self.named):
            frame[slot + count + index] = rest.pop(name) if name in rest else named[index]
        self._check_bound(frame)
        slot += count + len(self.named)
        if self.has_rest:
            frame[slot] = tuple(arguments[count:])
            slot += 1
        if self.has_keywords:
            frame[slot] = rest
        elif rest:
            raise TypeError(f"{self.name}() got an unexpected keyword argument '{next(iter(rest))}'")

    def _check_bound(self, frame: Frame) -> None:
        """Raise TypeError, in the words of Python, for parameters that got no argument."""
        for names, first, kind in (
            (self.positional, 2, "positional"),
            (self.named, 2 + len(self.positional), "keyword-only"),
        ):
            missing = [repr(name) for index, name in enumerate(names) if frame[first + index] is UNBOUND]
            if missing:
                several = len(missing) > 1
                listed = missing[0]
                if several:
                    listed = f"{', '.join(missing[:-1])}{',' * (len(missing) > 2)} and {missing[-1]}"
                raise TypeError(
                    f"{self.name}() missing {len(missing)} required {kind} argument{'s' * several}: {listed}"
                )


EXPRESSIONS.update({ast.Call: _call, ast.Lambda: _lambda})
