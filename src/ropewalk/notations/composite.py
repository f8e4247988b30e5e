"""The notation `composite`: steps in sequence, each a tool call, as one tool.

**Reading.** `compile_document` turns the document into a Flow; `spec_problems` are the checks that a builder makes
first. `StepReader` binds `$input`, `$prev` and `$steps`. A string that begins with `$` and refers to none of these,
or to a later step, is *unresolved*: it stays text with a warning or, if the composite is strict, it is a problem.
Both have the keyword `unresolved`.

**Writing.** `CompositeWriter` writes a flow of tool calls in sequence. A computed value is written wherever it is
read. The calls in a choice become steps with its condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NotRequired, TypedDict

from ..errors import ExpressionError, InvalidFlow, NodeFailed, Problem
from ..expr import lift
from ..expr.ast import NULL, Arr, Expr, Fn, Lit, Obj, Ref, rebind, refs, select, subexpressions
from ..expr.lift import UNRESOLVED
from ..fast_dataclass import dataclass
from ..ir import NO_POLICY, Channel, Flow, Graph, Meta, Node, Op, nodes_of
from ..ops import Block, Branch, Call, Compute, Map, Wait
from ..problems import MOST_PROBLEMS, Warnings
from ..values import Json, did_you_mean
from . import fields as f
from .binding import STATE, warn_of_references
from .fields import Checker, Report, add_problem, check_wait_kind, join, normalize_keys, read_document
from .node_fields import (
    DOCUMENT_FIELDS,
    VALUE_NULLS,
    Failing,
    attach,
    check_fallback,
    checkers,
    compile_policy,
    compile_wait,
    in_order,
    read_common,
    read_failing,
    spellings,
    write_of,
)
from .registry import Compiled, all_problems, failures
from .undo import check_undo, compile_undo, write_undo
from .writing import POLICY, Fields, FlowWriter, as_map, is_repeated, sorted_nodes

WIDTH: Final = 8
ROOTS: Final = frozenset(("input", "prev", "steps"))
ITEM_ROOTS: Final = frozenset(("item", "index"))
LABELS: Final = {"args": "inputMapping", "when": "condition", "tool": "tool"}
STEP_FIELDS: Final[dict[str, Checker]] = {
    "tool": f.anything,  # which `spec_problems` looks at
    "inputMapping": f.anything,
    "kind": f.one_of(("call", "wait")),
    "event": f.name,
    "approval": f.name,
    "undo": check_undo,
    **checkers("composite"),
}
_LIKE_STEP: Final = re.compile(r"\$(?:(?:output|steps)\.)?([A-Za-z_]\w*)((?:[.\[].*)?)")
_NAME: Final = re.compile(r"[\w-]+")
_LITERAL_WARNING: Final = ('Unresolved reference "', '" treated as literal')
"""The message of `lift` about a string that it leaves unchanged; the string is in the middle."""
_NOT_IN_IDS: Final = re.compile(r"[/\[\]@\x00-\x1f\x7f-\x9f]")


class ComposableStep(TypedDict):
    """One step of a composite tool, for type checkers."""

    tool: str
    name: NotRequired[str]
    inputMapping: NotRequired[dict[str, Any]]
    condition: NotRequired[str]


class ComposableToolSpec(TypedDict):
    """The spec of a composite tool, for type checkers."""

    mode: NotRequired[Literal["compose"]]
    steps: list[ComposableStep]


@dataclass(frozen=True, slots=True)
class Steps:
    """The nodes of a composite, and the document of each at the same position."""

    nodes: list[Node]
    documents: list[dict[str, Json]]


@dataclass(frozen=True, slots=True)
class StepFields:
    """A step as read: its place and its fields."""

    path: str
    fields: dict[str, Json]

    @property
    def id(self) -> str:
        """Return its name, by default that of its tool."""
        return str(self.fields.get("name") or self.fields.get("tool") or self.fields.get("kind", ""))


class Unresolved(Exception):
    """Raised for a reference that refers to nothing."""


class StepReader:
    """Read the steps of one composite into `steps`."""

    def __init__(self, fields: Mapping[str, Any], report: Report) -> None:
        self.strict, self.report, self.fields = bool(fields.get("strict")), report, fields
        self.warnings: Report = Warnings()
        self.steps = Steps([], [])
        self.failing = read_failing(fields, "on_error", "composite", Failing(), fields)
        self._places: dict[int, int] = {}  # by position in the document, that among the steps read so far
        self._ids: set[str] = set()
        self._counts: dict[str, int] = {}
        # `$var` is text in a composite without variables.
        self.roots = ROOTS | STATE if fields.get("variables") else ROOTS
        self.written: set[str] = set()

    def read(self, steps: Sequence[Json]) -> None:
        """Read the steps, each after those that it depends on; each may refer to those before it."""
        read = [self._fields(step, f"steps[{i}]") for i, step in enumerate(steps)]
        if any(step.fields.get("outputVar") for step in read):
            self.roots = ROOTS | STATE
        positions = {step.path: i for i, step in enumerate(read)}
        for i, step in enumerate(in_order(read, self.report)):
            self._places[positions[step.path]] = i
            self._step(step)

    def _fields(self, step: Json, path: str) -> StepFields:
        others = spellings("composite")
        fields = (
            normalize_keys(step, STEP_FIELDS, path, self.report, others=others) if isinstance(step, Mapping) else {}
        )
        fields = {key: value for key, value in fields.items() if value is not None or key in VALUE_NULLS}
        for key, value in fields.items():
            fields[key] = STEP_FIELDS[key](value, join(path, key), self.report)
        check_fallback(fields, "composite", path, self.report)
        if fields.get("kind") == "wait":
            check_wait_kind(fields, "a wait step ", path, self.report)
        return StepFields(path, fields)

    def _step(self, step: StepFields) -> None:
        fields, path = step.fields, step.path
        common = read_common(fields, "composite", path, self.failing)
        # The document keeps the step in its normal form, with a name and a mapping.
        tool, waits = str(fields.get("tool", "")), fields.get("kind") == "wait"
        document = {"name": step.id, **({} if waits else {"tool": tool, "inputMapping": {}}), **fields}
        document["name"] = step.id
        roots = self.roots | ITEM_ROOTS if common.is_repeated else self.roots
        id = self._id(step.id)
        op: Op
        if waits:
            op = compile_wait(fields, path, self, roots)
        else:
            args = self._args(document["inputMapping"], join(path, "inputMapping"), roots)
            op = Call(tool=tool, args=args, undo=compile_undo(fields.get("undo"), join(path, "undo"), self.report))
        self.written |= {fields["outputVar"]} if fields.get("outputVar") else set()
        node = Node(
            id=common.inner_id(id),
            op=op,
            writes=write_of(fields.get("outputVar"), id),
            policy=compile_policy(common, self, roots | {"error"}, has_timeout=not waits),
            meta=Meta(
                source=path,
                labels=LABELS,
                description=str(fields.get("description", "")),
                phase=fields.get("phase"),
            ),
        )
        self.steps.nodes.append(attach(node, common, self, self.roots, int(self.fields.get("concurrency", WIDTH))))
        self.steps.documents.append(document)

    def _id(self, name: str) -> str:
        """Return a node id for the name of a step; other steps may have the same name."""
        base = _NOT_IN_IDS.sub("_", name).strip() or "step"
        id, count = base, self._counts.get(base, 1)
        while id in self._ids:
            count += 1
            id = f"{base}~{count}"
        self._counts[base] = count  # remembered, so that many equal names take linear time
        self._ids.add(id)
        return id

    # --- values and conditions --------------------------------------------------------------------

    def _args(self, mapping: Json, path: str, roots: frozenset[str]) -> Expr:
        is_text = isinstance(mapping, str)
        if not isinstance(mapping, dict) and not is_text:
            add_problem(self.report, path, f"must be an object, not {f.type_name(mapping)}")
            return Lit({})
        before = len(self.report)
        args = self.value(mapping, path, roots)
        if is_text and isinstance(args, Lit) and len(self.report) == before:
            add_problem(self.report, path, "must be an object or a reference to one, not a string")
        return args

    def value(self, value: Json, path: str, roots: frozenset[str]) -> Expr:
        """Compile JSON with references in it; one with an unknown root is text."""
        problems: Report = []
        expr = self._bind_refs(
            value, lift(value, roots, unknown="literal", path=path, problems=problems), path, problems
        )
        for problem in problems:
            if problem.keyword != UNRESOLVED:
                self.report.append(problem)
                continue
            if len(self.warnings) >= MOST_PROBLEMS:
                continue  # further warnings would be dropped, so skip the search
            text = problem.message.removeprefix(_LITERAL_WARNING[0]).removesuffix(_LITERAL_WARNING[1])
            suggestion = problem.suggestion or self._step_meant(text)
            if self.strict:
                self.report.append(unresolved_problem(problem.path, text, suggestion))
            else:
                self.warnings.append(replace(problem, suggestion=suggestion))
        warn_of_references(value, path, roots, self.warnings, "input")
        return expr

    def _step_meant(self, text: str) -> str | None:
        """Return the reference to a step that an unresolved one resembles: `$steps.s` for `$output.s` and `$s`."""
        match = _LIKE_STEP.fullmatch(text)
        names = [str(document["name"]) for document in self.steps.documents]
        near = did_you_mean(match[1], names) if match else None
        return f"$steps.{near}{match[2]}" if match and near and _NAME.fullmatch(near) else None

    def _bind_refs(self, value: Json, expr: Expr, path: str, problems: Report) -> Expr:
        """Bind the references to steps in the expression of `value`; a string with an unresolved one stays text."""
        if type(value) is dict and isinstance(expr, Obj):
            fields = zip(value.items(), expr.fields, strict=True)
            return Obj(
                tuple((k, self._bind_refs(item, tree, f"{path}.{k}", problems)) for (k, item), (_, tree) in fields)
            )
        if type(value) is list and isinstance(expr, Arr):
            items = zip(value, expr.items, strict=True)
            return Arr(
                tuple(self._bind_refs(item, tree, f"{path}[{i}]", problems) for i, (item, tree) in enumerate(items))
            )
        if isinstance(expr, Lit):
            return expr
        try:
            return rebind(expr, self._bind)
        except Unresolved:
            message = str(value).join(_LITERAL_WARNING)
            problems.append(Problem(path=path, message=message, keyword=UNRESOLVED))
            return Lit(value)

    def _bind(self, ref: Ref) -> Expr:
        if ref.root in STATE and self.roots >= STATE:
            return Ref("state", ref.path, column=ref.column, original=ref)
        if ref.root in ITEM_ROOTS or ref.root == "error":
            return ref
        if ref.root not in ROOTS and ref.root != "output":
            raise Unresolved
        if ref.root not in ("steps", "output"):
            return ref
        documents, nodes = self.steps.documents, self.steps.nodes
        head = ref.path[0] if ref.path else None
        at = (
            self._places.get(head, len(nodes))
            if isinstance(head, int)
            else next((i for i in reversed(range(len(documents))) if documents[i]["name"] == head), len(nodes))
        )
        if head is None or at >= len(nodes):
            raise Unresolved
        return Ref("out", (nodes[at].id, *ref.path[1:]), elide=True, column=ref.column, original=ref)

    def expression(self, text: Json, path: str, roots: frozenset[str]) -> Expr:
        """Compile the text of a condition."""
        if isinstance(text, bool):
            return Lit(text)
        if not isinstance(text, str) or not text.strip():
            return NULL  # reported when the field was checked
        from ..expr import parse

        try:
            return rebind(parse(text), self._bind)
        except ExpressionError as exc:
            if exc.message.startswith("unknown reference"):
                self.report.append(unresolved_problem(path, text, exc.suggestion))
            else:
                self.report.append(
                    Problem(path=path, message=exc.message, column=exc.at + 1, suggestion=exc.suggestion)
                )
        except Unresolved:
            # A condition cannot be plain text, so an unresolved reference in it is always a problem.
            self.report.append(unresolved_problem(path, text))
        return NULL


def unresolved_problem(path: str, text: str, suggestion: str | None = None) -> Problem:
    """Return the problem of an expression that refers to nothing."""
    message = f'Unresolved reference expression: "{text}". Available: $input, $prev, $steps[N]'
    return Problem(path=path, message=message, suggestion=suggestion, keyword=UNRESOLVED)


NAMESPACE: Final = "composable"
"""The namespace of composite tools in their source system: `composable:<name>` is an alias of `<name>`."""

FIELDS: Final[dict[str, Checker]] = {
    **DOCUMENT_FIELDS,
    "name": f.name,
    "inputSchema": f.mapping,
    "outputSchema": f.mapping,
    "mode": f.one_of(("compose",)),
    "steps": f.anything,
}


def find_spec_problems(spec: Any) -> list[Problem]:
    """Return the mistakes in the shape of a spec, one problem per failing check."""
    steps = spec.get("steps") if isinstance(spec, Mapping) else None
    if not isinstance(steps, (list, tuple)) or not steps:
        return [Problem(path="steps", message="ComposableToolSpec.steps must be a non-empty array.")]
    problems: list[Problem] = []
    for i, step in enumerate(steps):
        tool = step.get("tool") if isinstance(step, Mapping) else None
        waits = isinstance(step, Mapping) and "wait" in (step.get("kind"), step.get("type"))
        if not waits and (not isinstance(tool, str) or not tool.strip()):
            message = f'Step at index {i} has an empty or missing "tool" name.'
            problems.append(Problem(path=f"steps[{i}].tool", message=message))
            if len(problems) == MOST_PROBLEMS:
                break
    return problems


def fits(document: Mapping[str, Json]) -> bool:
    """Return True if a document without `kind` has the shape of a composite."""
    return str(document.get("mode")).strip().lower() == "compose" and "steps" in document


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    """Write a flow as a composite."""
    return CompositeWriter.write(flow, losses)


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a composite."""
    fields, report = read_document(config, FIELDS, "composite")
    if "name" not in fields:
        add_problem(report, "name", "required: the name of the tool")
    # Converting a flow without a tool call gives a composite without steps, which calls nothing.
    is_empty = fields.get("steps") == [] and config.get("kind") == "composite"
    spec_problems = [] if is_empty else find_spec_problems(fields)
    report += spec_problems
    reader = StepReader(fields, report)
    steps = reader.steps
    if not any(problem.path == "steps" for problem in spec_problems):
        reader.read(fields["steps"])
    flow = _flow(fields, reader)
    if report:
        raise InvalidFlow(all_problems(report, flow), flow)
    name = str(fields["name"])
    document: dict[str, Json] = {"name": name, "description": "", "mode": "compose", **fields, "steps": steps.documents}
    return Compiled(
        kind="composite",
        id=str(fields.get("id", name)),
        name=name,
        document=document,
        flow=flow,
        warnings=tuple(reader.warnings),
        render=Rendering(name, steps),
        namespace=NAMESPACE,
        typed_at="outputSchema",
    )


def _flow(fields: Mapping[str, Any], reader: StepReader) -> Flow:
    timeout, variables = fields.get("timeout"), fields.get("variables") or {}
    state = {name: Channel(initial=value) for name, value in variables.items()}
    state |= {name: Channel(present=False) for name in sorted(reader.written - variables.keys())}
    result: Expr = Ref("prev")
    if fields.get("result") is not None:
        result = reader.value(fields["result"], "result", reader.roots | {"output"})  # as in every notation
    return Flow(
        name=str(fields.get("name", "")),
        # `prev` is the result of the last step that ran; a skipped step leaves it unchanged.
        body=Graph(nodes=tuple(reader.steps.nodes), result=result, ordered=True),
        state=state,
        input_schema=fields.get("inputSchema"),
        output_schema=fields.get("outputSchema"),
        timeout=timeout / 1000 if timeout else None,
        undo=fields.get("undo"),
        budget=fields.get("budget"),
    )


class Rendering:
    """Write an ending as the result of a composite: `result` is the output, `error` a text."""

    def __init__(self, name: str, steps: Steps) -> None:
        self.name = name
        self.steps = {node.id: document for node, document in zip(steps.nodes, steps.documents, strict=True)}
        self.named = [(id, step["name"], step.get("tool")) for id, step in self.steps.items()]

    def __call__(self, ending: Any) -> dict[str, Json]:
        failed = ending.error.node if isinstance(ending.error, NodeFailed) else None
        outputs, skipped = ending.outputs, ending.skipped
        # Steps after a failure did not run and are left out.
        return {
            "success": ending.status == "completed",
            "executionId": ending.run_id,
            "composite": self.name,
            "status": ending.status,
            "result": ending.value,
            "steps": [
                {
                    "name": name,
                    "tool": tool,
                    "status": "failed" if id == failed else "skipped" if id in skipped else "completed",
                    "output": outputs.get(id),
                }
                for id, name, tool in self.named
                if id in outputs or id == failed
            ],
            "error": self._error(ending.error),
            "errors": failures(ending),
            "duration": round(ending.duration * 1000, 3),
        }

    def _error(self, error: Exception | None) -> str | None:
        if isinstance(error, NodeFailed) and error.node in self.steps:
            step = self.steps[error.node]
            return f'Step "{step["name"]}" (tool: "{step.get("tool")}") failed: {error.message}'
        return None if error is None else str(error)


SUPPORTED: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "when", "writes", "policy", "meta", "after"),
    Call: ("tool", "args", "undo"),
    Wait: ("event", "approval", "timeout"),
    Map: ("items", "body", "limit", "most"),
    Compute: ("value",),
    Branch: ("arms", "default"),
    Block: ("body",),
    **POLICY,
}
READ_ROOTS: Final = ("input", "prev", "item", "index", "error")
PREV: Final = Ref("prev")
MAX_INLINED: Final = 100_000
"""The most parts of values that one composite repeats. Values that read others twice double at every level."""


@dataclass(frozen=True, slots=True)
class Around:
    """The surroundings of a node: its path, and the condition of the choice that it is in."""

    path: str = ""
    condition: Expr | None = None


class CompositeWriter(FlowWriter[Around]):
    """Write one flow as a composite."""

    kind, supported = "composite", SUPPORTED

    def document(self) -> Fields:
        """Return the steps and the result; what a composite cannot hold is refused."""
        body = self.flow.body
        self.steps: list[Fields] = []
        self.positions: dict[str, int] = {}  # the position of each step, by the id of its node
        self.values: dict[str, Expr] = {}  # the values of nodes that do not become steps
        self.prev: Expr | None = PREV  # the meaning of the flow's `prev` at this point; None: no reference has it
        self.last: Expr = PREV  # another expression for the composite's `$prev` at this point
        self.sizes: dict[int, tuple[Expr, int]] = {}  # by identity; the value is kept so that its id stays unique
        self.inlined = 0
        self.is_written = any(node.writes is not None for node in nodes_of(body))
        # The steps come first, because the result is compared with the value of the last one.
        self._region(body, Around())
        value = self._inline(body.result, "result")
        result = self.result(PREV if value == self.last else value, PREV, Around())
        return {"mode": "compose", **self.variables(), "steps": self.steps, **result}

    def _region(self, body: Graph, around: Around) -> None:
        nodes, sure = sorted_nodes(body)
        if not sure:
            self.refuse(
                around.path.rstrip("/") or "nodes",
                "the steps of a composite run in sequence, not as soon as their inputs are ready",
            )
        for node in nodes:
            self._node(node, around)

    def _node(self, node: Node, around: Around) -> None:
        path = f"{around.path}{node.id}"
        self.refuse_unsupported(node, path)
        step, fields = self.without_wait(replace(node, op=as_map(node.op)), path, around)
        if is_repeated(step.op):
            step, repeated = self.for_each(step, step.op, path, around, WIDTH)
            fields |= repeated
        op, plain = step.op, step.when is None and step.writes is None and step.policy == NO_POLICY
        if isinstance(op, (Call, Wait)):
            self._step(step, fields, path, around)
            return
        if isinstance(op, Compute) and plain and _is_template(op.value):
            self.values[node.id] = self._inline_for_later(op.value, path)
        elif isinstance(op, Block) and plain:
            self._region(op.body, Around(f"{path}/", around.condition))
            self.values[node.id] = self._keep(self._inline(op.body.result, path), path)
        elif isinstance(op, Branch) and plain and len(op.arms) == 1:
            self._write_choice(node.id, op, path, around)
        else:
            self.refuse_op(node, path, "the steps of a composite call tools or wait")
            self.values[node.id] = NULL
        self.prev = self.values[node.id]

    def _step(self, node: Node, more: Fields, path: str, around: Around) -> None:
        op: Any = node.op
        fields: Fields = {"name": node.id}
        if isinstance(op, Wait):
            fields |= {"type": "wait", **self.wait(op, path, around)}
        else:
            fields |= {"tool": op.tool, **write_undo(op.undo)}
            if op.args not in (Lit({}), Obj(())):
                fields["inputMapping"] = self.value(self._inline(op.args, f"{path}.args"), f"{path}.args", around)
        when, error = node.when, node.policy.on_error
        if when is not None:
            when = self._inline(when, f"{path}.when")
        if around.condition is not None:
            when = around.condition if when is None else Fn("&&", (around.condition, when))
        if error is not None:
            error = replace(error, value=self._inline(error.value, f"{path}.fallback"))
        written = replace(node, when=when, policy=replace(node.policy, on_error=error))
        self.positions[node.id] = len(self.steps)
        self.steps.append(fields | more | self.common_fields(written, path, around))
        # If a condition skips the step, `$prev` is the step before it, which must be the flow's `prev`, too.
        self.prev = PREV if node.when is None or self.prev in (PREV, self.last) else None
        self.last = Ref("out", (node.id,)) if node.when is None else PREV

    def _write_choice(self, id: str, op: Branch, path: str, around: Around) -> None:
        """Write the calls of both sides as steps, each with the condition of its side."""
        [(test, then)] = op.arms
        condition_value = self._inline_for_later(test, f"{path}.condition")
        sides: list[tuple[Expr, Graph]] = [(Fn("==", (condition_value, Lit(True))), then)]
        sides.append((Fn("!=", (condition_value, Lit(True))), op.default or Graph(nodes=(), ordered=True)))
        if not any(ref.root == "prev" for ref in refs(test)) and _is_boolean(test):
            sides[0] = (condition_value, then)
        # Both sides start from the same `prev`.
        before, last, values, both_end_with_value = self.prev, self.last, [], True
        for condition, body in sides:
            self.prev, self.last = before, last
            side_condition = condition if around.condition is None else Fn("&&", (around.condition, condition))
            self._region(body, Around(f"{path}/", side_condition))
            values.append(self._inline(body.result, path))
            both_end_with_value = both_end_with_value and bool(body.nodes) and values[-1] in (PREV, self.last)
        value = Fn("?:", (sides[0][0], values[0], values[1]))
        if PREV in values:
            self.refuse(path, "a composite cannot refer to the value of a step that may be skipped")
        self.values[id] = self._keep(value, path)
        self.last = value if both_end_with_value else PREV

    # --- values -----------------------------------------------------------------------------------

    def _inline(self, expr: Expr, path: str) -> Expr:
        """Return the expression with the values of nodes that are not steps in place of their references."""

        values = [self.prev if ref.root == "prev" else self._value(ref) for ref in refs(expr)]
        self.inlined += sum(self._size(value) for value in values if value is not None and value != PREV)
        if self.inlined > MAX_INLINED:
            self.refuse(path, "a composite repeats a value wherever it is read, and these values become too large")
            return NULL

        def bind(ref: Ref) -> Expr:
            if ref.root == "prev" and self.prev is None:
                self.refuse(path, "a composite cannot refer to the value of a step that may be skipped")
                return NULL
            if ref.root == "prev":
                return _member(self.prev or PREV, ref.path)
            if ref.root != "out" or str(ref.path[0]) not in self.values:
                return ref
            if ref.elide and ref.path[1:2] == ("output",):
                self.refuse(path, f"reads the field `output` of {ref.path[0]!r}, which is not a step in a composite")
            return _member(self.values[str(ref.path[0])], ref.path[1:])

        with self.entire(path):
            return rebind(expr, bind)

    def _value(self, ref: Ref) -> Expr | None:
        """Return the value to write in place of a reference; None if the reference stays."""
        return self.values.get(str(ref.path[0])) if ref.root == "out" else None

    def _size(self, value: Expr) -> int:
        """Return how many parts a value has, counted once for each value."""
        known = self.sizes.get(id(value))
        if known is None:
            known = self.sizes[id(value)] = (value, sum(1 for _ in subexpressions(value)))
        return known[1]

    def _inline_for_later(self, expr: Expr, path: str) -> Expr:
        """Inline an expression that is read later, when `$prev` is another step."""

        def bind(ref: Ref) -> Expr:
            if ref.root != "prev":
                return ref
            if self.last == PREV:
                self.refuse(path, "a composite cannot refer to the value of a step that may be skipped")
                return NULL
            return _member(self.last, ref.path)

        with self.entire(path):
            return self._keep(rebind(self._inline(expr, path), bind), path)

    def _keep(self, value: Expr, path: str) -> Expr:
        """Return a value that is read later; refuse it if a step may have changed a variable by then."""
        if self.is_written and any(ref.root == "state" for ref in refs(value)):
            self.refuse(path, "a composite reads variables when a step runs, and cannot keep their earlier values")
        return value

    def bind(self, ref: Ref, path: str, around: Around) -> Expr:
        if ref.root == "out":
            position = self.positions.get(str(ref.path[0]))
            # Refer by position, because step names may repeat; a lost step gives null.
            return self.output(ref, "steps", position) if position is not None else NULL
        if ref.root == "status":
            return self.status(ref, path)
        if ref.root == "state":
            return Ref("var", ref.path)
        if ref.root not in READ_ROOTS:
            self.refuse(path, f"a composite cannot read ${ref.root}; pass the value as an input")
            return NULL
        return ref


def _is_template(value: Expr) -> bool:
    """Return True if a value consists of others without functions, so that it cannot fail or take time."""
    if isinstance(value, Obj):
        return all(_is_template(inner) for _, inner in value.fields)
    if isinstance(value, Arr):
        return all(map(_is_template, value.items))
    return isinstance(value, (Lit, Ref))


def _is_boolean(test: Expr) -> bool:
    return isinstance(test, Fn) and test.name in ("==", "!=", "!")


def _member(holder: Expr, path: tuple[str | int, ...]) -> Expr:
    for i, key in enumerate(path):
        if isinstance(holder, Obj):
            holder = next((value for name, value in holder.fields if name == key), NULL)
        elif isinstance(holder, Lit):
            value = holder.value
            holder = Lit(value.get(key)) if isinstance(value, dict) else _select_path(holder, path[i:])
            if not isinstance(holder, Lit):
                return holder
        else:
            return _select_path(holder, path[i:])
    return holder


def _select_path(holder: Expr, path: tuple[str | int, ...]) -> Expr:
    for key in path:
        holder = select(holder, key)
    return holder
