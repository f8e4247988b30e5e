"""Every example runs as its first lines say, and shows what it says it shows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fork_server

pytestmark = pytest.mark.process

PROJECT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


def call(*command: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(fork_server.programs()), str(BIN), os.environ["PATH"]])
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PATH": path, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )


def answer(*args: str, cwd: Path, code: int = 0, **env: str) -> Any:
    """What one `ropewalk ... --json` prints."""
    done = call("ropewalk", *args, "--json", cwd=cwd, **env)
    assert done.returncode == code, done.stderr or done.stdout
    return json.loads(done.stdout)


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    ignore = shutil.ignore_patterns(".ropewalk", "__pycache__")
    return Path(shutil.copytree(PROJECT / "examples", tmp_path / "the examples", ignore=ignore))


def git(repo: Path, *args: str) -> str:
    who = ["-c", "user.name=Rope Walker", "-c", "user.email=rope@example.org", "-c", "commit.gpgsign=false"]
    done = fork_server.run(["git", *who, "-C", str(repo), *args], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Commits that add, change, remove, look like a diff themselves, and change nothing."""
    repo = tmp_path / "a repository"
    (repo / "src" / "rope").mkdir(parents=True)
    git(repo, "init", "-q", "-b", "main")

    def commit(message: str, *more: str) -> None:
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", message, *more)

    (repo / "src" / "rope" / "strand.py").write_text("a = 1\nb = 2\n")
    (repo / "README").write_text("no newline at the end")
    commit("First | with a <b>bar</b>")
    (repo / "src" / "rope" / "strand.py").write_text("a = 1\nb = 3\nc = 4\n")
    (repo / "odd_name").mkdir()
    (repo / "odd_name" / "diff").write_text("-- a/fake\n++ b/fake\n@@ -1 +1 @@\n")
    commit("Second\n\nwith a body")
    (repo / "odd_name" / "diff").write_text("++ b/other\n")
    (repo / "README").unlink()
    (repo / "big.txt").write_text("line\n" * 300)
    commit("Third")
    commit("Nothing at all", "--allow-empty")
    return repo


def numstat(repo: Path, sha: str) -> list[tuple[str, int, int]]:
    lines = git(repo, "show", "--numstat", "--format=", "--no-renames", sha).splitlines()
    return sorted((path, int(added), int(removed)) for added, removed, path in (line.split("\t") for line in lines))


def test_hello(examples: Path) -> None:
    done = answer("run", "hello/hello.yaml", "--input", '{"name": "Ada"}', cwd=examples)
    assert done["result"]["shout"] == "HELLO, ADA!!!"
    assert answer("run", "hello/hello.yaml", cwd=examples)["variables"]["said"] == "HELLO, WORLD!!!"


def test_a_composite_is_run_validated_planned_and_drawn(examples: Path) -> None:
    """COMPOSITE-DOC-1"""
    file = "composite/reading_list.yaml"
    for topic, line in (("rope", "rope: Knots, Splices"), ("sail", "sail: Canvas")):
        assert answer("run", file, "--input", json.dumps({"topic": topic}), cwd=examples)["result"] == line
    assert answer("validate", file, cwd=examples)["valid"] is True
    assert [node["tool"] for node in answer("preview", file, cwd=examples)["nodes"]] == ["find", "shorten", "card"]
    assert "search" in call("ropewalk", "graph", file, cwd=examples).stdout


def test_failures_and_what_becomes_of_them(examples: Path) -> None:
    done = answer("run", "errors/offer.yaml", cwd=examples)
    assert done["status"] == "partial"
    assert [error["nodeId"] for error in done["errors"]] == ["unicorn"]
    assert done["result"]["discount"] == {"rate": 0, "because": "discount service is down"}
    assert done["result"]["quote"] == {"price": 22.0, "stock": {"lamp": 4, "unicorn": None}}


def test_an_order_becomes_an_invoice(examples: Path) -> None:
    def invoice(customer: str, *lines: tuple[str, int], code: int = 0) -> Any:
        given = {"customer": customer, "lines": [{"item": item, "count": count} for item, count in lines]}
        return answer("run", "invoice/invoice.yaml", "--input", json.dumps(given), cwd=examples, code=code)

    done = invoice("Ann", ("rope", 10), ("sail", 1))
    assert done["result"] == {"to": "Ann", "lines": 2, "total": 165.0, "text": "Please pay 380.0 first."}
    assert done["executionPath"][-3:] == ["text", "reminder", "sent"]
    other = invoice("Bob", ("hook", 2))
    assert other["result"] == {"to": "Bob", "lines": 1, "total": 0.8, "text": "Thank you."}
    assert [(entry["path"], entry["keyword"]) for entry in other["errors"]] == [("data[0].sum", "minimum")]
    assert "error" in invoice("Ann", ("mast", 1), code=2)


def test_the_runner(examples: Path) -> None:
    done = call("python", "runner.py", cwd=examples)
    assert done.returncode == 0, done.stderr
    assert "one call: ['many', 'strands', 'laid', 'into', 'one', 'rope']" in done.stdout
    assert "refused before the call:" in done.stdout
    assert "a chain: strands" in done.stdout
    assert done.stdout.count("streamed: chunk") == 3
    assert "2/2 step_completed" in done.stdout


def test_a_flow_in_python_and_the_chain_that_does_the_same(examples: Path) -> None:
    done = call("python", "flow.py", cwd=examples)
    assert done.returncode == 0, done.stderr
    told = dict(line.split(":", 1) for line in done.stdout.splitlines() if line.startswith("as a "))
    assert told["as a flow"].strip() == told["as a chain"].strip()
    assert "1 of 2 stations above 500 m" in told["as a flow"]
    assert "refused: flow.py:" in done.stdout
    assert "kind: chain" in done.stdout


def test_experiences_in_directories(examples: Path) -> None:
    assert answer("run", "experiences/hello", cwd=examples)["result"] == {"greeting": "hello, World"}
    state = answer("run", "experiences/sales", cwd=examples)["result"]
    assert state["regions"] == {"north": 750.5, "south": 349.5, "west": 75.0}
    assert (state["total"], state["remark"]) == (1175.0, "north sold most, 64% of everything")


def test_pages_of_a_flaky_server(examples: Path) -> None:
    done = call("python", "experiences/flaky/show.py", cwd=examples)
    assert done.returncode == 0, done.stderr
    assert "status: partial" in done.stdout
    assert "asked: {'/page/1': 2, '/page/2': 2, '/page/3': 2, '/page/4': 2}" in done.stdout
    assert "titles: ['Chapter 1', 'Chapter 2', 'Chapter 4']" in done.stdout
    assert "page 3 has no title" in done.stdout


def test_an_agent_with_a_scripted_model(examples: Path) -> None:
    done = call("python", "agent/show.py", cwd=examples)
    assert done.returncode == 0, done.stderr
    assert "refund: there is no tool 'refund' here" in done.stdout
    assert "end_turn: {'inStock': 8, 'ordered': 42}" in done.stdout
    assert call("ropewalk", "validate", "agent/agent.yaml", cwd=examples).returncode == 0


def test_a_flow_as_a_tool_of_an_mcp_server(examples: Path) -> None:
    done = call("python", "mcp_server/show.py", cwd=examples)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("can_berth: Whether a ship")
    assert lines[1:6] == ["look: started", "look: done", "compare: started", "compare: done", "{'result': 'no'}"]


@pytest.mark.node
@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_an_experience_in_two_languages(examples: Path) -> None:
    state = answer("run", "experiences/two_languages", cwd=examples)["result"]
    assert state["said"] == "a: 3; rope: 2; line: 1; and: 1"


def test_an_experience_that_calls_an_mcp_server(examples: Path, repository: Path) -> None:
    given = json.dumps({"repo": str(repository)})
    done = answer("run", "experiences/git_log", "--input", given, cwd=examples)
    assert done["status"] == "completed", done["errors"]
    assert done["result"]["summary"] == {"commits": 4, "authors": ["Rope Walker"], "clean": True}


def test_a_killed_run_is_resumed_and_ships_nothing_twice(examples: Path) -> None:
    done = call("python", "resume/show.py", cwd=examples)
    assert done.returncode == 0, done.stderr
    assert "status completed; the result holds the work of 2 processes" in done.stdout
    shipped = json.loads(done.stdout.rpartition("shipped: ")[2])
    assert sorted(set(shipped)) == list(range(1, 11))
    assert len(shipped) <= 11  # the one in mid-flight may be there twice


def test_an_order_waits_for_an_approval_and_for_the_carrier(examples: Path) -> None:
    given = ("run", "approval/order.yaml", "--input")
    cheap = answer(*given, '{"item": "rope", "count": 2}', "--id", "cheap", cwd=examples, code=4)
    assert [wait["event"] for wait in cheap["waitingFor"]] == ["carrier-rope"]
    dear = answer(*given, '{"item": "anchor", "count": 2}', "--id", "dear", cwd=examples, code=4)
    assert [wait["approval"] for wait in dear["waitingFor"]] == ["2 x anchor for 1800.0: ship it?"]
    answer("runs", "approve", "dear", "--by", "ann", cwd=examples)
    answer("runs", "send", "dear", "carrier-anchor", "--early", cwd=examples)
    assert answer("resume", "dear", cwd=examples)["result"]["ship"] == "shipped 2 x anchor, approved by ann"


def test_the_change_report_agrees_with_git(examples: Path, repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out put"
    given = json.dumps({"repo": str(repository), "out": str(folder)})
    done = answer("run", "change_report/change_report.yaml", "--input", given, cwd=examples)
    assert done["status"] == "completed", done["errors"]

    report = json.loads((folder / "report.json").read_text())
    told = {c["sha"]: sorted((f["path"], f["added"], f["removed"]) for f in c["files"]) for c in report["changes"]}
    shas = git(repository, "rev-list", "HEAD").split()
    assert told == {sha: numstat(repository, sha) for sha in shas if numstat(repository, sha)}
    assert len(told) == 3  # the empty commit is left out
    assert report["big"] == [shas[1]]
    assert {area: len(files) for area, files in report["areas"].items()} == {".": 3, "odd_name": 2, "src/rope": 2}
    assert report["summary"]["authors"] == ["Rope Walker"]
    assert report["summary"]["clean"] is True
    kinds = {f["path"]: f["kind"] for c in report["changes"] if c["sha"] == shas[1] for f in c["files"]}
    assert kinds == {"odd_name/diff": "changed", "README": "removed", "big.txt": "added"}

    text = (folder / "report.md").read_text()
    assert text.startswith("# Changes in a repository\n")
    assert "First \\| with a \\<b\\>bar\\</b\\>" in text  # what strangers write is no markup
    assert text.count("**big**") == 1
    assert "| `odd_name` | 1 |" in text


def test_the_change_report_refuses_a_wrong_input_before_any_tool_runs(examples: Path) -> None:
    done = call("ropewalk", "run", "change_report/change_report.yaml", "--input", '{"repo": 5}', cwd=examples)
    assert done.returncode in (2, 3)
    assert "out" in done.stderr
    assert "repo" in done.stderr


def test_the_demo_prints_where_everything_is(tmp_path: Path) -> None:
    """In a copy without history, at a path with a space: a small repository is made."""
    clone = tmp_path / "a copy"
    listed = fork_server.run(
        ["git", "-C", str(PROJECT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, listed):
        if (PROJECT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, clone / name)
    # The set-up has a test of its own on CI: here the demo finds it done.
    (clone / "scripts" / "venv.sh").write_text("#!/bin/sh\nexit 0\n")
    (clone / ".venv").mkdir()
    (clone / ".venv" / "bin").symlink_to(fork_server.programs())
    env = {"GIT_CEILING_DIRECTORIES": str(tmp_path)}
    done = call("./demo.sh", cwd=clone, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    out = clone / "build" / "demo"
    assert (out / "report.md").read_text().splitlines()[0] in done.stdout.splitlines()
    none = call("./demo.sh", "nowhere", cwd=clone, **env)
    assert (none.returncode, none.stderr) == (2, "demo.sh: no directory nowhere; usage: ./demo.sh [repository]\n")
    for place in (out / "report.md", out / "report.json", out / "graph.svg"):
        assert str(place) in done.stdout
        assert place.stat().st_size > 0
    assert "<svg" in (out / "graph.svg").read_text()
    assert json.loads((out / "report.json").read_text())["summary"]["commits"] == 4
    record = next(line.split()[-1] for line in done.stdout.splitlines() if line.startswith("run record"))
    shown = answer("runs", "show", record, cwd=clone / "examples" / "change_report")
    assert shown["status"] == "completed"
