"""`new --kind agent`, `run` and `runs` of agents: the real command against the stand-in for the Messages API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fork_server

from .wire import StandIn, calls

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
TEXT = "so it goes so"
pytestmark = pytest.mark.node
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def made(api: StandIn, tmp_path: Path) -> Run:
    """What `ropewalk new --kind agent` made, and commands in it."""
    env = {**os.environ, "ANTHROPIC_API_KEY": "no-key", "ANTHROPIC_BASE_URL": api.url}

    def run(*words: str, where: Path = tmp_path / "words") -> subprocess.CompletedProcess[str]:
        return fork_server.run([COMMAND, *words], cwd=where, env=env, capture_output=True, text=True, timeout=300)

    said = run("new", "words", "--kind", "agent", where=tmp_path).stdout
    assert said.endswith('first: pip install "ropewalk[claude]"\n       export ANTHROPIC_API_KEY=...\n'
                         "       or choose another model: see README.md\n"
                         "next: cd words && ropewalk run agent.yaml\n")  # fmt: skip
    return run


def test_what_new_writes_is_valid_and_runs(made: Run, api: StandIn) -> None:
    assert made("validate", "agent.yaml").stdout == "agent.yaml: valid\n"
    api.answer(calls(("count_words", {"text": TEXT})), {"content": '{"word": "so", "times": 2}'})
    done = made("run", "agent.yaml", "--json", "--input", json.dumps({"text": TEXT}))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == {"word": "so", "times": 2}
    assert api.bodies[0]["messages"][0]["content"].strip().endswith(TEXT)
    assert [one["name"] for one in api.bodies[0]["tools"]] == ["count_words", "most_common"]
    [told] = api.bodies[1]["messages"][-1]["content"]
    assert json.loads(told["content"]) == {"so": 2, "it": 1, "goes": 1}
    api.reset()
    api.answer({"content": '{"word": "round", "times": 3}'})
    assert made("run", "agent.yaml").returncode == 0
    assert "round the long rope" in api.bodies[0]["messages"][0]["content"]


def test_a_limit_is_the_same_failure_everywhere(made: Run, api: StandIn) -> None:
    api.answer(*[calls(("count_words", {"text": f"{i}"})) for i in range(6)])
    done = made("run", "agent.yaml", "--id", "r")
    assert done.returncode == 1
    assert "✗ failed" in done.stdout
    assert "max_rounds: the conversation reached max_rounds" in done.stdout
    [row] = json.loads(made("runs", "ls", "--json").stdout)
    assert (row["status"], row["errorCount"]) == ("failed", 1)
    assert made("runs", "ls", "--status", "completed").stdout.startswith("no runs match; ")
    shown = json.loads(made("runs", "show", "r", "--json").stdout)
    assert (shown["status"], shown["success"], shown["stopReason"]) == (
        "failed",
        False,
        "max_rounds",
    )
    assert "max_rounds" in shown["error"]["message"]
    assert made("runs", "watch", "r").returncode == 1
    told = [block for message in shown["conversation"]["messages"] for block in message["content"]
            if isinstance(block, dict) and block["type"] == "tool_result"]  # fmt: skip
    assert [bool(one["content"]) for one in told] == [True] * 6
    assert [one.get("is_error", False) for one in told] == [False] * 5 + [True]  # the last was not called
