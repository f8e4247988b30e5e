"""A program as the nodes of a flow: straight lines of calls, choices and simple loops, for other notations.

The nodes make the same calls and give the same value as the program; where a call of a `gather` fails, the flow cancels
the others. Everything else has no equal: the problem of each statement says so at its line.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ...check.approvals import approvals_read
from ...errors import Problem
from ...expr.ast import NULL, Arr, Lit, Obj, Ref, select
from ...ir import Flow, Graph, Node
from ...ops import Block, Branch, Call, Compute, Loop, Map, Program, Sleep, Wait
from ...plans.read.problems import problem_at
from ...plans.read.tools import RECORD_TOOL
from ...values import Json
from .expressions import APPROVAL, BUILTINS, NoEqual, Translation, Value, may_fail, refuse
from .source import located, parse
from .write_types import LIST, NONE, NUMBER, UNKNOWN, Certain, either, of_kind, of_schema

Names = dict[str, Value]
Schemas = Callable[[str], Json]
_LANGUAGE: Final = ("asyncio", "approve", "wait_for")
_QUESTIONS: Final = ("approve", "wait_for")
_INSTEAD: Final[Mapping[type[ast.AST], str]] = {
    ast.While: "`while`; write `for` over a list",
    ast.Try: "`try`; a node has a fallback of its own",
    ast.Raise: "`raise`",
    ast.FunctionDef: "a local function; write its statements where it is called",
    ast.AsyncFunctionDef: "a local function; write its statements where it is called",
    ast.Break: "`break`; filter the list first",
    ast.Continue: "`continue`; write `if` around the rest of the loop",
}
_MODEL: Final = "a program of a model is only read where it runs; save it as a file of yours to convert it"


def without_program(flow: Flow, op: Program, kind: str, schemas: Schemas) -> tuple[Flow, list[Problem]]:
    """Return the flow of a plan with nodes in place of its program, and the parts without an equal."""
    # `schemas`: Returns the schema of what a tool gives; None if it is not known.
    if op.contained:
        return replace(flow, body=Graph(nodes=(), ordered=True)), [Problem(path="code", message=_MODEL, column=1)]
    writer = _Nodes(op, flow, schemas)
    body = writer.program(parse(op.text).body)
    translated = replace(flow, body=body)
    unread = writer.answers.keys() - approvals_read(translated)
    wrong = writer.wrong or [NoEqual(writer.answers[id], "an answer that nothing tests") for id in unread]
    article = "an" if kind[0] in "aeiou" else "a"
    problems = [problem_at(error.node, f"no equal in {article} {kind}: {error.reason}") for error in wrong]
    return translated, located(op.text, sorted(problems, key=lambda problem: (problem.line, problem.column)))


class _Nodes:
    """Makes the nodes of one program."""

    # wrong: What has no equal, one for each statement.
    # answers: The answers to approvals that have a name, by the ids of their nodes.

    def __init__(self, op: Program, flow: Flow, schemas: Schemas) -> None:
        self.wrong: list[NoEqual] = []
        self.answers: dict[str, ast.AST] = {}
        self._tools = {tool.name: (tool.parameters or (), region) for tool, region in op.tools}
        self._schemas = schemas
        self._tree = parse(op.text)
        self._reads = Counter(node.id for node in _names(self._tree, ast.Load))
        self._inputs = [name for name, _ in op.inputs.fields] if isinstance(op.inputs, Obj) else []
        self._bound = {*self._inputs, *(node.id for node in _names(self._tree, ast.Store))}
        imported = (alias for alias in ast.walk(self._tree) if isinstance(alias, ast.alias))
        self._bound |= {alias.asname or alias.name for alias in imported if alias.asname or alias.name != "asyncio"}
        self._ids = {"result"}  # a node of this name has a meaning in chains
        schema: Any = flow.input_schema if isinstance(flow.input_schema, dict) else {}
        self._schema, self._required = schema.get("properties", {}), schema.get("required", ())
        self._empty: dict[str, Value] = {}

    def program(self, body: list[ast.stmt]) -> Graph:
        """Return the region of the whole program."""
        names: Names = {}
        for name in self._inputs:
            certain = of_schema(self._schema.get(name))
            is_given = name in self._required or "default" in (self._schema.get(name) or {})
            known = certain if is_given else either([certain, NONE])
            names[name] = Value(Ref("input", (name,)), known)
        if body and isinstance(body[-1], ast.Expr):
            body = [*body[:-1], ast.copy_location(ast.Return(body[-1].value), body[-1])]
        for node in _names(self._tree, ast.Store):
            if node.id in BUILTINS:
                self.wrong.append(NoEqual(node, f"the name `{node.id}`, which is a function of Python"))
        return self._region(body, names, {})

    def _region(self, body: list[ast.stmt], names: Names, empty: Names) -> Graph:
        nodes: list[Node] = []
        outer, self._empty = self._empty, dict(empty)
        value = self._block(body, names, nodes)
        self._empty = outer
        return Graph(nodes=tuple(nodes), ordered=True, result=value)

    def _block(self, body: list[ast.stmt], names: Names, nodes: list[Node]) -> Any:
        """Add the nodes of statements, and return the value of their `return`."""
        for i, statement in enumerate(body):
            count, lines = len(nodes), len(self.wrong)
            try:
                if isinstance(statement, ast.Return):
                    return NULL if statement.value is None else self._value(statement.value, names, nodes).expr
                if isinstance(statement, ast.If) and _returns(statement):
                    return self._fork(statement, body[i + 1 :], names, nodes)
                self._statement(statement, names, nodes)
            except NoEqual as error:
                # What is left out gives null. A statement has one problem, also where those inside of it have some.
                del nodes[count:]
                self.wrong[lines:] = [error]
                names |= {name.id: Value(NULL, NONE) for name in _names(statement, ast.Store)}
        return NULL

    def _statement(self, node: ast.stmt, names: Names, nodes: list[Node]) -> None:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(node, ast.Assign) and len(node.targets) > 1:
                refuse(node, "an assignment to several targets")
            if node.value is not None:
                self._assign(target, node.value, names, nodes)
        elif isinstance(node, ast.Expr):
            self._computed(node.value, names, nodes)
        elif isinstance(node, ast.If):
            self._choice(node, names, nodes)
        elif isinstance(node, ast.For):
            self._loop(node, names, nodes)
        elif not isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom)):
            refuse(node, _INSTEAD.get(type(node), "this statement"))

    def _assign(self, target: ast.expr, value: ast.expr, names: Names, nodes: list[Node]) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            known = self._value(value, names, nodes, "gather")
            targets = [part.id for part in target.elts if isinstance(part, ast.Name)]
            if not isinstance(known.expr, Arr) or not len(targets) == len(target.elts) == len(known.expr.items):
                refuse(target, "several names for a value of unknown length; write names only for a `gather`")
            names |= {name: Value(expr) for name, expr in zip(targets, known.expr.items, strict=True)}
        elif isinstance(target, ast.Name):
            names[target.id] = known = self._computed(value, names, nodes, target.id)
            self._empty.pop(target.id, None)
            if isinstance(value, ast.List) and not value.elts:
                self._empty[target.id] = known
        else:
            refuse(target, "a change of a value; assign a new value to a name")

    # --- values ----------------------------------------------------------------------------------

    def _computed(self, node: ast.expr, names: Names, nodes: list[Node], hint: str = "") -> Value:
        """Return the value of an expression, which a node computes unless it is a reference or a constant."""
        known = self._value(node, names, nodes, hint, is_answer=True)
        if isinstance(known.expr, (Ref, Lit)) or isinstance(node, ast.Await):
            return known
        return Value(self._add(Compute(value=known.expr), hint or "value", nodes), known.certain)

    def _value(
        self, node: ast.expr, names: Names, nodes: list[Node], hint: str = "", *, is_answer: bool = False
    ) -> Value:
        """Return the value of an expression, which may begin with an await; `hint` is the id of its node."""
        if isinstance(node, ast.ListComp) and any(isinstance(part, ast.Await) for part in ast.walk(node.elt)):
            translation = Translation(names)
            items = translation.filtered(translation.only_clause(node))
            if node.generators[0].ifs and may_fail(items.expr):
                refuse(node, "a test that may fail between two calls; filter the list first")
            return self._repeated(node.generators[0].target, items, [], node.elt, [], names, nodes, hint)
        first = node
        while isinstance(first, (ast.Subscript, ast.Attribute)):
            first = first.value
        for part in ast.walk(node):
            if isinstance(part, ast.Await) and part is not first:
                refuse(part, "an await inside of an expression; assign its result to a name first")
        translation = Translation(names, lambda call: self._awaited(call, names, nodes, hint))
        known = translation.value(node, is_answer=is_answer)
        for name in {name.id for name in _names(node, ast.Load)} & self._empty.keys():
            del self._empty[name]  # another value holds the list now
        return known

    def _add(self, op: Any, hint: str, nodes: list[Node]) -> Ref:
        """Add a node and return the reference to its value."""
        id, count = hint, 1
        while id in self._ids:
            count += 1
            id = f"{hint}_{count}"
        self._ids.add(id)
        nodes.append(Node(id=id, op=op))
        return Ref("out", (id,))

    def _awaited(self, node: ast.Await, names: Names, nodes: list[Node], hint: str) -> Value:
        """Add the node of an await, and return its value."""
        call = node.value
        if not isinstance(call, ast.Call):
            refuse(node, "an await of a task; await the call")
        path = ast.unparse(call.func)
        keywords = {str(part.arg): part.value for part in call.keywords}
        limit = keywords.pop("timeout", None) if path in _QUESTIONS else None
        only = call.args[0] if len(call.args) == 1 and not keywords else None
        if path.split(".")[0] in _LANGUAGE and path.split(".")[0] in self._bound:
            refuse(call, f"`{path}`, a name of the program")
        if path == "asyncio.gather":
            return self._gathered(call, names, nodes, hint)
        if path == "asyncio.sleep" and only is not None:
            seconds = Translation(names).value(only)
            if not seconds.certain.is_number:
                refuse(call, "a pause whose length is not a number for certain")
            self._add(Sleep(seconds=seconds.expr), "sleep", nodes)
            return Value(NULL, NONE)
        if path in _QUESTIONS and only is not None:
            text = Translation(names).value(only)
            seconds = Value(NULL, NUMBER) if limit is None else Translation(names).value(limit)
            if not text.certain.is_a("str") or not seconds.certain.is_number:
                refuse(call, "a question that is not a text for certain, or a timeout that is not a number")
            event, approval = (text.expr, None) if path == "wait_for" else (None, text.expr)
            wait = Wait(event=event, approval=approval, timeout=None if limit is None else seconds.expr)
            answer = self._add(wait, hint or path, nodes)
            if path == "approve" and hint:
                self.answers[str(answer.path[0])] = call
            return Value(answer, of_kind(APPROVAL) if path == "approve" else UNKNOWN)
        op = self._call(call, Translation(names))
        certain = of_schema(self._schemas(op.tool))
        return Value(self._add(op, hint or path.rpartition(".")[2], nodes), certain)

    def _call(self, node: ast.Call, translation: Translation) -> Call:
        """Return the call of a tool."""
        name = ast.unparse(node.func)
        parameters, region = self._tools.get(name, ((), None))
        if region is None or name.split(".")[0] in self._bound:
            refuse(node, f"`{name}`, which is not a tool; only tools, approve, wait_for, gather and sleep are awaited")
        tool: Any = region.nodes[0].op
        if type(tool) is not Call or tool.tool == RECORD_TOOL:
            refuse(node, f"`{name}`, which reads a record or waits for an approval of its arguments")
        named = [*zip(parameters, node.args, strict=False), *((part.arg, part.value) for part in node.keywords)]
        keys = [key for key, _ in named]
        is_spread = None in keys or any(isinstance(part, ast.Starred) for part in node.args)
        if is_spread or len(node.args) > len(parameters) or len({*keys}) < len(keys):
            refuse(node, f"these arguments of {name}; write each as name=value")
        args = Obj(tuple((str(key), translation.value(value).expr) for key, value in named))
        return Call(tool=tool.tool, args=args)

    # --- calls at the same time ----------------------------------------------------------------------

    def _gathered(self, node: ast.Call, names: Names, nodes: list[Node], hint: str) -> Value:
        if len(node.args) == 1 and isinstance(node.args[0], ast.Starred) and not node.keywords:
            return self._gathered_items(node.args[0].value, names, nodes, hint)
        if node.keywords or not node.args:
            refuse(node, "a `gather` with options, or of nothing")
        translation, inside = Translation(names), list[Node]()
        for part in node.args:
            if not isinstance(part, ast.Call):
                refuse(part, "a `gather` of other things than calls of tools")
            op = self._call(part, translation)
            # Python evaluates all arguments before the first call begins.
            fields = [(key, self._early(value, nodes)) for key, value in op.args.fields]  # type: ignore[union-attr]
            self._add(replace(op, args=Obj(tuple(fields))), ast.unparse(part.func).rpartition(".")[2], inside)
        values = Obj(tuple((one.id, Ref("out", (one.id,))) for one in inside))
        block = self._add(Block(body=Graph(nodes=tuple(inside), result=values)), hint or "gather", nodes)
        return Value(Arr(tuple(select(block, one.id) for one in inside)), LIST)

    def _early(self, expr: Any, nodes: list[Node]) -> Any:
        return self._add(Compute(value=expr), "argument", nodes) if may_fail(expr) else expr

    def _gathered_items(self, node: ast.expr, names: Names, nodes: list[Node], hint: str) -> Value:
        if not isinstance(node, (ast.ListComp, ast.GeneratorExp)) or not isinstance(node.elt, ast.Call):
            refuse(node, "a `gather` of other things than calls of tools")
        translation = Translation(names)
        clause = translation.only_clause(node)
        items = translation.filtered(clause)
        op = self._call(node.elt, translation.inside(clause, Value(Ref("item"), items.certain.items or UNKNOWN)))
        source = self._early(items.expr, nodes)
        if may_fail(op.args):
            refuse(node, "arguments that may fail before the first call of a `gather`; compute their list first")
        body = list[Node]()
        result = self._add(op, ast.unparse(node.elt.func).rpartition(".")[2], body)
        loop = Map(items=source, body=Graph(nodes=tuple(body), result=result))
        certain = Certain(LIST.kinds, items=of_schema(self._schemas(op.tool)))
        return Value(self._add(loop, hint or "gather", nodes), certain)

    # --- choices and loops -------------------------------------------------------------------------

    def _choice(self, node: ast.If, names: Names, nodes: list[Node]) -> None:
        test = Translation(names).condition(node.test)
        for name in {name.id for name in _names(node)} & self._empty.keys():
            del self._empty[name]
        arms = [dict(names), dict(names)]
        regions = [self._region(body, arm, {}) for body, arm in zip((node.body, node.orelse), arms, strict=True)]
        inside = Counter(name.id for name in _names(node, ast.Load))
        bound = {name.id for name in _names(node, ast.Store)}
        read = sorted(name for name in bound if self._reads[name] > inside[name] and all(name in arm for arm in arms))
        for i, arm in enumerate(arms):
            last = regions[i].nodes[-1:]
            value = Obj(tuple((name, arm[name].expr) for name in read)) if read else NULL
            regions[i] = replace(regions[i], result=value if read or not last else Ref("out", (last[0].id,)))
        default = regions[1] if node.orelse or read else None
        choice = self._add(Branch(arms=((test, regions[0]),), default=default), "choice", nodes)
        for name in bound:
            names.pop(name, None)
        names |= {name: Value(select(choice, name), either(arm[name].certain for arm in arms)) for name in read}

    def _fork(self, node: ast.If, rest: list[ast.stmt], names: Names, nodes: list[Node]) -> Any:
        """Return the value of a choice in which one branch returns, so that the rest belongs to the other one."""
        body, other = node.body, node.orelse
        if not _leaves(body) and not _leaves(other):
            refuse(node, "a `return` in the middle; end one branch of the `if` with it")
        test = Translation(names).condition(node.test)
        arms = [part if _leaves(part) else [*part, *rest] for part in (body, other)]
        arm, default = (self._region(part, dict(names), self._empty) for part in arms)
        return self._add(Branch(arms=((test, arm),), default=default), "choice", nodes)

    def _loop(self, node: ast.For, names: Names, nodes: list[Node]) -> None:
        for part in ast.walk(node):
            if isinstance(part, (ast.Return, ast.Break, ast.Continue)) or part in node.orelse:
                refuse(part, _INSTEAD.get(type(part), "`return` or `else` in a loop"))
        added = [(i, *found) for i, part in enumerate(node.body) if (found := _added(part)) is not None]
        at, list_name, value = added[0] if added else (len(node.body), "", None)
        uses = sum(part.id == list_name for part in _names(node))
        if added and (list_name not in self._empty or uses > 1):
            refuse(
                node.body[at], f"`{list_name}.append`, unless it is a new list to which one loop appends in one place"
            )
        items = Translation(names).items(node.iter)
        rest = node.body[at + 1 :]
        rows = self._repeated(node.target, items, node.body[:at], value, rest, names, nodes, list_name or "each")
        for name in {name.id for name in _names(node, ast.Store)}:
            names.pop(name, None)  # the last iteration decides, if there is one
        if added:
            names[list_name] = rows

    def _repeated(
        self,
        target: ast.expr,
        items: Value,
        before: list[ast.stmt],
        value: ast.expr | None,
        after: list[ast.stmt],
        names: Names,
        nodes: list[Node],
        hint: str,
    ) -> Value:
        """Add a loop over items, and return the list of the value that each iteration has between two blocks."""
        if not isinstance(target, ast.Name):
            refuse(target, "a loop with several names; read the members of one")
        body: list[Node] = []
        parts = [*before, *after, *([ast.Expr(value)] if value is not None else [])]
        changed = {name.id for part in parts for name in _names(part, ast.Store)}
        inner = {name: known for name, known in names.items() if name not in changed}
        item = Ref("item")
        if any(isinstance(part, (ast.For, ast.comprehension)) for one in parts for part in ast.walk(one)):
            item = self._add(Compute(value=item), target.id, body)  # a loop inside has an item of its own
        inner[target.id] = Value(item, items.certain.items or UNKNOWN)
        outer, self._empty = self._empty, {}
        self._block(before, inner, body)
        known = Value(NULL)
        if value is not None:
            known = self._computed(value, inner, body) if after else self._value(value, inner, body)
        self._block(after, inner, body)
        used = {name.id for part in parts for name in _names(part)}
        self._empty = {name: known for name, known in outer.items() if name not in used}
        result = known.expr if value is not None or not body else Ref("out", (body[-1].id,))
        loop = Loop(items=items.expr, body=Graph(nodes=tuple(body), ordered=True, result=result))
        return Value(self._add(loop, hint or "each", nodes), Certain(LIST.kinds, items=known.certain))


def _names(node: ast.AST, context: type[ast.expr_context] = ast.expr_context) -> Iterable[ast.Name]:
    return (part for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, context))


def _returns(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Return) for part in ast.walk(node))


def _leaves(body: list[ast.stmt]) -> bool:
    """Return True if a block always ends with `return`."""
    last = body[-1] if body else None
    return isinstance(last, ast.Return) or (isinstance(last, ast.If) and _leaves(last.body) and _leaves(last.orelse))


def _added(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """Return the list and the value of `rows.append(value)`."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) != 1 or not isinstance(call.func, ast.Attribute):
        return None
    is_append = call.func.attr == "append" and isinstance(call.func.value, ast.Name)
    return (call.func.value.id, call.args[0]) if is_append else None  # type: ignore[attr-defined]
