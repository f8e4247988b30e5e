"""Write flows as plans: Python with `if`, `for`, `try`, `asyncio.gather` and calls of tools.

Every node becomes a statement whose name is made of the node's id. Where an expression of the flow means something else
in Python, a local function at the beginning of the program has its meaning (`write_functions`). The writer refuses
everything else, each with its place: a node's status, secrets, reported failures, state that parallel nodes share.
"""

from __future__ import annotations

import ast
import keyword
from typing import Any, ClassVar, Final

from ...errors import ExpressionError
from ...expr.ast import NULL, Expr, Obj, Ref, refs
from ...ir import Graph, Node, OnError, Policy, Retry, node_parts, refs_inside
from ...ops import Block, Branch, Call, Compute, Loop, Map, Require, Sleep, Wait
from ..writing import Fields, sorted_nodes
from .write_concurrent import ConcurrentNodes, conflicts_of
from .write_expressions import Typed, called, literal, negated
from .write_functions import FUNCTIONS, with_needed
from .write_loops import LoopWriter
from .write_state import reduced, written_channels
from .write_types import NONE, UNKNOWN, Certain, either, of_kind, of_schema, of_value
from .write_values import Here, is_bare_call, plain

SUPPORTED: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "after", "gate", "when", "result", "writes", "policy", "meta"),
    Call: ("tool", "args"),
    Compute: ("value",),
    Policy: ("retry", "timeout", "on_error"),
    Retry: ("attempts", "delay", "factor", "linear", "max_delay"),
    OnError: ("value", "writes"),
}
_MODEL: Final = "ropewalk:"
_KEYWORDS: Final = frozenset(keyword.kwlist)


class PlanWriter(LoopWriter):
    """Write one flow as a plan."""

    supported, has_seeds = SUPPORTED, True
    keys: ClassVar = {"timeout": "timeout", "input_schema": "input", "output_schema": "output"}

    def document(self) -> Fields:
        """Return the document; what a plan cannot hold is refused."""
        # Twice: names avoid those of the local functions that turn out to be needed, and of no others.
        self.start(set(FUNCTIONS))
        self._program()
        self.start({*with_names(self.needed)})
        code = self._program()
        fields: Fields = {}
        undeclared = [name for name in self.inputs_read() if name not in self.schema.get("properties", {})]
        if undeclared:
            fields["inputs"] = list(undeclared)
        return {**fields, "code": code, "tools": {name: {"id": id} for id, name in self.tools.items()}}

    def _program(self) -> str:
        """Return the text of the program."""
        flow, here, lines = self.flow, Here(), self.lines
        body = flow.body
        for name, channel in flow.state.items():
            initial = literal(channel.initial if channel.present else None)
            if name in flow.seeds:
                initial = self._seeded(name, initial)
            if self.is_kept(name):
                lines.set(self.state[name], initial)
        result = self.region(body, here, "result")
        # The value of a last expression would be the result.
        is_null = isinstance(result.node, ast.Constant) and result.node.value is None
        if not is_null or _ends_in_expression(lines.lines):
            lines.add(f"return {ast.unparse(result.node)}")
        return "\n".join([*with_needed(sorted(self.needed)), "\n".join(lines.lines)]) + "\n"

    def _seeded(self, name: str, initial: ast.expr) -> ast.expr:
        """Return the first value of a variable that begins with a member of the input, if there is one."""
        try:
            member = self.input((name,))[0]
        except ExpressionError as error:
            self.refuse(f"state.{name}", error.message)
            return initial
        if not member.may_be_absent:
            return member.node
        if of_schema(self.schema.get("properties", {}).get(name)).may_be("NoneType"):
            self.refuse(f"state.{name}", f"a plan cannot tell if the input has {name!r}, which may be null; require it")
        return ast.IfExp(ast.Compare(member.node, [ast.Is()], [ast.Constant(None)]), initial, member.node)

    # --- regions ----------------------------------------------------------------------------------

    def region(self, body: Graph, here: Here, result: str, target: str | None = None) -> Typed:
        """Write the nodes of a region and return its value."""
        nodes, only_order = sorted_nodes(body)
        own = body.nodes[-1] if body.nodes and body.result == Ref("out", (body.nodes[-1].id,)) else None
        if only_order:
            for i, node in enumerate(nodes):
                reads_prev = body.ordered and _reads_prev(nodes[i + 1 :], body.result)
                self.node(node, here, target if node is own else None, ordered=body.ordered, keeps_prev=reads_prev)
        else:
            for node in conflicts_of(body):
                message = "reads or writes state that nodes write at the same time"
                self.refuse(f"{here.path}{node.id}", f"{message}, which a plan does in another order")
            ConcurrentNodes(self, body, here).write()
        return self.expr(body.result, result, here)

    def node(
        self,
        node: Node,
        here: Here,
        target: str | None = None,
        *,
        ordered: bool = False,
        keeps_prev: bool = False,
    ) -> None:
        """Write a node: its call with its conditions and policy, and its writes."""
        path = f"{here.path}{node.id}"
        self.refuse_unsupported(node, path)
        if node.meta.description:
            for line in node.meta.description.split("\n"):
                self.lines.add(f"# {line}".rstrip())
        is_soft = node.gate is not None or node.when is not None
        name = target
        if name is None and (node.id in self.read or keeps_prev):
            name = self.names.fresh(node.id)
        # A skipped node leaves the previous value unchanged, so that value needs a name before the node.
        prev = self.names.fresh("prev") if keeps_prev and is_soft else None
        if prev is not None:
            self.lines.set(prev, here.prev.node)
        certain = self._with_policy(node, path, here, name, prev)
        if name is not None:
            here.names[node.id] = Typed(ast.Name(name, ast.Load()), certain)
        else:
            here.names[node.id] = Typed(ast.Constant(None), NONE)
        # The node may be skipped, so its own name may hold no value for the next node.
        if ordered and is_soft:
            here.prev = here.prev if prev is None else Typed(ast.Name(prev, ast.Load()))
        elif ordered:
            here.prev = here.names[node.id]

    # --- conditions and policies ------------------------------------------------------------------

    def _with_policy(self, node: Node, path: str, here: Here, name: str | None, prev: str | None) -> Certain:
        """Write a node with its fallback around its attempts."""
        on_error = node.policy.on_error
        if on_error is None:
            return self._attempts(node, path, here, name, prev)
        # Save the state before the attempts, because a failed node must leave no writes.
        saved = self._saved_state(node)
        with self.lines.block("try:"):
            certain = self._attempts(node, path, here, name, prev)
        reads_error = any(ref.root == "error" for ref in refs(on_error.value))
        error = self.names.fresh("error") if reads_error else ""
        with self.lines.block(f"except Exception as {error}:" if error else "except Exception:"):
            for variable, copy in saved.items():
                self.lines.add(f"{variable} = {copy}")
            fallback = self._in_fallback(node, path, here, error)
            if name is not None:
                self.lines.set(name, fallback.node)
            if prev is not None:
                self.lines.set(prev, fallback.node)
            if on_error.writes and node.writes is not None:
                # For its writes, the value of the node is the fallback.
                own = here.inside()
                own.names[node.id] = Typed(ast.Name(name, ast.Load()) if name else fallback.node)
                self.writes(node, path, own)
        return either([certain, fallback.certain])

    def _in_fallback(self, node: Node, path: str, here: Here, error: str) -> Typed:
        own = here.inside(error=error)
        own.names[node.id] = Typed(ast.Constant(None), NONE)
        on_error = node.policy.on_error
        assert on_error is not None
        # Only the failure of a call has the same text in Python; an expression fails in other words.
        if error and (not isinstance(node.op, Call) or node.policy.timeout is not None or self._may_fail(node, own)):
            self.refuse(f"{path}.policy.on_error.value", "reads a failure that has other words in Python")
        return self.expr(on_error.value, f"{path}.policy.on_error.value", own)

    def _may_fail(self, node: Node, here: Here) -> bool:
        """Return True if something else than the call of a node may fail."""
        writer = self.writer(here, "")
        tests = [test for test in (node.gate, node.when) if test is not None]
        parts = [*tests, node.op.args, *(part for part in (node.result, node.writes) if part is not None)]  # type: ignore[attr-defined]
        if any(map(writer.may_fail, parts)) or not all(map(writer.is_test, tests)):
            return True
        channels = [self.flow.state[name] for name in written_channels(node) if name in self.flow.state]
        return any(channel.reduce != "last_wins" or channel.schema is not None for channel in channels)

    def _saved_state(self, node: Node) -> dict[str, str]:
        """Keep the variables that regions of a node set, because a failed region leaves no writes."""
        saved = {}
        for channel in sorted(written_channels(node, inside=True)):
            if channel in self.state and self.is_kept(channel):
                variable = self.state[channel]
                saved[variable] = self.names.fresh(f"{variable}_before")
                self.lines.add(f"{saved[variable]} = {variable}")
        return saved

    def _attempts(self, node: Node, path: str, here: Here, name: str | None, prev: str | None) -> Certain:
        """Write a node with its retries."""
        retry = node.policy.retry
        if retry.attempts < 2:
            return self._attempt(node, path, here, name, prev)
        self.needed.add("retryable")
        saved = self._saved_state(node)
        attempt, failure = self.names.fresh("attempt"), self.names.fresh("failure")
        with self.lines.block(f"for {attempt} in range({retry.attempts}):"):
            with self.lines.block("try:"):
                certain = self._attempt(node, path, here, name, prev)
                self.lines.add("break")
            # Only failures of calls are repeated: an expression fails again.
            with self.lines.block(f"except (ToolError, TimeoutError) as {failure}:"):
                for variable, copy in saved.items():
                    self.lines.add(f"{variable} = {copy}")
                with self.lines.block(f"if {attempt} == {retry.attempts - 1} or not retryable({failure}):"):
                    self.lines.add("raise")
                pauses = [retry.pause(count) for count in range(1, retry.attempts)]
                if len(set(pauses)) > 1:
                    self.lines.add(f"await asyncio.sleep({pauses!r}[{attempt}])")
                elif pauses[0]:
                    self.lines.add(f"await asyncio.sleep({pauses[0]!r})")
        return certain

    def _attempt(self, node: Node, path: str, here: Here, name: str | None, prev: str | None) -> Certain:
        """Write one attempt, with its limit in time."""
        seconds = node.policy.timeout
        if seconds is None or is_bare_call(node):
            return self._if_wanted(node, path, here, name, prev)
        if isinstance(node.op, Wait):
            self.refuse(path, "a wait node uses its own timeout, not that of a call")
        with self.lines.block(f"async with asyncio.timeout({plain(seconds)}):"):
            return self._if_wanted(node, path, here, name, prev)

    def function(self, node: Node, here: Here, name: str | None) -> tuple[str, Certain]:
        """Write a local function that runs a node, and return its name; `name` is the node's variable in it."""
        run = self.names.fresh(f"run_{node.id}")
        inner = here.inside(in_function=True)
        with self.lines.block(f"async def {run}():"):
            self.node(node, inner, name)
            if name is not None:
                self.lines.add(f"return {name}")
        return run, inner.names[node.id].certain

    def _if_wanted(self, node: Node, path: str, here: Here, name: str | None, prev: str | None) -> Certain:
        """Write a node inside its conditions; where one is false its value is None."""
        tests = []
        for field in ("gate", "when"):
            condition = getattr(node, field)
            if condition is not None:
                tests.append(self.test(condition, f"{path}.{field}", here))
        if not tests:
            return self._work(node, path, here, name)
        if name is not None:
            self.lines.add(f"{name} = None")
        test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
        with self.lines.block(f"if {ast.unparse(test)}:"):
            certain = self._work(node, path, here, name)
            if prev is not None:
                self.lines.add(f"{prev} = {name}")
        return either([certain, NONE])

    def _work(self, node: Node, path: str, here: Here, name: str | None) -> Certain:
        """Write what a node does, the value that it makes of it, and its writes."""
        certain = self.op(node, path, here, name)
        own = here.inside()
        own.names[node.id] = Typed(ast.Name(name, ast.Load()) if name else ast.Constant(None), certain)
        if node.result is not None:
            value = self.expr(node.result, f"{path}.result", own)
            certain = value.certain
            if name is not None:
                self.lines.set(name, value.node)
                own.names[node.id] = Typed(ast.Name(name, ast.Load()), certain)
        if node.writes is not None:
            self.writes(node, path, own)
        return certain

    def writes(self, node: Node, path: str, here: Here) -> None:
        """Write the updates of the state that a node makes."""
        if not isinstance(node.writes, Obj):
            self.refuse(f"{path}.writes", "a plan sets its variables by name", decisive=True)
            return
        if here.in_function:
            self.refuse(f"{path}.writes", "a plan cannot set state in calls that run at the same time", decisive=True)
            return
        names, values = [], []
        for channel, update in node.writes.fields:
            if channel not in self.state:
                self.refuse(f"{path}.writes", f"there is no variable {channel!r}")
                continue
            value = self.expr(update, f"{path}.writes", here)
            # Nothing reads this variable; the value was computed above only to report its problems.
            if not self.is_kept(channel):
                continue
            current = Typed(ast.Name(self.state[channel], ast.Load()))
            try:
                new = reduced(self.flow.state[channel], current, value, self.needed)
            except ExpressionError as error:
                self.refuse(f"state.{channel}", error.message)
                continue
            names.append(self.state[channel])
            values.append(new.node)
        # Assign all at once, because each update reads the variables as they were before.
        if names:
            texts = [ast.unparse(value) for value in values]
            self.lines.add(f"{', '.join(names)} = {', '.join(texts)}")

    # --- what a node does -------------------------------------------------------------------------

    def op(self, node: Node, path: str, here: Here, name: str | None) -> Certain:
        """Write what a node does, and return what is certain about its value."""
        op: Any = node.op
        if node.meta.hidden and "hidden" in node.meta.labels:
            pass  # a hidden node of another notation is an ordinary one here
        match op:
            case Call():
                self.lines.set(name, ast.Await(self.timed_call(node, path, here)))
                return UNKNOWN
            case Compute():
                value = self.expr(op.value, f"{path}/value", here)
                if name is not None or self.writer(here, path).may_fail(op.value):
                    self.lines.set(name, value.node)
                return value.certain
            case Sleep():
                seconds = self.expr(op.seconds, f"{path}/delay", here)
                self.lines.add(f"await asyncio.sleep({ast.unparse(seconds.node)})")
                if name is not None:
                    self.lines.add(f"{name} = None")
                return NONE
            case Wait():
                return self._wait(node, path, here, name)
            case Block():
                value = self.region(op.body, here.inside(path), f"{path}/result", name)
                if name is not None:
                    self.lines.set(name, value.node)
                return value.certain
            case Branch():
                return self._branch(op, path, here, name)
            case Map():
                return self.map_items(node, op, path, here, name)
            case Loop():
                return self.loop(op, path, here, name)
            case Require():
                return self._require(op, path, here, name)
        self.refuse_op(node, path)
        self.incomplete.add(path)
        return NONE

    def _wait(self, node: Node, path: str, here: Here, name: str | None) -> Certain:
        op: Any = node.op
        word, text = ("wait_for", op.event) if op.event is not None else ("approve", op.approval)
        call = called(word, self.expr(text, f"{path}/{node.op.__class__.__name__.lower()}", here).node)
        if op.timeout is not None:
            seconds = self.expr(op.timeout, f"{path}/timeout", here)
            call.keywords.append(ast.keyword("timeout", seconds.node))
        if word == "wait_for" or (name is None and node.id not in self.answers):
            self.lines.set(name, ast.Await(call))
            return UNKNOWN
        # A program that reads the answer goes on after a rejection, so one that does not expect it must fail.
        answer = self.names.fresh("answer")
        self.lines.set(answer, ast.Await(call))
        if node.id not in self.answers:
            with self.lines.block(f"if not {answer}:"):
                self.lines.add(f"raise Rejected({answer}.note or 'rejected')")
        if name is not None:
            fields = f"{{'approved': bool({answer}), 'by': {answer}.by, 'note': {answer}.note}}"
            self.lines.add(f"{name} = {fields}")
        optional = of_kind("str", "NoneType")
        return Certain(frozenset(("dict",)), {"approved": of_value(True), "by": optional, "note": optional})

    def _require(self, op: Require, path: str, here: Here, name: str | None) -> Certain:
        test = negated(self.test(op.holds, f"{path}/holds", here))
        message = self.expr(op.message, f"{path}/message", here)
        with self.lines.block(f"if {ast.unparse(test)}:"):
            self.lines.add(f"raise ValueError({ast.unparse(message.node)})")
        value = self.expr(op.value, f"{path}/value", here)
        if name is not None:
            self.lines.set(name, value.node)
        return value.certain

    def _branch(self, op: Branch, path: str, here: Here, name: str | None) -> Certain:
        """Write a choice as `if`, `elif` and `else`."""
        facts, head = [], "if"
        default = op.default
        if default is not None and not default.nodes and default.result == NULL:
            default = None
        if name is not None and default is None:
            self.lines.add(f"{name} = None")
            facts.append(NONE)
        for i, (condition, body) in enumerate(op.arms):
            test = self.test(condition, f"{path}/condition", here)
            with self.lines.block(f"{head} {ast.unparse(test)}:"):
                facts.append(self._arm(body, path, here, f"{path}/{i}", name))
            head = "elif"
        if default is not None and not op.arms:
            facts.append(self._arm(default, path, here, f"{path}/otherwise", name))
        elif default is not None and (default.nodes or name is not None):
            with self.lines.block("else:"):
                facts.append(self._arm(default, path, here, f"{path}/otherwise", name))
        return either(facts)

    def _arm(self, body: Graph, path: str, here: Here, result: str, name: str | None) -> Certain:
        value = self.region(body, here.inside(path), result, name)
        if name is not None:
            self.lines.set(name, value.node)
        elif self.writer(here, path).may_fail(body.result):
            self.lines.set(None, value.node)
        return value.certain


def with_names(needed: set[str]) -> list[str]:
    """Return the names of local functions and of those that they need."""
    return [text.split("(", 1)[0].removeprefix("def ") for text in with_needed(sorted(needed))]


def _reads_prev(nodes: list[Node], result: Expr) -> bool:
    """Return True if nodes, or the result after them, read the value of the last node before them."""
    for node in nodes:
        parts = [part for _, part in node_parts(node)]
        if any(ref.root == "prev" for part in parts for ref in refs_inside(part)):
            return True
        if node.gate is None and node.when is None:
            return False
    return any(ref.root == "prev" for ref in refs(result))


def _ends_in_expression(lines: list[str]) -> bool:
    body = ast.parse("\n".join(lines)).body
    return bool(body) and isinstance(body[-1], ast.Expr)
