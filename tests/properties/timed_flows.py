"""Flows made up by Hypothesis in which time matters: timeouts at every level, retries with pauses, waits, failures
side by side, limits of how many run at once, and a timeout of the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from properties.made_flows import CHANNELS, Here, Maker
from properties.timed_world import Action
from ropewalk.check import check
from ropewalk.expr.ast import Fn, Lit, Obj, Ref
from ropewalk.ir import Flow, Node, OnError, Policy, Retry
from ropewalk.ops import Call, Compute, Sleep, Wait

seconds = st.integers(1, 640).map(lambda n: n / 64)
"""From 1/64 s to 10 s, so finely that two things rarely happen at the same instant by chance."""
EVENTS = ("paid", "sent")
FOREVER = 10_000.0  # when a run is stopped that waits for something that never comes


@dataclass
class TimedMaker(Maker):
    """Draws one flow; unlike in its base anything may fail anywhere."""

    asked: list[str] = field(default_factory=list)
    """The waits for an approval whose answer something may read."""

    def node(self, here: Here, before: list[str]) -> Node:
        self.count += 1
        id = f"n{self.count}"
        deeper = here.depth < 3 and self.count < self.most
        op = self.nesting(here) if deeper and self.often(4) else self.work(here, id)
        node = Node(
            id=id,
            op=op,
            after=frozenset(b for b in before if self.often(3)),
            gate=self.condition(here) if self.often(1) else None,
            when=self.condition(here) if self.often(1) else None,
            writes=self.writes(here, id) if self.often(4) else None,
            policy=self.policy(here) if self.often(6) else Policy(),
        )
        if isinstance(op, Wait) and op.approval is not None and node.policy.on_error is None:
            self.asked.append(id)
        return node

    def policy(self, here: Here) -> Policy:
        stand_in = self.one(Lit(9), Ref("error", ("kind",)), Ref("error", ("message",)))
        on_error = OnError(value=stand_in, reported=self.often(4)) if self.often(4) else None
        timeout = self.draw(seconds) if self.often(4) else None
        return Policy(retry=self.retry(), timeout=timeout, on_error=on_error)

    def retry(self) -> Retry:
        attempts = self.one(1, 1, 2, 3)
        if attempts == 1:
            return Retry()
        delay, factor = self.one(0.0, 0.25, self.draw(seconds)), self.one(1.0, 2.0, 3.0)
        return Retry(
            attempts=attempts, delay=delay, factor=factor, linear=self.often(3), max_delay=self.one(3600.0, 1.5)
        )

    def work(self, here: Here, id: str) -> Any:
        kind = self.one("compute", "sleep", "wait", "wait", *["call"] * 6)
        if kind == "compute":
            return Compute(value=self.expr(here))
        if kind == "sleep":
            return Sleep(seconds=Lit(self.one(0, self.draw(seconds))))
        if kind == "wait":
            return self.wait(here)
        tool = self.one("mix", "list", "echo", "bad", "flaky1", "flaky2", "slow", "slow")
        many = tool in ("flaky1", "flaky2", "slow")
        times = self.draw(st.lists(seconds, min_size=1, max_size=3 if many else 1))
        fields = {"v": self.expr(here), "n": Lit(id), "for": Lit([0] if self.often(2) else times)}
        if self.often(2):
            fields["clean"] = Lit(0.25)
        if self.often(1):
            fields["deaf"] = Lit(True)
        return Call(tool=tool, args=Obj(tuple(fields.items())))

    def wait(self, here: Here) -> Wait:
        timeout = Lit(self.draw(seconds)) if self.often(6) else None
        if self.often(5):
            return Wait(approval=Lit("May I?"), timeout=timeout)
        name: Any = Lit(self.one(*EVENTS))
        if here.item and self.often(5):
            name = Fn("${}", (name, Ref("index")))
        return Wait(event=name, timeout=timeout)

    def condition(self, here: Here) -> Any:
        asked = [id for id in here.sees if id in self.asked]
        if asked and self.often(5):
            return Fn("==", (Ref("out", (self.one(*asked), "approved")), Lit(True)))
        return super().condition(here)


@st.composite
def timed_flows(draw: Any, *, most: int = 10) -> Flow:
    """A flow that passes the check."""
    maker = TimedMaker(draw, most=most)
    body = maker.region(Here(alone=maker.often(4)))
    timeout = draw(seconds) * 2 if maker.often(4) else None
    flow = Flow(name="made", body=body, state=CHANNELS, timeout=timeout)
    found = check(flow)
    assert not found.problems, found.problems
    return flow


@st.composite
def actions(draw: Any) -> list[Action]:
    """What happens to a run, at instants at which nothing in it happens by itself."""
    instants = sorted(draw(st.sets(st.integers(0, 400), max_size=6)))
    return [*(_action(draw, n / 16 + 1 / 1024) for n in instants), Action(FOREVER, "stop")]


def _action(draw: Any, when: float) -> Action:
    kind = draw(st.sampled_from(["send", "send", "send", "answer", "answer", "answer", "stop"]))
    if kind == "send":
        name = draw(st.sampled_from([*EVENTS, *(f"{event}{i}" for event in EVENTS for i in range(2))]))
        return Action(when, kind, name, draw(st.integers(0, 3)))
    if kind == "answer":
        answer = {"approved": draw(st.sampled_from([True, True, False])), "by": "ann", "note": None}
        return Action(when, kind, payload=answer, which=draw(st.integers(0, 3)))
    return Action(when, kind)


limits = st.dictionaries(st.sampled_from(["mix", "slow", "flaky1"]), seconds, max_size=2)
"""How long a call of a tool may take, where that is not a minute."""
