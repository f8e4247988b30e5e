"""What the command line says to do next: after a failed run, in an undo, and about a Python file."""

from __future__ import annotations

import re
import shlex

import pytest

import fork_server
from models.makers import MAKERS
from models.stand_in import StandIn, Turn

TOOLS = """
from ropewalk import tool

@tool
def cancel(number: int) -> str:
    return f"cancelled {number}"

@tool(undo={"tool": "cancel", "args": {"number": "$result"}})
def order(item: str) -> int:
    return len(item)

@tool
def ship() -> str:
    raise RuntimeError("no truck today")
"""
SHOP = """
kind: chain
name: shop
nodes:
  - {id: rope, type: tool, tool: order, params: {item: rope}}
  - {id: mast, type: tool, tool: order, params: {item: masts}}
  - {id: ship, type: tool, tool: ship}
"""


@pytest.fixture
def shop(project):
    project.write("ropewalk.toml", "[tools]\nmodules = ['rw_shop_tools']\n[store]\nurl = 'runs.db'\n")
    project.write("rw_shop_tools.py", TOOLS)
    project.write("shop.yaml", SHOP)
    return project


def test_a_retry_of_a_programs_own_failure_comes_after_its_correction(shop):
    shop.write("own.yaml", "kind: plan\nname: own\ncode: |\n  return int('q')\n")
    shop.write("calls.yaml", "kind: plan\nname: calls\ncode: |\n  await ship()\n")
    failed = shop("run", "own.yaml", "--id", "own")
    assert failed.code == 1
    assert "ValueError" in failed.out
    advice = "correct the code, then: ropewalk runs retry own --upgrade own.yaml"
    assert failed.out.splitlines()[-1] == advice
    assert shop("runs", "show", "own").out.splitlines()[-1] == advice

    shop.write("own.yaml", "kind: plan\nname: own\ncode: |\n  return int('7')\n")
    assert shop("runs", "logs", "own", "programm").err.endswith("; did you mean program?\n")
    command = "runs retry own --upgrade own.yaml"
    assert f"has changed since; run own keeps its definition; to use the new definition: ropewalk {command}\n" in (
        shop("runs", "retry", "own").err
    )
    assert f"to retry it: ropewalk {command}\n" in shop("resume", "own", "own.yaml").err
    assert "runs retry" in shop("run", "calls.yaml").out


def test_a_result_of_the_wrong_type_needs_another_definition(shop):
    code = "from ropewalk import plan\n\n\n@plan\nasync def size() -> {}:\n    return 'large'\n"
    shop.write("sizes.py", code.format("int"))
    failed = shop("run", "sizes.py:size", "--id", "size").out
    assert 'sizes.py:5: result: output: "large" is not of type "integer"\n' in failed
    command = "runs retry size --upgrade sizes.py:size"
    assert failed.endswith(f"correct the definition, then: ropewalk {command}\n")


BROKEN = """
from ropewalk import tool

@tool
def count() -> int:
    return {answer}
"""
COUNTS = {
    "c.py:counts": "from ropewalk import plan\nfrom rw_count_tools import count\n\n@plan\n"
    "async def counts() -> int:\n    return count()\n",
    "composition.yaml": "kind: composition\nname: counts\noutputSchema: {type: integer}\n"
    "nodes:\n  - {id: n, type: tool, tool: count}\n",
    "chain.yaml": "kind: chain\nname: counts\nnodes:\n  - {id: n, type: tool, tool: count}\n"
    "  - {id: check, type: validate, input: $output.n, schema: {type: integer}}\n",
}
STEPS = {"c.py:counts": "program[0-1:15.1]/count"}


@pytest.mark.parametrize("name", ["c.py:counts", "composition.yaml", "chain.yaml"])
def test_a_step_whose_answer_broke_its_own_schema_runs_again_by_the_printed_command(name, project):
    project.write("ropewalk.toml", "[tools]\nmodules = ['rw_count_tools']\n[store]\nurl = 'runs.db'\n")
    project.write("rw_count_tools.py", BROKEN.format(answer="[1, 2]"))
    project.write(name.partition(":")[0], COUNTS[name])
    failed = project("run", name, "--id", "a")
    assert failed.code == 1
    *_, advice = failed.out.splitlines()
    command = f"ropewalk runs retry a --from {shlex.quote(STEPS.get(name, 'n'))} --upgrade {name}"
    assert advice == f"correct the tool or the definition, then: {command}"
    assert project("runs", "show", "a").out.splitlines()[-1] == advice

    again = project(*shlex.split(command)[1:])  # nothing was corrected
    assert (again.code, again.out.splitlines()[-1]) == (1, advice)
    project.write("rw_count_tools.py", BROKEN.format(answer="2"))
    done = project(*shlex.split(command)[1:])
    assert done.code == 0, done


def test_a_failed_run_names_its_retry_and_an_undo_the_steps_that_it_undoes(shop):
    failed = shop("run", "shop.yaml", "--id", "monday")
    assert failed.code == 1
    assert failed.out.endswith("to retry what failed: ropewalk runs retry monday (reuses 2 finished steps)\n")

    undone = shop("runs", "undo", "monday")
    shown = [line.rpartition("  ")[0] for line in undone.err.splitlines()]  # without the durations
    assert shown == ["✓ undo of mast with cancel", "✓ undo of rope with cancel"]
    assert undone.out == "undone: 2 of 2 steps of monday\n  ↶ mast  cancel\n  ↶ rope  cancel\n"

    resumed = shop("resume", "monday")
    assert "it is undone by run monday~undo; to start again: ropewalk runs fork monday" in resumed.err
    assert "runs retry" not in resumed.err

    # A fork shares the calls of its run, and one of the two undoes them.
    shop("run", "shop.yaml", "--id", "friday")
    shop("runs", "fork", "friday", "--id", "sunday")
    shop("runs", "undo", "sunday")
    shared = "undone with another run:\n  - rope  order: undone already in run sunday, by run sunday~undo\n"
    assert shared in shop("runs", "show", "friday").out
    assert "it is undone by run sunday~undo; to start again" in shop("resume", "friday").err

    listed = {line.split()[0]: line for line in shop("runs", "ls").out.splitlines()}
    assert "  failed, undone  " in listed["sunday"]
    assert "undone" not in listed["friday"]

    by_policy = shop("run", "shop.yaml", "--id", "tuesday", "--undo", "on_failure")
    assert "✓ undo of rope with cancel" in by_policy.err
    assert "runs retry" not in by_policy.out  # an undone run cannot be retried


AGENT = """
kind: agent
prompt: go
tools: [late]
output_schema: {type: object, required: [a]}
model: rw_agent_tools:Script
"""
SCRIPT = """
from ropewalk import tool
from ropewalk.errors import ModelError
from ropewalk.testing import ScriptedModel, wants

@tool(annotations={"readOnlyHint": True})
def late() -> str:
    raise RuntimeError("no truck today")

class Script(ScriptedModel):
    def __init__(self):
        super().__init__([wants("late")], "no JSON")

class Down(ScriptedModel):
    def __init__(self):
        super().__init__(ModelError("the model is down"))
"""


START_OVER = "correct the cause, then start over: ropewalk runs retry"


def test_an_agent_that_fails_names_its_place_and_a_step_that_helps(project):
    project.write("ropewalk.toml", "[tools]\nmodules = ['rw_agent_tools']\n[store]\nurl = 'runs.db'\n")
    project.write("rw_agent_tools.py", SCRIPT)
    project.write("a.yaml", AGENT)
    project.write("c.yaml", "kind: chain\nname: c\nnodes:\n  - {id: ask, type: tool, tool: ./a.yaml}\n")
    project.write("down.yaml", AGENT.replace("Script", "Down"))
    project.write("no.yaml", AGENT.replace("Script", "Scripd"))

    # A retry would reuse all turns and fail in the same way.
    failed = project("run", "a.yaml", "--id", "a")
    assert "  a.yaml:3: invalid_json: " in failed.out
    assert failed.out.endswith(f"{START_OVER} a --from agent --upgrade a.yaml\n")
    assert project("runs", "show", "a").out.endswith(f"{START_OVER} a --from agent --upgrade a.yaml\n")
    assert "recovered from: no truck today (rw_agent_tools.py:8 in late)\n" in failed.err
    assert project("run", "c.yaml", "--id", "c").out.endswith(f"{START_OVER} c --from ask --upgrade c.yaml\n")

    down = project("run", "down.yaml", "--id", "d")
    assert "  down.yaml:6: the model: the model is down\n" in down.out
    assert down.out.endswith("to retry what failed: ropewalk runs retry d\n")
    assert project("run", "no.yaml").err.startswith("no.yaml:6:8: model: cannot use the model rw_agent_tools:Scripd")

    chat = project("chat", "hello", "--model", "rw_agent_tools:Down")
    assert re.fullmatch(r"error: the model is down\nto see its steps: ropewalk runs show \S+\n", chat.err)
    chat = project("chat", "hello", "--model", "rw_agent_tools:Script")
    assert re.search("(?m)^✗ late .*: no truck today \\(rw_agent_tools.py:8 in late\\)$", chat.err)


RETRY, CORRECT = "to retry what failed: ", "correct the cause, then: "
RESTART = "correct the cause, then start over: "
ASKED = """
[store]
url = "runs.db"
[model.main]
model = "{model}"
base_url = "{url}"
key = "STAND_IN_KEY"
max_retries = 0
fallback = {fallback}
[model.second]
model = "{model}-mini"
base_url = "{url}"
key = "STAND_IN_KEY"
max_retries = 0
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("maker", "turns", "step"),
    [
        *((0, [Turn(status=status)], f"{RESTART}RETRY --from agent --upgrade a.yaml") for status in (400, 413)),
        *((0, [Turn(status=status)], f"{CORRECT}RETRY --upgrade a.yaml") for status in (401, 404)),
        *((0, [Turn(status=status)], f"{RETRY}RETRY") for status in (429, 529)),
        (0, [Turn(refusal="no")], f"{RESTART}RETRY --from agent --upgrade a.yaml"),
        (0, [Turn(status=529), Turn(status=404)], f"{RETRY}RETRY"),
        (0, [Turn(status=529), Turn(status=400), Turn(status=529)], f"{RETRY}RETRY"),
        (1, [Turn(status=400)], f"{RESTART}RETRY --from agent --upgrade a.yaml"),
        (1, [Turn(status=401)], f"{CORRECT}RETRY --upgrade a.yaml"),
        (1, [Turn(status=429)], f"{RETRY}RETRY"),
    ],
)
def test_the_step_after_a_failure_of_the_model_lets_the_run_complete(project, maker, turns, step):
    made, agent = MAKERS[maker], "kind: agent\nname: a\nmodel: main\nprompt: go\n"
    with StandIn(made.create(), *turns, Turn(text="done")) as stand:
        fallback = '["second"]' if len(turns) > 1 else "[]"
        url = stand.url + made.path
        project.write("ropewalk.toml", ASKED.format(model=made.model, url=url, fallback=fallback))
        project.write("a.yaml", agent)
        failed = project("run", "a.yaml", "--id", "r", STAND_IN_KEY="k")
        assert failed.out.splitlines()[-1].removesuffix(" (reuses 2 finished steps)") == step.replace(
            "RETRY", "ropewalk runs retry r"
        ), failed
        assert "to see the stack" not in failed.out  # the message has the answer of the API
        shown = project("runs", "show", "r")
        assert shown.out.splitlines()[-1] == step.replace("RETRY", "ropewalk runs retry r")

        if not step.startswith(RETRY):
            project.write("a.yaml", agent.replace("go", "go on"))
        command = shlex.split(shown.out.splitlines()[-1].partition("ropewalk ")[2])
        assert 'result: "done"' in project(*command, STAND_IN_KEY="k").out


@pytest.mark.process
@pytest.mark.parametrize("status", [400, 404])
def test_an_agent_that_a_chain_calls_starts_over_with_its_corrected_file(project, status):
    agent = "kind: agent\nname: a\nmodel: main\nprompt: go\n"
    with StandIn(MAKERS[0].create(), Turn(status=status), Turn(text="done")) as stand:
        project.write("ropewalk.toml", ASKED.format(model="claude-haiku-5-5", url=stand.url, fallback="[]"))
        project.write("a.yaml", agent)
        project.write("c.yaml", "kind: chain\nname: c\nnodes:\n  - {id: ask, type: tool, tool: ./a.yaml}\n")
        failed = project("run", "c.yaml", "--id", "c", STAND_IN_KEY="k")
        assert failed.out.endswith(f"{START_OVER} c --from ask --upgrade c.yaml\n")
        project.write("a.yaml", agent.replace("main", "second"))
        again = project("runs", "retry", "c", "--from", "ask", "--upgrade", "c.yaml", STAND_IN_KEY="k")
        assert 'result: {"ask":"done"}' in again.out
        assert [body["model"] for body in stand.bodies] == ["claude-haiku-5-5", "claude-haiku-5-5-mini"]


def test_a_python_file_as_a_definition_says_what_to_write(shop):
    shop.write("p.py", "item: str\nnumber = await order(item=item)\nreturn number\n")
    shop.write("q.py", "from ropewalk import plan\n\n@plan\nasync def one(item: str) -> str:\n    return item\n")
    text = shop("validate", "p.py")
    assert text.code == 3
    assert "indent them below `code: |` in a YAML file with `kind: plan` and `name: p`" in text.err
    assert shop("validate", "q.py").out == "q.py:one: valid\n"
    assert "name the flow in it: q.py:one" in shop("preview", "q.py").err
    assert "name the flow in it: rw_shop_tools.py:NAME" in shop("validate", "rw_shop_tools.py").err


ASK = """
kind: chain
name: ask
nodes:
  - {id: ask, type: wait, approval: "Ship it?"}
  - {id: rope, type: tool, tool: order, params: {item: rope}}
"""


def test_every_end_of_a_run_and_every_wrong_answer_names_the_next_command(shop):
    shop.write("ask.yaml", ASK)
    shop("run", "shop.yaml", "--id", "monday")
    shop("run", "ask.yaml", "--id", "friday")
    shop.write("ask.yaml", ASK.replace("Ship it?", "Ship all?"))
    for words, message in (
        ("runs show monday", "error: shop.yaml:7: ship: no truck today\n"),
        ("runs show monday", "\nto retry what failed: ropewalk runs retry monday\n"),
        ("runs retry friday", "to see what it waits for, and how to answer: ropewalk runs show friday\n"),
        ("resume friday", "warning: ask.yaml has changed since; run friday keeps its definition; to use the new"),
        ("runs stop friday", "stopped friday\n"),
        ("runs approve friday", "no longer receives events or approvals; to continue it: ropewalk runs retry friday\n"),
        ("runs show friday", "\nto continue it: ropewalk runs retry friday\n"),
        ("resume", "error: give either a run or --all: `ropewalk resume RUN`, or"),
        ("worker --queue", "--queue requires at least 1 element"),
    ):
        done = shop(*words.split())
        assert message in done.out + done.err, (words, done.out, done.err)


def test_a_changed_plan_names_the_line_that_does_not_fit_and_continues_as_a_new_run(shop):
    code = (
        "from ropewalk import plan\nfrom ropewalk.plans import approve\nfrom rw_shop_tools import order\n\n\n"
        "@plan\nasync def buy(item: str) -> int:\n    number = order(item + {})\n    await approve('Go?')\n"
        "    return number\n"
    )
    shop.write("b.py", code.format("'!'"))
    assert shop("run", "b.py:buy", "item=tea", "--id", "b").code == 4
    assert "  b.py:9  approval Go?\n" in shop("preview", "b.py:buy").out
    shop.write("b.py", code.format("'??'"))
    refused = shop("resume", "b", "b.py:buy").err
    assert "to use the new definition: ropewalk resume b --upgrade b.py:buy\n" in refused
    conflict = shop("resume", "b", "--upgrade").err
    fork = "ropewalk runs fork b --definition b.py:buy"
    assert conflict == (
        'error: run b: b.py:8: the run recorded order {"item": "tea!"}, and the program now requests order '
        f'{{"item": "tea??"}}; the run keeps its old definition; to use the new definition: {fork}\n'
    )
    assert shop("runs", "fork", "b", "--definition", "b.py:buy", "--id", "c").code == 4
    shop("runs", "approve", "c")
    assert shop("resume", "c").out.endswith("result: 5\n")


DYING = """
import json, sys

for text in sys.stdin:
    call = json.loads(text)
    info = {"name": "s", "version": "1"}
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info},
        "tools/list": {"tools": [{"name": "boom", "inputSchema": {"type": "object"}}]},
    }
    if call["method"] == "tools/call":
        sys.exit("first line\\nthe database is gone")
    if call["method"] in answers:
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": answers[call["method"]]}), flush=True)
    elif "id" in call:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "error": error}), flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize("name", ["d.py:dead", "d.yaml"])
def test_runs_show_prints_all_lines_of_the_cause_of_a_server_that_died(name, project):
    python = fork_server.program("python")
    project.write("ropewalk.toml", f"[mcp.s]\ncommand = '{python}'\nargs = ['srv.py']\n[store]\nurl = 'runs.db'\n")
    project.write("srv.py", DYING)
    project.write("d.py", "from ropewalk import plan\n\n@plan\nasync def dead():\n    return await s.boom()\n")
    project.write("d.yaml", "kind: chain\nname: d\nnodes:\n  - {id: b, type: tool, tool: 's:boom'}\n")
    failed = project("run", name, "--id", "d").out
    shown = project("runs", "show", "d").out
    assert "first line\nthe database is gone\n" in failed
    assert len(re.findall(r"^ *first line\n *the database is gone$", shown, re.MULTILINE)) == 1
    assert ("to see the stack" in failed) is ("stack of" in shown) is (name == "d.py:dead")


def test_a_plan_that_failed_in_its_own_code_names_the_retry_with_the_corrected_file(project):
    code = (
        'from ropewalk import plan\n\n@plan\nasync def share(n: int = 0) -> int:\n    """Share."""\n    return 6 // n\n'
    )
    project.write("p.py", code)
    failed = project("run", "p.py:share", "--id", "s")
    *_, advice = failed.out.splitlines()
    assert (failed.code, advice) == (1, "correct the code, then: ropewalk runs retry s --upgrade p.py:share")
    project.write("p.py", code.replace("6 // n", "6 // (n + 1)"))
    done = project("runs", "retry", "s", "--upgrade", "p.py:share")
    assert (done.code, done.out.splitlines()[-1]) == (0, "result: 6")
