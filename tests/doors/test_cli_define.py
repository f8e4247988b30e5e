"""`validate`, `plan`, `graph`: errors at their line with a caret, and nothing called."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

pytestmark = pytest.mark.process

WRONG = """\
kind: chain
name: bad
mode: sequental
nodes:
  - id: a
    type: tool
    tool: upper
    params:
      text: "é ${ input.y + } z"
  - id: b
    type: tool
    prams: {}
    condition: $prev.snipet ==
"""

LAUGHS = "a: &a [x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_every_problem_is_shown_at_its_line_with_a_caret(project):
    project.write("bad.yaml", WRONG)
    done = project("validate", "bad.yaml")
    assert done.code == 3
    assert done.out == ""
    heads = [line for line in done.err.splitlines() if line.startswith("bad.yaml:")]
    assert [tuple(map(int, h.split(":")[1:3])) for h in heads] == [(3, 7), (9, 29), (10, 5), (12, 5), (13, 31)]
    assert "did you mean sequential?" in heads[0]
    assert "did you mean params?" in heads[3]
    lines = done.err.splitlines()
    for i, line in enumerate(lines):
        if line in heads:
            source, caret = lines[i + 1], lines[i + 2]
            column = int(line.split(":")[2])
            assert source.strip() == WRONG.splitlines()[int(line.split(":")[1]) - 1].strip()
            assert caret == " " * (4 + column - 1) + "^"


def test_problems_come_as_json_with_the_same_places(project):
    project.write("bad.yaml", WRONG)
    for command in ("validate", "run", "preview", "graph"):
        done = project(command, "bad.yaml", "--json")
        assert done.code == 3
        error = done.data["error"]
        assert error["kind"] == "InvalidFlow"
        first = error["problems"][0]
        assert first == {
            "file": "bad.yaml",
            "line": 3,
            "column": 7,
            "path": "mode",
            "message": first["message"],
            "suggestion": "sequential",
        }
        assert len(re.findall(r"^bad\.yaml:\d+:\d+: ", done.err, re.MULTILINE)) == len(error["problems"])


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.yaml", "kind: chain\nnodes:\n\t- id: a\n", "a.yaml:3:1: a tab cannot indent YAML"),
        ("a.yaml", "kind: chain\nkind: chain\n", "a.yaml:2:1: repeated key 'kind'"),
        ("a.json", '{"kind": "chain",\n "nodes": [,]}', "a.json:2:12: expected a value"),
        ("a.json", "[" * 200_000, "a.json:1:65: nested deeper than 64"),
        ("a.yaml", LAUGHS, "aliases make the document larger"),
    ],
)
def test_what_cannot_be_read_has_a_place_too(project, name, text, place):
    project.write(name, text)
    done = project("validate", name)
    assert done.code == 3
    assert place in done.err


def test_a_configuration_that_is_wrong_has_a_place(project):
    project.write("ropewalk.toml", "[tools]\nmodles = []\n")
    done = project("validate", "shout.yaml", "--json")
    assert done.code == 2
    assert "ropewalk.toml:2:1: [tools] unknown key 'modles'; did you mean modules?\n    modles = []\n    ^" in done.err
    assert (done.data["error"]["kind"], done.data["error"]["problems"][0]["line"]) == ("ConfigError", 2)


def test_a_tool_module_that_fails_is_shown_at_its_line(project):
    project.write("rw_cli_tools.py", "import json\n\njson.loads('{')\n")
    done = project("validate", "shout.yaml")
    assert done.code == 2
    assert "rw_cli_tools.py:3:1: [tools] modules: importing 'rw_cli_tools' failed: JSONDecodeError" in done.err
    assert "    json.loads('{')\n    ^" in done.err
    assert project("runs", "ls").code == 0  # runs can be looked at all the same


def test_all_modules_that_cannot_be_imported_are_told_at_once(project):
    project.write("rw_cli_tools.py", "import json\n\njson.loads('{')\n")
    modules = '"rw_cli_tools", "rw_gone", "rw_lost"'
    project.write("ropewalk.toml", f"[tools]\nmodules = [{modules}]\n")
    told = project("validate", "shout.yaml").err
    assert "importing 'rw_cli_tools' failed" in told
    assert "there is no module 'rw_gone'" in told
    assert "there is no module 'rw_lost'" in told


def test_an_unknown_tool_is_a_warning_when_it_is_allowed_to_be_missing_and_a_problem_when_run(project):
    project.write("c.yaml", "kind: chain\nname: c\nnodes:\n  - {id: a, type: tool, tool: uper, params: {text: x}}\n")
    checked = project("validate", "c.yaml", "--allow-missing-tools", "--json")
    assert (checked.code, checked.data["valid"]) == (0, True)
    assert checked.data["warnings"][0]["line"] == 4
    assert "warning: c.yaml:4:" in project("validate", "c.yaml", "--allow-missing-tools").out
    strict = project("validate", "c.yaml", "--allow-missing-tools", "--strict")
    assert (strict.code, "c.yaml:4:" in strict.err, "valid" in strict.out) == (3, True, False)
    assert project("validate", "shout.yaml", "--strict").code == 0
    ran = project("run", "c.yaml")
    assert ran.code == 3
    assert "did you mean upper?" in ran.err


def test_planning_and_drawing_call_nothing(project):
    for words in (["validate"], ["preview"], ["graph"], ["graph", "--format", "svg"], ["graph", "-f", "mermaid"]):
        done = project(words[0], "shout.yaml", *words[1:])
        assert done.code == 0, done.err
        assert "noise" not in done.err + done.out
        assert not (project.home / "runs.db").exists()
    assert json.dumps(project("preview", "shout.yaml", "--json").data).count("upper") >= 1


def test_a_drawing_goes_to_a_file(project):
    done = project("graph", "shout.yaml", "--format", "svg", "-o", "g.svg")
    assert done.code == 0, done.err
    assert (project.home / "g.svg").read_text().lstrip().startswith("<svg")
    assert (
        project("graph", "shout.yaml", "--format", "mermaid", "--json").data["graph"].startswith(("flowchart", "graph"))
    )
    assert project("graph", "shout.yaml", "--format", "png").code == 2


def test_a_document_cannot_drive_the_terminal(project):
    project.write("c.yaml", 'kind: chain\nname: "\\e]0;owned\\a"\nnodes: [{id: "\\e[2J", type: tol}]\n')
    done = project("validate", "c.yaml")
    assert done.code == 3
    assert "\x1b" not in done.err


def test_a_definition_is_written_in_another_notation(project):
    done = project("convert", "shout.yaml", "--to", "flow", "-o", "flow.json")
    assert (done.code, done.out) == (0, "wrote flow.json\n")
    assert json.loads((project.home / "flow.json").read_text())["kind"] == "flow"
    given = ("--input", '{"text": "rope"}', "--json")
    assert project("run", "flow.json", *given).data["result"] == project("run", "shout.yaml", *given).data["result"]
    for command in ("validate", "preview", "graph"):
        assert project(command, "flow.json").code == 0
    back = project("convert", "flow.json", "--to", "chain")
    project.write("back.yaml", back.out)
    assert project("run", "back.yaml", *given).data["result"] == project("run", "shout.yaml", *given).data["result"]
    assert project("convert", "shout.yaml", "--to", "chain", "--json").data["kind"] == "chain"


@pytest.mark.parametrize("command", [("convert", "--to", "flow"), ("graph",)])
def test_a_file_that_cannot_be_written_is_told(project, command):
    done = project(command[0], "shout.yaml", *command[1:], "-o", "nodir/x.yaml")
    assert done.code == 2
    assert done.err.endswith("\nerror: cannot write nodir/x.yaml: No such file or directory\n")


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (
            "id: a, type: loop, maxIterations: 5, nodes: [{id: b, type: delay, delay: 5}]",
            "composites have no loop nodes; the steps of a composite call tools or wait",
        ),
    ],
)
def test_what_another_notation_cannot_hold_is_told_at_its_line_and_in_the_words_of_the_document(project, node, said):
    project.write("c.yaml", f"kind: chain\nnodes:\n  - {{{node}}}\n")
    done = project("convert", "c.yaml", "--to", "composite")
    assert done.code == 3
    assert f"c.yaml:3:5: a: {said}" in done.err


LOOPING = "kind: chain\nmode: loop\nuntil: $iteration > 1\nnodes:\n  - {id: a, type: delay, delay: 5}\n"


def test_losses_are_listed_and_the_rest_is_converted(project):
    loop = "{id: w, type: loop, until: true, nodes: {id: d, type: delay, delay: 1}}"
    call = "{id: a, type: tool, tool: upper, params: {text: x}}"
    project.write("c.yaml", f"kind: chain\nnodes:\n  - {loop}\n  - {call}\n")
    assert project("convert", "c.yaml", "--to", "composite").code == 3
    done = project("convert", "c.yaml", "--to", "composite", "--allow-loss", "-o", "out.yaml")
    assert done.code == 0
    assert "lost: c.yaml:3:5: w: composites have no loop nodes" in done.err
    assert project("validate", "out.yaml").code == 0
    told = project("convert", "c.yaml", "--to", "composite", "--allow-loss", "--json").data
    assert {(loss["path"], loss["line"]) for loss in told["losses"]} == {("w", 3)}
    assert [step["name"] for step in told["document"]["steps"]] == ["a"]


def test_the_node_that_a_chain_in_loop_mode_is_made_of_is_told_of_nowhere(project):
    project.write("c.yaml", LOOPING)
    composition, experience, composite = (
        project("convert", "c.yaml", "--to", kind).err for kind in ("composition", "experience", "composite")
    )
    assert "c.yaml:2:7: mode: a composition cannot hold mode: loop" in composition
    assert "per item" not in composition
    assert "c.yaml:2:7: mode: an experience cannot hold mode: loop" in experience
    assert "c.yaml:2:7: mode: experiences cannot express a condition after each iteration (until)" in experience
    assert "c.yaml:2:7: mode: composites have no loop nodes" in composite
    assert "rounds" not in composition + experience + composite


def test_an_experience_is_asked_for_in_no_words_of_python(project):
    inner = "{id: b, type: delay, delay: 5}"
    project.write("c.yaml", f"kind: chain\nnodes:\n  - {{id: a, type: loop, maxIterations: 2, nodes: [{inner}]}}\n")
    told = project("convert", "c.yaml", "--to", "experience").err
    assert (
        "a: the value of a loop in an experience is that of its last iteration, not the list of all iterations" in told
    )


def test_what_is_wrong_with_the_until_of_a_chain_is_told_at_its_line(project):
    node = "{id: a, type: tool, tool: upper, params: {text: a}}"
    project.write("r.yaml", f"id: r\nmode: loop\nnodes: [{node}]\nuntil: $iteration.x > 1\n")
    done = project("validate", "r.yaml")
    assert done.code == 3
    assert "r.yaml:4:8: until: '$iteration' is an integer, not an object; it has no 'x'" in done.err


def test_a_python_file_is_no_document(project):
    project.write("flows.py", "from ropewalk import flow\n")
    done = project("run", "flows.py")
    assert done.code == 3
    assert "flows.py: a Python file is not a document" in done.err
    assert "flows.py:NAME" in done.err


PLANS = """from ropewalk import plan

@plan
async def first(x: int) -> int:
    return x

@plan
async def second(x: int) -> int:
    return x
"""


def test_a_python_file_with_several_plans_names_each_with_its_line(project):
    project.write("two.py", PLANS)
    for words in (("run", "two.py", "x=1"), ("preview", "two.py"), ("graph", "two.py")):
        done = project(*words)
        assert (done.code, "two.py:first (line 4), two.py:second (line 8)" in done.err) == (3, True), (words, done.err)
    assert project("validate", "two.py").out == "two.py:first: valid\ntwo.py:second: valid\n"
    project.write("two.py", PLANS.replace("return x\n\n", "return y\n\n"))
    done = project("validate", "two.py")
    assert (done.code, "two.py:5:" in done.err) == (3, True)
    assert "not a recorded test" in project("test", "two.py").err


def test_the_type_of_a_composites_result_has_its_place(project):
    text = "kind: composite\nname: c\noutputSchema: {type: string}\nsteps: [{tool: add, inputMapping: {a: 1}}]\n"
    project.write("add.yaml", text)
    done = project("validate", "add.yaml")
    assert done.code == 3
    assert "add.yaml:3:1: outputSchema: " in done.err


def test_what_another_notation_cannot_hold_is_told(project):
    done = project("convert", "shout.yaml", "--to", "flwo")
    assert done.code == 2
    assert "flow" in done.err
    assert "'agent': available: chain, composite, composition, experience, plan\n" in (
        project("convert", "shout.yaml", "--to", "agent").err
    )


AWAY = """\
kind: {kind}
name: x
{calls}
"""


@pytest.mark.parametrize(("kind", "calls"), [
    ("agent", "prompt: hello\ntools: ['gone:away']"),
    ("chain", "nodes: [{id: a, type: tool, tool: 'gone:away'}]"),
])  # fmt: skip
def test_validate_says_of_a_tool_that_is_not_there_what_run_says(project: Any, kind: str, calls: str) -> None:
    project.write("ropewalk.toml", "[mcp.gone]\ncommand = 'no-such-program'\n")
    project.write("x.yaml", AWAY.format(kind=kind, calls=calls))
    checked, refused = project("validate", "x.yaml", "--allow-missing-tools"), project("run", "x.yaml")
    assert (checked.code, refused.code) == (0, 3)
    said = refused.err.splitlines()[0]
    assert "tool 'gone:away': ropewalk.toml:2:1: MCP server 'gone': no program 'no-such-program' on the PATH" in said
    assert checked.out.splitlines()[0] == f"warning: {said}"
    assert checked.out.splitlines()[-1] == "x.yaml: valid, but cannot run: 1 unknown tool"
    assert said in project("validate", "x.yaml").err.splitlines()


HIDDEN = "\u202e\u2066\x9b"


@pytest.mark.parametrize(
    "words",
    [
        ("preview", "f.json"),
        ("graph", "f.json"),
        ("graph", "f.json", "--format", "mermaid"),
        ("graph", "f.json", "--format", "svg"),
        ("convert", "f.json", "--to", "flow"),
        ("validate", "f.json"),
        ("run", "f.json", "--id", "r"),
        ("runs", "show", "r"),
        ("runs", "export", "r"),
        ("runs", "ls"),
    ],
    ids=" ".join,
)
def test_no_view_shows_a_character_that_hides_what_is_approved(project: Any, words: tuple[str, ...]) -> None:
    text = f"Delete {HIDDEN[0]}txt.ecin{HIDDEN[1]} {HIDDEN[2]}31m now?"
    nodes = [
        {"id": "w", "type": "wait", "approval": text},
        {"id": "x", "type": "tool", "tool": "upper", "params": {"text": HIDDEN}},
    ]
    project.write("f.json", json.dumps({"kind": "chain", "name": "f", "description": HIDDEN, "nodes": nodes}))
    if words[0] == "runs":
        project("run", "f.json", "--id", "r")
    done = project(*words)
    assert set(HIDDEN).isdisjoint(done.out + done.err)
    assert done.out or done.err


def test_an_approval_is_shown_with_its_escapes(project: Any) -> None:
    node = {"id": "w", "type": "wait", "approval": f"Delete {HIDDEN}?"}
    project.write("f.json", json.dumps({"kind": "chain", "name": "f", "nodes": [node]}))
    assert "Delete \\u202e\\u2066\\u009b?" in project("preview", "f.json").out
