"""`tools select` and `tools learnt`."""

from __future__ import annotations

from ropewalk.journal.tool_usage import local_source


def test_tools_are_selected(project) -> None:
    """SELECT-CLI-1"""
    done = project("tools", "select", "write this text in upper case")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].split() == ["SCORE", "TOOL", "DESCRIPTION"]
    assert done.out.splitlines()[1].split()[1] == "upper"
    data = project("tools", "select", "add two numbers", "--json", "--limit", "1").data
    assert [one["name"] for one in data["results"]] == ["add"]
    assert data["results"][0]["matches"]["terms"]["add"]["fields"] == ["name", "description"]
    explained = project("tools", "select", "add two numbers", "--explain").out
    assert "add: name, description" in explained
    assert "coverage +" in explained


def test_no_fitting_tool_is_said(project) -> None:
    """SELECT-CLI-1"""
    done = project("tools", "select", "blorptang fizzlewump")
    assert (done.code, "no fitting tool" in done.out) == (0, True)
    assert project("tools", "select", " ").out.strip() == "no tool: the request is empty"


def test_wrong_options_are_explained(project) -> None:
    """SELECT-CLI-1"""
    done = project("tools", "select", "x", "--strategy", "hybird", "--threshold", "7")
    assert done.code == 2
    assert "did you mean hybrid?" in done.err
    assert "threshold: must be a number from 0 to 1" in done.err


def test_what_speaks_for_a_tool_is_shown_for_every_strategy(project) -> None:
    """SELECT-CLI-1"""
    said = project("tools", "select", "uper", "--strategy", "fuzzy", "--explain").out
    assert "uper (alike: 0.8): name" in said
    assert "fuzzy +0.80" in said


def test_a_request_that_is_no_text_is_refused(project) -> None:
    """SELECT-CLI-1"""
    done = project("tools", "select", "upper \udcff case", "--json")
    assert done.code == 2, done.err
    assert "QUERY: string with a lone surrogate" in done.err
    assert "Traceback" not in done.err


def test_what_was_learnt_is_shown_exported_and_forgotten(project) -> None:
    """SELECT-CLI-2"""
    assert "nothing was learned yet" in project("tools", "learnt").out
    done = project("tools", "call", "upper", "text=x", "--request", "yell at the neighbours")
    assert done.code == 0, done.err
    assert project("tools", "learnt").out.splitlines()[1].split() == ["upper", "1", "0", "0.55"]
    assert "yell at the neighbours" in project("tools", "learnt", "--requests").out
    exported = project("tools", "learnt", "--json").data
    assert exported["learnt"][0]["request"] == "yell at the neighbours"
    assert exported["learnt"][0]["source"] == local_source()
    assert project("tools", "select", "how do I yell at neighbours", "--json").data["results"][0]["name"] == "upper"
    tools = project.home / "rw_cli_tools.py"
    before = tools.read_text()
    tools.write_text(before.replace("def upper(", "def louder("))
    assert "upper" in project("tools", "learnt", "upper").out, "it stays when its tool goes"
    for words in (("louderr",), ("louderr", "--forget")):
        wrong = project("tools", "learnt", *words)
        assert (wrong.code, wrong.out) == (2, "")
        assert "error: no tool 'louderr'; did you mean 'louder'?" in wrong.err
    assert "did you mean 'upper'?" in project("tools", "learnt", "uper").err
    assert "nothing was learned yet" in project("tools", "learnt", "louder").out
    assert "forgot 1 request" in project("tools", "learnt", "upper", "--forget").out
    tools.write_text(before)
    assert project("tools", "learnt", "--json").data == {"tools": {}, "learnt": []}


def test_a_run_teaches_what_it_was_for(project) -> None:
    """SELECT-CLI-2"""
    project.write("c.yaml", "kind: chain\nnodes:\n  - {id: a, type: tool, tool: upper, params: {text: x}}\n")
    assert project("run", "c.yaml").code == 0
    assert "nothing was learned yet" in project("tools", "learnt").out
    done = project("run", "c.yaml", "--request", "yell at the neighbours")
    assert done.code == 0, done.err
    [use] = project("tools", "learnt", "--json").data["learnt"]
    assert (use["tool"], use["request"], use["successes"]) == ("upper", "yell at the neighbours", 1)
    assert use["source"] == local_source()
    refused = project("run", "c.yaml", "--request", "x", "--no-wait")
    assert (refused.code, "--request" in refused.err) == (2, True), refused.err
