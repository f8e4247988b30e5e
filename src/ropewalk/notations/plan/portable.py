"""Plans for other notations: the pieces of a program as expressions of the expression language.

The graph of a plan computes with Python (`py:piece`), which no other notation can hold. Here each piece becomes an
expression where that means the same in every run. A piece that does not is refused with its line and the reason, and
gives null.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from ...check.approvals import approvals_read
from ...errors import Problem
from ...expr.ast import NULL, Arr, Each, Expr, Fn, Lit, Obj, Ref, Var, children, select
from ...expr.python.functions import UNBOUND_MARK
from ...expr.python.piece import EXIT
from ...ir import Flow, Graph, Node, bodies, node_parts, nodes_of, refs_inside
from ...ops import Compute
from .portable_expressions import APPROVAL, WRITTEN, Names, NotPortable, Portable, condition, is_written, translate
from .write_types import NONE, UNKNOWN, Certain, either, of_schema, of_value

_PREFIX: Final = "py:"
_CERTAIN: Final = frozenset(("==", "!=", "!", "&&", "||", "?:", "in", "has", "exists", "coalesce", "${}", "[]"))
"""The operators and functions that cannot fail for the arguments that a translation gives them."""
_UNBOUND: Final = Lit(UNBOUND_MARK)


def uses_python(flow: Flow) -> bool:
    """Return True if a flow computes with the Python of plans."""
    return any(
        _has_python(part) for node in nodes_of(flow.body) for _, part in node_parts(node) if not isinstance(part, Graph)
    ) or _has_python(flow.body.result)


def _has_python(expr: Expr) -> bool:
    is_python = isinstance(expr, Fn) and expr.name.startswith(_PREFIX)
    return is_python or any(map(_has_python, children(expr)))


def portable(flow: Flow) -> tuple[Flow, list[Problem]]:
    """Return a flow without the Python of plans."""
    rewriter = _Rewriter(flow)
    rewritten = replace(flow, body=rewriter.region(flow.body, "", {}), program=None)
    # A program that asks for the answer goes on after a rejection; a flow that does not read it fails.
    for id in sorted(approvals_read(flow) - approvals_read(rewritten)):
        rewriter.problems.append(Problem(path=id, message="continues after a rejection that nothing reads"))
    return rewritten, rewriter.problems


class _Rewriter:
    """Rewrites one flow."""

    # `problems` grow as it goes.

    def __init__(self, flow: Flow) -> None:
        self.problems: list[Problem] = []
        self.lines: set[int] = set()
        program: Any = flow.program or {}
        self._code = str(program.get("code", "")).split("\n")
        paths = [ref.path for ref in refs_inside(flow.body) if ref.root == "out" and len(ref.path) > 1]
        self.members_read = {(str(path[0]), str(path[1])) for path in paths}
        schema: Any = flow.input_schema if isinstance(flow.input_schema, dict) else {}
        self.inputs: Mapping[str, Any] = schema.get("properties") or {}
        self.required = schema.get("required") or ()

    def region(self, body: Graph, prefix: str, around: Mapping[str, Portable]) -> Graph:
        """Return a region with its nodes and its value rewritten."""
        known = dict(around)
        nodes = []
        for node in body.nodes:
            kept = self._node(node, prefix, known)
            if kept is not None:
                nodes.append(kept)
        return replace(body, nodes=tuple(nodes), result=self._result(body.result, prefix, known, nodes))

    def _result(self, expr: Expr, prefix: str, known: Mapping[str, Portable], nodes: list[Node]) -> Expr:
        try:
            result = self.expr(expr, known).expr
        except NotPortable as error:
            self._refuse(prefix + (nodes[-1].id if nodes else "result"), error, 0)
            return NULL
        # The exit of a block that is never left early is no part of its value, nor are names that nothing reads.
        if isinstance(result, Obj) and dict(result.fields).get(EXIT) == NULL:
            owner = prefix.rstrip("/").rpartition("/")[2]
            names = {name for id, name in self.members_read if id == owner}
            return Obj(tuple((key, value) for key, value in result.fields if key in names and value != _UNBOUND))
        return result

    def _node(self, node: Node, prefix: str, known: dict[str, Portable]) -> Node | None:
        """Return a node without Python; None if its value is an expression that stands wherever it is read."""
        path, line = prefix + node.id, _line_of(node)
        try:
            if isinstance(node.op, Compute):
                known[node.id] = value = self.expr(node.op.value, known)
                # What may fail, fails here also where nobody reads it. The rest stands wherever it is read.
                return self._kept(node, value, known) if _may_fail(value.expr) else None
            rewritten = replace(node, meta=replace(node.meta, hidden=False))
            rewritten = replace(rewritten, op=self._op(node.op, path, known))
            changes: dict[str, Any] = {
                name: self.expr(value, {**known, node.id: Portable(Ref("out", (node.id,)))}).expr
                for name in ("gate", "when", "result", "writes")
                if (value := getattr(node, name)) is not None
            }
            if node.policy.on_error is not None:
                raise NotPortable(ast.Pass(), _REASONS["gathered" if "gather_" in path else "caught"])
            known[node.id] = self._value_of(rewritten, known)
            return replace(rewritten, **changes)
        except NotPortable as error:
            self._refuse(path, error, line)
            known[node.id] = Portable(Ref("out", (node.id,)))
            return Node(id=node.id, op=Compute(value=NULL), meta=replace(node.meta, hidden=False))

    def _kept(self, node: Node, value: Portable, known: dict[str, Portable]) -> Node:
        """Return the node of a value that is computed here, without the exit that the piece does not take."""
        expr, out = value.expr, Ref("out", (node.id,))
        members = dict(expr.fields) if isinstance(expr, Obj) else {}
        kept: Expr = out
        if members.get(EXIT) == NULL:
            names = [name for name in members if name != EXIT]
            expr = Obj(tuple((name, members[name]) for name in names))
            refs = [(name, select(out, name)) for name in names]
            if len(names) == 1:
                expr, refs = members[names[0]], [(names[0], out)]
            kept = Obj(((EXIT, NULL), *refs))
        elif _is_return(members.get(EXIT, NULL)):  # it ends the program, so nothing reads its names
            expr, kept = dict(members[EXIT].fields)["v"], Obj(((EXIT, _returned(out)),))  # type: ignore[union-attr]
        known[node.id] = Portable(kept, value.certain)
        return Node(id=node.id, op=Compute(value=expr), meta=replace(node.meta, hidden=False))

    def _value_of(self, node: Node, known: Mapping[str, Portable]) -> Portable:
        """Return what is known of the value of a node that stays: a block that is never left early has no exit."""
        regions = bodies(node)
        results = [body.result for body in regions]
        groups = [set(dict(result.fields)) for result in results if isinstance(result, Obj)]
        if not results or len(groups) < len(results):
            return Portable(Ref("out", (node.id,)))
        if any(EXIT in group for group in groups):
            raise NotPortable(ast.Pass(), "it may end the program early")
        certain = either(self._facts(result) for result in results)
        names = sorted(set.intersection(*groups))  # others have no value in one of the blocks
        fields_ = [(name, Ref("out", (node.id, name))) for name in names]
        facts = {EXIT: NONE, **{name: certain.fields.get(name, UNKNOWN) for name in names}}
        return Portable(Obj(((EXIT, NULL), *fields_)), Certain(frozenset(("dict",)), facts))

    def _facts(self, expr: Expr) -> Certain:
        if isinstance(expr, Lit):
            return of_value(expr.value)
        if isinstance(expr, Obj):
            return Certain(frozenset(("dict",)), {key: self._facts(value) for key, value in expr.fields})
        return self._reference(expr).certain if isinstance(expr, Ref) else UNKNOWN

    def _op(self, op: Any, path: str, known: Mapping[str, Portable]) -> Any:
        """Return an op with its expressions and regions rewritten."""
        if type(op).__name__ == "Loop" and op.initial is not None:
            raise NotPortable(ast.Pass(), "a loop that changes variables has no equal here")
        changes = {part.name: self._part(getattr(op, part.name), path, known) for part in fields(op)}
        return replace(op, **changes)

    def _part(self, part: Any, path: str, known: Mapping[str, Portable]) -> Any:
        if isinstance(part, Graph):
            return self.region(part, f"{path}/", known)
        if type(part) is tuple:
            return tuple(self._part(inner, path, known) for inner in part)
        if isinstance(part, (Lit, Ref, Var, Obj, Arr, Fn, Each)):
            return self.expr(part, known).expr
        return part

    # --- expressions ------------------------------------------------------------------------------

    def expr(self, expr: Expr, known: Mapping[str, Portable]) -> Portable:
        """Return an expression without the Python of plans."""
        if isinstance(expr, Lit):
            return Portable(expr, of_value(expr.value))
        if isinstance(expr, Ref):
            head = known.get(str(expr.path[0])) if expr.root == "out" and expr.path else None
            return self._reference(expr) if head is None else _at(head, expr.path[1:])
        if isinstance(expr, Obj):
            parts = {key: self.expr(value, known) for key, value in expr.fields}
            facts = {key: part.certain for key, part in parts.items()}
            return Portable(Obj(tuple((key, part.expr) for key, part in parts.items())), _object(facts))
        if isinstance(expr, Arr):
            items = [self.expr(item, known) for item in expr.items]
            certain = Certain(frozenset(("list",)), items=either(item.certain for item in items))
            return Portable(Arr(tuple(item.expr for item in items)), certain)
        if not isinstance(expr, Fn):
            return Portable(expr)
        if not expr.name.startswith(_PREFIX):
            return self._function(expr, [self.expr(arg, known) for arg in expr.args])
        return self._python(expr, known)

    def _reference(self, ref: Ref) -> Portable:
        if ref.root != "input" or not ref.path:
            return Portable(ref)
        name = str(ref.path[0])
        certain = of_schema(self.inputs.get(name))
        base = Portable(Ref("input", (name,)), certain if name in self.required else either([certain, NONE]))
        return _at(base, ref.path[1:])

    @staticmethod
    def _function(expr: Fn, args: list[Portable]) -> Portable:
        values = tuple(arg.expr for arg in args)
        if expr.name == "==" and isinstance(values[1], Lit):
            # A test of a piece, or whether a block was left early.
            if values[1].value is True and args[0].certain.is_a("bool"):
                return args[0]
            if values[1].value is None and isinstance(values[0], (Lit, Obj)):
                return Portable(Lit(values[0] == NULL), of_value(True))
        return Portable(replace(expr, args=values))

    def _python(self, expr: Fn, known: Mapping[str, Portable]) -> Portable:
        """Return one of the functions of plans as an expression."""
        name = expr.name.removeprefix(_PREFIX)
        if name == "piece":
            spec, inputs = expr.args
            assert isinstance(spec, Lit)
            assert isinstance(inputs, Obj)
            values = {key: self.expr(value, known) for key, value in inputs.fields}
            return _with_lines(json.loads(str(spec.value)), values)
        if name in ("raw", "json", "items"):
            return self.expr(expr.args[0], known)
        if name == "approval":
            answer = self.expr(expr.args[0], known)
            return Portable(answer.expr, Certain(frozenset((APPROVAL,)), answer.certain.fields))
        if name == "returned":
            exit = self.expr(expr.args[0], known)
            if exit.expr == NULL:
                return Portable(NULL, NONE)
            if _is_return(exit.expr):
                return _at(exit, ("v",))
        if name == "member":
            return _at(self.expr(expr.args[0], known), (str(expr.args[1].value),))  # type: ignore[union-attr]
        raise NotPortable(ast.Pass(), _REASONS.get(name, "it has no equal here"))

    def _refuse(self, path: str, error: NotPortable, line: int) -> None:
        """Report what a line of the program has no equal for, once for all of its nodes."""
        shown, reason = _shown(error.node), error.reason
        # The functions that a gather calls have no equal because of it, whatever their statements are.
        gather = re.search(r"(?:^|/)gather_(\d+)(?:/|$)", path)
        line = error.line or line
        if gather is not None:
            line, shown, reason = int(gather[1]), "", _REASONS["gathered"]
        if line and line in self.lines:
            return
        self.lines.add(line)
        place = f"line {line}: " if line else ""
        if not shown or _MADE_NAME.search(shown):  # a statement that the compiler made: show that of the author
            is_of_author = 0 < line <= len(self._code) and (gather is not None or shown)
            shown = self._code[line - 1].strip() if is_of_author else ""
        text = f"`{_shortened(shown)}` stays Python: " if shown else ""
        self.problems.append(Problem(path=path, message=f"{place}{text}{reason}"))


_MADE_NAME: Final = re.compile(r"_\w*·[0-9]+")
"""A name that the compiler of plans made."""
_REASONS: Final = {
    "gathered": "gather has no equal here: it waits for all calls where one fails; write the calls one after another",
    "caught": "try has no equal here",
    "collected": "a loop that changes variables has no equal here",
    "now": "dates are known to Python only",
    "handler": "try has no equal here",
    "exception": "try has no equal here",
    "raise": "raise has no equal here",
    "after_loop": "a loop that changes variables has no equal here",
    "limit": "while has no equal here",
    "merge": "** has no equal here",
}


def _shown(node: ast.AST) -> str:
    """Return the first line of a statement or an expression; "" for one that is not in the program."""
    if isinstance(node, ast.Pass) or not isinstance(node, (ast.expr, ast.stmt)):
        return ""
    return ast.unparse(node).split("\n")[0]


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _object(facts: Mapping[str, Certain]) -> Certain:
    return Certain(frozenset(("dict",)), facts)


def _at(value: Portable, path: tuple[str | int, ...]) -> Portable:
    """Return the member at a path that exists for certain, because the compiler made it."""
    expr, certain = value.expr, value.certain
    for step in path:
        members = dict(expr.fields) if isinstance(expr, Obj) else {}
        if isinstance(expr, Obj) and step not in members:
            raise NotPortable(ast.Pass(), f"{step} may have no value")
        expr = members[str(step)] if step in members else NULL if expr == NULL else select(expr, step)
        certain = certain.fields.get(str(step), UNKNOWN)
    return Portable(expr, certain)


def _may_fail(expr: Expr) -> bool:
    """Return True if evaluating an expression may fail, so that it has to be evaluated exactly where it stands."""
    if isinstance(expr, Each):
        return True
    if isinstance(expr, Fn) and expr.name not in _CERTAIN:
        return True
    return any(map(_may_fail, children(expr)))


def _line_of(node: Node) -> int:
    line = re.match(r"code:(\d+)", node.meta.source)
    return int(line[1]) if line else 0


# --- pieces ----------------------------------------------------------------------------------------


def _with_lines(spec: Mapping[str, Any], inputs: Mapping[str, Portable]) -> Portable:
    """Return the value of a piece, or raise NotPortable with the line of the program."""
    try:
        return _piece(spec, inputs)
    except NotPortable as error:
        line, lines = getattr(error.node, "lineno", 0), spec["lines"]
        if line and lines:
            error.line = lines[min(line, len(lines)) - 1]
        raise


def _piece(spec: Mapping[str, Any], inputs: Mapping[str, Portable]) -> Portable:
    """Return the value of a piece: its exit, and the names that it gives."""
    statements = ast.parse(spec["code"]).body
    if spec["guarded"] or spec["prints"]:
        raise NotPortable(statements[0], "try has no equal here" if spec["guarded"] else "print has no equal here")
    names: Names = dict(inputs)
    exit = _run(statements, names)
    if exit is not None:  # nothing reads what a program that has ended gives
        names |= {name: Portable(NULL, NONE) for name in spec["outputs"] if name not in names}
    fields_: list[tuple[str, Portable]] = [(EXIT, exit or Portable(NULL, NONE))]
    for name in spec["outputs"]:
        if name not in names:
            raise NotPortable(statements[0], f"{name} may have no value")
        fields_.append((name, names[name]))
    facts = {name: value.certain for name, value in fields_}
    return Portable(Obj(tuple((name, value.expr) for name, value in fields_)), _object(facts))


def _run(statements: Sequence[ast.stmt], names: Names) -> Portable | None:
    """Let names have the values that statements give them; return the exit that is taken for certain."""
    for i, node in enumerate(statements):
        match node:
            case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                continue
            case ast.FunctionDef(name=name) if is_written(node):
                names[name] = WRITTEN
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] = translate(value, names)
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                if value is not None:
                    names[name] = translate(value, names)
            case ast.Return(value=value):
                return _return(Portable(NULL, NONE) if value is None else translate(value, names))
            case ast.If() if any(isinstance(part, ast.Return) for part in ast.walk(node)):
                return _choose_return(node, statements[i + 1 :], names)
            case ast.If():
                _choose(node, names)
            case ast.For():
                raise NotPortable(node, "a loop without calls has no equal here; write a list comprehension")
            case _:
                raise NotPortable(node, "only assignments, `if` and `return` have equals")
    return None


def _return(value: Portable) -> Portable:
    return Portable(_returned(value.expr), _object({"k": of_value("return"), "v": value.certain}))


def _returned(value: Expr) -> Obj:
    return Obj((("k", Lit("return")), ("v", value)))


def _is_return(exit: Expr) -> bool:
    return isinstance(exit, Obj) and dict(exit.fields).get("k") == Lit("return")


def _choose_return(node: ast.If, rest: Sequence[ast.stmt], names: Names) -> Portable:
    """Return the exit where each way through a choice, and what follows it, ends the program."""
    test = condition(node.test, names)
    exits = [_run([*block, *rest], dict(names)) for block in (node.body, node.orelse)]
    values = [_at(exit, ("v",)) for exit in exits if exit is not None]
    if len(values) < 2 or any(_may_fail(value.expr) for value in values):
        raise NotPortable(node, "it may end the program early")
    yes, no = values
    return _return(Portable(Fn("?:", (test, yes.expr, no.expr)), either([yes.certain, no.certain])))


def _choose(node: ast.If, names: Names) -> None:
    """Let names have the values that the chosen block gives them."""
    test = condition(node.test, names)
    then, otherwise = dict(names), dict(names)
    _run(node.body, then)
    _run(node.orelse, otherwise)
    for name in {*then, *otherwise}:
        if then.get(name) == otherwise.get(name):
            continue
        if name not in then or name not in otherwise:
            raise NotPortable(node, f"{name} has a value in one block only")
        yes, no = then[name], otherwise[name]
        if _may_fail(yes.expr) or _may_fail(no.expr):
            raise NotPortable(node, f"computing {name} may fail, which must not happen in the other block")
        names[name] = Portable(Fn("?:", (test, yes.expr, no.expr)), either([yes.certain, no.certain]))
