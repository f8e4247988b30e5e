"""Ctrl-C in `ropewalk chat`: it stops one answer, and only at the prompt the chat."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import fork_server
from patience import BOUND, wait_until
from ropewalk.app.app import App
from ropewalk.doors.cli.session import Interrupts
from ropewalk.errors import CompletionFailed, RunStopped

from .terminal import Terminal
from .wire import StandIn, calls

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
TOOLS = '''
import asyncio, sys, time
from ropewalk import tool

@tool(annotations={"readOnlyHint": True})
async def slow(n: int) -> str:
    """Takes its time."""
    print(f"slow {n} began", file=sys.stderr, flush=True)
    await asyncio.Event().wait()
    return "never"

@tool
async def write(text: str) -> str:
    """Writes slowly."""
    print(f"writing {text}", file=sys.stderr, flush=True)
    if text != "quick":
        await asyncio.Event().wait()
    return "written"

@tool(annotations={"readOnlyHint": True})
async def stubborn() -> str:
    """Does not let go at once."""
    print("stubborn began", file=sys.stderr, flush=True)
    for _ in range(2):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("not yet", file=sys.stderr, flush=True)
    return "never"
'''
FLOW = {"kind": "chain", "name": "c", "nodes": [{"id": "a", "type": "tool", "tool": "t"}]}
pytestmark = pytest.mark.node


@pytest.fixture
def talk(api: StandIn, tmp_path: Path) -> Callable[..., Terminal]:
    (tmp_path / "ropewalk.toml").write_text(
        f"[tools]\nmodules = ['rw_slow_tools']\n[store]\nurl = 'runs.db'\n[claude]\nbase_url = '{api.url}'\n"
    )
    (tmp_path / "rw_slow_tools.py").write_text(TOOLS)
    env = {**os.environ, "ANTHROPIC_API_KEY": "no-key"}
    return lambda *words: Terminal([COMMAND, "chat", *words], tmp_path, env)


def statuses(home: Path) -> list[str]:
    """Of the runs there are, oldest first."""
    argv = [COMMAND, "runs", "ls", "--json"]
    done = fork_server.run(argv, cwd=home, capture_output=True, text=True, timeout=300, check=True)
    rows = json.loads(done.stdout)
    return ["interrupted" if row.get("interrupted") else row["status"] for row in reversed(rows)]


def test_the_first_of_each_answer_stops_that_answer(
    talk: Callable[..., Terminal], api: StandIn, tmp_path: Path
) -> None:
    api.answer(calls(("slow", {"n": 1})), {"content": "Hello."}, calls(("slow", {"n": 2})), {"content": "Bye."})
    chat = talk()
    for number, words in ((1, "one"), (2, "two")):
        chat.until("> ")
        chat.type(f"take your time {words}\n")
        chat.until(f"slow {number} began")
        chat.interrupt()
        chat.until("was stopped")
        chat.until("> ")
        chat.type("hi\n")
        chat.until("tokens")
    chat.until("> ")
    chat.type("\x04")
    assert chat.ended() == 0, chat.shown
    assert ("Hello." in chat.shown, "Bye." in chat.shown) == (True, True)
    assert statuses(tmp_path) == ["stopped", "completed"] * 2
    # What was stopped is no part of the conversation, what was answered is.
    said = [one["content"] for one in api.bodies[-1]["messages"] if one["role"] == "user"]
    assert said == ["hi", "hi"]


def test_after_an_answer_that_was_stopped_ctrl_d_ends_it(
    talk: Callable[..., Terminal], api: StandIn, tmp_path: Path
) -> None:
    api.answer(calls(("write", {"text": "quick"})), calls(("write", {"text": "slow"})), {"content": "Hello."})
    chat = talk()
    chat.until("> ")
    chat.type("write\n")
    chat.until("why not: ")
    chat.type("a\n")
    chat.until("writing slow")
    chat.interrupt()
    chat.until("was stopped")
    chat.until("> ")
    chat.type("hi\n")
    chat.until("tokens")
    chat.until("> ")
    chat.type("\x04")
    assert chat.ended() == 0, chat.shown
    assert statuses(tmp_path) == ["stopped", "completed"]


def test_nothing_of_a_turn_that_was_stopped_ends_what_comes_next() -> None:
    async def body() -> None:
        async with App("memory") as app:
            interrupts, began = Interrupts(app), asyncio.Event()

            async def hang() -> str:
                began.set()
                await asyncio.Event().wait()
                return "never"

            async def say() -> str:
                interrupts.running("r")
                done = await app.run(FLOW, executor=lambda name, params: hang(), run_id="r")
                raise CompletionFailed(str(done.status), run_id="r")

            interrupts.install()
            try:
                turn = asyncio.ensure_future(began.wait())
                turn.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGINT))
                with pytest.raises(RunStopped, match="run r was stopped"):
                    await interrupts.turn(say())
                await asyncio.sleep(0)
                stopping = [one for one in asyncio.all_tasks() if "Interrupts" in repr(one)]
                assert stopping == []  # it would cancel the command when its seconds are over
                assert await interrupts.turn(asyncio.sleep(0, "goes on")) == "goes on"
            finally:
                interrupts.remove()

    asyncio.run(body())


def test_a_signal_wakes_a_loop_that_waits() -> None:
    """A signal that comes just before the loop waits does not end the wait; one to another thread never does."""
    main, ended_by = f"/proc/{os.getpid()}/task/{os.getpid()}/stat", []

    def signal_here() -> None:
        wait_until(lambda: Path(main).read_text().rpartition(")")[2].split()[0] == "S")
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    async def body() -> None:
        async with App("memory") as app:
            interrupts = Interrupts(app)
            interrupts.install()
            try:
                thread = threading.Thread(target=signal_here)
                bound = asyncio.get_running_loop().call_later(BOUND, ended_by.append, "time")
                asyncio.get_running_loop().call_soon(thread.start)
                with pytest.raises(RunStopped):
                    await interrupts.turn(asyncio.Event().wait())
                ended_by.append("signal")
                bound.cancel()
                thread.join()
            finally:
                interrupts.remove()

    asyncio.run(body())
    assert ended_by == ["signal"]


def test_the_second_one_breaks_the_answer_off(talk: Callable[..., Terminal], api: StandIn, tmp_path: Path) -> None:
    api.answer(calls(("stubborn", {})), {"content": "Hello."})
    chat = talk()
    chat.until("> ")
    chat.type("go\n")
    chat.until("stubborn began")
    chat.interrupt()
    chat.until("not yet")
    chat.interrupt()
    chat.until("was stopped")
    chat.until("> ")
    chat.type("hi\n")
    chat.until("tokens")
    chat.until("> ")
    chat.interrupt()  # at the prompt it ends the chat
    assert chat.ended() == 0, chat.shown
    assert statuses(tmp_path) == ["stopped", "completed"]


def test_a_question_is_no_prompt(talk: Callable[..., Terminal], api: StandIn, tmp_path: Path) -> None:
    api.answer(calls(("write", {"text": "quick"})), {"content": "Hello."})
    chat = talk()
    chat.until("> ")
    chat.type("write\n")
    chat.until("why not: ")
    chat.interrupt()
    chat.until("was stopped")
    chat.until("> ")
    chat.type("hi\n")
    chat.until("tokens")
    chat.until("> ")
    chat.child.send_signal(signal.SIGTERM)
    assert chat.ended() == 0, chat.shown
    assert "writing" not in chat.shown
    assert statuses(tmp_path) == ["stopped", "completed"]


def test_a_prompt_of_the_command_line_that_is_stopped_ends_as_interrupted(
    talk: Callable[..., Terminal], api: StandIn, tmp_path: Path
) -> None:
    api.answer(calls(("slow", {"n": 1})))
    chat = talk("take your time")
    chat.until("slow 1 began")
    chat.interrupt()
    assert chat.ended() == 130, chat.shown
    assert "was stopped" in chat.shown
    assert statuses(tmp_path) == ["stopped"]
