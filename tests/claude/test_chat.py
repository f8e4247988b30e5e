"""`ropewalk chat` and `ropewalk tools stats`: the real command against the stand-in for the Messages API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fork_server

from .terminal import Terminal
from .wire import StandIn, calls

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
TOOLS = '''
from pathlib import Path
from ropewalk import tool

@tool(annotations={"readOnlyHint": True})
def look(at: str) -> str:
    """Looks at something."""
    return f"saw {at}"

@tool
def write(text: str) -> str:
    """Writes something down."""
    with Path("written").open("a") as file:
        file.write(text + "\\n")
    return "written"
'''
pytestmark = pytest.mark.node


@pytest.fixture
def chat(api: StandIn, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    (tmp_path / "ropewalk.toml").write_text(
        f"[tools]\nmodules = ['rw_chat_tools']\n[store]\nurl = 'runs.db'\n[claude]\nbase_url = '{api.url}'\n"
    )
    (tmp_path / "rw_chat_tools.py").write_text(TOOLS)

    def run(*words: str, input: str | None = None, key: str = "no-key") -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "ANTHROPIC_API_KEY": key}
        return fork_server.run(
            [COMMAND, *words], cwd=tmp_path, env=env, input=input, capture_output=True, text=True, timeout=300
        )

    return run


def test_one_prompt_is_answered_and_calls_are_told(chat: Any, api: StandIn) -> None:
    api.answer(calls(("look", {"at": "the sea"})), {"content": "It is blue."})
    done = chat("chat", "look at the sea")
    assert (done.returncode, done.stdout) == (0, "It is blue.\n")
    assert '· look {"at":"the sea"}' in done.stderr
    assert "✓ look" in done.stderr
    assert [one["name"] for one in api.bodies[0]["tools"]] == ["look", "write"]


def test_lines_of_a_pipe_are_one_conversation(chat: Any, api: StandIn) -> None:
    api.answer({"content": "Hello."}, {"content": "You said hi."})
    done = chat("chat", "--system", "Be brief.", input="hi\n\nwhat did I say?\n")
    assert (done.returncode, done.stdout) == (0, "Hello.\nYou said hi.\n")
    assert [message["content"] for message in api.bodies[1]["messages"] if message["role"] == "user"] == [
        "hi",
        "what did I say?",
    ]
    assert api.bodies[1]["system"][0]["text"] == "Be brief."


def test_without_a_terminal_only_named_tools_may_change_things(chat: Any, api: StandIn, tmp_path: Path) -> None:
    for words, written in (((), False), (("--yes", "write"), True)):
        api.reset()
        api.answer(calls(("write", {"text": "x"})), {"content": "ok"})
        done = chat("chat", "write x", "--json", *words)
        said = json.loads(done.stdout)
        assert (tmp_path / "written").exists() is written
        [call] = said["calls"]
        assert (said["text"], said["stopReason"], said["rounds"]) == ("ok", "end_turn", 2)
        if written:
            assert call["outcome"] == {"value": "written"}
        else:
            assert "not marked as read-only" in call["outcome"]["error"]
            assert "to allow it: --yes write" in call["outcome"]["error"]


def test_on_a_terminal_it_is_asked_before_a_call(chat: Any, api: StandIn, tmp_path: Path) -> None:
    texts = ("n", "No", "", "not this one", "y", "always", "again")
    api.answer(*(calls(("write", {"text": text})) for text in texts), {"content": "finished"})
    at = Terminal([COMMAND, "chat"], tmp_path, {**os.environ, "ANTHROPIC_API_KEY": "no-key"})
    at.until("> ")
    at.type("write things\n")
    for text in texts[:-1]:  # after "always" nobody is asked
        at.until("why not: ")
        at.type(f"{text}\n")
    at.until("tokens")
    at.until("> ")
    at.type("\x04")
    assert at.ended() == 0, at.shown
    assert '? call write {"text":"not this one"}  (write, no undo)' in at.shown
    assert (tmp_path / "written").read_text() == "y\nalways\nagain\n"
    told = [body["messages"][-1]["content"][0] for body in api.bodies[1:]]
    assert [one.get("is_error", False) for one in told] == [True] * 4 + [False] * 3
    refused = [f"write was not called: {why}" for why in (*["the user refused it"] * 3, "not this one")]
    assert [one["content"] for one in told] == [*refused, *["written"] * 3]


WAIT = '''
import asyncio

@tool(annotations={"readOnlyHint": True})
async def wait() -> str:
    """Waits until the test goes on."""
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return "waited"
'''


@pytest.mark.parametrize("typed", ["y\n", "y\nalways\ny", "y", "\u00e9\ny"])
def test_what_was_typed_before_a_question_does_not_answer_it(
    chat: Any, api: StandIn, tmp_path: Path, typed: str
) -> None:
    (tmp_path / "rw_chat_tools.py").write_text(TOOLS + WAIT)
    writes = (("write", {"text": "first"}), ("write", {"text": "second"}))
    api.answer(calls(("wait", {})), *(calls(one) for one in writes), {"content": "finished"})
    at = Terminal([COMMAND, "chat"], tmp_path, {**os.environ, "ANTHROPIC_API_KEY": "no-key"})
    at.until("> ")
    at.type("write things\n")
    at.until("wait {}")
    at.type(typed)
    at.until(typed.rpartition("\n")[2] or "y")  # the terminal has it
    (tmp_path / "go").touch()
    at.until('? call write {"text":"first"}')
    at.until("why not: ")
    at.type("\n")  # a "y" that was kept would be finished by this
    at.until('? call write {"text":"second"}')
    at.until("why not: ")
    at.type("y\n")
    at.until("tokens")
    at.until("> ")
    at.type("\x04")
    assert at.ended() == 0, at.shown
    assert (tmp_path / "written").read_text() == "second\n"
    assert "write was not called: the user refused it" in str(api.bodies[2]["messages"][-1])


def test_of_many_tools_a_prompt_has_those_that_fit_it_and_those_that_were_used(
    chat: Any, api: StandIn, tmp_path: Path
) -> None:
    shelves = [f'@tool\ndef shelf_{n}(box: str) -> str:\n    """Counts boxes on shelf {n}."""\n' for n in range(60)]
    (tmp_path / "rw_chat_tools.py").write_text(TOOLS + "".join(f"\n{shelf}    return box\n" for shelf in shelves))
    api.answer(calls(("look", {"at": "the sea"})), {"content": "Blue."}, {"content": "Counted."})
    done = chat("chat", "--json", input="look at something\ncount the boxes on shelf 7\n")
    assert done.returncode == 0, done.stderr
    offered = [[one["name"] for one in body["tools"]] for body in api.bodies]
    assert "look" in offered[0]
    assert len(offered[0]) <= 40
    assert offered[2][0] == "look"  # it was used: what was said about it stays understandable
    assert "shelf_7" in offered[2]
    assert len(offered[2]) == 41  # with `find_more_tools`: no shelf stands out
    assert "· 40 of 62 tools fit" in done.stderr
    learnt = chat("tools", "learnt", "--requests", "--json").stdout
    assert "look at something" in learnt
    assert "ropewalk:model" not in learnt


def test_what_is_wrong_is_said(chat: Any, api: StandIn) -> None:
    done = chat("chat", "hi", "--tool", "lok")
    assert (done.returncode, "did you mean look?" in done.stderr) == (2, True)
    done = chat("chat", "")
    assert (done.returncode, "It is empty: say what to do." in done.stderr) == (2, True), done.stderr
    done = chat("chat", "hi", key="")
    assert (done.returncode, "set ANTHROPIC_API_KEY" in done.stderr) == (1, True), done.stderr
    api.answer(calls(("look", {"at": "1"})))
    done = chat("chat", "hi", "--max-rounds", "1")
    assert (done.returncode, "reached max_rounds" in done.stderr) == (1, True)


def test_stats_of_tools_come_from_the_runs(chat: Any, api: StandIn) -> None:
    assert "no run has called a tool" in chat("tools", "stats").stdout
    usage = {"usage": {"input_tokens": 100, "output_tokens": 10}}
    api.answer(calls(("look", {"at": "a"}), ("look", {"at": "b"}), ("look", {"att": "c"}), **usage), {"content": "ok"})
    chat("chat", "look")
    data = json.loads(chat("tools", "stats", "--json").stdout)
    told = {one["tool"]: (one["calls"], one["failed"], one["tokens"]) for one in data["tools"]}
    assert told == {"look": (3, 1, 0), "ropewalk:model": (2, 0, 110)}
    assert (data["runs"], data["unread"]) == (1, 0)
    look = data["tools"][0]
    assert '"at" is a required property' in look["lastError"]
    assert 0 <= look["p50Ms"] <= look["p95Ms"]
    text = chat("tools", "stats", "--since", "1d").stdout
    assert text.splitlines()[0].split() == ["TOOL", "CALLS", "FAILED", "P50", "P95", "TOKENS", "LAST", "ERROR"]
