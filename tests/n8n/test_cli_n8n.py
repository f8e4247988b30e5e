"""`ropewalk n8n build`: the real command, the real n8n-mcp, a stand-in for the Messages API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def command(lab: Lab, api: StandIn, *words: str) -> subprocess.CompletedProcess[str]:
    (lab.home / "ropewalk.toml").write_text(f"[store]\nurl = 'runs.db'\n[claude]\nbase_url = '{api.url}'\n")
    env = {**os.environ, "ANTHROPIC_API_KEY": "no-key"}
    argv = [COMMAND, "n8n", "build", TASK, *words]
    return subprocess.run(argv, cwd=lab.home, env=env, capture_output=True, text=True, timeout=60)


def test_it_writes_importable_json_and_a_report(lab: Lab, api: StandIn) -> None:
    link = lab.home / "node_modules" / ".bin" / "n8n-mcp"  # what npm makes
    link.parent.mkdir(parents=True)
    link.symlink_to(lab.script)
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
    assert "not judged: n8n-mcp could not be asked" in done.stderr
    [hint] = [line for line in done.stderr.splitlines() if line.startswith("The draft is not printed")]
    done = command(lab, api, *hint.partition(": ")[2].replace("FILE", "joke.json").split())
    assert (done.returncode, len(api.bodies)) == (1, 3)
    assert len(json.loads((lab.home / "joke.draft.json").read_text())["nodes"]) == 3


def test_a_build_that_failed_says_how_to_go_on(lab: Lab, api: StandIn) -> None:
    refused = {"error": {"message": "not on this plan", "type": "permission_error"}, "status": 403}
    api.answer({"content": say(FOUND)}, refused, {"content": say(CONFIGURED)}, {"content": WORDS})
    done = command(lab, api)
    assert done.returncode == 1
    assert "not on this plan" in done.stderr
    [hint] = [line for line in done.stderr.splitlines() if line.startswith("to go on from here")]
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
