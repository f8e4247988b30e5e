"""What a flow means in time: the plain interpreter of `reference.py` on the clock of a small simulation.

It knows nothing of tasks of asyncio, journals or lanes. A timeout ends what is inside it, the first failure ends what
runs next to it, and waits take what was sent in the order of sending.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from properties.reference import Env, Reference, ancestors
from properties.simulation import Cancelled, Simulation, Steps, Task
from properties.timed_world import Action, Called, behaviour, noted
from ropewalk.expr.ast import Expr, Fn
from ropewalk.ir import Flow, Graph, Node, refs_inside
from ropewalk.ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Wait


class Fail(Exception):
    """A node gave up; `path` is the place where, `kind` the type of the error."""

    def __init__(self, path: str, node: str, kind: str, message: str, tool: str | None = None) -> None:
        self.path, self.kind, self.message = path, kind, message
        self.error = {"node": node, "tool": tool, "message": message, "kind": kind, "ran": False}

    @property
    def retryable(self) -> bool:
        return self.kind != "Rejected"


class Place(Env):
    """A region while it runs; `path` has the numbers of attempts in it, `at` has not."""

    def __init__(self, graph: Graph, outer: Place | None, at: str, path: str, state: Any, **binds: Any) -> None:
        super().__init__(graph, outer, at, state, **binds)
        self.path = path


@dataclass
class Open:
    """A wait that nothing has come for."""

    name: str
    path: str
    due: float | None
    wake: Callable[..., None]


@dataclass
class Outcome:
    """All that can be seen of a run from outside."""

    status: str = ""
    value: Any = None
    state: Any = None
    ended: float = 0.0
    own: float = 0.0
    failures: list[str] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    untaken: list[str] = field(default_factory=list)


class TimedReference(Reference):
    """`outcome` of a flow to which these actions happen, and the actions as they were carried out in `done`."""

    def __init__(
        self, flow: Flow, input: Any, limits: dict[str, float], actions: Sequence[Action] = (), seed: int | None = None
    ) -> None:
        self.input, self.channels, self.limits = input, flow.state, limits
        self.sim = Simulation(seed)
        self.reports: list[Fail] = []
        self.tries, self.calls_made = Counter[str](), list[Called]()
        self.kept: list[tuple[str, Any, float]] = []
        self.open: list[Open] = []
        self.done: list[Action] = []
        self.looked_at = {ref.path[0] for ref in refs_inside(flow.body) if ref.root == "out" and "approved" in ref.path}
        start = {name: c.initial for name, c in flow.state.items() if c.present}
        env = Place(flow.body, None, "", "", start)
        root = self.sim.task(self.region(env), lambda task: None)
        for action in actions:
            self.sim.at(action.when, lambda action=action: self.act(root, action))  # type: ignore[misc]
        self.sim.play(root, flow.timeout, lambda: self.sim.cancel(root, "timeout"))
        self.outcome = self.ending(root, env)

    def ending(self, root: Task, env: Place) -> Outcome:
        failures = list(self.reports)
        if root.reasons:
            status = next((one for one in ("stopped", "timeout") if one in root.reasons), "")
        elif isinstance(root.error, Fail):
            status = "failed"
            failures.append(root.error)
        elif root.error is not None:
            raise root.error
        else:
            status = "partial" if self.reports else "completed"
        return Outcome(
            status=status,
            value=root.value if status in ("completed", "partial") else None,
            state=env.state,
            ended=self.sim.now,
            own=self.sim.own,
            failures=sorted(f"{fail.path}: {fail.kind}: {fail.message}" for fail in failures),
            calls=noted(self.calls_made),
            untaken=[name for name, _, _ in self.kept],
        )

    # --- from outside -------------------------------------------------------------------------------

    def act(self, root: Task, action: Action) -> None:
        if root.done or root.reasons:
            return
        if action.kind == "stop":
            self.sim.cancel(root, "stopped")
        else:
            if action.kind == "answer":  # whatever is asked now
                asked = sorted(one.path for one in self.open if one.name.startswith("approval:"))
                path = asked[action.which % len(asked)] if asked else "nobody"
                action = replace(action, name=f"approval:{path}")
            self.kept.append((action.name, action.payload, self.sim.now))
            for one in list(self.open):
                if one.name == action.name:
                    self.give(one)
        self.done.append(action)

    def give(self, one: Open) -> None:
        """What was sent first, if it was sent in time."""
        for sent in self.kept:
            if sent[0] == one.name and (one.due is None or sent[2] <= one.due):
                self.kept.remove(sent)
                self.open.remove(one)
                one.wake(sent[1:2])
                return

    # --- regions and nodes ----------------------------------------------------------------------------

    def region(self, env: Any) -> Steps:
        if env.graph.ordered:
            for node in env.graph.nodes:
                writes = yield from self.node(node, env, env.state)
                self.fold(env.state, writes)
                env.log += writes
        else:
            yield from self.side_by_side(env)
        return self.eval(env.graph.result, env, env.state)

    def side_by_side(self, env: Place) -> Steps:
        wrote: dict[str, list[Any]] = {}
        done: set[str] = set()
        seen: set[str] = set()
        ready = deque[Node]()
        running = 0

        def look() -> None:
            for node in env.graph.nodes:
                if node.id not in seen and env.graph.needs[node.id] <= done:
                    seen.add(node.id)
                    ready.append(node)

        def start() -> Steps | None:
            nonlocal running
            if not ready or running == env.graph.limit:
                return None
            running += 1
            return one(ready.popleft())

        def one(node: Node) -> Steps:
            view = self.seen(env, wrote, ancestors(env.graph, node.id))
            wrote[node.id] = yield from self.node(node, env, view)
            return node.id

        def ended(task: Task) -> None:
            nonlocal running
            running -= 1
            done.add(task.value)
            look()

        look()
        try:
            yield from self.sim.together(start, ended)
        finally:  # also of a run that broke off
            env.log = self.in_order(env, wrote, set(wrote))
            self.fold(env.state, env.log)

    def node(self, node: Node, env: Any, view: dict[str, Any]) -> Steps:
        for test, status in ((node.gate, "dead"), (node.when, "skipped")):
            if test is not None and self.eval(test, env, view) is not True:
                env.values[node.id], env.status[node.id] = None, status
                return []
        value, writes, status = yield from self.tried(node, env, view)
        env.values[node.id], env.status[node.id] = value, status
        if node.writes is not None:
            after = dict(view)
            self.fold(after, writes)
            writes = writes + list(self.eval(node.writes, env, after).items())
        env.last = value
        return writes

    def tried(self, node: Node, env: Place, view: dict[str, Any]) -> Steps:
        policy, attempt = node.policy, 1
        while True:
            path = f"{env.path}{node.id}" + (f"@{attempt}" if attempt > 1 else "")
            late = self.too_late(node, path, policy.timeout)
            try:
                value, writes = yield from self.sim.within(policy.timeout, self.op(node, env, view, path), late)
            except Fail as fail:
                if policy.retry.attempts > 1 or policy.timeout is not None or policy.on_error is not None:
                    # The failure stands for what was reported inside.
                    self.reports = [r for r in self.reports if not r.path.startswith((path + "/", path + "["))]
                if attempt < policy.retry.attempts and fail.retryable:
                    retry = policy.retry
                    grown = retry.delay * (attempt if retry.linear else retry.factor ** (attempt - 1))
                    yield from self.sim.pause(min(grown, retry.max_delay))
                    attempt += 1
                    continue
                if policy.on_error is None:
                    raise
                if policy.on_error.reported:
                    self.reports.append(fail)
                return self.eval(policy.on_error.value, env, view, fail.error), [], "failed"
            return value, writes, "ok"

    def too_late(self, node: Node, path: str, seconds: float | None) -> Callable[[], Fail]:
        tool = node.op.tool if isinstance(node.op, Call) else None
        said = "no answer within" if tool else "not done within"
        return lambda: Fail(path, node.id, "ToolTimeout", f"{said} {seconds:g} s", tool)

    def op(self, node: Node, env: Any, view: dict[str, Any], path: str = "") -> Steps:
        op = node.op
        if isinstance(op, Call):
            return (yield from self.call(op, node, env, view, path)), []
        if isinstance(op, Compute):
            return self.eval(op.value, env, view), []
        if isinstance(op, Sleep):
            yield from self.sim.pause(self.eval(op.seconds, env, view))
            return None, []
        if isinstance(op, Wait):
            return (yield from self.wait(op, node, env, view, path)), []
        if isinstance(op, Block):
            return (yield from self.inside(self.place(op.body, env, node, path, view)))
        if isinstance(op, Branch):
            for i, (test, body) in enumerate(op.arms):
                if self.eval(test, env, view) is True:
                    return (yield from self.inside(self.place(body, env, node, path, view, f"[{i}]")))
            if op.default is None:
                return None, []
            return (yield from self.inside(self.place(op.default, env, node, path, view, "[else]")))
        if isinstance(op, Map):
            return (yield from self.map(op, node, env, view, path))
        return (yield from self.rounds(op, node, env, view, path))

    def place(self, body: Graph, env: Place, node: Node, path: str, view: Any, mark: str = "", **binds: Any) -> Place:
        return Place(body, env, f"{env.at}{node.id}{mark}/", f"{path}{mark}/", view, **binds)

    def call(self, op: Call, node: Node, env: Place, view: dict[str, Any], path: str) -> Steps:
        args, key = self.eval(op.args, env, view), env.at + node.id
        limit = self.limits.get(op.tool, 60.0)
        used = self.used(op.tool, args, key, node, path)
        return (yield from self.sim.within(limit, used, self.too_late(node, path, limit)))

    def used(self, tool: str, args: Any, key: str, node: Node, path: str) -> Steps:
        began, ended = self.sim.now, "cancelled"
        seconds, clean_up, value, error = behaviour(tool, args, self.tries[key])
        self.tries[key] += 1
        try:
            if seconds:
                yield from self.sim.pause(seconds)
            if error is not None:
                ended = "failed"
                raise Fail(path, node.id, "ExecutionFailed", error, tool)
            ended = "ok"
            return value
        except Cancelled:
            if self.sim.now > began:
                yield from self.sim.pause(clean_up)
            self.tries[key] -= self.sim.now == began
            raise
        finally:
            self.calls_made.append(Called(began, self.sim.now, node.id, tool, ended))

    def wait(self, op: Wait, node: Node, env: Place, view: dict[str, Any], path: str) -> Steps:
        text = self.eval(op.event or op.approval, env, view)
        seconds = None if op.timeout is None else self.eval(op.timeout, env, view)
        due = None if seconds is None else self.sim.now + seconds
        one = Open(text if op.event is not None else f"approval:{path}", path, due, lambda: None)
        self.sim.waiting += 1
        try:
            arrived = yield lambda wake: self.listen(one, wake)
        finally:
            self.sim.waiting -= 1
            if one in self.open:
                self.open.remove(one)
        if arrived is None:
            what = f"event {text!r}" if op.event is not None else "an approval"
            raise Fail(path, node.id, "ToolTimeout", f"timed out after {seconds:g} s waiting for {what}")
        (value,) = arrived
        if op.approval is None:
            return value
        answer = {"approved": value["approved"], "by": value.get("by"), "note": value.get("note")}
        if answer["approved"] or node.id in self.looked_at:
            return answer
        by = f" by {answer['by']}" if answer["by"] else ""
        raise Fail(path, node.id, "Rejected", f"rejected{by}" + (f": {answer['note']}" if answer["note"] else ""))

    def listen(self, one: Open, wake: Callable[..., None]) -> None:
        one.wake = wake
        self.open.append(one)
        self.give(one)
        if one in self.open and one.due is not None:
            self.sim.at(one.due, lambda: wake() if one in self.open else None)

    def map(self, op: Map, node: Node, env: Place, view: dict[str, Any], path: str) -> Steps:
        items = self.eval(op.items, env, view) or []
        places = [
            self.place(op.body, env, node, path, view, f"[{i}]", item=item, index=i) for i, item in enumerate(items)
        ]
        left, done, running = deque(places), dict[Place, Any](), 0

        def start() -> Steps | None:
            nonlocal running
            if not left or running == op.limit:
                return None
            running += 1
            return one(left.popleft())

        def one(place: Place) -> Steps:
            done[place] = yield from self.inside(place)

        def ended(task: Task) -> None:
            nonlocal running
            running -= 1

        yield from self.sim.together(start, ended)
        return [done[one][0] for one in places], [write for one in places for write in done[one][1]]

    def rounds(self, op: Loop, node: Node, env: Place, view: dict[str, Any], path: str) -> Steps:
        items = [None] * (op.limit or 0) if op.items is None else (self.eval(op.items, env, view) or [])[: op.limit]
        values: list[Any] = []
        writes: list[Any] = []
        state, before = view, None
        for i, item in enumerate(items):
            binds = {"round": i} if op.items is None else {"round": i, "item": item, "index": i}
            inner = self.place(op.body, env, node, path, state, f"[{i}]", **binds)
            if before is not None:
                inner.values, inner.status, inner.last = dict(before.values), dict(before.status), values[-1]
            if op.again is not None and self.eval(op.again, inner, inner.state) is not True:
                break
            value, wrote = yield from self.inside(inner)
            values.append(value)
            writes, state, before = writes + wrote, inner.state, inner
            if op.until is not None and self.eval(op.until, inner, inner.state) is True:
                break
        return (values if op.collect else values[-1] if values else None), writes

    def eval(self, expr: Expr, env: Any, state: dict[str, Any], error: Any = None) -> Any:
        if isinstance(expr, Fn) and expr.name == "${}":
            return "".join(str(self.eval(arg, env, state, error)) for arg in expr.args)
        return super().eval(expr, env, state, error)

    def ref(self, root: str, path: list[Any], env: Any, state: dict[str, Any], error: Any) -> Any:
        found = super().ref(root, path, env, state, error)
        return found and found["approved"] if root == "out" and path[1:] else found

    def inside(self, env: Any) -> Steps:
        value = yield from self.region(env)
        return value, env.log
