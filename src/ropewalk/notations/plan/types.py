"""Types of a program, inferred on its syntax, where every place is known.

The schemas of the tools are the types. Only what can never fit is a problem: a value that may fit is checked before
the call, at run time. A type is one of `check.types`; None is anything.

To teach it a function or method, add its result to `type_rules`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from ...check.types import (
    ARRAY,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Each,
    Missing,
    Sub,
    Type,
    describe_kinds,
    element_type,
    items_of,
    kinds_of,
)
from ...expr.ast import Lit
from ...expr.python.scope import COMPREHENSIONS, parameter_names
from ...values import did_you_mean
from .aliases import MAX_DEPTH, changed_places, place_of
from .argument_types import ArgumentCheck
from .arguments import named_arguments
from .facts import facts_of, facts_of_all, parts_of
from .narrowing import always_leaves, expects_failure, tested_names
from .program import FUNCTIONS_OF_PROGRAMS, PlanError, Program
from .type_rules import (
    METHODS_OF_KINDS,
    any_of,
    changeable,
    element_at,
    function_result,
    method_result,
    operation_problem,
    operation_result,
)

Env: TypeAlias = dict[str, Type]
Functions: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Cards: TypeAlias = Callable[[str], Any]

_SCALAR: Final = (str, int, float, bool, type(None))
_MAX_STACK: Final = 6
_MAX_CALLS: Final = 200


class TypeCheck:
    """Infer the types of one program and collect what can never fit."""

    # `problems`: What is wrong, each at its place.
    # `warnings`: What is probably wrong.

    def __init__(
        self,
        program: Program,
        cards: Cards,
        inputs: Mapping[str, Any] | None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        self.program, self.cards, self._values = program, cards, values or {}
        self.problems: list[PlanError] = []
        self.warnings: list[PlanError] = []
        self.functions: dict[str, Functions] = {node.name: node for node in program.all(*FUNCTIONS_OF_PROGRAMS)}
        self._places = changed_places(program)
        self._changed = {name for name, _ in self._places}
        self._added, self._grows = _added_members(program)
        self._quiet = self._expecting = 0
        self._calls = 0
        self._stack: list[str] = []
        self._called: set[str] = set()
        self._returned: list[Type] = []
        self._bound: list[Env] = []
        self._seen: set[tuple[int, int, str]] = set()
        self._argument_check = ArgumentCheck(self._report)
        properties = inputs.get("properties", {}) if isinstance(inputs, Mapping) else {}
        self.env: Env = {name: Sub(inputs, properties[name]) if properties.get(name) else None for name in properties}

    def run(self) -> None:
        """Check the whole program, and the functions that nothing calls."""
        self._block(self.program.tree.body, self.env)
        for name, function in self.functions.items():
            if name not in self._called:
                self._inside(function, dict.fromkeys(parameter_names(function.args)), self.env)

    # --- problems ------------------------------------------------------------------------------

    def _report(self, node: ast.AST, message: str, suggestion: str | None = None, warning: bool = False) -> None:
        problem = PlanError(node, message, suggestion)
        key = (problem.line, problem.column, message)
        if not self._quiet and key not in self._seen:
            self._seen.add(key)
            (self.warnings if warning else self.problems).append(problem)

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
            self._bind(target, known, env)

    def _augment(self, node: ast.AugAssign, env: Env) -> None:
        right = self.type_of(node.value, env)
        left = self.type_of(_readable(node.target), env)
        result = self._operation(node, left, node.op, right)
        if isinstance(node.target, ast.Name):
            self._bind(node.target, result, env)

    def _expression(self, node: ast.Expr, env: Env) -> None:
        self.type_of(node.value, env)

    def _return(self, node: ast.Return, env: Env) -> None:
        self._returned.append(Lit(None) if node.value is None else self.type_of(node.value, env))

    def _parts(self, node: ast.stmt, env: Env) -> None:
        for part in parts_of(node):
            if isinstance(part, ast.expr):
                self.type_of(part, env)

    def _if(self, node: ast.If, env: Env) -> None:
        self.type_of(node.test, env)
        then, otherwise = self._after_test(node.test, env), self._after_test(node.test, env)
        self._block(node.body, then)
        self._block(node.orelse, otherwise)
        arms = [arm for arm, body in ((then, node.body), (otherwise, node.orelse)) if not always_leaves(body)]
        self._join(env, arms or [then])

    def _after_test(self, test: ast.expr, env: Env) -> Env:
        """Return the environment behind a test."""

        # A name that the test asks about may be of any type there.
        return {**env, **dict.fromkeys(tested_names(test))}

    def _join(self, env: Env, arms: Sequence[Env]) -> None:
        """Let each name have one of the types that it has in the arms."""
        for name in dict.fromkeys(name for arm in arms for name in arm):
            known = [arm[name] for arm in arms if name in arm]
            env[name] = known[0] if all(one is known[0] for one in known) else any_of(known)

    def _for(self, node: ast.For, env: Env) -> None:
        element = self._element(self.type_of(node.iter, env), node.iter)
        self._loop(node, env, lambda inner: self._bind(node.target, element, inner))

    def _while(self, node: ast.While, env: Env) -> None:
        self._loop(node, env, lambda inner: self.type_of(node.test, inner))

    def _loop(self, node: ast.For | ast.While, env: Env, begin: Callable[[Env], object]) -> None:
        """Check a loop: names that its body binds begin a round with what they had before, or got in any round."""
        bound = facts_of_all(node.body).bound & env.keys()
        tested = tested_names(node.test) if isinstance(node, ast.While) else set()
        if bound:
            inner = {**env, **dict.fromkeys(bound)}
            with self._silent():
                got = self._bindings(lambda: self._round(begin, node.body, inner))
            for name in bound:
                env[name] = any_of([env[name], got.get(name)])
            if self._quiet:  # a second pass only finds problems, and would double the work for each outer loop
                env |= {name: known for name, known in got.items() if name not in bound}
                self._block(node.orelse, env)
                return
        inner = {**env, **dict.fromkeys(tested)}
        got = self._bindings(lambda: self._round(begin, node.body, inner))
        for name, known in got.items():
            env[name] = any_of([env[name], known]) if name in env else known
        self._block(node.orelse, env)

    def _round(self, begin: Callable[[Env], object], body: Sequence[ast.stmt], env: Env) -> None:
        begin(env)
        self._block(body, env)

    def _bindings(self, emit: Callable[[], object]) -> Env:
        """Return every type that each name is bound to meanwhile."""
        self._bound.append({})
        emit()
        got = self._bound.pop()
        if self._bound:
            outer = self._bound[-1]
            for name, known in got.items():
                outer[name] = any_of([outer[name], known]) if name in outer else known
        return got

    def _try(self, node: ast.Try, env: Env) -> None:
        inner = dict(env)
        expects = expects_failure(node)
        self._expecting += expects
        got = self._bindings(lambda: self._block(node.body, inner))
        self._expecting -= expects
        # At a handler, any part of the body may have run.
        failed = {**env, **{name: any_of([env[name], one]) if name in env else one for name, one in got.items()}}
        arms = []
        for handler in node.handlers:
            arm = {**failed, **({handler.name: None} if handler.name else {})}
            self._block(handler.body, arm)
            if not always_leaves(handler.body):
                arms.append(arm)
        self._block(node.orelse, inner)
        self._join(env, [inner, *arms] if not always_leaves([*node.body, *node.orelse]) or not arms else arms)
        self._block(node.finalbody, {**env, **failed} if node.finalbody and not arms else env)

    def _with(self, node: ast.AsyncWith, env: Env) -> None:
        for item in node.items:
            self.type_of(item.context_expr, env)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, None, env)
        self._block(node.body, env)

    def _match(self, node: ast.Match, env: Env) -> None:
        self.type_of(node.subject, env)
        arms = []
        for case in node.cases:
            names = facts_of(case.pattern).bound | facts_of(node.subject).names
            arm = {**env, **dict.fromkeys(names)}
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
                    self._bind(part, items_of(known) if has_star else element_at(known, index), env)
        elif isinstance(target, (ast.Subscript, ast.Attribute)):
            self.type_of(target.value, env)

    def _bind_name(self, name: str, known: Type, env: Env) -> None:
        if name in self._changed:
            known = changeable(known)
        env[name] = known
        if self._bound:
            got = self._bound[-1]
            got[name] = any_of([got[name], known]) if name in got else known

    # --- expressions ---------------------------------------------------------------------------

    def type_of(self, node: ast.expr, env: Env) -> Type:
        """Return the type of an expression, and report what can never fit in it."""
        rule = _EXPRESSIONS.get(type(node))
        if rule is not None:
            return rule(self, node, env)
        for part in parts_of(node):
            if isinstance(part, ast.expr):
                self.type_of(part, env)
        return None

    def _constant(self, node: ast.Constant, env: Env) -> Type:
        return Lit(node.value) if isinstance(node.value, _SCALAR) else None

    def _name(self, node: ast.Name, env: Env) -> Type:
        return env.get(node.id)

    def _awaited(self, node: ast.Await, env: Env) -> Type:
        return self.type_of(node.value, env)

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
                self.type_of(part.value, env)
        return STRING

    def _attribute(self, node: ast.Attribute, env: Env) -> Type:
        if self._is_outside(node, env):
            return None
        return self._member(node, self.type_of(node.value, env), node.attr, True)

    def _is_outside(self, node: ast.expr, env: Env) -> bool:
        """Return True for a member of a module or a server."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id not in env and node.id not in self.program.names

    def _subscript(self, node: ast.Subscript, env: Env) -> Type:
        known = self.type_of(node.value, env)
        if isinstance(node.slice, ast.Slice):
            for part in parts_of(node.slice):
                self.type_of(part, env)  # type: ignore[arg-type]
            kinds = kinds_of(known)
            return STRING if kinds == STRING else Each(items_of(known)) if kinds == ARRAY else None
        key = self.type_of(node.slice, env)
        value = key.value if type(key) is Lit else None
        if type(value) is str:
            return self._member(node, known, value, False)
        kinds = kinds_of(known)
        if kinds and not kinds & (ARRAY | OBJECT | STRING | NULL):
            self._report_operation(node, f"{describe_kinds(kinds)} has no elements")
        if kinds == ARRAY:
            return element_at(known, value) if type(value) is int else items_of(known)
        return STRING if kinds == STRING else None

    def _member(self, node: ast.expr, known: Type, name: str, is_attribute: bool) -> Type:
        member = element_type(known, name)
        is_changed = self._may_be_changed(node.value)  # type: ignore[attr-defined]
        if type(member) is not Missing:
            return None if is_changed and name in self._added else member
        if is_changed and (name in self._added or self._grows):
            return None
        kinds = kinds_of(known)
        methods = {method for kind, names in METHODS_OF_KINDS.items() if kinds & kind for method in names}
        if (is_attribute and name in methods) or (kinds & STRING and not is_attribute and kinds != STRING):
            return None
        what = f"'{ast.unparse(node.value)}'"  # type: ignore[attr-defined]
        if member.kinds:
            reason = f"{what} is {describe_kinds(member.kinds)}; it has no member '{name}'"
            self._report_operation(node, reason, did_you_mean(name, sorted(methods)) if is_attribute else None)
        else:
            has = f"; it has: {', '.join(member.known)}" if member.known else ""
            self._report_operation(node, f"{what} has no member '{name}'{has}", did_you_mean(name, member.known))
        return None

    def _may_be_changed(self, node: ast.expr) -> bool:
        """Return True if statements may have added members to what an expression gives."""
        inner = node
        while isinstance(inner, (ast.Attribute, ast.Subscript, ast.Await)):
            inner = inner.value
        if isinstance(inner, ast.Call) and self.program.tool_name(inner.func) is not None:
            return False  # nothing else holds what a tool gives
        place = place_of(node)
        if isinstance(inner, ast.Name) and place is not None:
            return place in self._places or place[1] > MAX_DEPTH
        names = facts_of(node).names
        return not self._changed.isdisjoint(names) or (bool(self._changed) and not names.isdisjoint(self.functions))

    def _element(self, known: Type, node: ast.expr) -> Type:
        """Return the type of the elements that a loop over a value gives."""
        kinds = kinds_of(known)
        if kinds and not kinds & (ARRAY | OBJECT | STRING | NULL):
            self._report_operation(node, f"a loop goes over a list; this is {describe_kinds(kinds)}")
        if not kinds & ~(STRING | OBJECT):
            return STRING if kinds == STRING or known is not OBJECT else None
        return items_of(known) if kinds == ARRAY else None

    def _binary(self, node: ast.BinOp, env: Env) -> Type:
        return self._operation(node, self.type_of(node.left, env), node.op, self.type_of(node.right, env))

    def _operation(self, node: ast.AST, left: Type, operator: ast.operator, right: Type) -> Type:
        problem = operation_problem(operator, kinds_of(left), kinds_of(right))
        if problem is not None:
            self._report_operation(node, problem)
        return operation_result(operator, left, right)

    def _compared(self, node: ast.Compare, env: Env) -> Type:
        left = kinds_of(self.type_of(node.left, env))
        for operator, part in zip(node.ops, node.comparators, strict=True):
            right = kinds_of(self.type_of(part, env))
            if isinstance(operator, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                problem = operation_problem(operator, left, right)
                if problem is not None:
                    self._report_operation(node, problem)
            left = right
        return BOOLEAN

    def _logical(self, node: ast.BoolOp, env: Env) -> Type:
        inner = env
        known = []
        for part in node.values:
            known.append(self.type_of(part, inner))
            if tested := tested_names(part):
                inner = {**inner, **dict.fromkeys(tested)}
        return any_of(known)

    def _negated(self, node: ast.UnaryOp, env: Env) -> Type:
        known = self.type_of(node.operand, env)
        if isinstance(node.op, ast.Not):
            return BOOLEAN
        value: Any = known.value if type(known) is Lit else None
        if isinstance(node.op, ast.USub) and type(value) in (int, float):
            return Lit(-value)
        kinds = kinds_of(known)
        return kinds & (INTEGER | NUMBER) or None if not kinds & ~(INTEGER | NUMBER) else None

    def _chosen(self, node: ast.IfExp, env: Env) -> Type:
        self.type_of(node.test, env)
        inner = self._after_test(node.test, env)
        return any_of([self.type_of(node.body, inner), self.type_of(node.orelse, inner)])

    def _walrus(self, node: ast.NamedExpr, env: Env) -> Type:
        known = self.type_of(node.value, env)
        self._bind(node.target, known, env)
        return env.get(node.target.id)

    def _comprehension(self, node: Any, env: Env) -> Type:
        inner = dict(env)
        for part in node.generators:
            element = self._element(self.type_of(part.iter, inner), part.iter)
            self._bind_quietly(part.target, element, inner)
            for test in part.ifs:
                self.type_of(test, inner)
                inner |= dict.fromkeys(tested_names(test))
        if isinstance(node, ast.DictComp):
            self.type_of(node.key, inner)
            self.type_of(node.value, inner)
            return OBJECT
        element = self.type_of(node.elt, inner)
        return None if isinstance(node, ast.SetComp) else Each(element)

    def _bind_quietly(self, target: ast.expr, known: Type, env: Env) -> None:
        """Bind the target of a comprehension, which no statement around it sees."""
        bound, self._bound = self._bound, []
        self._bind(target, known, env)
        self._bound = bound

    def _lambda(self, node: ast.Lambda, env: Env, *given: Type) -> Type:
        names = parameter_names(node.args)
        return self.type_of(node.body, {**env, **dict.fromkeys(names), **dict(zip(names, given, strict=False))})

    # --- calls ---------------------------------------------------------------------------------

    def _call(self, node: ast.Call, env: Env) -> Type:
        program = self.program
        tool = program.tool_name(node.func)
        if tool is not None:
            return self._tool(tool, node, env)
        path = program.path(node.func)
        if path == "call_tool":
            return self._named_tool(node, env)
        if program.world_call(node) == "value" and node.args and isinstance(node.args[0], ast.Constant):
            schema = self._values.get(str(node.args[0].value))
            return Sub(schema, schema) if schema else None
        if isinstance(node.func, ast.Name) and node.func.id in self.functions and node.func.id not in env:
            return self._local(self.functions[node.func.id], node, env)
        if path.startswith("asyncio."):
            return self._concurrent(path.removeprefix("asyncio."), node, env)
        if isinstance(node.func, ast.Attribute) and not self._is_outside(node.func, env):
            return self._method(node, node.func, env)
        args = self._arguments(node, env)
        return function_result(path, args) if not isinstance(node.func, ast.Name) or node.func.id not in env else None

    def _arguments(self, node: ast.Call, env: Env) -> list[Type]:
        """Return the types of the positional arguments."""

        # A lambda gets the elements of the list before it.
        parts = [part.value if isinstance(part, ast.Starred) else part for part in node.args]
        others = [part for part in parts if not isinstance(part, ast.Lambda)]
        known = {id(part): self.type_of(part, env) for part in others}
        elements = [items_of(known[id(part)]) for part in others if kinds_of(known[id(part)]) == ARRAY]
        for keyword in node.keywords:
            if isinstance(keyword.value, ast.Lambda):
                self._lambda(keyword.value, env, *elements[:1])
            else:
                self.type_of(keyword.value, env)
        for part in parts:
            if isinstance(part, ast.Lambda):
                known[id(part)] = self._lambda(part, env, *elements)
        if any(isinstance(part, ast.Starred) for part in node.args):
            return [None]
        return [known[id(part)] for part in parts]

    def _method(self, node: ast.Call, function: ast.Attribute, env: Env) -> Type:
        holder = self.type_of(function.value, env)
        kinds = kinds_of(holder)
        if isinstance(function.value, ast.Name) and function.attr == "sort":
            for keyword in node.keywords:
                if isinstance(keyword.value, ast.Lambda):
                    self._lambda(keyword.value, env, items_of(holder))
        args = self._arguments(node, env)
        is_method = any(kinds & kind and function.attr in names for kind, names in METHODS_OF_KINDS.items())
        if not is_method and kinds and not kinds & ~(STRING | ARRAY | INTEGER | NUMBER | BOOLEAN | OBJECT):
            self._member(function, holder, function.attr, True)
            return None
        return method_result(holder, function.attr, args)

    def _concurrent(self, name: str, node: ast.Call, env: Env) -> Type:
        if name != "gather":
            known = [self.type_of(part, env) for part in node.args]
            return known[0] if known and name in ("wait_for", "create_task", "ensure_future", "run") else None
        stars = [isinstance(part, ast.Starred) for part in node.args]
        known = [self.type_of(part.value if isinstance(part, ast.Starred) else part, env) for part in node.args]
        if node.keywords:  # return_exceptions
            return None
        if not any(stars):
            return known
        return Each(items_of(known[0])) if len(known) == 1 else None

    def _local(self, function: Functions, node: ast.Call, env: Env) -> Type:
        """Check the body of a local function with the types of its arguments."""
        args = self._arguments(node, env)
        names = [part.arg for part in (*function.args.posonlyargs, *function.args.args)]
        own: Env = dict.fromkeys(parameter_names(function.args))
        if not any(isinstance(part, ast.Starred) for part in node.args):
            own |= dict(zip(names, args, strict=False))
        for keyword in node.keywords:
            if keyword.arg in own:
                own[keyword.arg] = self.type_of(keyword.value, env)
        self._called.add(function.name)
        self._calls += 1
        if function.name in self._stack or len(self._stack) >= _MAX_STACK or self._calls > _MAX_CALLS:
            return None
        return self._inside(function, own, env)

    def _inside(self, function: Functions, own: Env, env: Env) -> Type:
        bound, returned = self._bound, self._returned
        self._bound, self._returned = [], []
        self._stack.append(function.name)
        inner = {**env, **{name: None for name in facts_of_all(function.body).bound if name in env}}
        for name, known in own.items():
            inner[name] = changeable(known) if name in self._changed else known
        self._block(function.body, inner)
        self._stack.pop()
        results = self._returned if always_leaves(function.body) else [*self._returned, Lit(None)]
        self._bound, self._returned = bound, returned
        return any_of(results)

    def _named_tool(self, node: ast.Call, env: Env) -> Type:
        name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        fields = node.args[1] if len(node.args) > 1 else None
        found = next((tool for tool, entry in self.program.tools.items() if name in (tool, entry.id)), None)
        if found is None or not isinstance(fields, ast.Dict):
            self._arguments(node, env)
            return None
        pairs = [
            (key.value, value)
            for key, value in zip(fields.keys, fields.values, strict=True)
            if isinstance(key, ast.Constant)
        ]
        return self._called_tool(found, pairs, env)

    def _tool(self, name: str, node: ast.Call, env: Env) -> Type:
        try:
            named = named_arguments(name, self.program.tools[name], node)
        except PlanError:  # reported before
            named = [(keyword.arg, keyword.value) for keyword in node.keywords]
            for part in node.args:
                self.type_of(part.value if isinstance(part, ast.Starred) else part, env)
        return self._called_tool(name, named, env)

    def _called_tool(self, name: str, named: Sequence[tuple[Any, ast.expr]], env: Env) -> Type:
        card = self.cards(self.program.tools[name].id)
        takes: Sub | None = card.takes if card is not None else None
        for parameter, node in named:
            known = self.type_of(node, env)
            if takes is None or parameter is None:
                continue
            is_known, target = takes.property(parameter)
            if is_known and target is not None:
                self._argument_check.check(name, parameter, node, known, target)
        return card.gives if card is not None else None


def _added_members(program: Program) -> tuple[frozenset[str], bool]:
    """Return the members that statements of the program add, and whether they may add any others."""
    names = set()
    grows = False
    for node in program.all(ast.Subscript):
        if not isinstance(node.ctx, ast.Load):
            if isinstance(node.slice, ast.Constant):
                names.add(str(node.slice.value))
            else:
                grows = True
    names |= {node.attr for node in program.all(ast.Attribute) if not isinstance(node.ctx, ast.Load)}
    methods = {node.func.attr for node in program.all(ast.Call) if isinstance(node.func, ast.Attribute)}
    return frozenset(names), grows or bool(methods & {"update", "setdefault"})


def _readable(target: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Name(target.id, ast.Load()), target) if isinstance(target, ast.Name) else target


_STATEMENTS: Final[dict[type[ast.AST], Any]] = {
    ast.AnnAssign: TypeCheck._assign,
    ast.Assert: TypeCheck._parts,
    ast.Assign: TypeCheck._assign,
    ast.AsyncWith: TypeCheck._with,
    ast.AugAssign: TypeCheck._augment,
    ast.Expr: TypeCheck._expression,
    ast.For: TypeCheck._for,
    ast.If: TypeCheck._if,
    ast.Match: TypeCheck._match,
    ast.Raise: TypeCheck._parts,
    ast.Return: TypeCheck._return,
    ast.Try: TypeCheck._try,
    ast.While: TypeCheck._while,
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
    ast.Lambda: TypeCheck._lambda,
    ast.List: TypeCheck._list,
    ast.Name: TypeCheck._name,
    ast.NamedExpr: TypeCheck._walrus,
    ast.Subscript: TypeCheck._subscript,
    ast.Tuple: TypeCheck._list,
    ast.UnaryOp: TypeCheck._negated,
    **dict.fromkeys(COMPREHENSIONS, TypeCheck._comprehension),
}
