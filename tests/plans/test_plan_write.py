"""A flow that is written as a plan makes the same calls and gives the same value, or is refused with the place."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import currently_in_test_context, given, note
from hypothesis import strategies as st

from properties.made_flows import flows
from properties.test_prop_chain_write import built_flows
from properties.test_prop_convert import MAKERS, at_once, played, value_of
from ropewalk import App, flow
from ropewalk.codec import flow_to_json
from ropewalk.errors import InvalidFlow
from ropewalk.expr.ast import NULL, Expr, Lit, Ref, rebind
from ropewalk.ir import Flow, Graph, Node
from ropewalk.notations.writing import ConvertedDocument
from ropewalk.values import canonical
from tiers import examples

FIGURES: Counter[str] = Counter()
"""How often each kind of source was the same, or refused; printed by the long form."""


async def compare(source: Any, kind: str, n: int) -> ConvertedDocument | None:
    """Convert a source and run both; None if it is refused."""
    async with App("memory") as app:
        try:
            made: ConvertedDocument = app.convert(source, "plan", allow_loss=True)
        except InvalidFlow as error:
            # A loop that only collects, inside a function that runs at the same time as others: refused as a whole.
            if "is changed by calls that run at the same time" not in str(error):
                raise
            FIGURES[f"{kind} refused"] += 1
            return None
        if made.losses:
            FIGURES[f"{kind} refused"] += 1
            assert all(loss.path and loss.message for loss in made.losses)
            return None
        if currently_in_test_context():
            note(str(made["code"]))
        notation = "flow" if kind == "graph" else kind
        before, after = await played(app, source, notation, n), await played(app, dict(made), "plan", n)
        FIGURES["failed runs"] += before["status"] == "failed"
        if at_once(app.load(source).flow.body):
            # Nodes that run at the same time start some calls or none where one of them fails.
            before["calls"].sort(key=canonical)
            after["calls"].sort(key=canonical)
            if before["status"] == "failed":
                before["calls"] = after["calls"] = []
        assert after == before
        FIGURES[f"{kind} same"] += 1
        return made


ORDER = """
kind: chain
name: order
timeout: 60000
inputSchema: {type: object, properties: {id: {type: string}, copies: {type: integer}}, required: [id, copies]}
nodes:
  - {id: order, type: tool, tool: "shop:get-order", params: {id: $input.id}, description: Look up the order.}
  - id: rate
    type: condition
    condition: $input.copies > 3
    then: [{id: bulk, type: tool, tool: rate, params: {kind: bulk}}]
    otherwise: [{id: single, type: tool, tool: rate, params: {kind: single}}]
  - id: mails
    type: loop
    items: [1, 2]
    concurrency: 4
    nodes: [{id: mail, type: tool, tool: mail, params: {to: $item}}]
  - {id: rounds, type: loop, maxIterations: 3, nodes: [{id: poll, type: tool, tool: poll}]}
  - {id: ask, type: wait, approval: "Ship?", timeout: 60000}
  - {id: pay, type: tool, tool: pay, errorStrategy: retry, maxRetries: 2, retryDelay: 500}
  - {id: ship, type: tool, tool: ship, timeout: 5000, errorStrategy: fallback, fallback: {why: $input.id}}
"""
WRITTEN = """
# Look up the order.
order = await shop.get_order(id=id)
if copies > 3:
    rate_2 = await rate(kind='bulk')
else:
    rate_2 = await rate(kind='single')
mails = await asyncio.gather(*[mail(to=item) for item in [1, 2]])
rounds = []
for round_2 in range(3):
    poll_2 = await poll()
    rounds.append(poll_2)
answer = await approve('Ship?', timeout=60.0)
if not answer:
    raise Rejected(answer.note or 'rejected')
ask = {'approved': bool(answer), 'by': answer.by, 'note': answer.note}
for attempt in range(3):
    try:
        pay_2 = await pay()
        break
    except (ToolError, TimeoutError) as failure:
        if attempt == 2 or not retryable(failure):
            raise
        await asyncio.sleep(0.5)
try:
    ship_2 = await asyncio.wait_for(ship(), 5)
except Exception:
    ship_2 = {'why': id}
return {
    'order': order,
    'rate': rate_2,
    'mails': mails,
    'rounds': rounds,
    'ask': ask,
    'pay': pay_2,
    'ship': ship_2,
}
"""


def test_a_chain_becomes_readable_python() -> None:
    made = App("memory").convert(ORDER, "plan")
    helper, program = made["code"].split("\n\n", 1)
    assert helper.startswith("def retryable(error):")
    assert program == WRITTEN.lstrip("\n")
    assert made["tools"]["shop.get_order"] == {"id": "shop:get-order"}
    assert (made["input"]["required"], made["timeout"]) == (["id", "copies"], 60000)


def test_a_flow_without_a_value_gives_none_as_a_plan() -> None:
    f = flow("made")
    f.call("mix", v=1)
    f.result(None)
    made = asyncio.run(compare(f.done(), "flow", 1))
    assert made is not None
    assert made["code"] == "await mix(v=1)\nreturn None\n"


def test_a_written_plan_converts_back() -> None:
    nodes: list[Any] = [
        {"id": "a", "type": "tool", "tool": "echo", "params": {"v": "$input.n"}, "condition": "$input.n > 3"},
        {"id": "b", "type": "tool", "tool": "mix", "params": {"v": "$output.a.v.x", "t": "<${output.a.v}>"}},
        {"id": "c", "type": "transform", "input": "${$output.b + 1}"},
    ]
    app = App("memory")
    for n in (1, 5):
        source = {"kind": "chain", "name": "c", "nodes": nodes}
        plan = asyncio.run(compare(source, "chain", n))
        assert plan is not None
        back = app.convert(dict(plan), "chain")
        again = asyncio.run(played(app, back, "chain", n))
        assert again == asyncio.run(played(app, source, "chain", n))


REFUSED = [
    ({"id": "a", "type": "tool", "tool": "f", "params": {"v": "$secret.KEY"}}, "a.args: a plan reads no secrets"),
    ({"id": "a", "type": "tool", "tool": "f", "errorStrategy": "continue"}, "a: plans cannot express a reported"),
    ({"id": "a", "type": "tool", "tool": "f", "params": {"v": "$input"}}, "a.args: a plan reads its input by names"),
    ({"id": "a", "type": "tool", "tool": "f", "condition": "$input.n == null"}, "a.when: a plan cannot tell null"),
    ({"id": "a", "type": "tool", "tool": "f", "params": {"v": "$input.class"}}, "a.args: the input 'class' cannot be"),
    ({"id": "a", "type": "transform", "input": "${base64($input.n)}"}, "a/value: the function base64 has no equal"),
]


def test_what_a_plan_cannot_hold_is_refused_with_its_node() -> None:
    app = App("memory", secrets=["KEY"])
    for node, message in REFUSED:
        source = {"kind": "chain", "name": "c", "nodes": [node]}
        with pytest.raises(InvalidFlow) as refused:
            app.convert(source, "plan")
        assert str(refused.value.problems[0]).startswith(message), refused.value
        made = app.convert(source, "plan", allow_loss=True)
        assert str(made.losses[0]).startswith(message)
        app.load(dict(made))


def test_a_plan_keeps_its_text_through_a_flow() -> None:
    app = App("memory")
    code = "n: int\nx = await f(v=n)  # first\nif x:\n    x = x.name\nreturn [x]"
    plan = {"kind": "plan", "name": "p", "code": code, "tools": {"f": {"id": "f"}}}
    flow = app.convert(plan, "flow")
    assert app.convert(flow, "plan")["code"] == code
    # A text that no longer says what the flow does is not used.
    changed = {**flow, "program": {**flow["program"], "code": code.replace("x.name", "x.size")}}
    with pytest.raises(InvalidFlow, match="a plan whose text this flow does not hold"):
        app.convert(changed, "plan")


PORTABLE = {
    "x = await f(v=n)\nreturn x.name": "line 2: `x.name` stays Python: a member that may be missing",
    "if await f(v=n):\n    await f(v=1)": "line 1: `if await f(v=n):` stays Python: only true and false are conditions",
    "return n == 1": "line 1: `1` stays Python: values whose types are not certain",
    "return n + 1": "line 1: `n + 1` stays Python: the types of these values are not certain",
    "try:\n    await f(v=1)\nexcept ToolError:\n    pass": "line 2: try has no equal here",
    "await asyncio.gather(f(v=1), f(v=2))": "line 1: `await asyncio.gather(f(v=1), f(v=2))` stays Python: gather has",
    "t = []\nfor x in [1]:\n    t.append(x)\nreturn t": "line 2: `for x in [1]:` stays Python: a loop without calls "
    "has no equal here; write a list comprehension",
    "t = 0\nfor x in [1]:\n    t = await f(v=t)\nreturn t": "line 2: a loop that changes variables has no equal here",
}


def test_python_without_an_equal_is_refused_with_its_line() -> None:
    app = App("memory")
    for code, message in PORTABLE.items():
        plan = {"kind": "plan", "name": "p", "code": code, "inputs": ["n"], "tools": {"f": {"id": "f"}}}
        with pytest.raises(InvalidFlow) as refused:
            app.convert(plan, "chain")
        assert any(message in problem.message for problem in refused.value.problems), str(refused.value)


def test_a_function_that_gather_calls_is_refused_with_the_line_of_the_author() -> None:
    code = (
        "async def one(v):\n    rows = []\n    for x in [1, 2]:\n        rows.append(x)\n    await f(v=v)\n"
        "    return rows\nreturn await asyncio.gather(*[one(v) for v in [1, 2]])"
    )
    plan = {"kind": "plan", "name": "p", "code": code, "tools": {"f": {"id": "f"}}}
    with pytest.raises(InvalidFlow) as refused:
        App("memory").convert(plan, "chain")
    assert [problem.message for problem in refused.value.problems] == [
        "line 7: `return await asyncio.gather(*[one(v) for v in [1, 2]])` stays Python: gather has no equal here: "
        "it waits for all calls where one fails; write the calls one after another"
    ]


@examples(20)
@given(kind=st.sampled_from(sorted(MAKERS)), seed=st.integers(0, 10**9), n=st.sampled_from([1, 5]))
def test_documents_of_every_notation_do_the_same_as_plans(kind: str, seed: int, n: int) -> None:
    asyncio.run(compare(MAKERS[kind](random.Random(seed)), kind, n))


@examples(15)
@given(built=built_flows(), n=st.sampled_from([1, 2]))
def test_python_flows_do_the_same_as_plans(built: Any, n: int) -> None:
    asyncio.run(compare(built, "flow", n))


@examples(20)
@given(made=flows(), n=st.sampled_from([1, 2]))
def test_graphs_of_every_op_do_the_same_as_plans(made: Flow, n: int) -> None:
    # A plan holds no status and no reported failure, so these flows are made without.
    body = without_reports(made.body)
    asyncio.run(compare({"kind": "flow", **flow_to_json(replace(made, body=body))}, "graph", n))


@examples(25)
@given(seed=st.integers(0, 10**9), to=st.sampled_from(["chain", "composition", "experience", "composite"]))
def test_plans_do_the_same_in_other_notations(seed: int, to: str) -> None:
    asyncio.run(compare_plan(Program(seed).document(), to, seed))


async def compare_plan(plan: dict[str, Any], to: str, seed: int) -> bool:
    """Convert a plan and run both; False if it is refused."""
    note(plan["code"])
    async with App("memory") as app:
        made = app.convert(plan, to, allow_loss=True)
        if made.losses:
            FIGURES[f"to {to} refused"] += 1
            app.load(dict(made))  # what is left is a valid document
            return False
        inputs = {"n": seed % 5, "s": ["", "a"][seed % 2], "f": seed % 3 == 0, "xs": [1, 2, 3][: seed % 4]}
        before, after = await world_of(app, plan, "plan", inputs), await world_of(app, dict(made), to, inputs)
        assert after == before
        back = app.convert(dict(made), "plan", allow_loss=True)
        assert back.losses or await world_of(app, dict(back), "plan", inputs) == before
        FIGURES[f"to {to} same"] += 1
        return True


async def world_of(app: App, source: Any, kind: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Run a definition; return its status, its value and its calls."""
    calls: list[Any] = []

    async def tools(name: str, params: dict[str, Any]) -> Any:
        calls.append((name, params))
        return {"name": name, "n": len(calls)}

    outcome = (await app.run(source, inputs, executor=tools)).to_dict()
    return {"status": outcome["status"], "value": value_of(kind, outcome), "calls": calls}


class Program:
    """Writes a random plan of calls, choices and values, most of which other notations can hold."""

    def __init__(self, seed: int) -> None:
        self.random, self.count = random.Random(seed), 0
        self.names = {"n": "int", "s": "str", "f": "bool", "xs": "list"}

    def document(self) -> dict[str, Any]:
        lines = ["n: int", "s: str", "f: bool", "xs: list[int]"]
        for _ in range(self.random.randint(1, 5)):
            lines += self.statement("")
        lines.append(f"return [{', '.join(self.value() for _ in range(3))}]")
        tools = {name: {"id": name} for name in ("mix", "echo")}
        return {"kind": "plan", "name": "p", "code": "\n".join(lines), "tools": tools}

    def statement(self, indent: str) -> list[str]:
        self.count += 1
        name = f"v{self.count}"
        kind = self.random.randrange(6)
        if kind < 3:
            line = f"{indent}{name} = await {self.random.choice(['mix', 'echo'])}(v={self.value()}, w={self.value()})"
            self.names[name] = "any"
            return [line]
        if kind == 3:
            line = f"{indent}{name} = {self.value()}"
            self.names[name] = "any"
            return [line]
        if indent or kind == 4:
            return [f"{indent}await mix(v={self.value()})"]
        before, test = dict(self.names), self.test()
        block = [*self.statement("    "), "    n = 7"]
        self.names = before
        other = ["else:", *self.statement("    ")] if self.random.random() < 0.5 else []
        self.names = before
        return [f"if {test}:", *block, *other]

    def of(self, kind: str) -> str:
        return self.random.choice([name for name, known in self.names.items() if known == kind])

    def value(self) -> str:
        any_name = self.random.choice(list(self.names))
        return self.random.choice(
            [
                *(any_name, any_name, "1", "None", "'$x'", f"[{any_name}, 2]", f"{{'a': {any_name}}}", "n + 1"),
                *(f"'big' if {self.test()} else s", "s.upper()", "f'<{s}>'", "len(xs)", "n * -2", "bool(xs)"),
                *("s + '!'", "sum(xs)", "xs + [n]", "not n", f"({self.test()})", "[x + 1 for x in xs if x > 1]"),
            ]
        )

    def test(self) -> str:
        tests = ["n > 2", "n == 3", "f", "s == 'a'", "not f", "n >= 1 and f", "s in ['a', 'b']", "n != 0", "1 < n < 4"]
        return self.random.choice([*tests, "xs", "s", f"{self.random.choice(list(self.names))} is None"])


def without_reports(part: Any) -> Any:
    """Return a part of a flow in which nothing reads a status or an error's kind, and no failure is reported."""
    if isinstance(part, Graph):
        return replace(part, nodes=tuple(map(without_reports, part.nodes)), result=_without_status(part.result))
    if isinstance(part, Node):
        on_error = part.policy.on_error
        if on_error is not None:
            stand_in = NULL if any(ref.root == "error" for ref in _refs(on_error.value)) else on_error.value
            on_error = replace(on_error, reported=False, value=stand_in)
        return replace(part, op=without_reports(part.op), policy=replace(part.policy, on_error=on_error))
    if isinstance(part, tuple):
        return tuple(map(without_reports, part))
    if hasattr(part, "body") or hasattr(part, "arms"):
        names = [name for name in ("body", "arms", "default") if getattr(part, name, None) is not None]
        return replace(part, **{name: without_reports(getattr(part, name)) for name in names})
    return part


def _refs(expr: Expr) -> list[Ref]:
    found: list[Ref] = []
    rebind(expr, lambda ref: found.append(ref) or ref)  # type: ignore[func-returns-value]
    return found


def _without_status(expr: Expr) -> Expr:
    return rebind(expr, lambda ref: Lit("?") if ref.root == "status" else ref)
