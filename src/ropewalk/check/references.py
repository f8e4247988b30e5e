"""Decide what an expression may read at its place in the flow, and infer the type of its value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from ..config.secrets import refusal_message
from ..expr.ast import Arr, Each, Expr, Fn, Lit, Obj, Path, Ref, Var, brief, refs, show
from ..ir import Flow, Graph, Node, bodies, parts
from ..ops import Branch
from ..schema import compile_schema
from ..schema_defaults import Defaults
from ..values import Json, did_you_mean
from .function_types import RESULTS, elements_of, indexed_type, macro_result, operand_problem
from .report import SECRET, ExprPath, Owners, Report, join_names
from .structure import Layout, Steps, secret_passed_on, secret_refusal
from .type_parts import includes
from .types import (
    ALL,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Missing,
    Secret,
    Sub,
    Type,
    describe_kinds,
    element_type,
    find_secret,
    kinds_of,
    merge_types,
    resolve_schema,
    union_type,
)
from .updates import Updates

# Any of these keywords may require a property that is not listed under `required`.
_HIDES_REQUIRED: Final = frozenset(
    ("allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependentRequired", "dependencies")
)


class OptionalInputs:
    """Find the parts of a flow's input that a caller may leave out."""

    # A part without a default is then null.

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._tested: set[Path] | None = None
        self._known: dict[Path, str | None] = {}

    def first_optional(self, path: Path) -> str | None:
        """Return the first name on a path of the input that may be missing."""
        if path not in self._known:
            self._known[path] = self._find_optional(path)
        return self._known[path]

    def _find_optional(self, path: Path) -> str | None:
        root = self.flow.input_schema
        node: Any = root
        known: Defaults | None = compile_schema(root).defaults
        for i, key in enumerate(path):
            node = resolve_schema(root, node)
            if type(node) is not dict or not _HIDES_REQUIRED.isdisjoint(node):
                return None
            declared = node.get("properties")
            if type(declared) is not dict or key not in declared:
                return None
            known = known.properties.get(str(key)) if known is not None else None
            if key not in node.get("required", ()) and (known is None or known.default is None):
                return None if path[: i + 1] in self._tested_paths() else str(key)
            node = declared[key]
        return None

    def _tested_paths(self) -> set[Path]:
        """Return the paths of the input that conditions read, with all their prefixes."""
        if self._tested is None:
            read = [ref.path for expr in _condition_exprs(self.flow.body) for ref in refs(expr) if ref.root == "input"]
            self._tested = {path[:i] for path in read for i in range(len(path) + 1)}
        return self._tested


def _condition_exprs(body: Graph) -> Iterator[Expr]:
    """Yield every condition of a flow: gates, `when`, and tests of branches."""
    stack: list[Node] = list(body.nodes)
    while stack:
        node = stack.pop()
        yield from (expr for expr in (node.gate, node.when) if expr is not None)
        if type(node.op) is Branch:
            yield from (part for _, part in parts(node.op) if not isinstance(part, Graph))
        for inner in bodies(node):
            stack.extend(inner.nodes)


ROOTS: Final = ("input", "out", "status", "state", "item", "index", "round", "prev", "error", "secret")
MAX_DEPTH: Final = 100
_ANY_NUMBER: Final = INTEGER | NUMBER
_TYPES: Final = {
    "boolean": BOOLEAN, "integer": INTEGER, "number": _ANY_NUMBER, "string": STRING, "array": ARRAY, "object": 64,
    "null": NULL,
}  # fmt: skip
_OPERATORS: Final = {
    **dict.fromkeys(("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in"), BOOLEAN),
    **dict.fromkeys(("-", "*", "/", "%", "neg"), _ANY_NUMBER),
    "+": _ANY_NUMBER | STRING | ARRAY,
}  # fmt: skip
_OPERATOR_ARITY: Final[dict[str, tuple[int, int | None]]] = {
    **dict.fromkeys(_OPERATORS, (2, 2)),
    **dict.fromkeys(("&&", "||", "+", "*"), (2, None)),
    **dict.fromkeys(("!", "neg"), (1, 1)),
    "?:": (3, 3),
    "[]": (2, 2),
}
_ARITHMETIC: Final = frozenset(("-", "*", "/", "%", "neg"))
_PRESENCE_FUNCTIONS: Final = frozenset(("has", "exists", "coalesce"))
"""Functions that test for missing values; a path that they test may be missing in the whole node."""
_FAILURE: Final[dict[str, Type]] = {
    "node": STRING, "tool": STRING | NULL, "message": STRING, "kind": STRING, "ran": BOOLEAN,
}  # fmt: skip
_ITERATING_BLOCKS: Final = "a loop over items, a map, a for_each or a pipeline"
_TRACKS_SECRETS: Final = frozenset(("?:", "coalesce", "[]"))
"""Functions whose inferred type tracks where in the value a secret is."""
_PREDICATE_MACROS: Final = frozenset(("all", "exists", "exists_one", "filter"))
"""Macros whose body must give true or false for each element."""
_MACRO_KINDS: Final = {"all": BOOLEAN, "exists": BOOLEAN, "exists_one": BOOLEAN, "any": BOOLEAN, "flat_map": ARRAY}


class ReadScope:
    """Track what can be read at the current point of the walk."""

    # `done` maps finished nodes to their types.

    def __init__(self, flow: Flow, layout: Layout, report: Report) -> None:
        self.flow, self.layout, self.report = flow, layout, report
        self.input: Type = Sub(flow.input_schema, flow.input_schema) if type(flow.input_schema) is dict else None
        self.optional_inputs = OptionalInputs(flow)
        self.channels: dict[str, Type] = {
            name: Sub(channel.schema, channel.schema) if type(channel.schema) is dict else None
            for name, channel in flow.state.items()
        }
        self.updates = Updates(flow)
        self.position: Callable[[], Steps] = tuple  # set by `Walk`
        self.node: Node | None = None
        self.owners: Owners = None
        self.field = ""
        self.output_types: dict[str, Type] = {}
        self.doubtful: frozenset[str] = frozenset()  # nodes in a cycle, which is already reported
        self.prev: Type = None
        self.ordered = self.mapped = self.looped = self.failing = False
        self.item: Type = None
        self.names: dict[str, Type] = {}
        # Paths that the node tests for presence, from a root, from a name of a macro, or from another expression.
        self.tested: tuple[tuple[str | Expr, Path], ...] = ()
        self.depth = 0
        self.quiet = False
        self.secrets: frozenset[str] | None = None  # the names that may be read; None for any
        self.undone: dict[str, Type] | None = None  # in an undo: the types of the call that it takes back
        self._roots: dict[str, Callable[[Ref, ExprPath], tuple[Type, Path] | None]] = {
            "out": self._out, "prev": self._prev, "input": self._input, "state": self._state, "item": self._item,
            "index": self._index, "round": self._round, "status": self._status, "error": self._error,
            "secret": self._secret,
        }  # fmt: skip

    def add_problem(
        self,
        message: str,
        at: ExprPath,
        *,
        suggestion: str | None = None,
        column: int | None = None,
        warning: bool = False,
        keyword: str | None = None,
    ) -> None:
        """Add a problem at the current node and field."""
        if self.quiet:
            return
        self.report.add(
            message,
            node=self.node,
            owners=self.owners,
            field=self.field,
            at=at,
            suggestion=suggestion,
            column=column,
            warning=warning,
            keyword=keyword,
        )

    def infer_type(self, expr: Expr, at: ExprPath = None) -> Type:
        """Return the type of an expression, and report every wrong reference in it."""
        kind = type(expr)
        if kind is Lit:
            return expr
        if isinstance(expr, Ref):
            read_root = self._roots.get(expr.root) if self.undone is None else self._undone
            if read_root is None:
                suggestion = did_you_mean(expr.root, ROOTS)
                self.add_problem(f"unknown reference {expr.root!r}", at, suggestion=suggestion, column=expr.column)
                return None
            target = read_root(expr, at)
            if target is None:
                return None
            known, path = target
            return known if known is None or not path else self._member_type(known, path, expr, at)
        # Everything below has parts; the depth is bounded because definitions come from anywhere.
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                self.add_problem(f"expression nested deeper than {MAX_DEPTH}", None)
                return None
            if isinstance(expr, Obj):
                return {key: self.infer_type(inner, (at, key)) for key, inner in expr.fields}
            if isinstance(expr, Arr):
                return [self.infer_type(inner, (at, i)) for i, inner in enumerate(expr.items)]
            if isinstance(expr, Fn):
                return self._function_type(expr, at)
            if isinstance(expr, Each):
                return self._macro_type(expr, at)
        finally:
            self.depth -= 1
        # Only variables of macros are left.
        assert isinstance(expr, Var)
        if expr.name not in self.names:
            self.add_problem(f"unknown name {expr.name!r}", at, suggestion=did_you_mean(expr.name, self.names))
            return None
        tested = self._tested_length(Var(expr.name), expr.path) if self.tested else 0
        return self._follow_path(self.names[expr.name], expr.path, expr.name, at, None, tested)

    # --- roots: return (type, rest of the path), or None if the type is unknown or a problem was reported -----

    def _out(self, ref: Ref, at: ExprPath) -> tuple[Type, Path] | None:
        path = ref.path
        if not path:
            self.add_problem("the name of the node is missing", at, column=ref.column)
            return None
        name = path[0]
        if name in self.output_types:
            known = self.output_types[name]
            return None if known is None else (known, path[1:])
        if name not in self.doubtful:
            self._report_unreachable(str(name), ref, at)
        return None

    def _status(self, ref: Ref, at: ExprPath) -> tuple[Type, Path] | None:
        self._out(ref, at)
        return (STRING, ()) if ref.path else None

    def _prev(self, ref: Ref, at: ExprPath) -> tuple[Type, Path] | None:
        if not self.ordered:
            self.add_problem("'prev' is the previous step, but these nodes have no fixed order", at, column=ref.column)
            return None
        return self.prev, ref.path

    def _input(self, ref: Ref, at: ExprPath) -> tuple[Type, Path] | None:
        return self.input, ref.path

    def _state(self, ref: Ref, at: ExprPath) -> tuple[Type, Path] | None:
        if not ref.path:
            return None
        name = ref.path[0]
        if name not in self.channels:
            near = did_you_mean(str(name), self.channels)
            has = f"; expected one of: {join_names(self.channels)}" if self.channels else "; the flow declares no state"
            self.add_problem(f"reads undeclared state field {name!r}{has}", at, suggestion=near, column=ref.column)
            return None
        return self.channel(str(name)), ref.path[1:]

    def channel(self, name: str) -> Type:
        """Return the type of a channel here: the types written before this point, else the declared type."""
        if name in self.updates.writes and self.node is not None:
            is_written, known = self.updates.read(name, self.position())
            if is_written and known is not None:
                return known
        return self.channels[name]

    def _item(self, ref: Ref, at: ExprPath) -> tuple[Type, Path] | None:
        return (self.item, ref.path) if self._is_inside(ref, at, self.mapped, _ITERATING_BLOCKS) else None

    def _index(self, ref: Ref, at: ExprPath) -> tuple[Type, Path] | None:
        return (INTEGER, ref.path) if self._is_inside(ref, at, self.mapped, _ITERATING_BLOCKS) else None

    def _round(self, ref: Ref, at: ExprPath) -> tuple[Type, Path] | None:
        return (INTEGER, ref.path) if self._is_inside(ref, at, self.looped, "a loop") else None

    def _error(self, ref: Ref, at: ExprPath) -> tuple[Type, Path] | None:
        return (_FAILURE, ref.path) if self._is_inside(ref, at, self.failing, "a fallback") else None

    def _secret(self, ref: Ref, at: ExprPath) -> tuple[Type, Path] | None:
        if not ref.path:
            self.add_problem("the name of the secret is missing", at, column=ref.column)
            return None
        name = str(ref.path[0])
        if self.secrets is not None and name not in self.secrets:
            near = did_you_mean(name, self.secrets)
            self.add_problem(refusal_message(name), at, suggestion=near, column=ref.column, keyword=SECRET)
        return Secret(name), ref.path[1:]

    def _undone(self, ref: Ref, at: ExprPath) -> tuple[Type, Path] | None:
        assert self.undone is not None
        if ref.root not in self.undone:
            message = f"an undo can read only $args and $result of the call that it undoes, not ${ref.root}"
            self.add_problem(message, at, suggestion=did_you_mean(ref.root, self.undone), column=ref.column)
            return None
        return self.undone[ref.root], ref.path

    def _is_inside(self, ref: Ref, at: ExprPath, is_available: bool, block: str) -> bool:
        if not is_available:
            root = ref.root if ref.original is None else ref.original.root
            self.add_problem(f"${root} exists only inside {block}", at, column=ref.column)
        return is_available

    def _report_unreachable(self, name: str, ref: Ref, at: ExprPath) -> None:
        """Report why a node cannot be read here, and list the nodes that can."""
        visible = [id for id in self.output_types if not self.layout.nodes[id].meta.hidden]
        readable = f"readable here: {join_names(reversed(visible))}" if visible else "no output is readable here"
        around = _owner_ids(self.owners)
        suggestion = None
        if name not in self.layout.nodes:
            message = f"reads {name!r}, which is not a node of this flow; {readable}"
            suggestion = self._suggest_quoted(ref) or did_you_mean(name, self.output_types)
        elif self.node is not None and name == self.node.id:
            message = f"reads its own output, which does not exist yet; {readable}"
        elif name in around:
            message = f"reads {name!r}, which is still running, because this node is inside it; {readable}"
        else:
            # Suggest the outermost enclosing node, because its output is what can be read from outside.
            holders = [id for id in reversed(_owner_ids(self.layout.owners_of(name))) if id not in around]
            if holders:
                message = f"reads {name!r}, which is inside {holders[0]!r} and not visible from here; {readable}"
                suggestion = holders[0] if holders[0] in self.output_types else None
            else:
                message = f"reads {name!r}, which may not be finished at this point; {readable}"
        self.add_problem(message, at, suggestion=suggestion, column=ref.column)

    def _suggest_quoted(self, ref: Ref) -> str | None:
        """Return the quoted form of a reference to a node whose id contains dots, if there is such a node."""
        reference = ref.original or ref
        for end in range(2, len(ref.path) + 1):
            id = ".".join(map(str, ref.path[:end]))
            if id in self.output_types:
                return show(Ref(reference.root, (id, *ref.path[end:])))
        return None

    # --- paths ----------------------------------------------------------------------------------

    def _member_type(self, known: Type, path: Path, ref: Ref, at: ExprPath) -> Type:
        if ref.elide and path[0] == "output" and type(element_type(known, "output")) is Missing:
            path = path[1:]
        name = f"{ref.root}.{ref.path[0]}" if ref.root in ("out", "state") else ref.root
        if ref.root in ("round", "index") and ref.original is not None:  # documents use other names for these
            name = show(Ref(ref.original.root, ref.original.path[: len(ref.original.path) - len(ref.path)]))
        tested = self._tested_length(ref.root, ref.path) - (len(ref.path) - len(path))
        return self._follow_path(known, path, name, at, ref.column, tested)

    def tests_presence(self, ref: Ref) -> bool:
        """Return True if the node tests elsewhere whether this path is present."""
        return self._tested_length(ref.root, ref.path) > 0

    def _tested_length(self, base: str | Expr, path: Path) -> int:
        """Return how much of a path the node tests for presence; 0 if it tests none of it."""
        lengths = [len(p) for root, p in self.tested if path[: len(p)] == p and root == base]
        return max(lengths, default=0)

    def _follow_path(
        self, known: Type, path: Path, name: str, at: ExprPath, column: int | None, tested: int = 0
    ) -> Type:
        """Return the type at the end of a path."""

        # The first `tested` steps of it may be missing.
        for i, key in enumerate(path):
            if known is None:
                return None
            member = element_type(known, key)
            if type(member) is Missing:
                if i >= tested:
                    self._report_missing(member, path, i, name, at, column)
                return None
            known = member
        return known

    def _report_missing(self, miss: Missing, path: Path, i: int, name: str, at: ExprPath, column: int | None) -> None:
        place = name.removeprefix("out.") + "".join(f"[{k}]" if type(k) is int else f".{k}" for k in path[:i])
        subject = f"the output of {place!r}" if name.startswith("out.") else f"{place!r}"
        if miss.kinds:
            container = "a list" if type(path[i]) is int else "an object"
            self.add_problem(
                f"{subject} is {describe_kinds(miss.kinds)}, not {container}; it has no {path[i]!r}", at, column=column
            )
            return
        has = f"; it has: {join_names(miss.known)}" if miss.known else ""
        suggestion = did_you_mean(str(path[i]), miss.known)
        self.add_problem(f"{subject} has no {path[i]!r}{has}", at, suggestion=suggestion, column=column)

    # --- functions ------------------------------------------------------------------------------

    def _function_type(self, expr: Fn, at: ExprPath) -> Type:
        name = expr.name
        if name in _PRESENCE_FUNCTIONS:
            self.tested += tuple(_split_path(arg) for arg in expr.args if isinstance(arg, Ref | Var | Fn))
        # Infer the arguments first, so that a wrong call does not hide mistakes inside them.
        argument_types = [self.infer_type(arg, at) for arg in expr.args]
        from ..expr.calls import FUNCTIONS  # loads every function

        function = FUNCTIONS.get(name)
        arity = (function.least, function.most) if function is not None else _OPERATOR_ARITY.get(name, (-1, None))
        minimum, maximum = arity
        if minimum < 0:
            suggestion = did_you_mean(name, FUNCTIONS)
            self.add_problem(f"unknown function {name!r}", at, suggestion=suggestion, column=expr.column)
            return None
        if len(argument_types) < minimum or (maximum is not None and len(argument_types) > maximum):
            expected = (
                f"at least {minimum}"
                if maximum is None
                else f"{minimum}"
                if minimum == maximum
                else f"{minimum} to {maximum}"
            )
            self.add_problem(
                f"{name!r} takes {expected} argument{'s' if expected != '1' else ''}, not {len(argument_types)}",
                at,
                column=expr.column,
            )
            return None
        # A secret may not be changed by a function, because redaction finds only unchanged text.
        refusal = secret_refusal(name, argument_types)
        if refusal is not None:
            self.add_problem(refusal, at, column=expr.column)
        returns = _OPERATORS.get(name) or (_TYPES.get(function.returns or "") if function is not None else None)
        secret = secret_passed_on(name, argument_types, returns) if name not in _TRACKS_SECRETS else None
        if secret is not None:
            return secret
        # The result depends on the arguments for some functions; for the others the registry has its kind.
        if name in _ARITHMETIC:
            self._check_numbers(expr, argument_types, at)
        else:
            self._check_operands(expr, argument_types, at)
        if name == "[]":
            return self._indexed_type(expr, argument_types, at)
        if name in ("merge", "deep_merge"):
            return merge_types(argument_types, deep=name == "deep_merge")
        rule = RESULTS.get(name)
        return rule(argument_types) if rule is not None else returns

    def _indexed_type(self, expr: Fn, argument_types: list[Type], at: ExprPath) -> Type:
        """Return the type of a member of an expression, and report a member that cannot exist."""
        secret = secret_passed_on(expr.name, argument_types, None)
        member = indexed_type(*argument_types)
        if type(member) is not Missing:
            return secret if member is None else member
        holder, path = _split_path(expr)
        if not self.tested or not self._tested_length(holder, path):
            key = argument_types[1].value
            self._report_missing(member, (key,), 0, brief(expr.args[0]), at, expr.column)
        return None

    def _check_operands(self, expr: Fn, argument_types: list[Type], at: ExprPath) -> None:
        problem = operand_problem(expr.name, argument_types)
        if problem is not None:
            position, message = problem
            self.add_problem(message, at, column=getattr(expr.args[position], "column", expr.column))

    def _check_numbers(self, expr: Fn, argument_types: list[Type], at: ExprPath) -> None:
        symbol = "-" if expr.name == "neg" else expr.name
        for arg, argument_type in zip(expr.args, argument_types, strict=True):
            bits = kinds_of(argument_type)
            if bits != NULL and not bits & _ANY_NUMBER and bits != ALL:
                self.add_problem(
                    f"{symbol!r} needs numbers; this is {describe_kinds(bits)}",
                    at,
                    column=getattr(arg, "column", expr.column),
                )

    def _macro_type(self, expr: Each, at: ExprPath) -> Type:
        from ..expr.calls import RUNNERS

        field, labels = self.field, self.node.meta.labels if self.node is not None else {}
        if at is None and f"{field}.source" in labels:
            self.field = f"{field}.source"  # the document has its own name for the source
        source = self.infer_type(expr.source, at)
        bits = kinds_of(source)
        if not bits & (ARRAY | NULL | OBJECT):
            self.add_problem(
                f"must be a list; this is {describe_kinds(bits)}", at, column=getattr(expr.source, "column", None)
            )
        self.field = field
        if expr.kind not in RUNNERS:
            suggestion = did_you_mean(expr.kind, RUNNERS)
            self.add_problem(f"unknown function {expr.kind!r}", at, suggestion=suggestion, column=expr.column)
        # Bind the macro's variables to the type of the source's elements.
        extra = [self.infer_type(inner, at) for inner in expr.extra]
        outer_names = self.names
        item = elements_of(source)
        source_secret = find_secret(source)
        if (
            item is None and source_secret is not None and type(source) is not dict
        ):  # keys of a dict are in the definition
            item = Secret(source_secret.name)
        bound: dict[str, Any] = dict.fromkeys(expr.names)
        # A reduction binds the element, the accumulator and the position; other macros the element and the position.
        bound |= zip(expr.names, (item, None, INTEGER) if expr.kind == "reduce" else (item, INTEGER), strict=False)
        if expr.kind == "reduce" and len(expr.names) > 1:
            bound[expr.names[1]] = self._accumulator_type(expr, item, extra, bound, at)
        self.names = {**outer_names, **bound}
        try:
            body = self.infer_type(expr.body, at)
        finally:
            self.names = outer_names
        self._check_macro_body(expr, body, at)
        known = macro_result(expr.kind, item, body)
        if expr.kind == "reduce" and len(expr.names) > 1:
            total = bound[expr.names[1]]
            known = None if total is None else union_type(total, body)
        # A secret in the source or the body is part of whatever the macro returns, unless that is a boolean.
        if expr.kind == "map" or known == BOOLEAN or (known is not None and find_secret(known) is not None):
            return known
        secret = next(filter(None, map(find_secret, (source, body, *extra))), None)
        if secret is not None and not (expr.kind in ("filter", "sort") and kinds_of(known) == ARRAY):
            return Secret(secret.name, _MACRO_KINDS.get(expr.kind, ALL))
        return known

    def _accumulator_type(
        self, expr: Each, item: Type, extra: list[Type], bound: dict[str, Type], at: ExprPath
    ) -> Type:
        """Return the type of the accumulator of a reduction: of the initial value, or of the body."""

        # The body is inferred twice without reporting: with the initial value, and with the union of both. If the
        # second result is not part of the union, the type is unknown.
        initial = extra[0] if extra else NULL
        secret = find_secret(item) or find_secret(initial)
        if secret is not None or self.quiet:  # a nested reduction needs no pass of its own
            return None if secret is None else Secret(secret.name)
        accumulator = expr.names[1]
        outer_names, tested = self.names, self.tested
        self.quiet = True
        try:
            self.names = {**outer_names, **bound, accumulator: initial}
            first = self.infer_type(expr.body, at)
            total = union_type(initial, first)
            self.names = {**outer_names, **bound, accumulator: total}
            second = self.infer_type(expr.body, at)
        finally:
            self.names, self.tested, self.quiet = outer_names, tested, False
        secret = find_secret(first) or find_secret(second)
        if secret is not None:
            return Secret(secret.name)
        return total if total is not None and includes(total, second) else None

    def _check_macro_body(self, expr: Each, body: Type, at: ExprPath) -> None:
        """Report a body that cannot work for any element."""
        if expr.kind in _PREDICATE_MACROS and not kinds_of(body) & (BOOLEAN | NULL):
            self.add_problem(
                f"the condition of {expr.kind} must be true or false; this is {describe_kinds(kinds_of(body))}",
                at,
                column=expr.column,
            )
        elif expr.kind == "reduce" and isinstance(expr.body, Lit):
            self.add_problem(
                f"reduce always gives {show(expr.body)}, because its body ignores the elements", at, column=expr.column
            )
        elif expr.kind in ("sort", "group_by"):
            keys = expr.body.items if isinstance(expr.body, Arr) else (expr.body,)
            for key in keys:
                if isinstance(key, Lit):
                    self.add_problem(
                        f"{expr.kind} uses the same key {show(key)} for every element",
                        at,
                        column=expr.column,
                        suggestion=_suggest_key(expr, key.value),
                    )


def _suggest_key(expr: Each, key: Json) -> str:
    """Return the key that was probably meant: the field of this name, or in a sort the elements in this order."""
    element_type = expr.names[0]
    if expr.kind == "sort" and key in ("asc", "desc") and not expr.extra:
        return f'{element_type}, "{key}"'
    if type(key) is list and key and all(type(name) is str for name in key):
        return show(Arr(tuple(Var(element_type, (name,)) for name in key)))
    return show(Var(element_type, (key,) if type(key) is str else ()))


def _split_path(expr: Ref | Var | Fn) -> tuple[str | Expr, Path]:
    """Return what an expression reads a member of, and the path to the member."""
    if isinstance(expr, Ref):
        return expr.root, expr.path
    if isinstance(expr, Var):
        return Var(expr.name), expr.path
    path: list[str | int] = []
    holder: Expr = expr
    while isinstance(holder, Fn) and holder.name == "[]" and len(holder.args) == 2:
        key = holder.args[1]
        if not isinstance(key, Lit) or type(key.value) not in (str, int):
            break
        path.insert(0, key.value)
        holder = holder.args[0]
    return holder, tuple(path)


def _owner_ids(owners: Owners) -> list[str]:
    ids = []
    while owners is not None:
        owners, owner = owners
        ids.append(owner.id)
    return ids
