"""A program that is written in another notation makes the same calls and gives the same value, or is refused."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import currently_in_test_context, given, note
from hypothesis import strategies as st

from properties.test_prop_convert import value_of
from ropewalk import App, tool
from ropewalk.errors import InvalidFlow
from ropewalk.values import canonical
from tiers import examples

pytestmark = pytest.mark.anyio

FIGURES: Counter[str] = Counter()
"""How many programs were the same, failed in both, or were refused."""
TOOLS: dict[str, Any] = {name: {"id": name, "parameters": ["v", "w"]} for name in ("mix", "echo", "fail")}
INPUTS = "n: int\ns: str\nf: bool\nxs: list[int]\nd: dict\no: int | None"


class Program:
    """Writes a random program of calls, choices, loops and values."""

    def __init__(self, seed: int) -> None:
        self.random, self.count = random.Random(seed), 0
        self.names = {"n": "int", "s": "str", "f": "bool", "xs": "ints", "d": "any", "o": "value"}

    def text(self) -> str:
        lines = [INPUTS]
        for _ in range(self.random.randint(1, 4)):
            lines += self.statement(0)
        ending = self.random.randrange(6)
        if ending == 0:
            lines.append(f"await mix(v={self.value()})")
        elif ending == 1:
            lines += [f"if {self.test()}:", f"    return {self.value()}", *self.statement(0), f"return {self.value()}"]
        else:
            lines.append(f"return [{', '.join(self.value() for _ in range(3))}]")
        return "\n".join(lines)

    def statement(self, depth: int) -> list[str]:
        kinds = [self.call, self.call, self.assignment, self.assignment, self.bare, self.member, self.odd]
        if depth < 2:
            kinds += [self.choice, self.loop, self.loop, self.comprehension, self.gather, self.gathered_items]
        pad = "    " * depth
        return [pad + line for line in self.random.choice(kinds)(depth)]

    def new(self, kind: str) -> str:
        self.count += 1
        old = [name for name, known in self.names.items() if known == kind and name.startswith("v")]
        name = self.random.choice(old) if old and self.random.random() < 0.3 else f"v{self.count}"
        self.names[name] = kind
        return name

    def tool(self) -> str:
        return self.random.choice(["mix", "mix", "echo", "echo", "fail"]) if self.random.random() < 0.2 else "mix"

    def arguments(self) -> str:
        first, second = self.value(), self.value()
        return self.random.choice(
            [f"v={first}, w={second}", f"{first}, w={second}", f"{first}, {second}", f"v={first}"]
        )

    def call(self, depth: int) -> list[str]:
        arguments = self.arguments()
        return [f"{self.new('any')} = await {self.tool()}({arguments})"]

    def bare(self, depth: int) -> list[str]:
        return [f"await {self.tool()}({self.arguments()})"]

    def member(self, depth: int) -> list[str]:
        arguments = self.arguments()
        key = self.random.choice(["['v']", ".w", "['v']['v']", "['list'][0]", "['no']"])
        return [f"{self.new('any')} = (await {self.tool()}({arguments})){key}"]

    def assignment(self, depth: int) -> list[str]:
        value, kind = self.random.choice(
            [(self.value(), "value"), (self.number(), "int"), (f"f'<{{{self.named('str')}}}>'", "str"), ("[]", "list")]
        )
        return [f"{self.new(kind)} = {value}"]

    def odd(self, depth: int) -> list[str]:
        if self.random.random() < 0.7:
            return ["pass"]
        name = self.random.choice(list(self.names))
        return self.random.choice(
            [
                [f"{name} += 1"],
                [f"while {self.test()}:", f"    await mix(v={self.value()})", "    break"],
                ["try:", f"    await fail(v={self.value()})", "except ToolError:", f"    await echo(v={self.value()})"],
                [f"print({name})"],
                [f"await asyncio.sleep({self.random.choice(['0', '0.001', 'n'])})"],
            ]
        )

    def choice(self, depth: int) -> list[str]:
        before, test = dict(self.names), self.test()
        block = [line for _ in range(self.random.randint(1, 2)) for line in self.statement(1)]
        kept = dict(self.names)
        self.names = dict(before)
        other = ["else:", *self.statement(1)] if self.random.random() < 0.6 else []
        # A name of one branch may be read later; then both the machine and Python can fail.
        self.names = {**self.names, **(kept if self.random.random() < 0.2 else before)}
        return [f"if {test}:", *block, *other]

    def loop(self, depth: int) -> list[str]:
        before, items = dict(self.names), self.items()
        self.count += 1
        item, rows = f"i{self.count}", f"v{self.count}l"
        begins = self.random.random() < 0.7
        self.names[item] = "int" if items in ("xs", "[1, 2]") else "any"
        body = [line for _ in range(self.random.randint(1, 2)) for line in self.statement(1)]
        appended = self.random.random()
        if begins and appended < 0.8:
            value = f"await mix(v={self.value()})" if self.random.random() < 0.3 else self.value()
            body.insert(
                self.random.choice([0, len(body)]) if value.startswith("await") else len(body),
                f"    {rows}.append({value})",
            )
        self.names = {**before, rows: "list"} if begins else before
        if self.random.random() < 0.1:
            self.names[item] = "any"
        return [*([f"{rows} = []"] if begins else []), f"for {item} in {items}:", *body]

    def comprehension(self, depth: int) -> list[str]:
        items = self.items()
        before = dict(self.names)
        self.names["i"] = "int" if items in ("xs", "[1, 2]") else "any"
        test = f" if {self.test()}" if self.random.random() < 0.4 else ""
        awaited = f"await {self.tool()}({self.arguments()})"
        value = self.random.choice([awaited, f"({awaited})['v']", self.value()])
        self.names = before
        return [f"{self.new('list')} = [{value} for i in {items}{test}]"]

    def gather(self, depth: int) -> list[str]:
        calls = f"{self.tool()}({self.arguments()}), {self.tool()}({self.arguments()})"
        if self.random.random() < 0.3:
            return [f"{self.new('list')} = await asyncio.gather({calls})"]
        return [f"{self.new('any')}, {self.new('any')} = await asyncio.gather({calls})"]

    def gathered_items(self, depth: int) -> list[str]:
        items, before = self.items(), dict(self.names)
        self.names["i"] = "any"
        call = f"{self.tool()}({self.arguments()})"
        self.names = before
        return [f"{self.new('list')} = await asyncio.gather(*[{call} for i in {items}])"]

    def items(self) -> str:
        lists = [name for name, kind in self.names.items() if kind in ("list", "ints")]
        return self.random.choice(
            ["xs", "[1, 2]", "xs + [n]", *lists, f"{self.named('any')}", f"{self.named('any')}.list"]
        )

    def named(self, kind: str) -> str:
        return self.random.choice([name for name, known in self.names.items() if known == kind])

    def number(self) -> str:
        n = self.named("int")
        return self.random.choice(
            [n, f"{n} + 1", f"{n} * -2", f"{n} - {self.named('int')}", "len(xs)", "7", f"{n} / 2"]
        )

    def value(self) -> str:
        name, other = self.random.choice(list(self.names)), self.named("any")
        usual = [
            *(name, name, name, "1", "None", "'$x'", "2.5", "{}", f"[{name}, 2]", f"{{'a': {name}}}", self.number()),
            *(f"'big' if {self.test()} else {self.named('str')}", f"{self.named('str')}.upper()", f"{other}['v']"),
            *(f"{other}.list[0]", f"{other}['list'][1]['v']", "[x + 1 for x in xs if x > 1]", f"[{other}, s] + [1]"),
            *("xs + [n]", "not n", f"({self.test()})", "len(d)", f"f'<{{{self.named('str')}}}>'", "xs[1]", "sum(xs)"),
        ]
        odd = [
            f"f'<{{{name}}}>'",
            f"{name} + 1",
            f"{name}[0]",
            f"{name} or 1",
            f"{other}.v + 1",
            f"-{name}",
            f"({name}, 2)",
        ]
        return self.random.choice(odd if self.random.random() < 0.04 else usual)

    def test(self) -> str:
        name, other = self.random.choice(list(self.names)), self.named("any")
        usual = [
            *(
                "n > 2",
                "n == 3",
                "f",
                "s == 'a'",
                "not f",
                "n >= 1 and f",
                "s in ['a', 'b']",
                "n != 0",
                "1 < n < 4",
                "xs",
            ),
            *("s", f"{name} is None", f"{other}['v'] == 'a'", f"{other}.v > 1", f"{name} is True", "o is not None"),
            *(f"f or {other}.v == 3", f"f and {other}.v == 3"),
        ]
        odd = [f"{name} == 1", name, f"{name} == {other}", f"{name} < 'b'", f"not {name}"]
        return self.random.choice(odd if self.random.random() < 0.04 else usual)


def inputs_of(seed: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "n": [0, 1, 2, 3, 5, 3.0][seed % 6],
        "s": ["", "a", "Éa"][seed % 3],
        "f": seed % 2 == 0,
        "xs": [1, 2, 3][: seed % 4],
        "d": [{}, {"v": 1, "list": [1, {"v": 2}]}, {"list": "ab"}, {"list": None, "v": True}][seed % 4],
        "o": [None, 1, 0][seed % 3],
    }
    return made


def answer(name: str, arguments: Any, seed: int) -> Any:
    """Return what a tool gives: the same for the same call, and of any type."""
    r = random.Random(canonical([name, arguments, seed]))
    if name == "fail" and r.random() < 0.5:
        raise ValueError("no")
    kinds = [
        {"v": 1, "w": "a", "list": [1, {"v": 2}]},
        {"v": "a", "list": [{"v": 0}]},
        {"v": True, "w": None, "list": []},
    ]
    return r.choice([*kinds, *kinds, "text", [1, {"v": 1}], None, 3, {"v": 3.0, "list": {"k": 1}}, {"v": {"v": [1]}}])


async def played(app: App, document: Any, kind: str, seed: int) -> dict[str, Any]:
    calls: list[Any] = []

    async def call(name: str, arguments: dict[str, Any]) -> Any:
        calls.append([name, arguments])
        return answer(name, arguments, seed)

    outcome = (await app.run(document, inputs_of(seed), executor=call)).to_dict()
    done = outcome["status"] == "completed"
    return {"status": outcome["status"], "value": value_of(kind, outcome) if done else None, "calls": calls}


async def compare(code: str, to: str, seed: int) -> str:
    """Convert a program and run both; return how it went."""
    plan = {"kind": "plan", "name": "p", "code": code, "tools": TOOLS}
    async with App("memory") as app:
        try:
            app.load(plan)
        except InvalidFlow:
            return "invalid"
        try:
            made = app.convert(plan, to)
        except InvalidFlow:
            return "refused"
        if currently_in_test_context():
            note(code)
        before = await played(app, plan, "plan", seed)
        after = await played(app, made, to, seed)
        back = app.convert(dict(made), "plan", allow_loss=True)
        again = await played(app, dict(back), "plan", seed)
    for outcome in (before, after, again) if "gather" in code else ():
        outcome["calls"].sort(key=canonical)
        if before["status"] == "failed" and "fail(" in code:
            outcome["calls"] = []  # the flow cancels the calls next to one that fails
    if not back.losses:
        assert canonical(again) == canonical(after), (code, back["code"])
    # A guard fails where Python goes on with a text or an object; nothing is silently different.
    if after["status"] == "failed" and after != before:
        assert not Counter(map(canonical, after["calls"])) - Counter(map(canonical, before["calls"])), code
        return "guarded"
    assert canonical(after) == canonical(before), code
    return "same" if before["status"] == "completed" else "failed"


@examples(40)
@given(seed=st.integers(0, 10**9), to=st.sampled_from(["flow", "chain", "composition", "experience"]))
def test_programs_do_the_same_in_other_notations(seed: int, to: str) -> None:
    FIGURES[asyncio.run(compare(Program(seed).text(), to, seed))] += 1


SAME = [
    # A test fails unless one before it decides.
    *("return f and d['v'] == 'a'", "return f or d['v'] == 'a'", "return f and d['v'] == 'a' or d.list == 's'"),
    *("return d['v'] == 'a' and f", "return d['v'] == 'a' or f"),
    # Members of every kind, also after a failure.
    *("return d['v']", "return d.list[0]", "x = await mix(v=n)\nreturn x['list'][1]['v']", "return [d['list'], d.v]"),
    # An optional value, texts that look like references, keys that look like paths.
    *("await mix(v=o)\nreturn [o, o is None, 1 if o is not None and f else o]", "return f'${s} $x ${s}${s}'"),
    "return {'$a': s, 'b.c': [s, '$input.s', '${s}'], '': {'output': 1}}",
    # A name that a branch sets, and one that it leaves.
    *("x = 1\nif f:\n    x = await mix(v=2)\nreturn x", "if f:\n    x = n\n    y = [x]\nelse:\n    x = s\nreturn x"),
    # A loop in a loop reads the element of the outer one; a list of lists; a loop over nothing.
    "out = []\nfor x in xs:\n    ys = []\n    for y in xs:\n        ys.append([x, y])\n    out.append(ys)\nreturn out",
    "out = []\nfor x in xs:\n    z = await mix(v=x)\n    out.append(x)\n    await echo(v=z)\nreturn [out, xs]",
    "return [x for x in d.list if x != 'z']",
    # Arguments of a gather fail before its first call.
    "a, b = await asyncio.gather(mix(v=1), mix(v=d['v']))\nreturn [b, a]",
    "result = await mix(v=1)\nprev = await echo(v=result)\nreturn {'result': result, 'prev': prev}",
]


@pytest.mark.parametrize("code", SAME)
async def test_these_programs_do_the_same(code: str) -> None:
    outcomes = [await compare(f"{INPUTS}\n{code}", to, seed) for to in ("flow", "chain") for seed in range(12)]
    assert set(outcomes) <= {"same", "failed", "guarded"}
    assert "same" in outcomes


WRITTEN: dict[str, list[Any]] = {  # by program: the nodes and the result
    # a line of calls, members and texts
    "x = await mix(v=n)\nawait echo(x['v'], w=f'<{s}>')\nreturn [x.w, n + 1]": [
        {"id": "x", "type": "tool", "tool": "mix", "params": {"v": "$input.n"}},
        {
            "id": "echo",
            "type": "tool",
            "tool": "echo",
            "params": {"v": "${required($output.x.v)}", "w": "<${$input.s}>"},
        },
        ["${required($output.x.w)}", "${$input.n + 1}"],
    ],
    # a loop with one list
    "rows = []\nfor x in xs:\n    row = await mix(v=x)\n    rows.append(row)\nreturn rows": [
        {
            "id": "rows",
            "type": "loop",
            "items": "$input.xs",
            "nodes": [{"id": "row", "type": "tool", "tool": "mix", "params": {"v": "$item"}}],
        },
        "$output.rows",
    ],
    # an approval, a choice, a pause
    "ok = await approve('Go?')\nif ok:\n    w = await echo(v=1)\nelse:\n    w = s\nawait asyncio.sleep(2)\nreturn w": [
        {"id": "ok", "type": "wait", "approval": "Go?"},
        {
            "id": "choice",
            "type": "condition",
            "condition": "$output.ok.approved == true",
            "then": [
                {"id": "w", "type": "tool", "tool": "echo", "params": {"v": 1}},
                {"id": "choice_then", "type": "transform", "input": {"w": "$output.w"}},
            ],
            "otherwise": [{"id": "choice_otherwise", "type": "transform", "input": {"w": "$input.s"}}],
        },
        {"id": "sleep", "type": "delay", "delay": 2000},
        "$output.choice.w",
    ],
}


@pytest.mark.parametrize("code", WRITTEN)
def test_a_program_becomes_a_readable_chain(code: str) -> None:
    plan = {"kind": "plan", "name": "p", "code": f"{INPUTS}\n{code}", "tools": TOOLS}
    made = App("memory").convert(plan, "chain")
    assert [*made["nodes"], made["result"]] == WRITTEN[code]
    assert made["inputSchema"]["required"] == ["n", "s", "f", "xs", "d", "o"]


REFUSED = {
    "while f:\n    await mix(v=1)": (1, "`while`; write `for` over a list"),
    "try:\n    await mix(v=1)\nexcept ToolError:\n    pass": (1, "`try`; a node has a fallback of its own"),
    "async def one():\n    await mix(v=1)\nawait one()": (
        1,
        "a local function; write its statements where it is called",
    ),
    "x = n / 2\nreturn 1": (1, "`n / 2`, an operator with another meaning"),
    "return f'{n}'": (1, "the text of `n`, which is not a text or an integer for certain"),
    "x = await mix(v=1)\nif x.v:\n    await mix(v=2)": (2, "the truth of `x.v`, whose type is not certain"),
    "x = await mix(v=1)\nreturn x.v == 1": (
        2,
        "`==` of values whose types are not certain: 1 equals True in Python only",
    ),
    "t = 0\nfor x in xs:\n    t = t + x\nreturn t": (3, "the value of `t`, which a loop, one branch of an `if`"),
    "for x in xs:\n    y = await mix(v=x)\nreturn y": (3, "the value of `y`, which a loop, one branch of an `if`"),
    "if f:\n    y = 1\nreturn y": (3, "the value of `y`, which a loop, one branch of an `if`"),
    "a = b = []\nreturn a": (1, "an assignment to several targets"),
    "a = []\nb = a\nfor x in xs:\n    a.append(x)\nreturn b": (4, "`a.append`, unless it is a new list"),
    "a = []\nif f:\n    for x in xs:\n        a.append(x)\nreturn a": (4, "`a.append`, unless it is a new list"),
    "a = []\nfor x in xs:\n    if f:\n        a.append(x)\nreturn a": (4, "`a.append(x)`, a function without an equal"),
    "for x in xs:\n    if x > 1:\n        break\n    await mix(v=x)": (3, "`break`; filter the list first"),
    "d['a'] = 1\nreturn d": (1, "a change of a value; assign a new value to a name"),
    "return await mix(v=await mix(v=1))": (1, "an await inside of an expression; assign its result to a name first"),
    "ok = await approve('Go?')\nawait mix(v=1)": (1, "an answer that nothing tests"),
    "ok = await approve('Go?')\nreturn ok": (2, "the answer of approve as a value; test it with `if`"),
    "await approve('Go?')": (1, "the answer of approve as a value; test it with `if`"),
    "len = 3\nreturn len": (1, "the name `len`, which is a function of Python"),
    "return 1e999": (1, "a constant that is not JSON"),
    "for x in xs:\n    return x": (2, "`return` or `else` in a loop"),
    "print(n)\nreturn n": (1, "`print(n)`, a function without an equal"),
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_has_no_equal_is_refused_at_its_line(code: str) -> None:
    line, reason = REFUSED[code]
    first = INPUTS.count("\n") + 1
    plan = {"kind": "plan", "name": "p", "code": f"{INPUTS}\n{code}", "tools": TOOLS}
    app = App("memory")
    with pytest.raises(InvalidFlow) as refused:
        app.convert(plan, "chain")
    problem, *others = refused.value.problems
    assert problem.message.startswith(f"line {first + line}: no equal in a chain: {reason}")
    assert f"{INPUTS}\n{code}"[: (problem.column or 1) - 1].count("\n") == first + line - 1
    # What is left is a document, in which what is lost gives null.
    made = app.convert(plan, "chain", allow_loss=True)
    assert list(made.losses) == [problem, *others]
    app.load(dict(made))


def test_each_statement_without_an_equal_has_one_problem() -> None:
    code = "x = n / 2\nfor y in xs:\n    z = n / y + n / 3\n    await mix(v=z)\nwhile x:\n    x = n / 2\nreturn n / 3"
    with pytest.raises(InvalidFlow) as refused:
        App("memory").convert({"kind": "plan", "name": "p", "code": f"{INPUTS}\n{code}", "tools": TOOLS}, "experience")
    lines = [problem.message.split(":")[0] for problem in refused.value.problems]
    assert lines == ["line 7", "line 9", "line 11", "line 13"]
    assert "no equal in an experience: " in refused.value.problems[0].message


@tool
async def orders(count: int) -> list[dict[str, int]]:
    """Return orders."""
    return [{"id": number} for number in range(count)]


def test_the_schemas_of_tools_are_types() -> None:
    code = "rows = await orders(count=2)\nfor row in rows:\n    await orders(count=row['id'])\nreturn len(rows)"
    made = App(tools=[orders]).convert({"kind": "plan", "name": "p", "code": code}, "chain")
    _, loop = made["nodes"]
    assert (loop["items"], made["result"]) == ("$output.rows", "${length($output.rows)}")
    # Without a schema a value that is no list fails.
    plan = {"kind": "plan", "name": "p", "code": code.replace("len(rows)", "1"), "tools": {"orders": {"id": "orders"}}}
    assert App("memory").convert(plan, "chain")["nodes"][1]["items"] == "${$output.rows + []}"


def test_a_program_of_a_model_is_not_read_for_a_conversion() -> None:
    plan = {"kind": "plan", "name": "p", "code": "return 1", "origin": "model", "tools": {}}
    for kind in ("chain", "flow"):
        with pytest.raises(InvalidFlow, match="a program of a model is only read where it runs"):
            App("memory").convert(plan, kind)


def test_a_flow_as_a_document_holds_no_program() -> None:
    app = App("memory")
    op = {"kind": "Program", "text": "return 1"}
    inner = {"nodes": [{"id": "program", "op": op}]}
    for regions in ([inner], [inner, {"nodes": [{"id": "block", "op": {"kind": "Block", "body": 0}}]}]):
        document = {"kind": "flow", "ropewalk": 1, "name": "f", "body": len(regions) - 1, "regions": regions}
        with pytest.raises(InvalidFlow, match="a program is not a node of a flow; write it as a plan"):
            app.load(document)


APPROVED = [
    "await approve('Go?')\nawait echo(v=1)\nreturn 1",
    "ok = await approve('Go?')\nif not ok:\n    return 'no'\nawait echo(v=1)\nreturn 'yes'",
    "ok = await approve(f'Go {s}?', timeout=60)\nw = 1 if ok and f else 2\nawait echo(v=w)\nreturn w",
]


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("code", APPROVED)
async def test_an_approval_decides_the_same(tmp_path: Path, code: str, approved: bool) -> None:
    calls: list[int] = []

    @tool
    def echo(v: int) -> int:
        """Return a number."""
        calls.append(v)
        return v

    plan = {"kind": "plan", "name": "p", "code": f"{INPUTS}\n{code}"}
    outcomes = []
    async with App(str(tmp_path / "runs.db"), tools=[echo]) as app:
        for kind, document in (("plan", plan), ("chain", app.convert(plan, "chain"))):
            calls.clear()
            await app.run(document, inputs_of(4), run_id=kind, park=True)
            app.runs.approve(kind, approved=approved)
            outcome = (await app.resume(kind)).to_dict()
            value = value_of(kind, outcome) if outcome["status"] == "completed" else None
            outcomes.append([outcome["status"], value, [*calls]])
    assert outcomes[0] == outcomes[1]
