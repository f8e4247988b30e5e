"""The flows of a project as tools of each other, from files alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk import tool
from ropewalk.app.app import App
from ropewalk.app.project_problems import missing_files
from ropewalk.config.project import read_config
from ropewalk.errors import InvalidFlow, ToolNotFound

TOOLS = """
from ropewalk import tool

@tool
def shout(text: str) -> str:
    return text.upper()
"""
ANSWER = """
kind: chain
name: answer
inputSchema: {type: object, properties: {q: {type: string}}, required: [q]}
nodes: [{id: s, type: tool, tool: shout, params: {text: $input.q}}]
"""
OUTER = "kind: chain\nname: outer\nnodes: [{id: a, type: tool, tool: answer, params: {q: rope}}]\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "ropewalk.toml").write_text('[tools]\nmodules = ["shout_tools"]\n[store]\nurl = "runs.db"\n')
    (tmp_path / "shout_tools.py").write_text(TOOLS)
    (tmp_path / "answer.yaml").write_text(ANSWER)
    (tmp_path / "outer.yaml").write_text(OUTER)
    return tmp_path


def calling(name: str, tool: str, params: str = "{}") -> str:
    return f"kind: chain\nname: {name}\nnodes:\n- {{id: a, type: tool, tool: {tool}, params: {params}}}\n"


def in_project(project: Path, case: Callable[[App], Awaitable[Any]]) -> Any:
    async def work() -> Any:
        async with App.open(project) as app:
            return await case(app)

    return asyncio.run(work())


async def problems(app: App, file: Path) -> list[str]:
    return [problem.message for problem in (await app.validate(file)).problems]


def test_a_flow_calls_another_one_by_its_name_and_its_run_is_a_part(project: Path) -> None:
    async def case(app: App) -> None:
        assert await problems(app, project / "outer.yaml") == []
        outcome = await app.run(project / "outer.yaml", run_id="one")
        assert outcome["results"] == {"a": {"s": "ROPE"}}
        part = app.store.get_run("one/a")
        assert part is not None
        assert (part.parent, part.name, part.status) == ("one", "answer", "completed")

    in_project(project, case)


def test_types_hold_in_both_directions(project: Path) -> None:
    (project / "wrong.yaml").write_text(calling("wrong", "answer", "{q: 1}"))
    (project / "misread.yaml").write_text(
        "kind: chain\nname: misread\nnodes:\n- {id: a, type: tool, tool: answer, params: {q: x}}\n"
        "- {id: b, type: tool, tool: shout, params: {text: $output.a}}\n"
    )

    async def case(app: App) -> None:
        assert await problems(app, project / "wrong.yaml") == ["must be a string; this is an integer"]
        [problem] = await problems(app, project / "misread.yaml")
        assert "must be a string; this is an object; inside a longer text" in problem

    in_project(project, case)


def test_flows_that_call_each_other_are_refused_by_name(project: Path) -> None:
    (project / "one.yaml").write_text(calling("one", "two"))
    (project / "two.yaml").write_text(calling("two", "one"))

    async def case(app: App) -> None:
        [problem] = await problems(app, project / "one.yaml")
        assert problem == "two calls itself: two -> one -> two"
        with pytest.raises(InvalidFlow, match="calls itself"):
            await app.run(project / "two.yaml")

    in_project(project, case)


def test_a_wrong_flow_is_named_with_its_place(project: Path) -> None:
    (project / "answer.yaml").write_text(ANSWER.replace("params", "parms"))

    async def case(app: App) -> None:
        [problem] = await problems(app, project / "outer.yaml")
        why = "its flow is wrong: answer.yaml:5:42: nodes[0].parms: unknown key; did you mean params?"
        assert problem == f"tool 'answer': {why}"

    in_project(project, case)


def test_two_flows_of_one_name_are_not_guessed_at(project: Path) -> None:
    (project / "answer.yaml").rename(project / "first.yaml")
    (project / "second.yaml").write_text(ANSWER)

    async def case(app: App) -> None:
        [problem] = await problems(app, project / "outer.yaml")
        assert "first.yaml and second.yaml have this name" in problem
        (project / "second.yaml").write_text(ANSWER.replace("name: answer", "name: reply"))
        assert await problems(app, project / "outer.yaml") == []

    in_project(project, case)


def test_the_next_run_uses_a_changed_flow_also_of_a_flow_in_between(project: Path) -> None:
    (project / "top.yaml").write_text(calling("top", "outer"))

    async def case(app: App) -> None:
        for file, read in (("outer.yaml", lambda o: o["a"]), ("top.yaml", lambda o: o["a"]["a"])):
            (project / "answer.yaml").write_text(ANSWER)
            assert read((await app.run(project / file))["results"]) == {"s": "ROPE"}
            (project / "answer.yaml").write_text(ANSWER.replace("{id: s", "{id: t"))
            assert read((await app.run(project / file))["results"]) == {"t": "ROPE"}
            (project / "answer.yaml").write_text(ANSWER)
            assert read((await app.run(project / file))["results"]) == {"s": "ROPE"}
        (project / "answer.yaml").write_text("kind: chain\nname: answer\n")
        with pytest.raises(InvalidFlow, match=r"its flow is wrong: answer\.yaml:1:1"):
            await app.run(project / "outer.yaml")
        (project / "answer.yaml").unlink()
        with pytest.raises(InvalidFlow, match="unknown tool 'answer'"):
            await app.run(project / "outer.yaml")

    in_project(project, case)


def test_a_flow_of_any_notation_finds_the_flows_of_the_project(project: Path) -> None:
    (project / "program.yaml").write_text("kind: plan\nname: program\ncode: |\n  return await answer(q='a')\n")
    (project / "functions.py").write_text(
        "from ropewalk import plan\n\n@plan\nasync def written() -> object:\n    return await answer(q='b')\n"
    )
    (project / "composed.yaml").write_text(
        "kind: composition\nname: composed\nnodes: [{id: a, type: TOOL, tool: answer, inputMapping: {q: c}}]\n"
    )
    (project / "research.yaml").write_text(
        "kind: composite\nname: research\nmode: compose\ninputSchema: {type: object, properties: {q: {type: string}}}\n"
        "steps: [{tool: answer, inputMapping: {q: $input.q}}]\n"
    )
    for id in ("research", "composable:research"):
        (project / f"by_{len(id)}.yaml").write_text(calling("by", f'"{id}"', "{q: d}"))

    async def case(app: App) -> None:
        assert (await app.run(project / "program.yaml")).result == {"s": "A"}
        assert (await app.run(Path(f"{project}/functions.py:written"))).result == {"s": "B"}
        assert (await app.run(project / "composed.yaml")).result == {"s": "C"}
        for id in ("research", "composable:research"):
            outcome = await app.run(project / f"by_{len(id)}.yaml")
            assert outcome.status == "completed", outcome
            assert outcome["results"]["a"] == (await app.run(project / "research.yaml", {"q": "d"})).result

    in_project(project, case)


def test_a_flow_whose_name_is_no_name_of_python_is_called_by_a_program(project: Path) -> None:
    (project / "x.yaml").write_text(ANSWER.replace("name: answer", "name: the-answer"))
    (project / "program.yaml").write_text("kind: plan\nname: program\ncode: |\n  return await the_answer(q='a')\n")

    async def case(app: App) -> None:
        assert (await app.run(project / "program.yaml")).result == {"s": "A"}

    in_project(project, case)


def test_programs_that_call_each_other_or_themselves_are_refused(project: Path) -> None:
    (project / "self.yaml").write_text("kind: plan\nname: myself\ncode: |\n  return await myself()\n")
    for name, other in (("p", "r"), ("r", "p")):
        (project / f"{name}.yaml").write_text(f"kind: plan\nname: {name}\ncode: |\n  return await {other}()\n")

    async def case(app: App) -> None:
        for file, cycle in (("self", "myself -> myself"), ("p", "r -> p -> r"), ("r", "p -> r -> p")):
            [problem] = await problems(app, project / f"{file}.yaml")
            name = cycle.partition(" ")[0]
            assert problem == f"line 1: name {name!r} is not defined; {name} calls itself: {cycle}"

    in_project(project, case)


def test_a_tool_of_a_module_has_its_name_before_a_flow(project: Path) -> None:
    (project / "shout.yaml").write_text(ANSWER.replace("name: answer", "name: shout"))

    async def case(app: App) -> None:
        assert (await app.run(project / "outer.yaml"))["results"] == {"a": {"s": "ROPE"}}

    in_project(project, case)


def test_flows_are_those_that_the_project_names(project: Path) -> None:
    (project / "flows").mkdir()
    (project / "answer.yaml").rename(project / "flows" / "answer.yaml")

    async def case(app: App) -> list[str]:
        return await problems(app, project / "outer.yaml")

    assert "unknown tool 'answer'" in in_project(project, case)[0]
    with (project / "ropewalk.toml").open("a") as file:
        file.write('[mcp_server]\nflows = ["flows"]\n')
    assert in_project(project, case) == []
    toml = (project / "ropewalk.toml").read_text()
    (project / "ropewalk.toml").write_text(toml.replace("[tools]\n", '[tools]\nflows = ["*.yaml"]\n'))
    assert "unknown tool 'answer'" in in_project(project, case)[0]


def test_a_flow_is_called_alone_as_a_tool(project: Path) -> None:
    async def case(app: App) -> None:
        assert await app.call_tool("answer", {"q": "x"}) == {"s": "X"}
        (project / "answer.yaml").write_text(ANSWER.replace("{id: s", "{id: t"))
        assert await app.call_tool("answer", {"q": "x"}) == {"t": "X"}
        with pytest.raises(ToolNotFound):
            await app.call_tool("reply", {"q": "x"})

    in_project(project, case)


def test_a_thousand_flows_that_nobody_calls_are_not_prepared(project: Path) -> None:
    for number in range(300):
        (project / f"f{number}.yaml").write_text("kind: chain\nname: [\n")  # even if they are wrong

    async def case(app: App) -> None:
        assert (await app.run(project / "outer.yaml")).status == "completed"

    in_project(project, case)


def test_a_document_names_a_file_next_to_it(project: Path) -> None:
    (project / "deep").mkdir()
    (project / "deep" / "answer.yaml").write_text(ANSWER.replace("name: answer", "name: reply"))
    (project / "deep" / "outer.yaml").write_text(calling("deep", "./answer.yaml", "{q: a}"))
    (project / "deep" / "above.yaml").write_text(calling("above", "../answer.yaml", "{q: b}"))
    (project / "deep" / "wrong.yaml").write_text(calling("wrong", "./answer.yaml", "{q: 1, x: 2}"))
    (project / "deep" / "nothin.yaml").write_text(calling("nothin", "./nothing.yaml"))
    (project / "deep" / "both.yaml").write_text(calling("both", "./nothing.yaml") + "- {id: b, type: tool, tool: ''}\n")
    (project / "deep" / "data.yaml").write_text(calling("data", "shout", "{text: ./answer.yaml}"))

    async def case(app: App) -> None:
        assert (await app.run(project / "deep" / "outer.yaml"))["results"] == {"a": {"s": "A"}}
        assert (await app.run(project / "deep" / "above.yaml"))["results"] == {"a": {"s": "B"}}
        assert (await app.run(project / "deep" / "data.yaml"))["results"] == {"a": "./ANSWER.YAML"}
        assert "must be a string; this is an integer" in await problems(app, project / "deep" / "wrong.yaml")
        [problem] = await problems(app, project / "deep" / "nothin.yaml")
        why = "there is no file deep/nothing.yaml; did you mean deep/nothin.yaml?"
        assert problem == f"tool 'flow:deep.nothing': {why}"
        both = await problems(app, project / "deep" / "both.yaml")  # next to another problem, too
        assert both == ["must be a non-empty string", problem]
        # A document without a directory names no files.
        with pytest.raises(InvalidFlow, match="unknown tool"):
            await app.run((project / "deep" / "outer.yaml").read_text())

    in_project(project, case)


def test_a_file_is_a_tool_also_without_a_project(project: Path) -> None:
    (project / "ropewalk.toml").unlink()
    (project / "outer.yaml").write_text(calling("outer", "./answer.yaml", "{q: a}"))

    @tool
    def shout(text: str) -> str:
        return text + "!"

    async def case() -> None:
        async with App("memory", tools=[shout]) as app:
            assert (await app.run(project / "outer.yaml"))["results"] == {"a": {"s": "a!"}}

    asyncio.run(case())


def test_a_run_with_a_named_file_continues_in_another_process(project: Path) -> None:
    (project / "deep").mkdir()
    (project / "answer.yaml").rename(project / "deep" / "answer.yaml")
    (project / "outer.yaml").write_text(
        "kind: chain\nname: outer\nnodes:\n- {id: w, type: wait, approval: go}\n"
        "- {id: a, type: tool, tool: ./deep/answer.yaml, params: {q: a}}\n"
    )

    async def begin(app: App) -> str:
        return (await app.run(project / "outer.yaml", run_id="one", park=True)).status

    async def end(app: App) -> Any:
        await asyncio.to_thread(app.runs.approve, "one", "w")
        return (await app.resume("one"))["results"]

    assert in_project(project, begin) == "waiting"
    assert in_project(project, end)["a"] == {"s": "A"}


def test_a_file_is_that_file_whatever_else_has_its_name(project: Path) -> None:
    for folder in ("a", "b"):
        (project / folder).mkdir()
        text = ANSWER.replace("name: answer", "name: shout").replace("{id: s", f"{{id: {folder}")
        (project / folder / "same.yaml").write_text(text)
    (project / "outer.yaml").write_text(
        "kind: chain\nname: outer\nnodes:\n- {id: x, type: tool, tool: ./a/same.yaml, params: {q: x}}\n"
        "- {id: y, type: tool, tool: ./b/same.yaml, params: {q: y}}\n"
        "- {id: z, type: tool, tool: shout, params: {text: z}}\n"
    )

    async def case(app: App) -> None:
        results = (await app.run(project / "outer.yaml"))["results"]
        assert results == {"x": {"a": "X"}, "y": {"b": "Y"}, "z": "Z"}

    in_project(project, case)


def test_a_mistake_in_a_flow_in_between_is_shown_where_it_is(project: Path) -> None:
    (project / "top.yaml").write_text(calling("top", "outer"))

    async def case(app: App) -> None:
        for text, why in (
            (
                ANSWER.replace("shout", "shuot"),
                "answer.yaml:5:35: nodes[0].tool: unknown tool 'shuot'; did you mean shout?",
            ),
            ("kind: [\n", "answer.yaml:2:1: "),
        ):
            (project / "answer.yaml").write_text(text)
            [problem] = await problems(app, project / "top.yaml")
            start = (
                "tool 'outer': its flow is wrong: outer.yaml:3:35: nodes[0].tool: tool 'answer': its flow is wrong: "
            )
            assert problem.startswith(start + why), problem

    in_project(project, case)


MADE = """
from ropewalk import flow, plan
from shout_tools import shout

@plan
async def written(q: str) -> str:
    return await shout(q)

with flow("built-one", q=str) as f:
    f.result(f.call(shout, text=f.input.q))
done = f.done()

if __name__ == "__main__":
    print("started")
"""


def test_json_and_functions_of_python_files_are_flows_of_the_project(project: Path) -> None:
    (project / "made.py").write_text(MADE)
    (project / "script.py").write_text(MADE.replace("written", "started") + "\nprint('a program')\n")
    (project / "package.json").write_text('{"name": "package", "nodes": []}')
    (project / "research.json").write_text(
        '{"kind": "composite", "name": "research", "mode": "compose", "inputSchema": {"type": "object"},'
        ' "steps": [{"tool": "answer", "inputMapping": {"q": "d"}}]}'
    )
    (project / "program.yaml").write_text(
        "kind: plan\nname: program\ncode: |\n  a = await call_tool('built-one', {'q': 'a'})\n"
        "  return [a, await written(q='b'), await research(), await composable.research()]\n"
    )

    async def case(app: App) -> None:
        assert (await app.run(project / "program.yaml")).result == ["A", "B", {"s": "D"}, {"s": "D"}]
        await app.jobs.connect_own()
        names = ["answer", "built-one", "outer", "program", "research", "shout", "written"]
        assert (app.toolbox.ids(), app.jobs.flow_tools and app.jobs.flow_tools.failures()) == (names, {})

    in_project(project, case)


def test_a_name_is_corrected_to_that_of_a_flow_and_a_wrong_flow_is_listed(project: Path) -> None:
    (project / "near.yaml").write_text(calling("near", "anser"))
    (project / "compose.yaml").write_text("services: {}\n")  # of another program

    async def case(app: App) -> None:
        assert await problems(app, project / "near.yaml") == ["unknown tool 'anser'"]
        [problem] = (await app.validate(project / "near.yaml")).problems
        assert problem.suggestion == "answer"
        await app.jobs.connect_own()
        assert app.jobs.flow_tools is not None
        assert list(app.jobs.flow_tools.failures()) == ["near"]

    in_project(project, case)


def test_a_cycle_through_a_program_is_named_whole(project: Path) -> None:
    for name, other in (("one", "two"), ("two", "pr")):
        (project / f"{name}.yaml").write_text(calling(name, other))
    (project / "pr.yaml").write_text("kind: plan\nname: pr\ncode: |\n  return await one()\n")

    async def case(app: App) -> None:
        for file, cycle in (
            ("one", "tool 'two': two calls itself: two -> pr -> one -> two"),
            ("two", "tool 'pr': pr calls itself: pr -> one -> two -> pr"),
            ("pr", "one calls itself: one -> two -> pr -> one"),
        ):
            assert await problems(app, project / f"{file}.yaml") == [cycle]

    in_project(project, case)


def test_an_entry_that_matches_no_flow_is_a_problem(project: Path) -> None:
    toml = (project / "ropewalk.toml").read_text()
    flows = '[tools]\nflows = ["answer.yaml", "flow", "shout_tools.py:gone", "*.yml", "no.py:x"]\n'
    (project / "ropewalk.toml").write_text(toml.replace("[tools]\n", flows))
    found = [problem.message.partition(";")[0] for problem in missing_files(read_config(project))]
    unmatched = ("no file 'flow'", "no definition matches '*.yml'", "no file 'no.py:x'")
    assert found == [f"[tools] flows: {why}" for why in unmatched]


FINISHED = """
kind: chain
name: outer
nodes:
- {id: a, type: tool, tool: answer, params: {q: rope}}
- {id: f, type: tool, tool: ./answer.yaml, params: {q: knot}}
- {id: w, type: wait, approval: go}
- {id: b, type: tool, tool: flaky, params: {text: $output.a.s}}
"""
FLAKY = """
from pathlib import Path

@tool
def flaky(text: str) -> str:
    if not Path(__file__).with_name("fixed").exists():
        raise RuntimeError("not yet")
    return text + "!"
"""


def test_a_run_continues_without_the_files_of_flows_that_have_finished(project: Path) -> None:
    (project / "shout_tools.py").write_text(TOOLS + FLAKY)
    (project / "outer.yaml").write_text(FINISHED)

    async def begin(app: App) -> None:
        assert (await app.run(project / "outer.yaml", run_id="one", park=True)).status == "waiting"

    async def end(app: App) -> None:
        await asyncio.to_thread(app.runs.approve, "one", "w")
        failed = await app.resume("one")
        assert (failed.status, failed.errors[0]["message"]) == ("failed", "not yet")
        # A call that is made again needs its file, and the run stays as it was.
        for node in ("a", "f"):
            with pytest.raises(InvalidFlow, match=r"unknown tool 'answer'|there is no file answer\.yaml"):
                await app.runs.retry("one", [node])
        (project / "fixed").touch()
        assert (await app.runs.retry("one"))["results"]["b"] == "ROPE!"
        recorded = app.runs.get("one")
        assert recorded is not None
        assert {node["path"] for node in recorded["nodes"] if node["replayed"]} >= {"a", "f"}

    in_project(project, begin)
    (project / "answer.yaml").unlink()
    in_project(project, end)


def test_a_call_that_has_not_finished_fails_for_its_file(project: Path) -> None:
    (project / "outer.yaml").write_text(
        "kind: chain\nname: outer\nnodes:\n- {id: w, type: wait, approval: go}\n"
        "- {id: l, type: loop, items: [x, y], nodes: [{id: a, type: tool, tool: ./answer.yaml, params: {q: $item}},"
        " {id: v, type: wait, approval: more}]}\n"
    )

    async def begin(app: App) -> None:
        for id in ("one", "two"):
            await app.run(project / "outer.yaml", run_id=id, park=True)
        await asyncio.to_thread(app.runs.approve, "one", "w")
        assert (await app.resume("one", park=True)).status == "waiting"

    async def end(app: App) -> None:
        await asyncio.to_thread(app.runs.approve, "one", "v")
        failed = await app.resume("one")
        assert (failed.status, failed.errors[0]["message"]) == ("failed", "there is no file answer.yaml")
        await asyncio.to_thread(app.runs.approve, "two", "w")
        with pytest.raises(InvalidFlow, match=r"there is no file answer\.yaml"):
            await app.resume("two")

    in_project(project, begin)
    (project / "answer.yaml").unlink()
    in_project(project, end)


MIDDLE = """
kind: chain
name: middle
result: $output.b
nodes:
- {id: a, type: tool, tool: answer, params: {q: rope}}
- {id: w, type: wait, approval: go}
- {id: b, type: tool, tool: flaky, params: {text: $output.a.s}}
"""
AROUND = """
kind: chain
name: outer
nodes:
- {id: m, type: tool, tool: middle}
- {id: last, type: tool, tool: shout, params: {text: $output.m}}
"""


@pytest.mark.parametrize("gone", ["answer.yaml", "middle.yaml"])
def test_a_run_continues_inside_a_flow_that_has_not_finished_without_its_files(project: Path, gone: str) -> None:
    (project / "shout_tools.py").write_text(TOOLS + FLAKY)
    (project / "middle.yaml").write_text(MIDDLE)
    (project / "outer.yaml").write_text(AROUND)

    async def begin(app: App) -> None:
        assert (await app.run(project / "outer.yaml", run_id="one", park=True)).status == "waiting"

    async def end(app: App) -> None:
        await asyncio.to_thread(app.runs.approve, "one", "m/w")
        failed = await app.resume("one")
        assert (failed.status, failed.errors[0]["message"]) == ("failed", "b: not yet")
        # A middle flow that starts from nothing needs all files, and so does a fork, which calls it again.
        with pytest.raises(InvalidFlow, match="'middle'"):
            await app.runs.retry("one", ["m"])
        with pytest.raises(InvalidFlow, match="'middle'"):
            await app.runs.fork("one")
        (project / "fixed").touch()
        assert (await app.runs.retry("one")).results == {"m": "ROPE!", "last": "ROPE!"}
        # The fork of a run with a finished call copies its result.
        assert (await app.runs.fork("one", at=["last"])).results == {"m": "ROPE!", "last": "ROPE!"}
        with pytest.raises(InvalidFlow, match="'middle'"):
            await app.runs.fork("one", at=["m"])

    in_project(project, begin)
    (project / gone).unlink()
    in_project(project, end)
