"""`ropewalk run`, `resume` and `runs`, as processes: exit codes, the JSON object, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

import fork_server
from patience import wait_until
from tiers import sampled

pytestmark = pytest.mark.process

HANG = """\
kind: chain
name: hang
timeout: 60000
nodes:
  - {id: first, type: tool, tool: add, params: {a: 1}}
  - {id: wait, type: tool, tool: hang}
"""

SPIN = HANG.replace("tool: hang", "tool: spin").replace("name: hang", "name: spin")


def test_an_id_that_is_taken_by_another_input_is_refused(project):
    given = ("run", "shout.yaml", "--id", "r", "--input")
    assert project(*given, '{"text": "a"}').code == project(*given, '{"text": "a"}').code == 0
    other = project(*given, '{"text": "b"}')
    assert other.code == 2
    assert "run r: this id is already used by a run that was started with another input; choose another id" in other.err
    assert "b" not in other.out


@pytest.mark.parametrize("id", ["..", "a/b", "", "a\nb"])
def test_an_id_that_is_none_for_a_run_is_refused_before_it_runs(project, id):
    refused = project("run", "shout.yaml", "--input", '{"text": "a"}', "--id", id)
    assert (refused.code, "is not a valid run id; write 1 to 500 characters on one line" in refused.err) == (2, True)
    assert project("runs", "ls", "--json").data == []


def test_what_failed_is_shown_once(project):
    project.write(
        "c.yaml",
        """\
kind: chain
name: c
errorStrategy: continue
nodes:
  - {id: a, type: tool, tool: fail, maxRetries: 1, retryDelay: 1}
  - id: p
    type: parallel
    nodes: [{id: b, type: tool, tool: fail}]
""",
    )
    project("run", "c.yaml", "--id", "r")
    nodes = [(node["path"], node["status"]) for node in project("runs", "show", "r", "--json").data["nodes"]]
    assert len(nodes) == len(set(nodes))
    assert project("runs", "show", "r").out.count("✗ a ") == 1


def test_a_node_that_failed_is_named_with_its_line(project):
    project.write(
        "c.yaml",
        """\
kind: chain
nodes:
  - {id: a, type: transform, transform: {type: PICK, config: {fields: [v]}}, input: {v: x}}
  - id: l
    type: loop
    maxIterations: 2
    nodes:
      - {id: b, type: condition, condition: $output.a.v > 3, then: [{id: c, type: delay, delay: 1}]}
""",
    )
    done = project("run", "c.yaml")
    assert done.code == 1
    said = "c.yaml:8: l[0]/b: `>` cannot order string and number, in `$output.a.v > 3`"
    assert said in done.out
    [run] = project("runs", "ls", "--json").data
    assert said in project("runs", "retry", run["runId"]).out
    assert said in project("runs", "fork", run["runId"]).out
    assert said in project("runs", "fork", run["runId"], "--definition", "c.yaml").out
    project.write("c.yaml", "kind: chain\nnodes: []\n")  # what stands there now is something else
    assert said.partition(": ")[2] in project("runs", "retry", run["runId"]).out
    assert "c.yaml" not in project("runs", "retry", run["runId"]).out


def test_a_run_prints_its_result_on_stdout_and_its_progress_on_stderr(project):
    done = project("run", "shout.yaml", "--input", '{"text": "hé"}')
    assert done.code == 0, done.err
    assert 'result: {"up":"HÉ!"}' in done.out
    assert "✓ up" in done.err
    assert "\x1b" not in done.err + done.out


def test_json_is_exactly_one_object_whatever_tools_print(project):
    done = project("run", "shout.yaml", "--json", "--input", '{"text": "a"}', "--var", "suffix=?", "--id", "run-1")
    assert done.code == 0, done.err
    assert done.out.count("\n") == 1
    assert done.data["status"] == "completed"
    assert done.data["success"] is True
    assert done.data["runId"] == "run-1"
    assert done.data["result"] == {"up": "A?"}
    assert done.data["errors"] == []
    assert "noise on stdout" in done.err
    assert "noise of a child" in done.err


def test_input_comes_from_a_file_or_standard_input(project):
    project.write("in.yaml", "text: from a file\n")
    assert project("run", "shout.yaml", "--json", "-i", "@in.yaml").data["result"] == {"up": "FROM A FILE!"}
    done = project("run", "shout.yaml", "--json", "--input", "@-", input='{"text": "piped"}')
    assert done.data["result"] == {"up": "PIPED!"}


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        ("nodes: [{id: a, type: tool, tool: fail}]", 1, "failed"),
        ("errorStrategy: continue\nnodes: [{id: a, type: tool, tool: fail}]", 0, "partial"),
        ("timeout: 200\nnodes: [{id: a, type: tool, tool: hang}]", 124, "timeout"),
        ("nodes: [{id: a, type: tool, tool: add, params: {a: 1}}]", 0, "completed"),
    ],
)
def test_the_exit_code_says_how_the_run_ended(project, body, code, status):
    project.write("c.yaml", f"kind: chain\nname: c\n{body}\n")
    done = project("run", "c.yaml", "--json")
    assert (done.code, done.data["status"]) == (code, status), done.err
    if status == "failed":
        plain = project("run", "c.yaml")
        assert plain.code == 1
        assert "no luck" in plain.out + plain.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["rnu"], 2, "Did you mean"),
        (["run"], 2, "ropewalk run --help"),
        (["run", "shout.yaml", "--jsn"], 2, "--json"),
        (["run", "--", "shout.yaml", "--var", "x=1"], 2, "--var comes after `--`, where nothing is an option"),
        (["run", "shuot.yaml"], 2, "did you mean 'shout.yaml'?"),
        (["run", "shout.yaml", "--input", "{text: x}"], 2, "--input:1:2: expected a key in double quotes"),
        (["run", "shout.yaml", "--input", "hello"], 2, "text needs quotes"),
        (["run", "shout.yaml", "--input", '{"text": 3}'], 2, "input schema"),
        (["run", "shout.yaml", "--input", '{"text": NaN}'], 2, "nan is not JSON"),
        (["run", "shout.yaml", "--var", "x"], 2, "must be name=value"),
        (["run", "shout.yaml", "--var", "sufix=x"], 2, "no such variable; there are: suffix; did you mean suffix?"),
        (["run", "shout.yaml", "--var", "suffix=a", "--var", "suffix=b"], 2, "'suffix=b': suffix is given twice"),
        (["run", "plain.yaml", "--var", "x=1"], 2, "the definition has no variables"),
        (["tools", "call", "upper", "text=a", "text=b"], 2, "'text=b': text is given twice"),
        (["run", "shout.yaml", "--concurrency", "0"], 2, '"0" for --concurrency. Must be >= 1'),
        (["runs", "ls", "--limit", "0"], 2, '"0" for --limit. Must be >= 1'),
        (["runs", "show", "nope"], 2, "no run 'nope'"),
        (["runs", "watch", "nope"], 2, "no run 'nope'"),
        (["resume", "nope"], 2, "no run 'nope'"),
        (["run", "shout.yaml", "-i", "{}", "--store", "sqlte:///x.db"], 1, "did you mean sqlite?"),
    ],
)
def test_a_wrong_command_line_is_explained(project, words, code, says):
    project.write("plain.yaml", "kind: chain\nname: plain\nnodes: [{id: a, type: delay, delay: 1}]\n")
    done = project(*words)
    assert done.code == code, done.err
    assert says in done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    as_json = project(*words, "--json")
    assert as_json.code == code
    error = as_json.data["error"]
    assert set(error) == {"kind", "message", "problems"}
    assert error["message"]


def test_the_same_id_runs_once(project):
    first = project("run", "shout.yaml", "--json", "--id", "once", "--input", '{"text": "a"}').data
    again = project("run", "shout.yaml", "--json", "--id", "once", "--input", '{"text": "a"}')
    assert again.data["result"] == first["result"]
    assert "noise" not in again.err.replace("tools imported", "")


def test_runs_are_listed_newest_first_and_shown(project):
    for run_id in ("r1", "r2"):
        assert project("run", "shout.yaml", "--id", run_id, "--input", '{"text": "a"}').code == 0
    listed = project("runs", "ls", "--json").data
    assert [row["runId"] for row in listed] == ["r2", "r1"]
    assert {"runId", "name", "kind", "status", "startTime", "endTime", "resultCount", "errorCount"} <= set(listed[0])
    assert [row["runId"] for row in project("runs", "ls", "--json", "--limit", "1").data] == ["r2"]
    assert project("runs", "ls", "--status", "failed").out == "no runs match; to list all of them: ropewalk runs ls\n"
    assert "r2" in project("runs", "ls").out
    shown = project("runs", "show", "r1", "--json").data
    assert shown["status"] == "completed"
    assert [node["path"] for node in shown["nodes"]] == ["up"]
    assert "✓ up" in project("runs", "show", "r1").out
    watched = project("runs", "watch", "r1", "--json").out.splitlines()
    assert json.loads(watched[-1])["kind"] == "run.finished"
    assert project("resume", "r1", "--json").data["result"] == {"up": "A!"}


def test_what_blocks_gave_is_shown_where_it_is_kept(project):
    project.write(
        "blocks.yaml",
        """\
kind: chain
name: blocks
nodes:
  - id: both
    type: parallel
    nodes: [{id: l, type: tool, tool: upper, params: {text: l}}, {id: r, type: delay, delay: 1}]
  - {id: c, type: condition, condition: "1 > 2"}
  - {id: each, type: loop, items: [], nodes: [{id: x, type: delay, delay: 1}]}
""",
    )
    assert project("run", "blocks.yaml", "--id", "r").code == 0
    found = {node["path"]: node for node in project("runs", "show", "r", "--json").data["nodes"]}
    assert "value" not in found["both"]
    assert "value" not in found["each"]
    assert (found["both/l"]["value"], found["both/r"]["value"], found["c"]["value"]) == ("L", None, False)
    said = project("runs", "show", "r").out
    assert re.search(r"^✓ both  [0-9.]+ m?s$", said, re.M)
    assert re.search(r"^✓ each  [0-9.]+ m?s$", said, re.M)
    assert re.search(r"^✓ c  [0-9.]+ m?s  false$", said, re.M)


def test_the_environment_chooses_the_store(project):
    assert project("run", "shout.yaml", "--input", '{"text": "a"}', ROPEWALK_STORE="other.db").code == 0
    assert (project.home / "other.db").exists()
    assert not (project.home / "runs.db").exists()


@pytest.mark.parametrize(("number", "options"), [(signal.SIGINT, []), (signal.SIGTERM, ["--json"])])
def test_an_interrupt_stops_the_run_cleanly(project, started, number, options):
    project.write("hang.yaml", HANG)
    child = started("run", "hang.yaml", "--id", "halted", *options)
    wait_until((project.home / "hanging").exists)
    child.send_signal(number)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 130, err
    if options:
        data = json.loads(out)
        assert (data["status"], data["result"]["first"]) == ("stopped", 2)
    else:
        assert out.endswith("to continue it: ropewalk runs retry halted (reuses 1 finished step)\n")
    assert (project.home / "cancelled").exists()
    assert "Traceback" not in err
    assert project("runs", "ls", "--json").data[0]["status"] == "stopped"


@pytest.mark.parametrize("number", sampled("faults", [signal.SIGINT, signal.SIGTERM], 1))
def test_one_interrupt_stops_a_run_whose_async_tool_holds_the_loop(project, started, number):
    project.write("spin.yaml", SPIN)
    child = started("run", "spin.yaml", "--json", "--id", "held")
    wait_until((project.home / "spinning").exists)
    child.send_signal(number)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 130, err
    assert (json.loads(out)["status"], json.loads(out)["result"]) == ("stopped", {"first": 2})
    assert "a tool blocks the process; it is interrupted" in err
    assert "Traceback" not in err
    assert project("runs", "ls", "--json").data[0]["status"] == "stopped"


def test_a_tool_that_swallows_even_that_does_not_keep_the_process(project):
    project.write("spin.yaml", SPIN.replace("tool: spin}", "tool: spin, params: {stubborn: true}}"))
    # Nothing can come too late here, so the test need not wait for seconds.
    short = project.write(
        "short.py",
        "from ropewalk.doors.cli import main, session\nsession._HELD_AFTER = 0.2\nraise SystemExit(main.main())\n",
    )
    child = fork_server.Popen(
        [sys.executable, short, "run", "spin.yaml", "--id", "held"],
        cwd=project.home, env=project.env(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until((project.home / "spinning").exists)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=300)
    assert child.returncode == 130, err
    assert "cannot be interrupted; the process ends; to continue the run: ropewalk resume held" in err
    assert project("runs", "ls", "--json").data[0]["interrupted"]


def test_a_run_is_stopped_and_followed_from_another_process(project, started):
    project.write("hang.yaml", HANG)
    child = started("run", "hang.yaml", "--json", "--id", "far")
    wait_until((project.home / "hanging").exists)
    follower = started("runs", "watch", "far", "--json")
    first = json.loads(follower.stdout.readline())
    assert (first["path"], first["kind"]) == ("first", "node.finished")
    stopped = project("runs", "stop", "far", "--json")
    assert (stopped.code, stopped.data["stopped"]) == (0, True)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 130, err
    assert json.loads(out)["status"] == "stopped"
    rest, _ = follower.communicate(timeout=300)
    assert json.loads(rest.splitlines()[-1])["data"]["status"] == "stopped"
    assert follower.returncode == 130
    again = project("runs", "stop", "far")
    assert again.code == 1
    assert "is not running: stopped" in again.out


def test_a_killed_run_is_resumed_without_calling_again_what_is_recorded(project, started):
    project.write("hang.yaml", HANG.replace("tool: hang}", "tool: hang, params: {seconds: 0.5}}"))
    child = started("run", "hang.yaml", "--id", "killed")
    wait_until((project.home / "hanging").exists)
    os.kill(child.pid, signal.SIGKILL)
    child.wait(timeout=300)
    done = project("resume", "killed", "--json")
    assert done.code == 0, done.err
    assert done.data["result"] == {"first": 2, "wait": "rested"}


def test_a_killed_run_takes_no_longer_the_later_one_looks(project, started):
    project.write("hang.yaml", HANG)
    child = started("run", "hang.yaml", "--id", "killed")
    wait_until((project.home / "hanging").exists)
    child.kill()
    child.wait(timeout=300)
    looks = {re.sub(r"\d\d:\d\d:\d\d", "", project("runs", "ls").out) for _ in range(2)}
    assert len(looks) == 1
    assert "interrupted" in looks.pop()


def test_runs_are_found_by_the_status_that_is_listed(project, started):
    project.write("hang.yaml", HANG)
    child = started("run", "hang.yaml", "--id", "killed")
    wait_until((project.home / "hanging").exists)
    child.kill()
    child.wait(timeout=300)
    for status, ids in (("interrupted", ["killed"]), ("queued", []), ("completed", [])):
        found = project("runs", "ls", "--status", status, "--status", "failed", "--json")
        assert [row["runId"] for row in found.data] == ids
    wrong = project("runs", "ls", "--status", "bogus")
    assert (wrong.code, "running, waiting, completed" in wrong.err, "queued, interrupted" in wrong.err) == (
        2,
        True,
        True,
    )


def test_what_a_killed_run_had_only_begun_is_not_shown_as_done(project, started):
    project.write(
        "each.yaml",
        "kind: composition\nnodes: [{id: doubled, type: map, items: $input, tool: hang, inputMapping: {}}]\n",
    )
    child = started("run", "each.yaml", "--id", "k", "--input", "[1, 2, 3]")
    wait_until(lambda: (project("runs", "show", "k", "--json").data or {}).get("nodes"))
    child.kill()
    child.wait()
    [node] = project("runs", "show", "k", "--json").data["nodes"]
    assert (node["path"], node["status"], node["value"], node["decision"]) == ("doubled", "decided", None, [1, 2, 3])
    said = project("runs", "show", "k").out
    assert "· doubled  iterates over 3 items" in said
    assert "✓" not in said


def test_a_run_that_goes_on_says_where_it_is_and_what_is_done(project, started):
    project.write("hang.yaml", HANG)
    started("run", "hang.yaml", "--id", "r")
    wait_until((project.home / "hanging").exists)
    wait_until(lambda: "\n  at       wait\n" in project("runs", "show", "r").out)  # told with its next sign of life
    told = project("runs", "show", "r", "--json").data
    assert (told["currentNode"], told["resultCount"]) == ("wait", 1)


def test_a_run_that_is_out_of_time_has_an_error(project):
    project.write("hang.yaml", HANG.replace("60000", "300"))
    assert project("run", "hang.yaml").code == 124
    [listed] = project("runs", "ls", "--json").data
    assert (listed["status"], listed["errorCount"]) == ("timeout", 1)


def test_an_input_may_be_as_large_and_deep_as_a_value(project):
    project.write(
        "deep.json", '{"text": "a", "more": ' + "[" * 150 + "]" * 150 + ', "long": "' + "x" * (11 << 20) + '"}'
    )
    assert project("run", "shout.yaml", "--input", "@deep.json").code == 0


def test_a_reader_that_goes_away_is_no_traceback(project, started):
    for i in range(3):
        project("run", "shout.yaml", "--id", f"r{i}", "--input", '{"text": "a"}')
    child = started("runs", "ls")
    child.stdout.close()
    err = child.stderr.read()
    assert child.wait(timeout=300) in (0, 141)
    assert "Traceback" not in err
    assert "Exception" not in err


def test_an_input_file_that_is_too_large_says_so(project):
    (project.home / "big.json").write_bytes(b"[" + b" " * (100 << 20) + b"]")
    done = project("run", "shout.yaml", "--input", "@big.json")
    assert done.code == 2
    assert "is not JSON" not in done.err
    assert "larger than" in done.err


@pytest.mark.parametrize(("setting", "has_stack"), [(None, True), ("", True), ("0", False)])
def test_a_tool_that_crashes_the_process_leaves_its_stack(tmp_path, setting, has_stack):
    (tmp_path / "ropewalk.toml").write_text("[tools]\nmodules = ['crashing_tools']\n")
    tool = "import os\nfrom ropewalk import tool\n\n@tool\ndef crash() -> int:\n    os.abort()\n"
    (tmp_path / "crashing_tools.py").write_text(tool)
    (tmp_path / "c.yaml").write_text("kind: chain\nname: c\nnodes: [{id: crash, type: tool, tool: crash}]\n")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    if setting is not None:
        env["PYTHONFAULTHANDLER"] = setting
    command = [sys.executable, "-m", "ropewalk", "run", "c.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == -signal.SIGABRT
    assert ('crashing_tools.py", line 6 in crash' in done.stderr) is has_stack
