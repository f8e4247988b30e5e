"""Runs that have ended, gone on with from the command line."""

from __future__ import annotations

import re
from shlex import quote
from typing import Any

import pytest

pytestmark = pytest.mark.process

ASKS = """\
kind: chain
name: asks
nodes: [{id: ask, type: wait, approval: "Ship it?"}, {id: up, type: tool, tool: upper, params: {text: $input.text}}]
"""
CHAIN = """\
kind: chain
name: luck
nodes:
  - {id: up, type: tool, tool: upper, params: {text: $input.text}}
  - {id: lucky, type: tool, tool: lucky, params: {text: $output.up}}
"""
LUCKY = '''

@tool
def lucky(text: str) -> str:
    """Works once there is a file named luck."""
    with open("tried", "a") as file:
        file.write("x")
    if not Path("luck").exists():
        raise RuntimeError("no luck")
    return text + "!"
'''


def prepare(project: Any) -> None:
    project.write("rw_cli_tools.py", (project.home / "rw_cli_tools.py").read_text() + LUCKY)
    project.write("luck.yaml", CHAIN)


def test_retry_goes_on_with_what_failed(project: Any) -> None:
    prepare(project)
    assert project("run", "luck.yaml", "-i", '{"text": "a"}', "--id", "r").code == 1
    assert project("runs", "retry", "r").code == 1
    project.write("luck", "")
    done = project("runs", "retry", "r", "--json")
    assert (done.code, done.data["runId"], done.data["result"]) == (0, "r", {"up": "A", "lucky": "A!"})
    assert (project.home / "tried").read_text() == "xxx"
    assert project("runs", "show", "r").out.count("retried  after failed at ") == 2
    again = project("runs", "retry", "r", "--from", "lucky")
    assert (again.code, (project.home / "tried").read_text()) == (0, "xxxx")


def test_what_comes_to_an_approval_says_how_to_answer_and_does_not_wait_for_it(project: Any) -> None:
    project.write("asks.yaml", ASKS)
    here = ("--store", "here.db")
    assert project("run", "asks.yaml", "-i", '{"text": "a"}', "--id", "r", *here).code == 4
    project("runs", "approve", "r", *here)
    assert project("resume", "r", *here).code == 0
    for words, run in (("fork", "r", "--from", "ask", "--id", "f"), "f"), (("retry", "r", "--from", "ask"), "r"):
        done = project("runs", *words, *here)
        assert (done.code, f"ropewalk runs approve {run} " in done.out) == (4, True), done.out + done.err
        assert f"then: ropewalk resume {run} --store here.db" in done.out


def test_retry_says_what_is_wrong(project: Any) -> None:
    prepare(project)
    project.write("luck", "")
    project("run", "luck.yaml", "-i", '{"text": "a"}', "--id", "r")
    done = project("runs", "retry", "r")
    assert done.code == 1
    assert "name the node" in done.err
    assert "--from NODE" in done.err
    done = project("runs", "retry", "r", "--from", "luck")
    assert done.code == 2
    assert "did you mean 'lucky'?" in done.err
    assert project("runs", "retry", "nope").code == 2


def test_fork_diff_and_export(project: Any) -> None:
    prepare(project)
    project.write("luck", "")
    assert project("run", "luck.yaml", "-i", '{"text": "a"}', "--id", "r").code == 0
    forked = project("runs", "fork", "r", "-i", '{"text": "b"}', "--id", "f", "--json")
    assert (forked.code, forked.data["result"]["lucky"]) == (0, "B!")
    again = project("runs", "fork", "r", "--id", "g")
    assert (again.code, (project.home / "tried").read_text()) == (0, "xx")
    assert "fork of  r" in project("runs", "show", "f").out
    told = project("runs", "diff", "r", "f")
    assert told.code == 0
    assert 'input.text: "a" -> "b"' in told.out
    assert '    value: "A!" -> "B!"' in told.out
    assert project("runs", "diff", "r", "f", "--json").data["input"] == [{"path": "text", "a": "a", "b": "b"}]
    whole = project("runs", "export", "f", "--json").data
    assert (whole["run"]["id"], whole["run"]["forked_from"]) == ("f", "r")
    assert {e["path"] for e in whole["entries"] if e["kind"] == "call"} == {"up", "lucky"}


def test_a_run_is_upgraded_only_when_that_is_meant(project: Any) -> None:
    prepare(project)
    assert project("run", "luck.yaml", "-i", '{"text": "a"}', "--id", "r").code == 1
    project.write(
        "luck.yaml", CHAIN.replace("tool: lucky, params: {text: $output.up}", "tool: upper, params: {text: x}")
    )
    refused = project("runs", "retry", "r", "luck.yaml")
    assert refused.code == 2
    assert "luck.yaml:5:" in refused.err
    assert "changed in" in refused.err
    done = project("runs", "retry", "r", "--upgrade", "--json")
    assert (done.code, done.data["result"]) == (0, {"up": "A", "lucky": "X"}), done.err


def test_runs_are_found_paged_and_pruned(project: Any) -> None:
    prepare(project)
    for name in ("one", "two", "three"):
        project("run", "luck.yaml" if name == "two" else "shout.yaml", "-i", '{"text": "a"}', "--id", name)

    def ids(*words: str) -> list[str]:
        return [run["runId"] for run in project("runs", "ls", *words, "--json").data]

    assert ids() == ["three", "two", "one"]
    assert ids("--status", "failed", "--status", "stopped") == ["two"]
    assert ids("--flow", "shout") == ["three", "one"]
    assert ids("--since", "1h", "--limit", "2") == ["three", "two"]
    assert ids("--after", "two") == ["one"]
    assert ids("--until", "2020-01-01") == []
    assert project("runs", "ls", "--since", "yesterday").code == 2
    assert project("runs", "prune").code == 2
    would = project("runs", "prune", "--keep", "1", "--dry-run")
    assert would.out.startswith("2 runs would be deleted, ")
    assert project("runs", "prune", "--keep", "0", "--status", "failed", "--json").data["runs"] == 1
    assert project("runs", "prune", "--older-than", "0s").out.startswith("2 runs deleted")
    assert ids() == []
    assert project("runs", "cancel", "one").code == 2


def test_a_diff_of_a_run_that_is_not_there_says_where_it_was_looked_for(project: Any) -> None:
    done = project("runs", "diff", "x", "y")
    assert (done.code, "runs.db; to name another one, add -C PROJECT or --store URL" in done.err) == (2, True), done.err


def test_steps_of_before_are_marked_and_long_texts_are_seen_to_be_cut(project: Any) -> None:
    prepare(project)
    project.write("up.yaml", CHAIN)
    project("run", "up.yaml", "-i", '{"text": "a\\nb"}', "--id", "r")
    assert re.search(r"✓ up  \S+ ms  A …\n", project("runs", "show", "r").out)
    project("runs", "retry", "r")
    assert re.search(r"↺ up  \S+ ms  A …\n", project("runs", "show", "r").out)


MISFIT = '''

@tool
def misfit() -> dict:
    """Works, and gives something else than it says."""
    with open("tried", "a") as file:
        file.write("x")
    return "made"
'''


def prepare_strict(project: Any, tools: str) -> None:
    """Add tools, and reject the result of `misfit` when it does not fit its schema."""
    project.write("rw_cli_tools.py", (project.home / "rw_cli_tools.py").read_text() + tools)
    settings = (project.home / "ropewalk.toml").read_text()
    project.write("ropewalk.toml", settings.replace("[tools]\n", "[tools]\nstrict_output = ['misfit']\n"))


def test_a_rejected_result_is_shown_and_accepted(project: Any) -> None:
    prepare_strict(project, MISFIT)
    nodes = "nodes: [{id: make, type: tool, tool: misfit}]\nerrorStrategy: retry\nretryDelay: 1\n"
    project.write("misfit.yaml", "kind: chain\nname: misfit\n" + nodes)
    failed = project("run", "misfit.yaml", "--id", "r")
    assert failed.code == 1
    assert "make: the tool ran, so the call was not repeated; look at its result: ropewalk runs show r" in failed.out
    assert "and use it: ropewalk runs retry r --accept make" in failed.out
    assert (project.home / "tried").read_text() == "x"
    again = project("runs", "retry", "r")
    assert again.code == 1
    assert "make: misfit ran before and is called again; to use its result instead" in again.err
    assert (project.home / "tried").read_text() == "xx"
    assert '"made"' in project("runs", "show", "r", "--json").out
    done = project("runs", "retry", "r", "--accept", "make", "--json")
    assert (done.code, done.data["result"]) == (0, {"make": "made"})
    assert project("run", "misfit.yaml", "--id", "s").code == 1
    done = project("runs", "retry", "s", "--accept", 'make={"n": 1}', "--json")
    assert done.data["result"] == {"make": {"n": 1}}
    assert (project.home / "tried").read_text() == "xxx"
    called = project("tools", "call", "misfit")
    assert called.code == 1
    assert "note: The tool did run, and only its result was rejected" in called.err


INNER = (
    MISFIT
    + """

from ropewalk import App, Toolbox

inner = App("memory", toolbox=Toolbox([misfit], strict_output=True)).as_tool(
    {"kind": "chain", "name": "inner", "nodes": [{"id": "make", "type": "tool", "tool": "misfit"}]}
)
"""
)


def test_a_rejected_result_of_an_inner_flow_is_accepted_through_the_outer_run(project: Any) -> None:
    prepare_strict(project, INNER)
    call, last = "{id: call, type: tool, tool: inner}", "{id: last, type: tool, tool: add, params: {a: 1}}"
    project.write("outer.yaml", f"kind: chain\nname: outer\nnodes: [{call}, {last}]\n")
    failed = project("run", "outer.yaml", "--id", "r")
    assert failed.code == 1
    wrong = project("runs", "retry", "r", "--accept", "mak")
    assert wrong.code == 2
    assert "did you mean 'make'" in wrong.err
    done = project("runs", "retry", "r", "--accept", "make", "--json")
    assert done.code == 0, done.err
    assert done.data["result"] == {"call": {"make": "made"}, "last": 2}
    assert project("run", "outer.yaml", "--id", "s").code == 1
    done = project("runs", "retry", "s", "--accept", 'make={"n": 1}', "--json")
    assert done.code == 0, done.err
    assert done.data["result"] == {"call": {"make": {"n": 1}}, "last": 2}
    assert (project.home / "tried").read_text() == "xx", "one call for each run"


def test_the_hint_after_a_failure_in_a_nested_flow_names_the_inner_node(project: Any) -> None:
    prepare_strict(project, INNER)
    project.write("outer.yaml", "kind: chain\nname: outer\nnodes: [{id: call, type: tool, tool: inner}]\n")
    failed = project("run", "outer.yaml", "--id", "r")
    assert failed.code == 1
    assert "and use it: ropewalk runs retry r --accept call/make" in failed.out
    assert "rejected result of call/make: made\n" in project("runs", "show", "r").out
    (step,) = project("runs", "show", "r", "--json").data["nodes"]
    assert step["rejected"] == [{"path": "call/make", "result": {"value": "made"}}]
    again = project("runs", "retry", "r")
    assert "call/make: misfit ran before and is called again" in again.err
    assert "ropewalk runs retry r --accept call/make" in again.err
    done = project("runs", "retry", "r", "--accept", "call/make", "--json")
    assert (done.code, done.data["result"]) == (0, {"call": {"make": "made"}}), done.err
    assert (project.home / "tried").read_text() == "xx"


CHAIN_OF_INNER = {"kind": "chain", "nodes": [{"id": "b", "type": "tool", "tool": "inner"}]}
MAP_OF_INNER = {
    "kind": "composition",
    "nodes": [{"id": "b", "type": "MAP", "items": [{}], "tool": "inner"}],
}


@pytest.mark.parametrize(
    ("middle", "path"), [(CHAIN_OF_INNER, "call/b/make"), (MAP_OF_INNER, "call/b[0]/b.call/make")], ids=["chain", "map"]
)
def test_the_path_of_a_rejected_result_leads_through_every_flow(project: Any, middle: Any, path: str) -> None:
    middle = {"name": "middle", **middle}
    prepare_strict(project, f"{INNER}\nmiddle = App('memory', tools=[inner]).as_tool({middle!r})\n")
    project.write("outer.yaml", "kind: chain\nname: outer\nnodes: [{id: call, type: tool, tool: middle}]\n")
    failed = project("run", "outer.yaml", "--id", "r")
    assert f"ropewalk runs retry r --accept {quote(path)}" in failed.out
    assert f"rejected result of {path}: made\n" in project("runs", "show", "r").out
    done = project("runs", "retry", "r", "--accept", path, "--json")
    assert done.code == 0, done.err
    assert (project.home / "tried").read_text() == "x"


def test_a_flow_whose_own_output_was_rejected_offers_nothing_to_accept(project: Any) -> None:
    """Its tools ran, and none of their results was rejected."""
    node = {"id": "up", "type": "TOOL", "tool": "upper", "inputMapping": {"text": "a"}}
    inner = {"kind": "composition", "name": "inner", "nodes": [node], "outputSchema": {"maxLength": 0}}
    source = (project.home / "rw_cli_tools.py").read_text() + "\n\nfrom ropewalk import App\n"
    project.write("rw_cli_tools.py", f"{source}inner = App('memory', tools=[upper]).as_tool({inner!r})\n")
    project.write("outer.yaml", "kind: chain\nname: outer\nnodes: [{id: call, type: tool, tool: inner}]\n")
    failed = project("run", "outer.yaml", "--id", "r")
    assert "call: the tool ran, so the call was not repeated; look at its result: ropewalk runs show r" in failed.out
    assert "--accept" not in failed.out
