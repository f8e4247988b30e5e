"""Agents that workers execute: a turn of the model that was finished is not paid for again, whoever goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from claude.wire import StandIn, calls, check_body

from .crew import Crew, kill

pytestmark = pytest.mark.node
AGENT = """
kind: agent
name: asker
prompt: Who are you, ${$input.name}?
tools: [who, wait_for_file]
max_rounds: 4
"""


@pytest.fixture(scope="module")
def _stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    stand = StandIn(tmp_path_factory.mktemp("aimock"))
    yield stand
    stand.close()


@pytest.fixture
def api(_stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "no-key")
    _stand_in.reset()
    yield _stand_in
    for body in _stand_in.bodies:
        check_body(body)


def test_an_agent_goes_on_elsewhere_without_a_turn_being_paid_again(crew: Callable[..., Crew], api: StandIn) -> None:
    scene = crew(settings=f"[claude]\nbase_url = '{api.url}'\n")
    scene.write("agent.yaml", AGENT)
    usage = {"usage": {"input_tokens": 100, "output_tokens": 10}}
    api.answer(
        calls(("who", {"at": "first"}), **usage),
        calls(("who", {"at": "second"}), ("wait_for_file", {"at": "long", "name": "go"}), **usage),
        {"content": "I am one.", **usage},
    )
    scene.hire(2)
    scene.submit("agent.yaml", "--id", "x", "--input", '{"name": "Ann"}')
    scene.until(lambda: "long" in scene.started() and scene.pids("second", "end") != [])
    kill(scene.worker(scene.pids("first")[0]))
    scene.until(lambda: scene.started().count("long") == 2)
    (scene.folder / "go").touch()
    assert scene.until_ended("x") == "completed"
    shown = json.loads(scene.run("runs", "show", "x", "--json").out)
    assert (shown["result"]["result"], shown["result"]["success"]) == ("I am one.", True)
    assert shown["result"]["conversation"]["totals"]["usage"]["input_tokens"] == 300
    assert len(api.bodies) == 3
    assert len(scene.pids("first")) == 1


def test_an_agent_that_comes_to_a_limit_has_not_succeeded(crew: Callable[..., Crew], api: StandIn) -> None:
    scene = crew(settings=f"[claude]\nbase_url = '{api.url}'\n")
    scene.write("agent.yaml", AGENT)
    api.answer(*[calls(("who", {"at": "first"})) for _ in range(4)])
    scene.hire()
    done = scene.run("run", "agent.yaml", "--id", "x", "--input", '{"name": "Ann"}')
    assert done.code == 1
    assert "max_rounds: the limit of rounds was reached before the model had finished" in done.out
