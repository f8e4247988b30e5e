"""Types of a program, inferred on its syntax, where every place is known.

The schemas of the tools are the types. Only what can never fit is a problem: a value that may fit is checked before
the call, at run time. A type is one of `check.types`, or one of `environment.py`; None is anything.

To teach it a function or method, add its result to `type_rules`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from ...check.types import (
    ALL,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Each,
    Missing,
    Opaque,
    Sub,
    Type,
    describe_kinds,
    element_type,
    items_of,
    kinds_of,
    union_type,
)
from ...expr.ast import Lit
from ...expr.python.scope import COMPREHENSIONS, parameter_names
from ...expr.python.tree import children, walk
from ...values import did_you_mean
from ..read.imports import is_module
from ..read.names import own_names, yields
from ..read.problems import Problem, problem_at
from ..read.tools import LANGUAGE_NAMES, VALUE, PlanTool
from .argument_types import ArgumentCheck
from .arguments import Named, named_arguments, problems_of_local_call
from .changes import Changes
from .environment import OPAQUE, Env, Function, FunctionNode, ScopeNames, Task
from .narrowing import always_leaves, expects_failure, names_in, suppresses, tested_names
from .sizes import imported_names
from .type_rules import (
    METHODS_OF_KINDS,
    element_at,
    function_result,
    method_result,
    operation_problem,
    operation_result,
    without_elements,
)

Cards: TypeAlias = Callable[[str], Any]

_SCALAR: Final = (str, int, float, bool, type(None))
_MAX_STACK: Final = 6
_MAX_CALLS: Final = 200
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_MODULES: Final = {name: name for name in ("asyncio", "json", "math", "re")}
_QUESTIONS: Final = frozenset(("approve", "wait_for", "asyncio.sleep"))
_TASKS: Final = frozenset(("create_task", "ensure_future", "shield"))


class _AnyList(Exception):
    """A statement such as `x += y` may add to a list that has another name, so the types are to be found again."""


class TypeCheck:
    """Infer the types of one program and collect what can never fit."""

    # `problems`: What is wrong, each at its place.
    # `warnings`: What is probably wrong.
    # `result`: The type of the result of the program.
    # functions: Names of functions that it may call, of which nothing is known.

    def __init__(
        self,
        tree: ast.Module,
        tools: Mapping[str, PlanTool],
        cards: Cards,
        inputs: Mapping[str, Any] | None,
        values: Mapping[str, Any] | None = None,
        functions: Iterable[str] = (),
    ) -> None:
        self.tree, self.tools, self.cards, self._values = tree, tools, cards, values or {}
        nodes = walk(tree)
        self._imports = {**_MODULES, **dict(imported_names(nodes))}
        self._changes = Changes(nodes, tools)
        # What inner functions bind again may have any type, and may have a value at any time.
        self._shared = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
        self._has_walruses = any(isinstance(node, ast.NamedExpr) for node in nodes)
        self._has_classes = any(isinstance(node, ast.ClassDef) for node in nodes)
        self._read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        self._loops: dict[ast.AST, set[str]] = {}  # the names that each loop binds
        self._flat: set[ast.AST] = set()  # compared values that have no members
        self._scopes: dict[ast.AST, ScopeNames] = {}
        self._argument_check = ArgumentCheck(self._report)
        properties = inputs.get("properties", {}) if isinstance(inputs, Mapping) else {}
        unknown = dict.fromkeys((*self._shared, *functions))
        names = ScopeNames(tree.body, [*properties, *unknown])
        types = {name: Sub(inputs, properties[name]) if properties.get(name) else None for name in properties}
        self._inputs = Env(names, None, {**unknown, **types})
        self._begin()

    def _begin(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.result: Type = None
        self.env = self._inputs.copy()
        self._quiet = self._expecting = self._in_comprehension = 0
        self._calls = 0
        self._stack: list[FunctionNode] = []
        self._called: set[FunctionNode] = set()
        self._defined: list[Function] = []
        self._returned: list[Type] = []
        self._bound: list[dict[str, Type]] = []
        # The arguments of the call that was looked at last.
        self._words: dict[str | None, Type] = {}
        self._spread: list[Type] = []

    def run(self) -> None:
        """Check the whole program, and the functions that nothing calls."""
        try:
            self._run()
        except _AnyList:
            self._changes.any_list = True
            self._changes.doubtful.clear()
            self._begin()
            self._run()

    def _run(self) -> None:
        body = self.tree.body
        self._block(body, self.env)
        returned, self._returned = self._returned, []
        last = body[-1] if body else None
        if isinstance(last, ast.Expr):
            with self._silent():
                known = self.type_of(last.value, self.env)
            returned.append(known)
            if not isinstance(last.value, ast.Call):
                self._check_result(last.value, known)
        elif not always_leaves(body):
            returned.append(Lit(None))
        self.result = union_type(*returned)
        if self._changes.any_list or self._changes.any_object or self._changes.members:
            self.result = without_elements(self.result)
        if "print" in self._read and kinds_of(self.result) & NULL:
            self.result = None  # a program that only prints gives the printed text
        while self._defined:
            function = self._defined.pop(0)
            if function.node not in self._called:
                self._called.add(function.node)
                self._inside(function, dict.fromkeys(parameter_names(function.node.args)))

    # --- problems ------------------------------------------------------------------------------

    def _report(self, node: ast.AST, message: str, suggestion: str | None = None, warning: bool = False) -> None:
        self._add(problem_at(node, message, suggestion), warning)

    def _add(self, problem: Problem, warning: bool = False) -> None:
        found = self.warnings if warning else self.problems
        if not self._quiet and problem not in found:
            found.append(problem)

    def _report_operation(self, node: ast.AST, message: str, suggestion: str | None = None) -> None:
        """Report a wrong member or operand, unless the program expects that it fails."""
        if not self._expecting:
            self._report(node, message, suggestion)

    @contextmanager
    def _silent(self) -> Iterator[None]:
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    # --- statements ----------------------------------------------------------------------------

    def _block(self, statements: Iterable[ast.stmt], env: Env) -> None:
        for statement in statements:
            rule = _STATEMENTS.get(type(statement))
            if rule is not None:
                rule(self, statement, env)

    def _assign(self, node: Any, env: Env) -> None:
        if node.value is None:
            return
        known = self.type_of(node.value, env)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and target.id not in self._read:
                self._check_awaited(node.value, known)
            self._bind(target, known, env)

    def _augment(self, node: ast.AugAssign, env: Env) -> None:
        right = self.type_of(node.value, env)
        self._check_awaited(node.value, right)
        left = self.type_of(_readable(node.target), env)
        if node in self._changes.doubtful and kinds_of(left) & ARRAY:
            raise _AnyList
        result = self._operation(node, left, node.op, right)
        if isinstance(node.target, ast.Name):
            self._bind(node.target, result, env)

    def _expression(self, node: ast.Expr, env: Env) -> None:
        known = self.type_of(node.value, env)
        if isinstance(node.value, ast.Call):
            self._check_awaited(node.value, known)

    def _check_awaited(self, node: ast.expr, known: Type) -> bool:
        """Report a call that should be awaited, and return False for one."""
        if type(known) is not Task or known.is_started:
            return True
        self._report(node, f"{ast.unparse(node)[:60]} is never awaited; write await before it")
        return False

    def _check_result(self, node: ast.expr, known: Type) -> None:
        """Report a result of the program that holds calls."""
        parts = [known.item] if type(known) is Each else known if type(known) is list else ()
        if self._check_awaited(node, known) and any(type(part) is Task for part in parts):
            self._report(node, f"{ast.unparse(node)[:60]} holds calls; write await asyncio.gather(*calls)")

    def _test(self, node: ast.expr, env: Env) -> None:
        """Check the condition of a branch or loop."""
        self._check_awaited(node, self.type_of(node, env))

    def _return(self, node: ast.Return, env: Env) -> None:
        known: Type = Lit(None) if node.value is None else self.type_of(node.value, env)
        if not self._stack and node.value is not None:
            self._check_result(node.value, known)
        self._returned.append(known)

    def _parts(self, node: ast.AST, env: Env) -> None:
        for part in children(node):
            if isinstance(part, ast.expr):
                self.type_of(part, env)

    def _delete(self, node: ast.Delete, env: Env) -> None:
        for target in node.targets:
            self.type_of(target, env)
            if isinstance(target, ast.Name):
                env.pop(target.id, None)

    def _define(self, node: FunctionNode, env: Env) -> None:
        for part in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if part is not None:
                self.type_of(part, env)
        function = Function(node, env)
        self._defined.append(function)
        self._bind_name(node.name, OPAQUE if node.decorator_list else function, env)

    def _class(self, node: ast.ClassDef, env: Env) -> None:
        for part in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self.type_of(part, env)
        # Methods do not see the names of the class.
        inner = Env(self._scope_of(node, node.body), env, {})
        bound, self._bound = self._bound, []
        for statement in node.body:
            if isinstance(statement, _FUNCTIONS):
                self._define(statement, inner)
                self._defined[-1] = Function(statement, env)
            else:
                self._block([statement], inner)
        self._bound = bound
        self._bind_name(node.name, OPAQUE, env)

    def _if(self, node: ast.If, env: Env) -> None:
        self._test(node.test, env)
        then, otherwise = env.forget(self._tested(node.test)), env.forget(self._tested(node.test))
        self._block(node.body, then)
        self._block(node.orelse, otherwise)
        arms = [arm for arm, body in ((then, node.body), (otherwise, node.orelse)) if not always_leaves(body)]
        self._join(env, arms or [then])

    def _join(self, env: Env, arms: Sequence[Env]) -> None:
        """Let each name have one of the types that it has in the arms."""
        for name in [name for name in env if not any(name in arm for arm in arms)]:
            del env[name]
        for name in dict.fromkeys(name for arm in arms for name in arm):
            known = [arm[name] for arm in arms if name in arm]
            env[name] = known[0] if all(one is known[0] for one in known) else union_type(*known)

    def _for(self, node: ast.For, env: Env) -> None:
        element = self._element(self.type_of(node.iter, env), node.iter)
        self._loop(node, env, lambda inner: self._bind(node.target, element, inner))

    def _async_for(self, node: ast.AsyncFor, env: Env) -> None:
        self.type_of(node.iter, env)
        self._loop(node, env, lambda inner: self._bind(node.target, None, inner))

    def _while(self, node: ast.While, env: Env) -> None:
        self._loop(node, env, lambda inner: self._test(node.test, inner))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, env: Env, begin: Callable[[Env], object]) -> None:
        """Check a loop: names that its body binds begin a round with what they had before, or got in any round."""
        if node not in self._loops:
            self._loops[node] = set(own_names([node]))
        bound = self._loops[node] & env.scope.names
        tested = self._tested(node.test) if isinstance(node, ast.While) else set()
        if bound & env.keys():
            inner = env.forget(bound)
            with self._silent():
                got = self._bindings(lambda: self._round(begin, node.body, inner))
            for name in bound & env.keys():
                env[name] = union_type(env[name], got[name]) if name in got else env[name]
            if self._quiet:  # a second pass only finds problems, and would double the work for each outer loop
                env |= {name: known for name, known in got.items() if name not in env}
                self._block(node.orelse, env)
                return
        # What a round binds may have a value in the next one.
        inner = env.forget({*tested, *(bound - env.keys())})
        got = self._bindings(lambda: self._round(begin, node.body, inner))
        for name, known in got.items():
            env[name] = union_type(env[name], known) if name in env else known
        self._block(node.orelse, env)

    def _round(self, begin: Callable[[Env], object], body: Sequence[ast.stmt], env: Env) -> None:
        begin(env)
        self._block(body, env)

    def _bindings(self, emit: Callable[[], object]) -> dict[str, Type]:
        """Return every type that each name is bound to meanwhile."""
        self._bound.append({})
        emit()
        got = self._bound.pop()
        if self._bound:
            outer = self._bound[-1]
            for name, known in got.items():
                outer[name] = union_type(outer[name], known) if name in outer else known
        return got

    def _try(self, node: ast.Try, env: Env) -> None:
        inner = env.copy()
        expects = expects_failure(node)
        self._expecting += expects
        got = self._bindings(lambda: self._block(node.body, inner))
        self._expecting -= expects
        # At a handler, any part of the body may have run.
        failed = env.copy()
        failed.update({name: union_type(env[name], one) if name in env else one for name, one in got.items()})
        arms = []
        for handler in node.handlers:
            arm = failed.forget([handler.name] if handler.name else ())
            self._block(handler.body, arm)
            if handler.name:
                arm.pop(handler.name, None)
            if not always_leaves(handler.body):
                arms.append(arm)
        self._block(node.orelse, inner)
        before = env.copy()
        self._join(env, [inner, *arms] if not always_leaves([*node.body, *node.orelse]) or not arms else arms)
        if node.finalbody:
            # A `finally` runs also after a failure of any part.
            last = before.copy()
            self._join(last, [env, failed])
            self._block(node.finalbody, last)
            for name in set(own_names(node.finalbody)) & last.keys():
                env[name] = last[name]

    def _with(self, node: ast.With | ast.AsyncWith, env: Env) -> None:
        for item in node.items:
            self.type_of(item.context_expr, env)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, None, env)
        if not any(suppresses(item.context_expr) for item in node.items):
            self._block(node.body, env)
            return
        inner = env.copy()
        self._expecting += 1
        self._block(node.body, inner)
        self._expecting -= 1
        self._join(env, [inner, env.copy()])

    def _match(self, node: ast.Match, env: Env) -> None:
        self.type_of(node.subject, env)
        arms = []
        for case in node.cases:
            arm = env.forget((*own_names([case.pattern]), *names_in(node.subject)))  # type: ignore[list-item]
            if case.guard is not None:
                self.type_of(case.guard, arm)
            for name in own_names([case.pattern]):  # type: ignore[list-item]
                self._bind_name(name, None, arm)
            self._block(case.body, arm)
            arms.append(arm)
        self._join(env, [env.copy(), *arms])

    # --- names ---------------------------------------------------------------------------------

    def _bind(self, target: ast.expr, known: Type, env: Env) -> None:
        if isinstance(target, ast.Name):
            self._bind_name(target.id, known, env)
        elif isinstance(target, (ast.Tuple, ast.List)):
            has_star = any(isinstance(part, ast.Starred) for part in target.elts)
            for index, part in enumerate(target.elts):
                if isinstance(part, ast.Starred):
                    self._bind(part.value, ARRAY, env)
                else:
                    self._bind(part, self._items(known) if has_star else self._element_at(known, index), env)
        elif isinstance(target, (ast.Subscript, ast.Attribute)):
            self.type_of(target.value, env)
            if isinstance(target, ast.Subscript):
                self.type_of(target.slice, env)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, ARRAY, env)

    def _bind_name(self, name: str, known: Type, env: Env) -> None:
        known = self._kept(name, known)
        env[name] = known
        if self._bound:
            got = self._bound[-1]
            got[name] = union_type(got[name], known) if name in got else known

    def _kept(self, name: str, known: Type) -> Type:
        """Return what is known of a value for as long as a name has it."""
        if name in self._shared:
            return None
        return without_elements(known) if kinds_of(known) & self._changes.names.get(name, 0) else known

    def _items(self, known: Type) -> Type:
        """Return the type of the elements of a list."""
        return None if self._changes.any_list else items_of(known)

    def _kept_elements(self, types: list[Type]) -> list[Type]:
        """Return types without the elements that the program may change under another name."""
        changes = self._changes
        return list(map(without_elements, types)) if changes.any_list or changes.any_object else types

    def _element_at(self, known: Type, index: int) -> Type:
        return None if self._changes.any_list else element_at(known, index)

    # --- expressions ---------------------------------------------------------------------------

    def type_of(self, node: ast.expr, env: Env) -> Type:
        """Return the type of an expression, and report what can never fit in it."""
        rule = _EXPRESSIONS.get(type(node))
        if rule is not None:
            return rule(self, node, env)
        self._parts(node, env)
        return None

    def _constant(self, node: ast.Constant, env: Env) -> Type:
        return Lit(node.value) if isinstance(node.value, _SCALAR) else None

    def _name(self, node: ast.Name, env: Env) -> Type:
        name = node.id
        is_unset = name not in env and name in env.scope.names and name not in self._imports
        if is_unset and not self._in_comprehension:  # which may have nothing to go over
            self._report_operation(node, f"'{name}' is read before it has a value")
            return None
        return env.find(name)

    def _awaited(self, node: ast.Await, env: Env) -> Type:
        known = self.type_of(node.value, env)
        if type(known) is Task:
            return known.of
        if isinstance(node.value, ast.Call) and self._path(node.value.func, env) == VALUE:
            return known  # its await may be left out
        kinds = kinds_of(known)
        if not isinstance(known, Opaque) and kinds != ALL:
            what = f"'{ast.unparse(node.value)[:60]}'"
            self._report_operation(node, f"{what} is {describe_kinds(kinds)}, and cannot be awaited; remove await")
        return None

    def _list(self, node: ast.List | ast.Tuple, env: Env) -> Type:
        if any(isinstance(part, ast.Starred) for part in node.elts):
            for part in node.elts:
                self.type_of(part.value if isinstance(part, ast.Starred) else part, env)
            return ARRAY
        return [self.type_of(part, env) for part in node.elts]

    def _dict(self, node: ast.Dict, env: Env) -> Type:
        members: dict[str, Type] = {}
        is_known = True
        for key, value in zip(node.keys, node.values, strict=True):
            known = self.type_of(value, env)
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                members[key.value] = known
            else:
                is_known = False
                if key is not None:
                    self.type_of(key, env)
        return members if is_known else OBJECT

    def _text(self, node: ast.JoinedStr, env: Env) -> Type:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self._check_awaited(part.value, self.type_of(part.value, env))
                if part.format_spec is not None:
                    self.type_of(part.format_spec, env)
        return STRING

    def _attribute(self, node: ast.Attribute, env: Env) -> Type:
        if self._path(node, env):
            return None
        return self._member(node, self.type_of(node.value, env), node.attr, True)

    def _path(self, node: ast.expr, env: Env) -> str:
        """Return what a name outside of the program means, such as `asyncio.gather`; "" for anything else."""
        if isinstance(node, ast.Name):
            return "" if env.owner(node.id) is not None else self._imports.get(node.id, node.id)
        head = self._path(node.value, env) if isinstance(node, ast.Attribute) else ""
        return f"{head}.{node.attr}" if head else ""  # type: ignore[attr-defined]

    def _tool_name(self, node: ast.expr, env: Env) -> str | None:
        """Return the tool that an expression names, None if it names none."""
        match node:
            case ast.Name(id=name) if name in self.tools and name not in self._imports and name not in LANGUAGE_NAMES:
                return name if env.owner(name) is None else None
            case ast.Attribute(value=ast.Name(id=server) as head, attr=attr) if f"{server}.{attr}" in self.tools:
                return f"{server}.{attr}" if env.owner(server) is None and not is_module(head) else None
        return None

    def _subscript(self, node: ast.Subscript, env: Env) -> Type:
        known = self.type_of(node.value, env)
        if isinstance(node.slice, ast.Slice):
            self._parts(node.slice, env)
            kinds = kinds_of(known)
            return STRING if kinds == STRING else Each(self._items(known)) if kinds == ARRAY else None
        key = self.type_of(node.slice, env)
        value = key.value if type(key) is Lit else None
        if type(value) is str:
            return self._member(node, known, value, False)
        kinds = kinds_of(known)
        if kinds and not kinds & (ARRAY | OBJECT | STRING | NULL):
            self._report_operation(node, f"{describe_kinds(kinds)} has no elements")
        if kinds == ARRAY:
            return self._element_at(known, value) if type(value) is int else self._items(known)
        return STRING if kinds == STRING else None

    def _member(self, node: ast.expr, known: Type, name: str, is_attribute: bool) -> Type:
        holder: ast.expr = node.value  # type: ignore[attr-defined]
        if isinstance(known, Opaque):
            if type(known) is Task and not known.is_started and (not is_attribute or name not in _OF_COROUTINES):
                self._check_awaited(holder, known)
            return None
        member = element_type(known, name)
        is_changed = self._changes.any_object or name in self._changes.members
        if type(member) is not Missing:
            return None if is_changed else member
        kinds = kinds_of(known)
        if is_changed and kinds & OBJECT:
            return None
        methods = {method for kind, names in METHODS_OF_KINDS.items() if kinds & kind for method in names}
        if name in methods or name.startswith("__") if is_attribute else kinds & STRING and kinds != STRING:
            return None
        what = f"'{ast.unparse(holder)}'"
        if member.kinds:
            reason = f"{what} is {describe_kinds(member.kinds)}; it has no member '{name}'"
            self._report_operation(node, reason, did_you_mean(name, sorted(methods)) if is_attribute else None)
        else:
            has = f"; it has: {', '.join(member.known)}" if member.known else ""
            self._report_operation(node, f"{what} has no member '{name}'{has}", did_you_mean(name, member.known))
        return None

    def _element(self, known: Type, node: ast.expr) -> Type:
        """Return the type of the elements that a loop over a value gives."""
        kinds = kinds_of(known)
        if not self._check_awaited(node, known):
            return None
        if kinds and not kinds & (ARRAY | OBJECT | STRING | NULL):
            self._report_operation(node, f"a loop goes over a list; this is {describe_kinds(kinds)}")
        if not kinds & ~(STRING | OBJECT):
            return STRING if kinds == STRING or known is not OBJECT else None
        return self._items(known) if kinds == ARRAY else None

    def _binary(self, node: ast.BinOp, env: Env) -> Type:
        left, right = self.type_of(node.left, env), self.type_of(node.right, env)
        self._check_awaited(node.left, left)
        self._check_awaited(node.right, right)
        return self._operation(node, left, node.op, right)

    def _operation(self, node: ast.AST, left: Type, operator: ast.operator, right: Type) -> Type:
        problem = operation_problem(operator, kinds_of(left), kinds_of(right))
        if problem is not None:
            self._report_operation(node, problem)
        result = operation_result(operator, left, right)
        return ARRAY if type(result) is Each and self._changes.any_list else result

    def _compared(self, node: ast.Compare, env: Env) -> Type:
        known = self.type_of(node.left, env)
        left, is_plain = kinds_of(known), self._check_awaited(node.left, known)
        for operator, part in zip(node.ops, node.comparators, strict=True):
            known = self.type_of(part, env)
            right = kinds_of(known)
            if not right & OBJECT:
                self._flat.add(part)
            if is_plain and not isinstance(operator, (ast.Is, ast.IsNot)):
                is_plain = self._check_awaited(part, known)
            problem = operation_problem(operator, left, right)
            if problem is not None:
                self._report_operation(node, problem)
            left = right
        return None if self._has_classes else BOOLEAN

    def _logical(self, node: ast.BoolOp, env: Env) -> Type:
        inner = env
        known = []
        for part in node.values:
            known.append(self.type_of(part, inner))
            if tested := self._tested(part):
                inner = inner.forget(tested)
        self._bind_walruses(node, inner, env)
        return union_type(*known)

    def _negated(self, node: ast.UnaryOp, env: Env) -> Type:
        known = self.type_of(node.operand, env)
        self._check_awaited(node.operand, known)
        if isinstance(node.op, ast.Not):
            return BOOLEAN
        value: Any = known.value if type(known) is Lit else None
        if isinstance(node.op, ast.USub) and type(value) in (int, float):
            return Lit(-value)
        kinds = kinds_of(known)
        return kinds & (INTEGER | NUMBER) or None if not kinds & ~(INTEGER | NUMBER) else None

    def _chosen(self, node: ast.IfExp, env: Env) -> Type:
        self._test(node.test, env)
        inner = env.forget(self._tested(node.test))
        body, otherwise = self.type_of(node.body, inner), self.type_of(node.orelse, inner)
        for part, known, other in ((node.body, body, otherwise), (node.orelse, otherwise, body)):
            if kinds_of(other) not in (ALL, NULL):
                self._check_awaited(part, known)
        known = union_type(body, otherwise)
        self._bind_walruses(node, inner, env)
        return known

    def _walrus(self, node: ast.NamedExpr, env: Env) -> Type:
        known = self.type_of(node.value, env)
        self._bind(node.target, known, env)
        return env.get(node.target.id)

    def _tested(self, test: ast.expr) -> set[str]:
        """Return the names that may have any type behind a test that was checked."""
        return tested_names(test, self._flat)

    def _bind_walruses(self, node: ast.expr, inner: Env, env: Env) -> None:
        """Bind in an environment what `:=` bound in a copy of it."""
        for part in walk(node) if self._has_walruses and inner is not env else ():
            if isinstance(part, ast.NamedExpr) and part.target.id in inner:
                name = part.target.id
                env[name] = union_type(env[name], inner[name]) if name in env else inner[name]

    def _comprehension(self, node: Any, env: Env) -> Type:
        inner = env.copy()
        self._in_comprehension += 1
        for part in node.generators:
            element = self._element(self.type_of(part.iter, inner), part.iter)
            self._bind_quietly(part.target, element, inner)
            for test in part.ifs:
                self._test(test, inner)
                inner.update(dict.fromkeys(self._tested(test)))
        if isinstance(node, ast.DictComp):
            self.type_of(node.key, inner)
            self.type_of(node.value, inner)
            self._in_comprehension -= 1
            self._bind_walruses(node, inner, env)
            return OBJECT
        element = self.type_of(node.elt, inner)
        self._in_comprehension -= 1
        self._bind_walruses(node, inner, env)
        return None if isinstance(node, ast.SetComp) else Each(element)

    def _bind_quietly(self, target: ast.expr, known: Type, env: Env) -> None:
        """Bind the target of a comprehension, which no statement around it sees."""
        bound, self._bound = self._bound, []
        self._bind(target, known, env)
        self._bound = bound

    def _lambda(self, node: ast.Lambda, env: Env, *given: Type) -> Type:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.type_of(default, env)
        names = parameter_names(node.args)
        # It runs later, when names around it may have other values.
        inner = Env(self._scope_of(node, [], names), env, dict.fromkeys(names))
        has_defaults = bool(node.args.defaults or node.args.kw_defaults)
        if not has_defaults:
            inner.update({name: self._kept(name, known) for name, known in zip(names, given, strict=False)})
        return self.type_of(node.body, inner)

    def _lambda_value(self, node: ast.Lambda, env: Env) -> Type:
        self._lambda(node, env)
        return OPAQUE

    def _scope_of(self, node: ast.AST, body: list[ast.stmt], more: Iterable[str] = ()) -> ScopeNames:
        known = self._scopes.get(node)
        if known is None:
            known = self._scopes[node] = ScopeNames(body, more)
        return known

    # --- calls ---------------------------------------------------------------------------------

    def _call(self, node: ast.Call, env: Env) -> Type:
        tool = self._tool_name(node.func, env)
        if tool is not None:
            return Task(self._tool(tool, node, env))
        path = self._path(node.func, env)
        if path == "call_tool":
            return Task(self._named_tool(node, env))
        if path == VALUE and node.args and isinstance(node.args[0], ast.Constant):
            schema = self._values.get(str(node.args[0].value))
            return Sub(schema, schema) if schema else None
        if path.startswith("asyncio.") or path in _QUESTIONS:
            return self._concurrent(path.removeprefix("asyncio."), node, env)
        if path:
            args = self._kept_elements(self._arguments(node, env))
            if path in _OF_VALUES or path.partition(".")[0] in _OF_VALUES:
                for part, known in zip(node.args, args, strict=False):
                    self._check_awaited(part, known)
            return None if _UNSURE & {str(word.arg) for word in node.keywords} else function_result(path, args)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, env)
        called = self.type_of(node.func, env)
        if type(called) is Function:
            return self._local(called, node, env)
        self._arguments(node, env)
        if type(called) is Task:
            self._check_awaited(node.func, called)
        elif not isinstance(called, Opaque) and kinds_of(called) != ALL:
            what = f"'{ast.unparse(node.func)[:60]}'"
            self._report_operation(node, f"{what} is {describe_kinds(kinds_of(called))}; it cannot be called")
        return None

    def _arguments(self, node: ast.Call, env: Env, *before: Type) -> list[Type]:
        """Return the types of the positional arguments; a lambda gets the elements of the list before it."""
        parts = [part.value if isinstance(part, ast.Starred) else part for part in node.args]
        others = [part for part in parts if not isinstance(part, ast.Lambda)]
        known = {id(part): self.type_of(part, env) for part in others}
        elements = [*before]
        elements += [self._items(known[id(part)]) for part in others if kinds_of(known[id(part)]) == ARRAY]
        words: dict[str | None, Type] = {}
        for keyword in node.keywords:
            if isinstance(keyword.value, ast.Lambda):
                self._lambda(keyword.value, env, *elements[:1])
            else:
                words[keyword.arg] = self.type_of(keyword.value, env)
        for part in parts:
            if isinstance(part, ast.Lambda):
                known[id(part)] = self._lambda(part, env, *elements)
        # Kept, because a second look at nested calls would double the work for each of them.
        self._words, self._spread = words, [known[id(part)] for part in parts]
        return [None] if any(isinstance(part, ast.Starred) for part in node.args) else self._spread

    def _method(self, node: ast.Call, function: ast.Attribute, env: Env) -> Type:
        holder = self.type_of(function.value, env)
        kinds = kinds_of(holder)
        args = self._arguments(node, env, *([self._items(holder)] if function.attr == "sort" else []))
        is_method = any(kinds & kind and function.attr in names for kind, names in METHODS_OF_KINDS.items())
        if isinstance(holder, Opaque):
            self._member(function, holder, function.attr, True)
            return holder.of if type(holder) is Task and function.attr == "result" else None
        if function.attr in _TASKS and args and type(args[0]) is Task:  # of a TaskGroup or a loop
            return Task(args[0].of, is_started=True)
        if not is_method and kinds and not kinds & ~(STRING | ARRAY | INTEGER | NUMBER | BOOLEAN | OBJECT):
            self._member(function, holder, function.attr, True)
            return None
        return None if node.keywords else method_result(self._kept_elements([holder])[0], function.attr, args)

    def _concurrent(self, name: str, node: ast.Call, env: Env) -> Type:
        known = self._arguments(node, env)
        results = [part.of if type(part) is Task else None for part in known]
        if name in _TASKS:
            return Task(results[0] if results else None, is_started=True)
        if name == "wait_for" and results and type(known[0]) is Task:
            return Task(results[0])
        if name == "run":
            return results[0] if results else None
        if name in ("sleep", "wait_for", "approve", "wait"):
            return Task(None)
        if name != "gather":
            return None
        for part, type_ in zip(node.args, known, strict=False) if len(known) == len(node.args) else ():
            if not isinstance(type_, Opaque) and kinds_of(type_) != ALL:
                self._report_operation(part, f"gather takes calls; this is {describe_kinds(kinds_of(type_))}")
        if node.keywords:  # return_exceptions
            return Task(None, is_started=True)
        if not any(isinstance(part, ast.Starred) for part in node.args):
            return Task(results, is_started=True)
        return Task(self._gathered(), is_started=True)

    def _gathered(self) -> Type:
        """Return the type of the list of results of `gather(*tasks)`."""
        item = self._items(self._spread[0]) if len(self._spread) == 1 else None
        return Each(item.of) if type(item) is Task else ARRAY

    def _local(self, function: Function, node: ast.Call, env: Env) -> Type:
        """Check the body of a local function with the types of its arguments."""
        takes, name = function.node.args, function.node.name
        for problem in problems_of_local_call(name, takes, node):
            if not self._expecting:
                self._add(problem)
        args = self._arguments(node, env)
        own: dict[str, Type] = dict.fromkeys(parameter_names(takes))
        if not any(isinstance(part, ast.Starred) for part in node.args):
            names = [part.arg for part in (*takes.posonlyargs, *takes.args)]
            own |= dict(zip(names, args, strict=False))
        own |= {name: known for name, known in self._words.items() if name in own}
        self._called.add(function.node)
        self._calls += 1
        is_async = isinstance(function.node, ast.AsyncFunctionDef)
        result: Type = None
        if function.node not in self._stack and len(self._stack) < _MAX_STACK and self._calls <= _MAX_CALLS:
            result = self._inside(function, own)
        if yields(function.node.body):
            return None
        return Task(result) if is_async else result

    def _inside(self, function: Function, own: Mapping[str, Type]) -> Type:
        """Return the type of what a function returns for these arguments."""
        node = function.node
        scope = self._scope_of(node, node.body, parameter_names(node.args))
        inner = Env(scope, function.env, {name: self._kept(name, known) for name, known in own.items()})
        bound, returned = self._bound, self._returned
        self._bound, self._returned = [], []
        self._stack.append(node)
        self._block(node.body, inner)
        self._stack.pop()
        results = self._returned if always_leaves(node.body) else [*self._returned, Lit(None)]
        self._bound, self._returned = bound, returned
        return union_type(*results)

    def _named_tool(self, node: ast.Call, env: Env) -> Type:
        name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        fields = node.args[1] if len(node.args) > 1 else None
        found = next((tool for tool, entry in self.tools.items() if name in (tool, entry.id)), None)
        if found is None or not isinstance(fields, ast.Dict) or node.keywords:
            self._arguments(node, env)
            return None
        return self._tool(found, ast.copy_location(ast.Call(node.func, [], [ast.keyword(None, fields)]), node), env)

    def _tool(self, name: str, node: ast.Call, env: Env) -> Type:
        named, problems = named_arguments(name, self.tools[name], node)
        for problem in problems:
            self._add(problem)
        checked = {id(value) for _, value in named}
        for part in (*node.args, *(keyword.value for keyword in node.keywords)):
            if id(part) not in checked and not isinstance(part, ast.Dict):
                self.type_of(part.value if isinstance(part, ast.Starred) else part, env)
        return self._called_tool(name, named, env)

    def _called_tool(self, name: str, named: Named, env: Env) -> Type:
        card = self.cards(self.tools[name].id)
        takes: Sub | None = card.takes if card is not None else None
        for parameter, node in named:
            known = self.type_of(node, env)
            if not self._check_awaited(node, known) or takes is None or parameter is None:
                continue
            is_known, target = takes.property(parameter)
            if not isinstance(node, (ast.Dict, ast.Await)):
                known = without_elements(known) if type(known) is dict and self._changes.members else known
                known = self._kept_elements([known])[0]
            if is_known and target is not None:
                self._argument_check.check(name, parameter, node, known, target)
        return card.gives if card is not None else None


def _readable(target: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Name(target.id, ast.Load()), target) if isinstance(target, ast.Name) else target


_UNSURE: Final = frozenset(("default", "ndigits", "start"))
"""Arguments that change the type of a result."""
_OF_VALUES: Final = frozenset(
    [
        *("abs", "all", "any", "csv", "datetime", "dict", "enumerate", "float", "int", "io", "json", "len", "list"),
        *("math", "max", "min", "next", "random", "range", "re", "reversed", "round", "set", "sorted", "statistics"),
        *("str", "sum", "textwrap", "tuple"),
    ]
)
"""The functions and modules that take no calls."""
_OF_COROUTINES: Final = frozenset(("close", "send", "throw"))
_STATEMENTS: Final[dict[type[ast.AST], Any]] = {
    ast.AnnAssign: TypeCheck._assign,
    ast.Assert: TypeCheck._parts,
    ast.Assign: TypeCheck._assign,
    ast.AsyncFor: TypeCheck._async_for,
    ast.AsyncFunctionDef: TypeCheck._define,
    ast.AsyncWith: TypeCheck._with,
    ast.AugAssign: TypeCheck._augment,
    ast.ClassDef: TypeCheck._class,
    ast.Delete: TypeCheck._delete,
    ast.Expr: TypeCheck._expression,
    ast.For: TypeCheck._for,
    ast.FunctionDef: TypeCheck._define,
    ast.If: TypeCheck._if,
    ast.Match: TypeCheck._match,
    ast.Raise: TypeCheck._parts,
    ast.Return: TypeCheck._return,
    ast.Try: TypeCheck._try,
    ast.TryStar: TypeCheck._try,
    ast.While: TypeCheck._while,
    ast.With: TypeCheck._with,
}
_EXPRESSIONS: Final[dict[type[ast.AST], Any]] = {
    ast.Attribute: TypeCheck._attribute,
    ast.Await: TypeCheck._awaited,
    ast.BinOp: TypeCheck._binary,
    ast.BoolOp: TypeCheck._logical,
    ast.Call: TypeCheck._call,
    ast.Compare: TypeCheck._compared,
    ast.Constant: TypeCheck._constant,
    ast.Dict: TypeCheck._dict,
    ast.IfExp: TypeCheck._chosen,
    ast.JoinedStr: TypeCheck._text,
    ast.Lambda: TypeCheck._lambda_value,
    ast.List: TypeCheck._list,
    ast.Name: TypeCheck._name,
    ast.NamedExpr: TypeCheck._walrus,
    ast.Subscript: TypeCheck._subscript,
    ast.Tuple: TypeCheck._list,
    ast.UnaryOp: TypeCheck._negated,
    **dict.fromkeys(COMPREHENSIONS, TypeCheck._comprehension),
}
