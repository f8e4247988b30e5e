"""Runs that wait, on the command line: exit code 4, `runs send`, `runs approve`, `resume`, `--wait`."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from patience import wait_until

pytestmark = pytest.mark.process

ORDER = """\
kind: chain
name: order
nodes:
  - {id: first, type: tool, tool: add, params: {a: 1}}
  - {id: paid, type: wait, event: "paid-${input.order}"}
  - {id: ask, type: wait, approval: "Ship order ${input.order}?", timeout: 600000}
  - {id: up, type: tool, tool: upper, params: {text: "by ${output.ask.by}"}}
"""
ASK = """\
kind: chain
name: ask
nodes: [{id: ask, type: wait, approval: "Ship it?"}, {id: up, type: tool, tool: upper, params: {text: shipped}}]
"""


UNDOABLE = '''
@tool
def refund(sum: int) -> str:
    """Pay back."""
    return "paid back"

@tool(undo=refund, annotations={"destructiveHint": True})
def charge(sum: int) -> int:
    """Charge a sum."""
    return sum
'''


def waiting(project: Any) -> None:
    project.write("order.yaml", ORDER)
    assert project("run", "order.yaml", "--input", '{"order": 7}', "--id", "o7").code == 4


def test_a_run_that_waits_ends_the_process_with_4_and_says_how_it_goes_on(project):
    project.write("order.yaml", ORDER)
    done = project("run", "order.yaml", "--input", '{"order": 7}', "--id", "o7")
    assert done.code == 4, done.err
    assert done.out.splitlines()[-3:] == [
        "  paid waits for the event 'paid-7'",
        "    ropewalk runs send o7 paid-7",
        "  then: ropewalk resume o7",
    ]
    assert "… paid  waits for the event 'paid-7'" in done.err
    again = project("resume", "o7", "--json")
    assert again.code == 4
    assert (again.data["status"], again.data["success"]) == ("waiting", False)
    [wait] = again.data["waitingFor"]
    assert {key: wait[key] for key in ("path", "node", "event", "due")} == {
        "path": "paid", "node": "paid", "event": "paid-7", "due": None,
    }  # fmt: skip
    assert again.data["result"] == {"first": 2}
    [row] = project("runs", "ls", "--json", "--status", "waiting").data
    assert (row["runId"], row["status"], row["interrupted"], row["endTime"]) == ("o7", "waiting", False, None)
    shown = project("runs", "show", "o7")
    assert "ropewalk runs send o7 paid-7" in shown.out
    followed = project("runs", "watch", "o7")
    assert followed.code == 4
    assert "… paid  waits for the event 'paid-7'" in followed.out


def test_what_is_printed_goes_on_to_the_end(project):
    waiting(project)
    sent = project("runs", "send", "o7", "paid-7", "--payload", '{"sum": 3}', "--json")
    assert (sent.code, sent.data["sent"], sent.data["resume"]) == (0, True, "ropewalk resume o7")
    asks = project("resume", "o7")
    assert asks.code == 4
    assert "ropewalk runs approve o7 ask" in asks.out
    assert "Ship order 7?" in asks.out
    approved = project("runs", "approve", "o7", "ask", "--note", "fine", "--by", "ann")
    assert approved.out.splitlines() == ["approved ask of o7: Ship order 7?", "next: ropewalk resume o7"]
    done = project("resume", "o7", "--json")
    assert done.code == 0, done.err
    assert done.data["result"]["up"] == "BY ANN"
    shown = project("runs", "show", "o7").out
    assert '· ask  got {"approved":true,"by":"ann","note":"fine"}' in shown


def test_a_run_whose_tools_have_changed_is_told_at_the_line_of_its_file_while_that_says_the_same(project):
    file = project.write("ask.yaml", ASK)
    assert project("run", "ask.yaml", "--id", "a").code == 4
    assert project("runs", "approve", "a").code == 0
    tools = project.home / "rw_cli_tools.py"
    tools.write_text(tools.read_text().replace("def upper(text", "def upper(words"))
    told = project("validate", "ask.yaml").err
    assert "ask.yaml:3:88: nodes[1].params: required argument 'words' of tool 'upper' is missing" in told
    for command in ("resume", "runs fork"):
        done = project(*command.split(), "a")
        assert (done.code, done.err) == (3, told), command
    file.write_text(ASK.replace("Ship it?", "Ship it now?"))
    done = project("resume", "a")
    assert "nodes[1].params: required argument 'words' of tool 'upper' is missing" in done.err.splitlines()


def test_whoever_decides_sees_what_the_flow_may_do(project):
    tools = project.home / "rw_cli_tools.py"
    tools.write_text(tools.read_text() + UNDOABLE)
    project.write("ask.yaml", ASK.replace("}]", "}, {id: paid, type: tool, tool: charge, params: {sum: 3}}]"))
    assert project("run", "ask.yaml", "--id", "a").code == 4
    shown = project("runs", "show", "a").out
    facts = shown[shown.index("Facts about ask (chain):") :].splitlines()[:4]
    assert facts[1:] == [
        "  Calls: at most 2",
        "    charge  destructive, undo with refund, at most 1",
        "    upper  write, no undo, at most 1",
    ]
    tools.write_text("broken(")  # the run is shown nevertheless, without what its tools say
    assert "    charge  write, not known here, at most 1" in project("runs", "show", "a").out


def test_a_refusal_fails_the_run(project):
    project.write("ask.yaml", ASK)
    assert project("run", "ask.yaml", "--id", "a").code == 4
    assert project("runs", "approve", "a", "--reject", "--comment", "too dear", "--by", "bob").code == 0
    done = project("resume", "a")
    assert done.code == 1
    assert "ask: rejected by bob: too dear" in done.out


def test_what_nobody_waits_for_is_refused_with_what_is_waited_for(project):
    waiting(project)
    for words, said in (
        (("send", "o7", "paid"), "run o7 does not wait for the event 'paid'; it waits for the event 'paid-7' (paid)"),
        (("approve", "o7"), "run o7 does not wait for an approval; it waits for the event 'paid-7' (paid)"),
        (("approve", "o7", "nope"), "run o7 does not wait for an approval at 'nope'; it waits for the event 'paid-7'"),
        (("send", "o8", "paid-7"), "no run 'o8': "),
        (("send", "o7", "paid-7", "--payload", "{"), "--payload is not JSON"),
    ):
        done = project("runs", *words)
        assert done.code == 2, words
        assert said in done.err
    early = project("runs", "send", "o7", "later", "--early", "--id", "one")
    assert early.code == 0
    assert project("runs", "send", "o7", "later", "--early", "--id", "one", "--json").data["sent"] is False
    assert project("runs", "stop", "o7").code == 0
    over = project("runs", "send", "o7", "paid-7")
    assert over.code == 1
    assert "run o7 has ended (stopped)" in over.err


def test_which_of_several_approvals_is_meant_must_be_said(project):
    asks = "\n".join(f"  - {{id: {id}, type: wait, approval: '{id}?'}}" for id in "ab")
    project.write("two.yaml", f"kind: chain\nmode: parallel\nnodes:\n{asks}\n")
    assert project("run", "two.yaml", "--id", "t").code == 4
    done = project("runs", "approve", "t")
    assert done.code == 2
    assert "there are 2 open approvals; name one of them: a, b" in done.err
    assert project("runs", "approve", "t", "a").code == 0
    twice = project("runs", "approve", "t", "a", "--reject")
    assert twice.code == 2
    assert "a has been answered already" in twice.err


def waits(project, run, *words):
    shown = project("runs", "show", run, "--json", *words)
    return shown.code == 0 and shown.data.get("waitingFor")


def test_with_wait_the_process_stays_and_hears_what_another_one_sends(project, started):
    project.write("ask.yaml", ASK)
    child = started("run", "ask.yaml", "--wait", "--id", "a", "--json", "--store", "other.db")
    wait_until(lambda: waits(project, "a", "--store", "other.db"))
    said = project("runs", "approve", "a", "--by", "ann", "--store", "other.db")
    assert said.out.splitlines() == ["approved ask of a: Ship it?"]
    out, err = child.communicate(timeout=300)
    assert child.returncode == 0, err
    assert json.loads(out)["result"]["ask"] == {"approved": True, "by": "ann", "note": None}


def test_a_process_that_is_killed_while_it_waits_is_gone_on_for(project, started):
    project.write("order.yaml", ORDER)
    child = started("run", "order.yaml", "--wait", "--input", '{"order": 1}', "--id", "k")
    wait_until(lambda: waits(project, "k"))
    child.send_signal(signal.SIGKILL)
    child.wait(timeout=300)
    assert project("runs", "send", "k", "paid-1").code == 0
    again = project("resume", "k", "--json")
    assert again.code == 4, again.err
    assert project("runs", "approve", "k").code == 0
    done = project("resume", "k", "--json")
    assert done.code == 0, done.err
    steps = project("runs", "show", "k", "--json").data["nodes"]
    assert [s["path"] for s in steps if s["kind"] == "call"] == ["first", "up"]


def test_the_commands_name_the_store_that_was_named(project):
    project.write("ask.yaml", ASK)
    done = project("run", "ask.yaml", "--id", "a b", "--store", "my store.db")
    assert "ropewalk runs approve 'a b' ask --store 'my store.db'" in done.out
    assert "then: ropewalk resume 'a b' --store 'my store.db'" in done.out


def test_a_run_with_no_store_waits_in_its_process(project, started):
    project.write("late.yaml", "kind: chain\nnodes: [{id: w, type: wait, event: e, timeout: 50}]\n")
    done = project("run", "late.yaml", "--store", "memory")
    assert done.code == 1
    assert "w: timed out after 0.05 s waiting for event 'e'" in done.out


def test_plan_and_graph_show_what_is_waited_for(project):
    project.write("ask.yaml", ASK)
    assert 'Wait · approval: "Ship it?"' in project("preview", "ask.yaml").out
    assert "Ship it?" in project("graph", "ask.yaml").out


def test_a_run_that_was_answered_while_nobody_runs_it_is_called_that_with_how_it_goes_on(project):
    waiting(project)
    [row] = project("runs", "ls", "--json").data
    assert (row["status"], row["answered"]) == ("waiting", False)
    assert project("runs", "send", "o7", "later", "--early").code == 0  # nothing that it waits for
    [row] = project("runs", "ls", "--json", "--status", "waiting").data
    assert (row["status"], row["answered"], row["interrupted"]) == ("waiting", False, False)
    assert project("runs", "send", "o7", "paid-7").code == 0
    for status, ids in (("answered", ["o7"]), ("interrupted", []), ("waiting", [])):
        assert [row["runId"] for row in project("runs", "ls", "--json", "--status", status).data] == ids
    row = project("runs", "show", "o7", "--json").data
    assert (row["status"], row["answered"], row["interrupted"], row["waitingFor"]) == ("running", True, False, [])
    assert project("runs", "ls").out.splitlines()[1].split()[3] == "answered"
    shown = project("runs", "show", "o7", "-C", str(project.home))
    assert f"  status   answered; to continue it: ropewalk resume o7 -C {project.home}\n" in shown.out
    followed = project("runs", "watch", "o7")
    assert (followed.code, followed.err) == (4, "it was answered; to continue it: ropewalk resume o7\n")
    assert project("resume", "o7").code == 4  # it goes on, to the next wait
    assert project("runs", "show", "o7", "--json").data["answered"] is False


def test_a_run_that_waits_has_taken_what_it_was_executed(project):
    waiting(project)
    took = [project("runs", "ls").out.splitlines()[1].split()[6:8] for _ in range(2)]
    assert took[0] == took[1]
    assert took[0][1] == "ms"


def test_how_a_run_goes_on_names_the_store_that_was_asked_for_it(project, started):
    project.write("ask.yaml", ASK)
    assert project("run", "ask.yaml", "--id", "a b", "--store", "other.db").code == 4
    again = "  then: ropewalk resume 'a b' --store other.db"
    assert again in project("runs", "show", "a b", "--store", "other.db").out
    assert again in project("runs", "watch", "a b", "--store", "other.db").err
    child = started("run", "ask.yaml", "--wait", "--id", "k", "--store", "other.db")
    wait_until(lambda: waits(project, "k", "--store", "other.db"))
    shown = project("runs", "show", "k", "--store", "other.db").out
    assert "    ropewalk runs approve k ask --store other.db\n  then its process continues it\n" in shown
    child.kill()
    _, err = child.communicate(timeout=300)
    assert "\n    ropewalk runs approve k ask --store other.db\n" in err
    dead = "running, but its process is gone; to resume it: ropewalk resume k --store other.db"
    assert dead in project("runs", "show", "k", "--store", "other.db").out
    gone = project("runs", "watch", "k", "--store", "other.db").err
    assert gone == "its process is gone; to resume it: ropewalk resume k --store other.db\n"


def test_a_wait_whose_time_is_over_is_no_longer_to_be_answered(project):
    project.write("late.yaml", ASK.replace("approval:", "timeout: 10, approval:"))
    done = project("run", "late.yaml", "--id", "l")
    if done.code == 4:  # a machine that is busy may see its end in the run itself
        wait_until(lambda: "its timeout ended" in project("runs", "show", "l").out)
        shown = project("runs", "show", "l").out
        assert "ask waits for an approval, but its timeout ended at " in shown
        assert "  then: ropewalk resume l\n" in shown
        assert "runs approve" not in shown
        done = project("resume", "l")
    assert done.code == 1
    assert "timed out after 0.01 s waiting for an approval" in done.out


def test_what_is_left_of_a_run_that_was_stopped_while_it_waits_is_shown_and_given(project):
    waiting(project)
    stopped = project("runs", "stop", "o7", "--json")
    assert stopped.data == {"runId": "o7", "stopped": True, "status": "stopped"}
    [row] = project("runs", "ls", "--json").data
    assert (row["resultCount"], row["errorCount"]) == (1, 1)
    shown = project("runs", "show", "o7")
    assert '"first": 2' in shown.out
    assert "· paid  waited for the event 'paid-7'" in shown.out
    again = project("resume", "o7", "--json")
    assert again.code == 130
    assert (again.data["result"], again.data["status"]) == ({"first": 2}, "stopped")
    assert [error["kind"] for error in again.data["errors"]] == ["RunStopped"]
    project.write("ask.yaml", ASK)
    assert project("run", "ask.yaml", "--id", "a").code == 4
    assert project("runs", "stop", "a").out == "stopped a\n"
    assert project("runs", "stop", "a").out == "a is not running: stopped\n"


NESTED = """\
name: outer
version: 0.1.0
state: {schema: {done: {type: object}}}
graph:
  nodes:
    - {id: first, kind: call, tool: add, args: {a: 1}}
    - {id: inner, kind: experience, impl: ./inner}
  edges: [{from: first, to: inner}]
"""
INSIDE = """\
name: inner
version: 0.1.0
state: {schema: {text: {type: string}}}
graph:
  nodes:
    - {id: before, kind: call, tool: add, args: {a: 2}}
    - {id: ask, kind: wait, approval: "Ship it?"}
    - {id: up, kind: call, tool: upper, args: {text: shipped}, writes: [text]}
  edges: [{from: before, to: ask}, {from: ask, to: up}]
"""


def nested(project):
    project.write("outer/experience.yaml", NESTED)
    project.write("outer/inner/experience.yaml", INSIDE)


def test_a_nested_wait_ends_the_process_with_4_and_is_answered_through_the_outer_run(project):
    nested(project)
    done = project("run", "outer", "--id", "n")
    assert done.code == 4, done.err
    assert "inner/ask waits for an approval: Ship it?" in done.out
    assert "ropewalk runs approve n inner/ask" in done.out
    shown = project("runs", "show", "n").out
    assert "inner/ask waits for an approval: Ship it?" in shown
    part = project("runs", "show", "n/inner").out
    assert "ropewalk runs approve n inner/ask" in part
    assert "then: ropewalk resume n\n" in part, "never an inner part"
    [row] = project("runs", "ls", "--json").data
    assert (row["runId"], row["status"], row["interrupted"]) == ("n", "waiting", False)
    refused = project("resume", "n/inner")
    assert refused.code == 1
    assert "run n/inner is part of run n and continues with it; resume n" in refused.err
    approved = project("runs", "approve", "n", "ask", "--by", "ann")
    assert approved.out.splitlines() == ["approved inner/ask of n: Ship it?", "next: ropewalk resume n"]
    done = project("resume", "n", "--json")
    assert (done.code, done.data["status"]) == (0, "completed"), done.err


def test_a_process_killed_while_a_nested_flow_waits_repeats_no_call(project, started):
    nested(project)
    child = started("run", "outer", "--wait", "--id", "n", "--json")
    wait_until(lambda: waits(project, "n"))
    child.kill()
    child.wait(50)
    for run in ("n", "n/inner"):  # either way the run that can be resumed is named
        assert "its process is gone; to resume it: ropewalk resume n\n" in project("runs", "show", run).out
    approved = project("runs", "approve", "n/inner", "ask")
    assert approved.out.splitlines() == ["approved inner/ask of n: Ship it?", "next: ropewalk resume n"]
    done = project("resume", "n", "--json")
    assert (done.code, done.data["status"]) == (0, "completed"), done.err
    for run, paths in (("n", ["first", "inner"]), ("n/inner", ["before", "up"])):
        nodes = project("runs", "show", run, "--json").data["nodes"]
        assert [node["path"] for node in nodes if node["kind"] == "call"] == paths


def test_a_composition_that_waits_says_what_for_and_reports_no_error(project):
    nested(project)
    project.write("comp.yaml", "kind: composition\nname: comp\nnodes: [{id: call, type: TOOL, tool: wrapped}]\n")
    tools = (project.home / "rw_cli_tools.py").read_text()
    wrapped = {"kind": "chain", "name": "wrapped", "nodes": [{"id": "ask", "type": "wait", "approval": "Ship it?"}]}
    project.write(
        "rw_cli_tools.py", f"{tools}\nfrom ropewalk import App\nwrapped = App('memory').as_tool({wrapped!r})\n"
    )
    done = project("run", "comp.yaml", "--id", "c")
    assert done.code == 4, done.err
    assert "None" not in done.out
    assert done.out.splitlines()[1:] == [
        "  call/ask waits for an approval: Ship it?",
        "    ropewalk runs approve c call/ask",
        "  then: ropewalk resume c",
    ]
    data = project("resume", "c", "--json").data
    assert (data["status"], data["error"], data["errors"]) == ("waiting", None, [])


def test_an_option_to_park_is_answered_by_what_the_command_does_anyway(project):
    project.write("ask.yaml", ASK)
    done = project("run", "ask.yaml", "--park")
    assert done.code == 2
    assert "a run that only waits ends the process by itself; --wait makes it stay" in done.err


NAPS = """\
from ropewalk import App

nap = {"kind": "chain", "name": "nap", "nodes": [{"id": "pause", "type": "delay", "delay": 3_600_000}]}
naps = App("memory").as_tool(nap)
deep = App("memory", tools=[naps]).as_tool(
    {"kind": "chain", "name": "deep", "nodes": [{"id": "in", "type": "tool", "tool": "nap"}]}
)
"""


@pytest.mark.parametrize("tool", ["nap", "deep"])
def test_a_nested_flow_that_only_pauses_does_not_keep_the_process_of_a_run_that_waits(project, tool):
    project.write("rw_cli_tools.py", (project.home / "rw_cli_tools.py").read_text() + "\n" + NAPS)
    ask = "{id: ask, type: wait, event: e}"
    project.write(
        "both.yaml",
        f"kind: chain\nname: both\nmode: parallel\nnodes: [{{id: call, type: tool, tool: {tool}}}, {ask}]\n",
    )
    assert project("run", "both.yaml", "--id", "b").code == 4
    [row] = project("runs", "ls", "--json").data
    assert (row["runId"], row["status"]) == ("b", "waiting")
    assert {part["status"] for part in project("runs", "ls", "--json", "--all").data} == {"waiting"}


def test_a_pause_of_a_nested_flow_is_kept_while_the_run_is_released(project):
    source = (project.home / "rw_cli_tools.py").read_text() + "\n" + NAPS.replace("3_600_000", "1500")
    project.write("rw_cli_tools.py", source)
    call, ask = "{id: call, type: tool, tool: deep}", "{id: ask, type: wait, event: e}"
    project.write("both.yaml", f"kind: chain\nname: both\nmode: parallel\nnodes: [{call}, {ask}]\n")
    assert project("run", "both.yaml", "--id", "b").code == 4
    assert project("runs", "send", "b", "e", "--payload", "7").code == 0
    done = project("resume", "b", "--json")
    assert (done.code, done.data["result"]) == (0, {"call": {"in": {"pause": None}}, "ask": 7}), done.err
