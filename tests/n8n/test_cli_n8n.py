"""`ropewalk n8n build`: the real command, the real n8n-mcp, a stand-in for the Messages API."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fork_server
from claude.wire import StandIn

from .conftest import Lab
from .script import CONFIGURED, FOUND, TASK, WORDS, mended, say

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def _stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    stand = StandIn(tmp_path_factory.mktemp("aimock"))
    yield stand
    stand.close()


@pytest.fixture
def api(_stand_in: StandIn) -> StandIn:
    _stand_in.reset()
    return _stand_in


def command(lab: Lab, api: StandIn, *words: str, task: str = TASK) -> subprocess.CompletedProcess[str]:
    argv, env = prepared(lab, api.url, task)
    return fork_server.run([*argv, *words], cwd=lab.home, env=env, capture_output=True, text=True, timeout=300)


def prepared(lab: Lab, url: str, task: str = TASK) -> tuple[list[str], dict[str, str]]:
    (lab.home / "ropewalk.toml").write_text(f"[store]\nurl = 'runs.db'\n[claude]\nbase_url = '{url}'\n")
    return [COMMAND, "n8n", "build", task], {**os.environ, "ANTHROPIC_API_KEY": "no-key"}


def install(lab: Lab) -> None:
    link = lab.home / "node_modules" / ".bin" / "n8n-mcp"  # what npm makes
    link.parent.mkdir(parents=True)
    link.symlink_to(lab.script)


def test_it_writes_importable_json_and_a_report(lab: Lab, api: StandIn) -> None:
    install(lab)
    (lab.home / "out").mkdir()
    api.answer(*({"content": text} for text in (say(FOUND), say(CONFIGURED), WORDS)))
    done = command(lab, api, "-o", "out/joke.json")
    assert (done.returncode, done.stdout) == (0, "report: out/joke.report.md\nworkflow: out/joke.json\n"), done.stderr
    assert done.stderr.splitlines()[0].startswith("build ")
    assert done.stderr.splitlines()[1:] == [
        f"· {phase}" for phase in ("discovery", "configuration", "building", "validation", "documentation")
    ]
    workflow = json.loads((lab.home / "out" / "joke.json").read_text())
    assert [node["name"] for node in workflow["nodes"]] == ["Every morning", "Get a joke", "Post it"]
    report = (lab.home / "out" / "joke.report.md").read_text()
    assert report.startswith("# Joke of the day\n\n3 nodes, valid (n8n-mcp), repaired 0 times\n")
    assert "## Credentials to fill in\n\n- Post it: slackApi\n" in report
    assert report.endswith(f"## Documentation\n\n{WORDS}\n")


def test_what_is_not_valid_is_not_printed_and_can_be_written_without_being_paid_again(lab: Lab, api: StandIn) -> None:
    api.answer(*({"content": text} for text in (say(FOUND), say(CONFIGURED), WORDS)))
    done = command(lab, api)  # there is no n8n-mcp
    assert (done.returncode, done.stdout) == (1, "")
    assert "not validated: n8n-mcp was not available" in done.stderr
    [hint] = [line for line in done.stderr.splitlines() if line.startswith("the draft is not printed")]
    done = command(lab, api, *hint.partition(": ")[2].replace("FILE", "joke.json").split())
    assert (done.returncode, len(api.bodies)) == (1, 3)
    assert len(json.loads((lab.home / "joke.draft.json").read_text())["nodes"]) == 3


def test_a_build_that_failed_says_how_to_go_on(lab: Lab, api: StandIn) -> None:
    refused = {"error": {"message": "not on this plan", "type": "permission_error"}, "status": 403}
    api.answer({"content": say(FOUND)}, refused, {"content": say(CONFIGURED)}, {"content": WORDS})
    done = command(lab, api)
    assert done.returncode == 1
    assert "not on this plan" in done.stderr
    [hint] = [line for line in done.stderr.splitlines() if line.startswith("to resume the build")]
    done = command(lab, api, "-o", "joke.json", *hint.split()[-2:])
    assert "draft: joke.draft.json" in done.stdout, done.stderr
    assert len(api.bodies) == 4  # discovery was not asked again


def test_what_is_not_valid_is_written_as_a_draft(lab: Lab, api: StandIn) -> None:
    # Without n8n-mcp, too: what we refuse needs no judge.
    nothing = (say({"name": "Nothing", "nodes": []}), say({"nodes": [], "connections": []}))
    api.answer(*({"content": text} for text in (*nothing, *[mended()] * 5, WORDS)))
    done = command(lab, api, "-o", "joke.json", "--json")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert said["report"]["problems"] == ["the workflow is empty: it has no nodes"]
    assert said["files"] == {"report": "joke.report.md", "draft": "joke.draft.json"}
    assert not (lab.home / "joke.json").exists()
    assert json.loads((lab.home / "joke.draft.json").read_text())["nodes"] == []


def test_what_cannot_be_written_or_says_nothing_is_refused_before_anything_is_asked(lab: Lab, api: StandIn) -> None:
    there = lab.home / "there"
    there.mkdir()
    for words, why in (
        (("-o", "nowhere/dir/x.json"), "The directory nowhere/dir does not exist."),
        (("-o", "there"), "It is a directory; name a file in it, such as there/workflow.json."),
    ):
        done = command(lab, api, *words)
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
    done = command(lab, api, task=" ")
    assert (done.returncode, "It is empty: say what to do." in done.stderr) == (2, True), done.stderr
    assert not (lab.home / "nowhere").exists()
    assert api.bodies == []


@pytest.mark.campaign("recovery", only=True)
def test_the_draft_of_before_goes_when_the_workflow_is_valid(lab: Lab, api: StandIn) -> None:
    answers = [{"content": text} for text in (say(FOUND), say(CONFIGURED), WORDS)]
    api.answer(*answers)
    draft, other = lab.home / "joke.draft.json", lab.home / "other.draft.json"
    assert command(lab, api, "-o", "joke.json").returncode == 1  # nobody judges it
    assert draft.exists()
    install(lab)
    other.write_text('{"mine": 1}')
    api.reset()
    api.answer(*answers)
    done = command(lab, api, "-o", "joke.json")
    assert (done.returncode, draft.exists()) == (0, False), done.stderr
    assert "joke.draft.json is removed: the workflow is valid now" in done.stderr
    api.reset()
    api.answer(*answers)
    assert command(lab, api, "-o", "other.json").returncode == 0
    assert other.read_text() == '{"mine": 1}'  # it is none of ours


def test_a_build_that_is_interrupted_says_how_to_go_on(lab: Lab, api: StandIn) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a model that never answers
        argv, env = prepared(lab, f"http://127.0.0.1:{silent.getsockname()[1]}")
        child = fork_server.Popen(argv, cwd=lab.home, env=env, stderr=subprocess.PIPE, text=True)
        silent.accept()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=300)
    assert child.returncode == 130
    hint, last = said.splitlines()[-2:]
    own = said.splitlines()[0].removeprefix("build ")
    assert (hint, last) == (f"to resume the build, repeat the command with --id {own}", "interrupted")
    api.answer(*({"content": text} for text in (say(FOUND), say(CONFIGURED), WORDS)))
    done = command(lab, api, "-o", "joke.json", "--id", own)
    assert "draft: joke.draft.json" in done.stdout, done.stderr
    assert len(api.bodies) == 3
