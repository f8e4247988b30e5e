"""What a flow means, said as plainly as possible: one node after another, dictionaries, no engine.

The engine must agree with this for every flow; that it runs side by side, journals, retries and
resumes must not show in what it gives.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from properties.made_flows import answer
from ropewalk.expr.ast import Arr, Expr, Fn, Lit, Obj, Ref
from ropewalk.ir import Flow, Graph, Node
from ropewalk.ops import Block, Branch, Call, Compute, Loop, Map, Sleep
from ropewalk.values import canonical


class Fail(Exception):
    """A node gave up; `error` is what $error is."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.error = error


class Env:
    """One region while it runs."""

    def __init__(self, graph: Graph, outer: Env | None, at: str, state: dict[str, Any], **binds: Any) -> None:
        self.graph, self.outer, self.at, self.binds = graph, outer, at, binds
        self.state, self.log = dict(state), []
        self.values: dict[str, Any] = {}
        self.status: dict[str, str] = {}
        self.last = outer.prev() if outer is not None else None

    def find(self, id: str) -> Env:
        return self if any(n.id == id for n in self.graph.nodes) or self.outer is None else self.outer.find(id)

    def bound(self, name: str) -> Any:
        return self.binds[name] if name in self.binds or self.outer is None else self.outer.bound(name)

    def prev(self) -> Any:
        return self.last if self.graph.ordered else self.outer.prev() if self.outer is not None else None


class Reference:
    """`status`, `value`, `state` and `failures` of a flow once `run` is done."""

    def __init__(self, flow: Flow, input: Any = None) -> None:
        self.input, self.failures = input, 0
        self.failed, self.calls = Counter[str](), Counter[str]()
        self.channels = flow.state
        start = {name: c.initial for name, c in flow.state.items() if c.present}
        env = Env(flow.body, None, "", start)
        try:
            self.value, self.status = self.region(env), "partial" if self.failures else "completed"
        except Fail:
            self.value, self.status = None, "failed"
        self.state = env.state

    def region(self, env: Env) -> Any:
        nodes, wrote = list(env.graph.nodes), {}
        done: set[str] = set()
        while ready := next((n for n in nodes if n.id not in done and env.graph.needs[n.id] <= done), None):
            view = env.state if env.graph.ordered else self.seen(env, wrote, ancestors(env.graph, ready.id))
            writes = self.node(ready, env, view)
            done.add(ready.id)
            if env.graph.ordered:
                self.fold(env.state, writes)
                env.log += writes
            else:
                wrote[ready.id] = writes
        if not env.graph.ordered:
            env.log = self.in_order(env, wrote, {n.id for n in nodes})
            self.fold(env.state, env.log)
        return self.eval(env.graph.result, env, env.state)

    def node(self, node: Node, env: Env, view: dict[str, Any]) -> list[Any]:
        for test, status in ((node.gate, "dead"), (node.when, "skipped")):
            if test is not None and self.eval(test, env, view) is not True:
                env.values[node.id], env.status[node.id] = None, status
                return []
        writes: list[Any] = []
        reported = self.failures
        for attempt in range(node.policy.retry.attempts):
            try:
                value, writes = self.op(node, env, view)
                status = "ok"
                break
            except Fail as fail:
                on_error = node.policy.on_error
                self.failures = reported  # the failure stands for whatever was reported inside
                if attempt + 1 == node.policy.retry.attempts:
                    if on_error is None:
                        raise
                    value, status = self.eval(on_error.value, env, view, fail.error), "failed"
                    self.failures += on_error.reported
        env.values[node.id], env.status[node.id] = value, status
        if node.writes is not None:
            after = dict(view)
            self.fold(after, writes)
            writes = writes + list(self.eval(node.writes, env, after).items())
        env.last = value
        return writes

    def op(self, node: Node, env: Env, view: dict[str, Any]) -> tuple[Any, list[Any]]:
        op = node.op
        if isinstance(op, Call):
            key = env.at + node.id
            self.calls[key] += 1
            try:
                return answer(op.tool, self.eval(op.args, env, view), self.failed[key]), []
            except RuntimeError as exc:
                self.failed[key] += 1
                raise Fail({"message": str(exc), "kind": "ExecutionFailed"}) from exc
        if isinstance(op, Compute):
            return self.eval(op.value, env, view), []
        if isinstance(op, Sleep):
            return None, []
        if isinstance(op, Block):
            return self.inside(Env(op.body, env, f"{env.at}{node.id}/", view))
        if isinstance(op, Branch):
            for i, (test, body) in enumerate(op.arms):
                if self.eval(test, env, view) is True:
                    return self.inside(Env(body, env, f"{env.at}{node.id}[{i}]/", view))
            none = op.default is None
            return (None, []) if none else self.inside(Env(op.default, env, f"{env.at}{node.id}[else]/", view))
        if isinstance(op, Map):
            items = enumerate(self.eval(op.items, env, view) or [])
            envs = [Env(op.body, env, f"{env.at}{node.id}[{i}]/", view, item=x, index=i) for i, x in items]
            done = [self.inside(one) for one in envs]
            return [value for value, _ in done], [write for _, writes in done for write in writes]
        return self.loop(op, node, env, view)

    def loop(self, op: Loop, node: Node, env: Env, view: dict[str, Any]) -> tuple[Any, list[Any]]:
        items = [None] * (op.limit or 0) if op.items is None else (self.eval(op.items, env, view) or [])[: op.limit]
        values, writes, state, before = [], [], view, None
        for i, item in enumerate(items):
            binds = {"round": i} if op.items is None else {"round": i, "item": item, "index": i}
            inner = Env(op.body, env, f"{env.at}{node.id}[{i}]/", state, **binds)
            if before is not None:
                inner.values, inner.status, inner.last = dict(before.values), dict(before.status), values[-1]
            if op.again is not None and self.eval(op.again, inner, inner.state) is not True:
                break
            value, wrote = self.inside(inner)
            values.append(value)
            writes, state, before = writes + wrote, inner.state, inner
            if op.until is not None and self.eval(op.until, inner, inner.state) is True:
                break
        return (values if op.collect else values[-1] if values else None), writes

    def inside(self, env: Env) -> tuple[Any, list[Any]]:
        return self.region(env), env.log

    # --- state ---------------------------------------------------------------------------

    def seen(self, env: Env, wrote: dict[str, list[Any]], ids: set[str]) -> dict[str, Any]:
        state = dict(env.state)
        self.fold(state, self.in_order(env, wrote, ids))
        return state

    def in_order(self, env: Env, wrote: dict[str, list[Any]], ids: set[str]) -> list[Any]:
        """The writes of these nodes: per channel, ancestors first and otherwise as declared."""
        found = []
        for name in self.channels:
            left = [n.id for n in env.graph.nodes if n.id in ids and n.id in wrote and writes_to(n, name)]
            while left:
                first = next(id for id in left if not ancestors(env.graph, id) & set(left))
                left.remove(first)
                found += [write for write in wrote[first] if write[0] == name]
        return found

    def fold(self, state: dict[str, Any], writes: list[Any]) -> None:
        for name, new in writes:
            how, old = self.channels[name].reduce, state.get(name)
            if how == "last_wins":
                state[name] = new
            elif new is None:
                continue
            elif how == "array_append":
                state[name] = (old or []) + new
            elif how == "union":
                state[name] = (old or []) + [x for i, x in enumerate(new) if x not in (old or []) + new[:i]]
            elif how == "object_merge":
                state[name] = (old or {}) | new
            elif how == "sum":
                state[name] = (old or 0) + new
            else:
                state[name] = new if old is None else max(old, new)

    def eval(self, expr: Expr, env: Env, state: dict[str, Any], error: Any = None) -> Any:
        if isinstance(expr, Lit):
            return expr.value
        if isinstance(expr, Obj):
            return {key: self.eval(value, env, state, error) for key, value in expr.fields}
        if isinstance(expr, Arr):
            return [self.eval(item, env, state, error) for item in expr.items]
        if isinstance(expr, Fn):
            left, right = (canonical(self.eval(arg, env, state, error)) for arg in expr.args)
            return (left == right) is (expr.name == "==")
        assert isinstance(expr, Ref)
        return self.ref(expr.root, list(expr.path), env, state, error)

    def ref(self, root: str, path: list[Any], env: Env, state: dict[str, Any], error: Any) -> Any:
        if root == "out":
            return env.find(path[0]).values.get(path[0])
        if root == "status":
            return env.find(path[0]).status[path[0]]
        if root == "prev":
            return env.prev()
        if root in ("item", "index", "round"):
            return env.bound(root)
        found = {"state": state, "input": self.input, "error": error}[root]
        return found.get(path[0]) if path else dict(found)


def ancestors(graph: Graph, id: str) -> set[str]:
    above = set(graph.needs[id])
    return above.union(*(ancestors(graph, one) for one in above))


def writes_to(node: Node, name: str) -> bool:
    """Whether a node, or anything inside it, may write a channel."""
    if isinstance(node.writes, Obj):
        if any(key == name for key, _ in node.writes.fields):
            return True
    elif node.writes is not None:
        return True
    op = node.op
    bodies = [op.body] if isinstance(op, (Block, Map, Loop)) else []
    if isinstance(op, Branch):
        bodies = [body for _, body in op.arms] + ([op.default] if op.default is not None else [])
    return any(writes_to(inner, name) for body in bodies for inner in body.nodes)
