"""Experiences in their directories: real modules, files that are refused, seeds, one inside another."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from experiences.conftest import Make
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow, InvalidInput
from ropewalk.notations.json_schema import schema_of
from ropewalk.tools.tool import tool

NODE = shutil.which("node")
ADD = "def add(args):\n    return {'state_delta': {'n': args['by']}}\n"
COUNT = "{n: {type: number, merge: sum, default: 0}}"
ONE = "  nodes: [{id: add, kind: tool, impl: ./add.py, args: {by: 2}, writes: [n]}]\n"


def run(home: Path, input: Any = None, store: str = "memory", tools: tuple[Any, ...] = (), **more: Any) -> Any:
    async def body() -> Any:
        async with App(store, tools=tools) as app:
            return await app.run(home, input, **more)

    return asyncio.run(body())


def refused(home: Path) -> list[tuple[str, int, int]]:
    """What is wrong with a directory: message, line and column of each problem."""

    async def body() -> Any:
        async with App("memory") as app:
            return (await app.validate(home)).problems

    try:
        problems = asyncio.run(body())
    except InvalidFlow as exc:
        problems = exc.problems
    return [(p.message, p.place.line, p.place.column) for p in problems if p.place is not None]


def test_modules_of_a_directory_run(make: Make) -> None:
    """EXP-STATUS-1"""
    result = run(make(ONE, COUNT, add_py=ADD))
    assert (result.status, result.final_state, result.success) == ("completed", {"n": 2}, True)


@pytest.mark.node
@pytest.mark.skipif(NODE is None, reason="needs Node.js")
def test_python_and_javascript_in_one_graph(make: Make) -> None:
    """EXP-TOOL-1, EXP-TOOL-2"""
    graph = """
      nodes:
        - {id: rows, kind: tool, impl: ./rows.py, writes: [rows]}
        - {id: total, kind: tool, impl: ./total.mjs, writes: [total]}
        - {id: say, kind: tool, impl: ./say.py, writes: [said]}
      edges: [{from: rows, to: total}, {from: total, to: say}]
    """
    js = """
      export default async function total(args) {
        const sum = args._state.rows.reduce((acc, r) => acc + r.amount, 0)
        args._state.rows.push({amount: 1000})
        return { state_delta: { total: sum }, edge_output: { sum } }
      }
    """
    rows = "def rows(args):\n    return {'state_delta': {'rows': [{'amount': 1}, {'amount': 2}]}}\n"
    say = """
      def say(args):
          args["_state"]["rows"].append("changed")
          return {"state_delta": {"said": f"{args['_edge_inputs']['total']['sum']} of {args['_state']['total']}"}}
    """
    state = "{rows: {type: array}, total: {type: number}, said: {type: string}}"
    result = run(make(graph, state, rows_py=rows, total_mjs=js, say_py=say))
    assert result.errors == []
    assert result.final_state == {"rows": [{"amount": 1}, {"amount": 2}], "total": 3, "said": "3 of 3"}


@pytest.mark.parametrize(
    ("impl", "said"),
    [
        ("../out.py", "'..' is not allowed"),
        ("/etc/passwd", "absolute path"),
        ("./link.py", "leads out of the directory"),
        ("./add.ts", "compile it with tsc"),
        ("./ad.py", "did you mean add.py?"),
        ("./add.txt", "the name of a tool module must end in"),
    ],
)
def test_an_impl_that_may_not_be_used_is_told_with_its_place(make: Make, impl: str, said: str) -> None:
    """EXP-NODE-7, EXP-DOC-8"""
    home = make(ONE.replace("./add.py", impl), COUNT, add_py=ADD, add_ts="x", add_txt="x")
    (home.parent / "out.py").write_text("raise SystemExit(1)")
    (home / "link.py").symlink_to(home.parent / "out.py")
    [(message, line, column)] = refused(home)
    assert said in message
    text = (home / "experience.yaml").read_text().splitlines()[line - 1]
    assert text[column - 1 :].startswith(impl)


def test_everything_wrong_is_told_at_once(make: Make) -> None:
    """EXP-DOC-8"""
    graph = """
      nodes:
        - {id: a, kind: tool, impl: ./nope.py, wrties: [n]}
        - {id: b, kind: dataset, source: {file: ./rows.cvs}, writes: [m]}
      edges: [{from: a, to: c}]
    """
    told = refused(make(graph, COUNT))
    assert sorted(line for _, line, _ in told) == [7, 7, 8, 8, 9]


def test_validate_imports_nothing(make: Make) -> None:
    """EXP-RUN-6"""
    home = make(ONE, COUNT, add_py="open('imported', 'w').close()\nraise SystemExit(1)\ndef add(args): ...\n")
    assert refused(home) == []
    assert sorted(p.name for p in home.iterdir()) == ["add.py", "experience.yaml"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("globals()['x'] = 1\n", "add.py: it defines no public function"),
        ("one = two = lambda args: ...\n", "one"),
        ("def add(args): return 5\n", "not an object with state_delta"),
        ("def add(args): return {}\n", "has no state_delta"),
        ("def add(args): return {'state_delta': {'m': 1}}\n", 'Node "add" wrote to undeclared state field "m"'),
        ("def add(args): return {'state_delta': {'n': 'x'}}\n", "add.py: state.n: got string"),
        ("def add(args): raise ValueError('no luck')\n", "no luck"),
    ],
)
def test_a_module_that_does_not_do_its_part_is_told_by_name(make: Make, code: str, said: str) -> None:
    """EXP-TOOL-6"""
    result = run(make(ONE, COUNT, add_py=code))
    assert (result.status, result.final_state) == ("failed", {"n": 0})
    [error] = result.errors
    assert error["nodeId"] == "add"
    assert said in error["message"]


def test_named_environment_variables_come_through(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """EXP-RUN-5"""
    monkeypatch.setenv("ROPE_SHOWN", "yes")
    monkeypatch.setenv("ROPE_HIDDEN", "no")
    code = "def add(args):\n    return {'state_delta': {'env': args.get('_env')}}\n"
    state = "{env: {type: object}, n: {type: number}}"
    home = make(ONE, state, add_py=code, more="runtime: {env: [ROPE_SHOWN, ROPE_UNSET]}")
    assert run(home).final_state["env"] == {"ROPE_SHOWN": "yes"}


def test_a_state_that_does_not_fit_is_refused_before_anything_runs(make: Make) -> None:
    """EXP-STATE-13"""
    home = make(ONE, COUNT, add_py=ADD)
    with pytest.raises(InvalidInput) as wrong:
        run(home, state={"n": "x", "m": 1})
    assert [p.path for p in wrong.value.problems] == ["state.n", "state.m"]
    assert run(home, state={"n": 40}).final_state == {"n": 42}


def test_the_state_of_the_last_run_is_carried_over_when_asked_for(make: Make, tmp_path: Path) -> None:
    """EXP-STATE-14"""
    home, store = make(ONE, COUNT, add_py=ADD), f"sqlite:///{tmp_path}/s.db"
    other = make(ONE, COUNT, at="other", add_py=ADD)
    assert run(home, store=store, keep_state=True).final_state == {"n": 2}
    assert run(other, store=store).final_state == {"n": 2}
    assert run(home, store=store, keep_state=True).final_state == {"n": 4}
    assert run(home, store=store).final_state == {"n": 2}
    assert run(home, store=store, keep_state=True, state={"n": 10}).final_state == {"n": 12}


def test_an_experience_runs_another_directory(make: Make, tmp_path: Path) -> None:
    """EXP-KIND-3"""
    graph = """
      nodes:
        - {id: in, kind: experience, impl: ./inner, args: {by: $.by}, writes: [inner]}
        - {id: after, kind: tool, impl: ./after.py, writes: [said]}
      edges: [{from: in, to: after}]
    """
    after = """
      def after(args):
          given = args["_edge_inputs"]["in"]
          return {"state_delta": {"said": [sorted(given), given["status"]]}}
    """
    home = make(graph, "{by: {type: number, default: 5}, inner: {type: object}, said: {type: array}}", after_py=after)
    make(ONE.replace("by: 2", "by: $input.by"), COUNT, at="exp/inner", add_py=ADD)
    result = run(home, store=f"sqlite:///{tmp_path}/s.db")
    assert result.errors == []
    assert result.final_state == {"by": 5, "inner": {"n": 5}, "said": [["finalState", "runId", "status"], "completed"]}


def test_an_experience_inside_that_is_wrong_or_fails_is_told(make: Make) -> None:
    """EXP-KIND-3"""
    graph = "  nodes: [{id: in, kind: experience, impl: ./inner}]\n"
    home = make(graph)
    [(message, _, _)] = refused(home)
    assert "there is no directory inner" in message
    make(ONE.replace("add.py", "nope.py"), COUNT, at="exp/inner")
    [(message, _, _)] = refused(home)
    assert "experience.yaml:6" in message
    assert "nope.py" in message
    make(ONE, COUNT, at="exp/inner", add_py="def add(args): raise ValueError('no luck')\n")
    result = run(home)
    assert result.status == "failed"
    assert "no luck" in result.errors[0]["message"]
    make(graph.replace("./inner", "."))
    assert "cannot run itself" in refused(home)[0][0]


def test_datasets_and_tools_of_the_app(make: Make) -> None:
    """EXP-KIND-1, EXP-KIND-2"""

    @tool
    def double(n: int) -> dict[str, int]:
        """Twice as much."""
        return {"twice": 2 * n}

    graph = """
      nodes:
        - {id: load, kind: dataset, source: {file: ./rows.csv}, writes: [rows]}
        - {id: twice, kind: call, tool: double, args: {n: "${ length($.rows) }"}, output: twice, writes: [n]}
      edges: [{from: load, to: twice}]
    """
    home = make(graph, "{rows: {type: array}, n: {type: number}}", rows_csv="a,b\n1,x\n2,y\n")
    result = run(home, tools=(double,))
    assert result.errors == []
    assert result.final_state == {"rows": [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}], "n": 4}
    with pytest.raises(InvalidFlow, match=r"nodes\[1\].tool: unknown tool 'double'"):
        run(home)


def test_a_definition_that_came_from_no_directory_has_no_files(make: Make) -> None:
    """EXP-NODE-7"""
    text = (make(ONE, COUNT, add_py=ADD) / "experience.yaml").read_text()

    async def body() -> None:
        async with App("memory") as app:
            await app.run(text)

    with pytest.raises(InvalidFlow, match="does not come from a directory"):
        asyncio.run(body())


@pytest.mark.parametrize(("backoff", "pauses"), [("linear", [0.1, 0.2, 0.3]), ("exponential", [0.1, 0.2, 0.4])])
def test_pauses_grow_as_the_backoff_says(make: Make, backoff: str, pauses: list[float]) -> None:
    """EXP-ERROR-6"""
    policy = f"on_error: {{policy: retry, attempts: 4, backoff: {backoff}}}"
    home = make(ONE.replace("writes: [n]", policy), COUNT, add_py=ADD)

    async def body() -> list[float]:
        async with App("memory") as app:
            retry = app.load(home).flow.body.nodes[0].policy.retry
            return [round(retry.pause(i), 6) for i in (1, 2, 3)]

    assert asyncio.run(body()) == pauses


def test_a_condition_that_fails_in_a_run_says_where_it_stands(make: Make) -> None:
    """EXP-ORDER-4"""
    nodes = "nodes: [{id: a, kind: tool, impl: ./a.py, writes: [o]}, {id: b, kind: tool, impl: ./a.py}]"
    home = make(f"{nodes}\nedges: [{{from: a, to: b, when: $.o.n > 1}}]", "{o: {type: object}}",
                a_py="def a(args): return {'state_delta': {'o': {'n': 'x'}}}")  # fmt: skip
    [error] = run(home).errors
    assert error["message"].startswith("graph.edges[0].when: `>` cannot order string and number")


def test_what_is_wrong_inside_comes_with_its_place_behind_it(make: Make) -> None:
    home = make("nodes: [{id: in, kind: experience, impl: ./inner}]", at="out")
    make("nodes: [{id: a, kind: tool, impl: ./none.py}]", at="out/inner")
    with pytest.raises(InvalidFlow) as refused:
        run(home)
    [problem] = refused.value.problems
    assert problem.message == (
        "the definition that it names is wrong: graph.nodes[0].impl: there is no file none.py "
        "(inner/experience.yaml:6:37)"
    )


def test_a_module_that_cannot_be_the_tool_is_a_problem_of_the_check(make: Make) -> None:
    """EXP-RUN-6"""
    nodes = """
    nodes:
      - {id: a, kind: tool, impl: ./broken.py}
      - {id: b, kind: call}
    """
    home = make(nodes, broken_py="def a(:\n")
    with pytest.raises(InvalidFlow) as refused:
        run(home)
    told = {problem.path: problem.message for problem in refused.value.problems}
    assert sorted(told) == ["graph.nodes[0].impl", "graph.nodes[1].tool"]
    assert told["graph.nodes[0].impl"].startswith("broken.py:1: ")


def test_what_did_not_run_says_why(make: Make) -> None:
    """EXP-RUN-4"""
    nodes = "nodes: [{id: a, kind: tool, impl: ./a.py, writes: [n]}, {id: b, kind: tool, impl: ./a.py, phase: p}]"
    home = make(f"{nodes}\nedges: [{{from: a, to: b, when: $.n > 1}}]", "{n: {type: number}}",
                a_py="def a(args): return {'state_delta': {'n': 1}}")  # fmt: skip
    told: list[tuple[str, Any]] = []

    async def body() -> None:
        async with App("memory") as app:
            await app.run(home, on_event=lambda event: told.append((event.kind, event.data)))

    asyncio.run(body())
    assert ("node.skipped", {"reason": "not reached: it needs a: $.n > 1", "phase": "p"}) in told


def test_a_drawing_is_in_the_words_of_the_document(make: Make) -> None:
    """EXP-RUN-6"""
    graph = """
    nodes:
      - {id: rows, kind: dataset, source: {file: ./rows.csv}, writes: [rows]}
      - {id: step, kind: tool, impl: ./step.py}
    loops: [{id: l, body: [step], until: $.n >= 5}]
    """
    home = make(graph, "{rows: {type: array}, n: {type: number}}", step_py="def step(args): ...", rows_csv="a\n1\n")
    shown = asyncio.run(App("memory").preview(home)).text()
    assert "!($state.n >= 5)" in shown
    assert "Call dataset · " in shown
    assert "state_delta" not in shown


def test_the_schema_is_that_of_a_json_schema_validator(make: Make) -> None:
    """EXP-DOC-7"""
    schema = schema_of("experience")
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == ["name", "version", "state", "graph"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [x]\nb: &b [*a, *a]\nc: [" + "*b, " * 2000 + "]\n", "alias"),
        ("name: x\nname: y\n", "name"),
        ("graph: " + "[" * 5000 + "]" * 5000, "nested deeper"),
        ("name: " + "x" * 10_000_001, "larger than"),
        ("", "empty"),
        ("[]", "an object"),
    ],
)
def test_hostile_documents_are_refused_at_once(tmp_path: Path, text: str, said: str) -> None:
    """EXP-DOC-8"""
    (tmp_path / "experience.yaml").write_text(text)
    began = time.process_time()
    with pytest.raises(InvalidFlow) as refused:
        run(tmp_path)
    assert time.process_time() - began < 5  # a fraction of a second on an idle machine
    assert any(said in str(problem) for problem in refused.value.problems), refused.value.problems[:3]
    assert all(problem.place is not None for problem in refused.value.problems)
